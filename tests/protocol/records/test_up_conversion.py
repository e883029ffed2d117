"""Message sets v0 and v1 become record batches."""

from __future__ import annotations

import pytest

from barnabas.protocol.records.batch import CompressionType, RecordBatch, TimestampType, build_batch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.errors import CorruptRecordError, InvalidRecordError
from barnabas.protocol.records.up_conversion import up_convert
from tests.protocol.records.message_sets import message, message_set
from tests.protocol.records.test_legacy import CODECS, EXAMPLE, MESSAGES, contents, gzip, wrapper


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", CODECS)
def test_up_convert_keeps_everything(magic: int, compression: CompressionType) -> None:
    data = message_set(MESSAGES, magic=magic, base_offset=40, compression=compression)
    converted = up_convert(data, partition_leader_epoch=6)
    (batch,) = batches(converted)
    assert isinstance(batch, RecordBatch)
    batch.ensure_valid()
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (40, 42, 3)
    assert (batch.compression_type, batch.partition_leader_epoch) == (compression, 6)
    assert batch.timestamp_type == TimestampType.CREATE_TIME
    assert contents(converted) == contents(data)


def test_up_convert_makes_a_batch_of_each_run_and_each_wrapper() -> None:
    data = (
        message_set(MESSAGES, magic=0, base_offset=0)
        + message_set(MESSAGES, magic=1, base_offset=3)
        + message_set(MESSAGES, magic=1, base_offset=6, compression=CompressionType.SNAPPY)
        + message_set(MESSAGES, magic=1, base_offset=9, compression=CompressionType.SNAPPY)
        + message_set(MESSAGES, magic=1, base_offset=12, log_append_time=900)
        + message_set(MESSAGES, magic=1, base_offset=15)
        + build_batch([(b"k", b"v", 1, [])], base_offset=18, producer_id=1, producer_epoch=1, base_sequence=1)
        + message_set(MESSAGES, magic=1, base_offset=19)
    )
    converted = list(batches(up_convert(data)))
    assert [entry.base_offset for entry in converted] == [0, 6, 9, 12, 15, 18, 19]
    assert converted[3].timestamp_type == TimestampType.LOG_APPEND_TIME
    assert converted[5].producer_id == 1
    assert contents(up_convert(data))[:18] == contents(data)[:18]

    renumbered = list(batches(up_convert(data, base_offset=100)))
    assert [entry.base_offset for entry in renumbered] == [100, 106, 109, 112, 115, 118, 119]
    assert renumbered[-1].last_offset == 121
    for entry in renumbered:
        entry.ensure_valid()


def test_up_convert_checks_every_checksum() -> None:
    with pytest.raises(CorruptRecordError, match="claims CRC"):
        up_convert(EXAMPLE[:-1] + b"w")
    inner = wrapper(gzip(message(b"k", b"v", magic=1)[:-1] + b"w"))
    assert [record.value for record in next(batches(inner)).records()] == [b"w"]  # reading does not
    with pytest.raises(CorruptRecordError, match="claims CRC"):
        up_convert(inner)


def test_up_convert_needs_offsets_that_grow() -> None:
    twice = message(b"k", b"v", magic=1) * 2
    with pytest.raises(InvalidRecordError, match="offsets must grow"):
        up_convert(twice)
    assert [record[0] for record in contents(up_convert(twice, base_offset=0))] == [0, 1]


def test_up_convert_of_nothing() -> None:
    assert up_convert(b"") == b""
    assert up_convert(EXAMPLE[:-1]) == b""
