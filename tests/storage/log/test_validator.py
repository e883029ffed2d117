"""LogValidator: the batches it rejects, its errors, and the form of an accepted batch in the log."""

import struct
from typing import Any

import pytest

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    SMALL_BATCH_BYTES,
    CompressionType,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    TimestampType,
    UnsupportedCompressionError,
    build_batch,
    stamp_max_timestamp,
)
from barnabas.protocol.records.record import Record
from barnabas.storage.env import Buffer
from barnabas.storage.errors import (
    InvalidMagicError,
    InvalidOffsetOrSequenceError,
    InvalidTimestampError,
    MissingKeyError,
    RecordTooLargeError,
)
from barnabas.storage.log.validator import LogValidator, ValidatedRecords, most_unpacked_bytes
from barnabas.storage.offsets import AppendOrigin
from tests.storage.helpers import T0, end_txn, make_batch
from tests.storage.segment.test_scan import old_message


def validate(
    data: Buffer,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    *,
    offset: int = 40,
    now: int = T0,
    **config: Any,
) -> ValidatedRecords:
    return LogValidator("t-0", LogConfig(**config)).validate(data, offset, 5, origin, now)


def written(result: ValidatedRecords) -> RecordBatch:
    """The only batch in the form in which the file gets it."""
    data = b"".join(result.buffers)
    assert len(data) == result.size
    batch = RecordBatch(data)
    assert batch.size_in_bytes == len(data)
    batch.ensure_valid()
    for name in ("base_offset", "last_offset", "partition_leader_epoch", "max_timestamp", "size_in_bytes"):
        assert getattr(batch, name) == getattr(result.batches[0], name), name
    return batch


def with_field(data: bytes, layout: str, position: int, value: int) -> bytes:
    """The batch with one field changed and a correct CRC."""
    from barnabas.protocol.records.checksum import crc32c

    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


def test_a_good_batch_is_stamped_and_not_copied() -> None:
    large = bytes(SMALL_BATCH_BYTES)
    data = make_batch(b"a", b"b", large, timestamp=T0 - 5)
    result = validate(data)
    batch = written(result)
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (40, 42, 5)
    assert [record.value for record in batch.records()] == [b"a", b"b", large]
    assert (result.first_offset, result.next_offset) == (40, 43)
    assert (result.record_count, result.log_append_time_ms, result.max_timestamp) == (3, -1, T0 - 5)
    assert result.appended == [(42, len(data), T0 - 5)]
    assert isinstance(result.buffers[1], memoryview)
    assert result.buffers[1].obj is data


def test_a_small_batch_is_written_in_one_piece() -> None:
    """A copy costs less than a second buffer in the system call."""
    data = make_batch(b"a", b"b", timestamp=T0 - 5)
    result = validate(data)
    assert len(result.buffers) == 1
    assert (written(result).base_offset, written(result).partition_leader_epoch) == (40, 5)
    assert bytes(result.buffers[0])[16:] == data[16:]


def test_a_view_of_a_frame_is_accepted() -> None:
    data = make_batch(b"a")
    frame = b"header" + data + b"trailer"
    assert written(validate(memoryview(frame)[6 : 6 + len(data)])).base_offset == 40


@pytest.mark.parametrize("codec", list(CompressionType))
def test_records_of_every_codec_are_checked(codec: CompressionType) -> None:
    data = make_batch(b"a" * 500, b"b" * 500, compression=codec)
    assert written(validate(data)).compression_type is codec
    broken = bytearray(data)
    broken[61:81] = bytes(20)
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        validate(with_field(bytes(broken), ">q", 43, -1))


# -- batches rejected as a whole --


def test_wrong_bytes_are_corrupt() -> None:
    data = bytearray(make_batch(b"value"))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="CRC"):
        validate(bytes(data))


def test_a_too_large_batch_is_rejected() -> None:
    data = make_batch(bytes(500))
    with pytest.raises(RecordTooLargeError, match="t-0"):
        validate(data, max_message_bytes=len(data) - 1)
    validate(data, max_message_bytes=len(data))


@pytest.mark.parametrize("data", [b"", b"short", make_batch(b"cut off")[:16]])
def test_an_append_without_a_batch(data: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="no record batch"):
        validate(data)


@pytest.mark.parametrize("length", [17, 60, 61, -1])
def test_an_incomplete_batch_is_rejected(length: int) -> None:
    with pytest.raises(CorruptRecordError):
        validate(make_batch(b"cut off")[:length])


def test_only_a_producers_append_is_limited_to_one_batch() -> None:
    two = make_batch(b"a") + make_batch(b"b", b"c")
    with pytest.raises(InvalidRecordError, match="2 record batches"):
        validate(two)
    result = validate(two, AppendOrigin.COORDINATOR)
    assert [(batch.base_offset, batch.last_offset) for batch in result.batches] == [(40, 40), (41, 42)]
    assert result.next_offset == 43


@pytest.mark.parametrize(
    ("layout", "position", "value"),
    [
        (">i", 57, 0),  # no records
        (">i", 57, -1),
        (">i", 57, 3),  # fewer, or more, than the records
        (">i", 57, 1),
        (">i", 23, 0),  # last offset delta
        (">i", 23, -5),
        (">i", 23, 7),
        (">h", 21, 0x20),  # a control batch
        (">q", 43, 9),  # a producer without a sequence
    ],
)
def test_invalid_headers_are_rejected(layout: str, position: int, value: int) -> None:
    with pytest.raises(InvalidRecordError):
        validate(with_field(make_batch(b"a", b"b"), layout, position, value))


def test_a_count_and_a_delta_that_contradict_the_records() -> None:
    data = with_field(with_field(make_batch(b"a", b"b"), ">i", 57, 3), ">i", 23, 2)
    with pytest.raises(InvalidRecordError):
        validate(data)


def test_an_unknown_codec_is_rejected() -> None:
    with pytest.raises(UnsupportedCompressionError):
        validate(with_field(make_batch(b"a"), ">h", 21, 7))


def test_control_batches_of_clients_are_rejected() -> None:
    marker = end_txn(9, 0, commit=True)
    with pytest.raises(InvalidRecordError, match="control"):
        validate(marker)
    assert written(validate(marker, AppendOrigin.COORDINATOR)).is_control


def test_a_decompression_bomb_is_rejected() -> None:
    data = make_batch(bytes(70 * 1024 * 1024), compression=CompressionType.ZSTD)
    assert len(data) < 100_000
    with pytest.raises(RecordTooLargeError, match="unpacks to more than"):
        validate(data)


# -- batches rejected for some of their records --


def test_a_gap_in_the_offsets_names_the_record() -> None:
    data = build_batch([Record(b"k", b"v", T0, [], 0), Record(b"k", b"v", T0, [], 2)])
    data = with_field(data, ">i", 23, 1)
    with pytest.raises(InvalidRecordError) as caught:
        validate(data)
    assert [index for index, _ in caught.value.record_errors] == [1]


def test_compacted_topics_name_the_records_without_a_key() -> None:
    data = build_batch(
        [(b"k", b"v", T0, []), (None, b"v", T0, []), (b"", b"v", T0, []), (None, None, T0, [])]
    )
    validate(data)
    with pytest.raises(InvalidRecordError, match="Compacted") as caught:
        validate(data, cleanup_policy=frozenset({"compact"}))
    assert [index for index, _ in caught.value.record_errors] == [1, 3]


def test_timestamps_beyond_the_limits_are_named() -> None:
    times = [T0 - 101, T0 - 100, T0, T0 + 50, T0 + 51, -1]
    data = build_batch([(b"k", b"v", time, []) for time in times])
    limits: dict[str, Any] = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 50}
    with pytest.raises(InvalidTimestampError) as caught:
        validate(data, **limits)
    assert [index for index, _ in caught.value.record_errors] == [0, 4]
    validate(data, **limits, message_timestamp_type="LogAppendTime")
    validate(build_batch([(b"k", b"v", time, []) for time in (T0, -1)]), **limits)


@pytest.mark.parametrize(
    ("time", "fine"), [(T0 - 101, False), (T0 - 100, True), (T0 + 50, True), (T0 + 51, False)]
)
def test_one_limit_at_a_time(time: int, fine: bool) -> None:
    limits: dict[str, Any] = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 50}
    if fine:
        validate(make_batch(b"v", timestamp=time), **limits)
    else:
        with pytest.raises(InvalidTimestampError):
            validate(make_batch(b"v", timestamp=time), **limits)


def test_timestamps_are_at_most_an_hour_ahead_by_default() -> None:
    validate(make_batch(b"v", timestamp=T0 + 3_600_000))
    validate(make_batch(b"v", timestamp=0))
    with pytest.raises(InvalidTimestampError):
        validate(make_batch(b"v", timestamp=T0 + 3_600_001))


def test_timestamps_may_be_as_old_as_int64_allows_by_default() -> None:
    oldest = T0 - ((1 << 63) - 1)
    validate(make_batch(b"v", timestamp=oldest))
    with pytest.raises(InvalidTimestampError):
        validate(make_batch(b"v", timestamp=oldest - 1))


# -- changes to accepted batches --


def test_log_append_time_is_stamped() -> None:
    result = validate(make_batch(b"a", b"b", timestamp=7), message_timestamp_type="LogAppendTime")
    batch = written(result)
    assert result.log_append_time_ms == T0
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, T0)
    assert [record.timestamp for record in batch.records()] == [T0, T0]


@pytest.mark.parametrize(
    ("sent", "kept"), [(0x0000, 0x08), (0x40, 0x48), (0x80, 0x08), (-0x80, 0x08), (0x7F40, 0x48)]
)
def test_unknown_attributes_are_cleared_where_the_timestamp_is_stamped(sent: int, kept: int) -> None:
    data = with_field(make_batch(b"a", timestamp=7), ">h", 21, sent)
    assert written(validate(data, message_timestamp_type="LogAppendTime")).attributes == kept
    assert written(validate(data)).attributes == sent
    data = with_field(data, ">q", 35, 99)  # the largest timestamp, which is 7
    assert written(validate(data)).attributes == kept & ~0x08


def test_a_producers_batch_with_log_append_time_has_one_timestamp_for_all() -> None:
    """Where such a batch is accepted, its records keep older timestamps than the batch's."""
    data = bytearray(make_batch(b"a", b"b", timestamp=7))
    stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, 99)
    assert written(validate(bytes(data))).max_timestamp == 99
    with pytest.raises(InvalidTimestampError):
        validate(bytes(data), now=200, message_timestamp_before_max_ms=100)


def test_a_wrong_max_timestamp_is_corrected() -> None:
    data = bytearray(make_batch(b"a", timestamp=7))
    stamp_max_timestamp(data, 0, TimestampType.CREATE_TIME, 99)
    batch = written(validate(bytes(data)))
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.CREATE_TIME, 7)


@pytest.mark.parametrize("timestamp", [-1, -2, -(2**40)])
def test_no_batch_has_a_max_timestamp_below_minus_one(timestamp: int) -> None:
    """The records keep their timestamps."""
    batch = written(validate(make_batch(b"a", b"b", timestamp=timestamp)))
    assert (batch.base_timestamp, batch.max_timestamp) == (timestamp, -1)
    assert batch.is_valid_crc()


def test_a_producer_cannot_set_the_log_append_time() -> None:
    data = bytearray(make_batch(b"a", b"b", timestamp=7))
    stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, 99)
    with pytest.raises(InvalidTimestampError, match=r"due to invalid timestamp$") as caught:
        validate(bytes(data), message_timestamp_type="LogAppendTime")
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    assert "only a broker can know" in caught.value.record_errors[1][1]
    batch = written(validate(bytes(data)))
    assert (batch.timestamp_type, batch.is_valid_crc()) == (TimestampType.CREATE_TIME, True)


def test_a_producer_cannot_set_offsets() -> None:
    data = bytearray(make_batch(b"a"))
    data[7] = 77
    with pytest.raises(InvalidRecordError, match="base offset 77"):
        validate(bytes(data))


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", [CompressionType.NONE, CompressionType.LZ4])
def test_the_topics_compression_has_priority(target: str, source: CompressionType) -> None:
    data = make_batch(
        b"a" * 300, b"b" * 300, timestamp=7, compression=source, producer=(9, 1, 4), transactional=True
    )
    batch = written(validate(data, compression_type=target))
    wanted = CompressionType.NONE if target == "uncompressed" else CompressionType.of_label(target)
    assert batch.compression_type is wanted
    assert [record.value for record in batch.records()] == [b"a" * 300, b"b" * 300]
    assert (batch.base_offset, batch.partition_leader_epoch, batch.max_timestamp) == (40, 5, 7)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (
        9,
        1,
        4,
        True,
    )


def test_compression_and_log_append_time_together() -> None:
    config: dict[str, Any] = {"compression_type": "gzip", "message_timestamp_type": "LogAppendTime"}
    batch = written(validate(make_batch(b"a", timestamp=7), **config))
    assert (batch.max_timestamp, batch.timestamp_type) == (T0, TimestampType.LOG_APPEND_TIME)


def test_markers_are_not_compressed() -> None:
    marker = written(validate(end_txn(9, 0, commit=False), AppendOrigin.COORDINATOR, compression_type="gzip"))
    assert not marker.is_compressed


def test_a_batch_that_compression_makes_too_large_is_rejected() -> None:
    data = make_batch(bytes(range(256)), compression=CompressionType.NONE)
    with pytest.raises(RecordTooLargeError, match="gzip"):
        validate(data, compression_type="gzip", max_message_bytes=len(data))


@pytest.mark.parametrize(
    ("max_message_bytes", "most"),
    [(0, 64 << 20), (1 << 20, 64 << 20), (3 << 20, 192 << 20), (8 << 20, 256 << 20), (2**31 - 1, 256 << 20)],
)
def test_accepted_batches_decompress_within_the_limit_of_readers(max_message_bytes: int, most: int) -> None:
    """Otherwise a log could no longer be compacted or searched by time."""
    assert most_unpacked_bytes(max_message_bytes) == most
    assert most <= DEFAULT_MAX_DECOMPRESSED_BYTES


def test_old_message_sets_become_batches() -> None:
    data = old_message(0, b"zero", 0) + old_message(1, b"one", 0)
    batch = written(validate(data))
    assert [record.value for record in batch.records()] == [b"zero", b"one"]
    assert (batch.base_offset, batch.partition_leader_epoch) == (40, 5)


def test_each_record_has_its_own_error_and_timestamp_errors_have_priority() -> None:
    """As in Apache Kafka, one error names all records, a timestamp error if one of them has it."""
    data = build_batch([(b"k", b"v", T0, []), (None, b"v", T0 - 200, []), (b"k", b"v", T0 - 200, [])])
    config: dict[str, Any] = {
        "cleanup_policy": frozenset({"compact"}),
        "message_timestamp_before_max_ms": 100,
    }
    with pytest.raises(InvalidTimestampError) as caught:
        validate(data, **config)
    assert [(index, "key" in message) for index, message in caught.value.record_errors] == [
        (1, True),
        (2, False),
    ]


def test_log_append_time_without_a_timestamp_is_rejected() -> None:
    data = bytearray(make_batch(b"a", b"b", timestamp=-1))
    stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, -1)
    with pytest.raises(InvalidTimestampError, match=r"due to invalid timestamp$") as caught:
        validate(bytes(data))
    assert [index for index, _ in caught.value.record_errors] == [0, 1]


def test_each_kind_of_damage_to_a_batch_has_its_error() -> None:
    with pytest.raises(InvalidOffsetOrSequenceError):
        validate(end_txn(9, 0, commit=True))
    with pytest.raises(InvalidOffsetOrSequenceError):
        validate(with_field(make_batch(b"a"), ">i", 23, 3))
    with pytest.raises(InvalidOffsetOrSequenceError):
        validate(make_batch(b"a", producer=(9, 0, -1)))
    with pytest.raises(MissingKeyError):
        validate(make_batch(b"a", key=None), cleanup_policy=frozenset({"compact"}))
    with pytest.raises(InvalidMagicError):
        validate(old_message(0, b"zero", 0) + make_batch(b"a"))


def test_rebuilt_records_are_counted() -> None:
    assert validate(make_batch(b"a", b"b")).conversion_count == 0
    assert validate(make_batch(b"a", b"b"), compression_type="gzip").conversion_count == 2
    assert validate(old_message(0, b"zero", 0) + old_message(1, b"one", 0)).conversion_count == 2


@pytest.mark.parametrize(("codec", "levels"), [("gzip", (1, 9)), ("lz4", (1, 12)), ("zstd", (1, 19))])
def test_the_level_of_the_topics_codec_is_used(codec: str, levels: tuple[int, int]) -> None:
    text = b"".join(b"%d %d;" % (number, number * number % 97) for number in range(3000))
    configs: list[dict[str, Any]] = [
        {"compression_type": codec, f"compression_{codec}_level": level} for level in levels
    ]
    sizes = [written(validate(make_batch(text), **config)).size_in_bytes for config in configs]
    assert sizes[1] < sizes[0] < len(text)
