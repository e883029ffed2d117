"""Our record batches and message sets against Apache Kafka's own classes, in both directions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.records.batch import (
    CRC_START,
    RECORD_BATCH_OVERHEAD,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    TimestampType,
    UnsupportedCompressionError,
    build_batch,
    stamp,
    stamp_max_timestamp,
)
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.control import ControlRecordType, control_record_key, end_transaction_marker
from barnabas.protocol.records.record import Record
from barnabas.protocol.records.up_conversion import up_convert
from tests.conformance.java_records import JavaRecords, KafkaError, describe
from tests.protocol.records.message_sets import message, message_set

pytestmark = pytest.mark.conformance

CODECS = list(CompressionType)
LEGACY_CODECS = CODECS[:4]
LEVELS = {CompressionType.GZIP: (1, 9), CompressionType.LZ4: (1, 9, 17), CompressionType.ZSTD: (-7, 3, 19)}
REJECTIONS = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)


@pytest.fixture(scope="module")
def kafka() -> Iterator[JavaRecords]:
    java = JavaRecords()
    yield java
    java.close()


def some_bytes(source: random.Random, at_most: int) -> bytes | None:
    kind = source.randrange(6)
    if kind == 0:
        return None
    size = 0 if kind == 1 else source.randrange(at_most)
    return source.randbytes(size) if kind < 4 else (b"Barnabas " * (size // 9 + 1))[:size]


def some_records(
    seed: int, count: int, *, gaps: bool = False, headers: bool = True, at_most: int = 300
) -> list[Record]:
    source = random.Random(seed)
    records = []
    offset = source.choice((0, 17, 1 << 40))
    for _ in range(count):
        timestamp = 1_700_000_000_000 + source.choice((0, 1, -5, 100, 70_000, 1 << 33))
        names = ["h", "", "ключ", "a" * 100]
        pairs = [
            (source.choice(names), some_bytes(source, 50))
            for _ in range(source.randrange(4) if headers else 0)
        ]
        records.append(Record(some_bytes(source, 100), some_bytes(source, at_most), timestamp, pairs, offset))
        offset += source.randrange(1, 50) if gaps else 1
    return records


FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "log append time": {
        "timestamp_type": TimestampType.LOG_APPEND_TIME,
        "log_append_time": 1_800_000_000_123,
    },
    "idempotent": {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 12},
    "sequence wraps": {"producer_id": 1 << 40, "producer_epoch": 32767, "base_sequence": 2**31 - 3},
    "transactional": {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True},
    "leader epoch": {"partition_leader_epoch": 2**31 - 1},
    "delete horizon": {"delete_horizon_ms": 1_700_000_500_000},
}


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("gaps", [False, True], ids=["consecutive", "gaps"])
def test_both_read_and_build_the_same_batches(
    kafka: JavaRecords, compression: CompressionType, fields: dict[str, Any], gaps: bool
) -> None:
    records = some_records(compression, 25, gaps=gaps)
    base_offset = records[0].offset
    theirs = kafka.build(records, compression=compression, base_offset=base_offset, **fields)
    ours = build_batch(records, compression=compression, base_offset=base_offset, **fields)
    assert describe(theirs) == kafka.read(theirs)
    assert describe(ours) == kafka.read(ours)
    if compression == CompressionType.NONE:
        assert ours == theirs
    else:
        assert RecordBatch(ours).uncompressed_payload() == RecordBatch(theirs).uncompressed_payload()


@pytest.mark.parametrize(
    ("compression", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels]
)
def test_every_compression_level_and_several_blocks(
    kafka: JavaRecords, compression: CompressionType, level: int
) -> None:
    records = some_records(level, 40, at_most=20_000)
    theirs = kafka.build(records, compression=compression, level=level, base_offset=records[0].offset)
    ours = build_batch(records, compression=compression, level=level)
    assert describe(theirs) == kafka.read(theirs)
    assert describe(ours) == kafka.read(ours)


def test_snappy_in_several_blocks(kafka: JavaRecords) -> None:
    records = some_records(7, 40, at_most=20_000)
    theirs = kafka.build(records, compression=CompressionType.SNAPPY, base_offset=records[0].offset)
    ours = build_batch(records, compression=CompressionType.SNAPPY)
    assert describe(theirs) == kafka.read(theirs)
    assert describe(ours) == kafka.read(ours)


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_are_byte_equal(kafka: JavaRecords, commit: bool) -> None:
    theirs = kafka.one("marker", 99, 1_700_000_000_000, 7, 4711, 2, commit, 5)
    ours = end_transaction_marker(
        commit=commit,
        coordinator_epoch=5,
        producer_id=4711,
        producer_epoch=2,
        timestamp=1_700_000_000_000,
        base_offset=99,
        partition_leader_epoch=7,
    )
    assert ours == theirs
    assert describe(ours) == kafka.read(ours)


@pytest.mark.parametrize("record_type", [t for t in ControlRecordType if t >= 0])
def test_control_records_of_every_type(kafka: JavaRecords, record_type: ControlRecordType) -> None:
    records = [Record(control_record_key(record_type), b"\x00\x00what it says", 17, [], 3)]
    theirs = kafka.build(records, base_offset=3, is_control=True)
    assert build_batch(records, is_control=True) == theirs


@pytest.mark.parametrize("timestamp_type", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
@pytest.mark.parametrize("compression", CODECS)
def test_stamping_gives_the_same_batch(
    kafka: JavaRecords, compression: CompressionType, timestamp_type: TimestampType
) -> None:
    batch = build_batch(some_records(3, 10), compression=compression)
    last_offset_delta = RecordBatch(batch).last_offset_delta
    ours = bytearray(batch)
    stamp(ours, 0, 1000, 42)
    stamp_max_timestamp(ours, 0, timestamp_type, 1_900_000_000_000)
    theirs = kafka.one("stamp", batch, 1000 + last_offset_delta, 42, timestamp_type, 1_900_000_000_000)
    assert ours == theirs


@pytest.mark.parametrize("compression", LEGACY_CODECS)
@pytest.mark.parametrize(
    ("magic", "log_append_time"),
    [(0, None), (1, None), (1, 1_800_000_000_123)],
    ids=["v0", "v1", "v1 appended"],
)
def test_message_sets_are_read_and_built_the_same(
    kafka: JavaRecords, magic: int, compression: CompressionType, log_append_time: int | None
) -> None:
    records = some_records(magic, 12, headers=False)
    if log_append_time is not None:
        for record in records:
            record.timestamp = log_append_time  # as the broker reads them back
    timestamp_type = TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME
    theirs = kafka.build(
        records,
        magic=magic,
        compression=compression,
        timestamp_type=TimestampType.NO_TIMESTAMP_TYPE if magic == 0 else timestamp_type,
        base_offset=records[0].offset,
        log_append_time=-1 if log_append_time is None else log_append_time,
    )
    ours = message_set(
        [(record.key, record.value, record.timestamp) for record in records],
        magic=magic,
        base_offset=records[0].offset,
        compression=compression,
        log_append_time=log_append_time,
    )
    if compression == CompressionType.NONE:
        assert ours == theirs
    for data in (ours, theirs):
        assert describe(data) == kafka.read(data)
        assert _contents(kafka.read(up_convert(data))) == _contents(kafka.read(data))


def _contents(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("record")]


def test_zeroed_wrapper_offset_counts_from_zero(kafka: JavaRecords) -> None:
    data = message_set([(b"a", b"1", 5), (b"b", b"2", 6)], magic=1, compression=CompressionType.GZIP)
    zeroed = bytes(8) + data[8:]
    assert describe(zeroed) == kafka.read(zeroed)


def verdicts(kafka: JavaRecords, data: bytes) -> tuple[object, object]:
    """What each of the two reads, or "rejected"."""
    try:
        theirs: object = kafka.read(data)
    except KafkaError:
        theirs = "rejected"
    try:
        ours: object = describe(data)
    except REJECTIONS:
        ours = "rejected"
    return ours, theirs


def with_right_crc(batch: bytearray) -> bytes:
    batch[CRC_START - 4 : CRC_START] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("seed", range(300))
def test_both_agree_on_damaged_records(kafka: JavaRecords, seed: int) -> None:
    source = random.Random(seed)
    batch = bytearray(build_batch(some_records(seed, 4, at_most=40)))
    start = source.choice((RECORD_BATCH_OVERHEAD, RECORD_BATCH_OVERHEAD, RECORD_BATCH_OVERHEAD - 4))
    for _ in range(source.randrange(1, 3)):
        batch[source.randrange(start, len(batch))] = source.choice(
            (0, 1, 2, 127, 128, 255, source.randrange(256))
        )
    ours, theirs = verdicts(kafka, with_right_crc(batch))
    assert ours == theirs


@pytest.mark.parametrize("seed", range(100))
def test_both_agree_on_damaged_message_sets(kafka: JavaRecords, seed: int) -> None:
    source = random.Random(seed)
    inner = bytearray(message_set([(b"k", b"value", 5), (None, b"x", 6)], magic=1))
    inner[source.randrange(8, len(inner))] = source.choice((0, 1, 127, 128, 255))
    data = message(None, bytes(inner), magic=1, offset=7)
    ours, theirs = verdicts(kafka, data)
    assert ours == theirs
