"""build_batch: offsets, timestamps, headers of the batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records.batch import (
    CompressionType,
    RecordBatch,
    TimestampType,
    build_batch,
)
from barnabas.protocol.records.record import Record
from tests.protocol.records.raw_batches import empty_batch
from tests.protocol.records.test_record import ROWS

PLAIN = [(b"a", b"1", 10, []), (b"b", None, 30, [("h", None)]), (None, b"3", 20, [])]


def test_tuples_get_consecutive_offsets() -> None:
    batch = RecordBatch(build_batch(PLAIN, base_offset=100))
    assert [record.offset for record in batch.records()] == [100, 101, 102]
    assert (batch.base_offset, batch.last_offset_delta, batch.record_count) == (100, 2, 3)
    assert (batch.base_timestamp, batch.max_timestamp) == (10, 30)
    assert RecordBatch(build_batch(PLAIN)).base_offset == 0


def test_records_keep_their_offsets() -> None:
    given_records = [Record(b"a", b"", 1, [], 7), Record(b"b", b"", 2, [], 9), Record(b"c", b"", 3)]
    batch = RecordBatch(build_batch(given_records))
    assert (batch.base_offset, batch.last_offset) == (7, 10)
    assert [record.offset for record in batch.records()] == [7, 9, 10]
    assert given_records[2].offset == -1


def test_a_compacted_batch_may_end_after_its_records() -> None:
    kept = [Record(b"a", b"", 1, [], 7)]
    batch = RecordBatch(build_batch(kept, base_offset=5, last_offset_delta=9, base_sequence=3, producer_id=1))
    assert (batch.base_offset, batch.last_offset, batch.last_sequence) == (5, 14, 12)
    (record,) = batch.records()
    assert (record.offset, record.sequence) == (7, 5)


def test_a_delete_horizon_replaces_the_base_timestamp() -> None:
    batch = RecordBatch(build_batch(PLAIN, delete_horizon_ms=5000))
    assert (batch.base_timestamp, batch.delete_horizon_ms, batch.max_timestamp) == (5000, 5000, 30)
    assert [record.timestamp for record in batch.records()] == [10, 30, 20]


@pytest.mark.parametrize("offsets", [[3, 3], [3, 2]])
def test_offsets_must_grow(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets must grow"):
        build_batch([Record(None, None, 0, [], offset) for offset in offsets])


def test_offsets_are_not_below_the_base() -> None:
    with pytest.raises(ValueError, match="offsets must grow"):
        build_batch([Record(None, None, 0, [], 3)], base_offset=4)


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="one record at least"):
        build_batch([])


def test_empty_batch() -> None:
    data = empty_batch(
        base_offset=10,
        last_offset=19,
        timestamp=77,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=5,
        producer_epoch=2,
        base_sequence=40,
        partition_leader_epoch=3,
        is_transactional=True,
        is_control=True,
    )
    batch = RecordBatch(data)
    batch.ensure_valid()
    assert (batch.base_offset, batch.last_offset, batch.last_sequence) == (10, 19, 49)
    assert (batch.record_count, batch.size_in_bytes, batch.max_timestamp) == (0, 61, 77)
    assert batch.base_timestamp == -1
    assert (batch.attributes, batch.partition_leader_epoch) == (0x38, 3)
    assert list(batch.records()) == []
    assert batch.validate_records().record_count == 0


@settings(deadline=None)
@given(rows=ROWS, compression=st.sampled_from(CompressionType), base_offset=st.integers(0, 1 << 60))
def test_round_trip(rows: list[Any], compression: CompressionType, base_offset: int) -> None:
    batch = RecordBatch(build_batch(rows, base_offset=base_offset, compression=compression))
    batch.ensure_valid()
    assert batch.compression_type == compression
    expected = [
        Record(key, value, timestamp, headers, base_offset + index)
        for index, (key, value, timestamp, headers) in enumerate(rows)
    ]
    assert list(batch.records()) == expected
    assert batch.max_timestamp == batch.validate_records().max_timestamp == max(row[2] for row in rows)
    assert build_batch(list(batch.records()), compression=compression) == bytes(batch.buffer)
