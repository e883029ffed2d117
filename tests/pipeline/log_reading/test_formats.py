"""Compares the rows of every record format and codec, in ranges of every size, with a plain decoding of the file."""

from __future__ import annotations

import struct
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.log_reading.errors import LogReadingError
from barnabas.pipeline.log_reading.planning import first_offset_of, plan_ranges
from barnabas.pipeline.log_reading.range_reader import Reading
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.layout import TimestampType
from barnabas.storage.env import write_fully
from barnabas.storage.segment.names import OFFSET_INDEX_SUFFIX, segment_path
from tests.pipeline.log_reading.reading import look, ms_of, only_partition, read, rows_in
from tests.protocol.records.message_sets import message_set
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, make_batch, new_log

T0 = 1_700_000_000_000
CODECS = tuple(CompressionType)
TYPES = {
    TimestampType.NO_TIMESTAMP_TYPE: -1,
    TimestampType.CREATE_TIME: 0,
    TimestampType.LOG_APPEND_TIME: 1,
}

Batch = tuple[int, CompressionType, int, bool]
"""(magic, codec, records, LogAppendTime)."""
BATCHES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(CODECS), st.integers(1, 6), st.booleans()),
    min_size=1,
    max_size=12,
)


def encoded(batch: Batch, base_offset: int, rng: Random) -> bytes:
    magic, codec, count, appended = batch
    rows = [
        (rng.choice((None, b"k%d" % index)), rng.choice((None, b"", b"v" * 30)), T0 + rng.randrange(100))
        for index in range(count)
    ]
    log_append_time = T0 + 500 if appended and magic > 0 else None
    if magic == 2:
        records = [
            (key, value, at, [("h", key), ("g", b"")] if index % 2 else [])
            for index, (key, value, at) in enumerate(rows)
        ]
        data = build_batch(records, base_offset=base_offset, compression=codec)
        if log_append_time is not None:
            from barnabas.protocol.records.batch import TimestampType, stamp_max_timestamp

            changed = bytearray(data)
            stamp_max_timestamp(changed, 0, TimestampType.LOG_APPEND_TIME, log_append_time)
            return bytes(changed)
        return data
    if codec is CompressionType.ZSTD:
        codec = CompressionType.GZIP  # zstd is younger than these formats
    return message_set(
        rows, magic=magic, base_offset=base_offset, compression=codec, log_append_time=log_append_time
    )


def write_log(env: FaultEnv, data: bytes, name: str = ".log", base_offset: int = 0) -> None:
    env.mkdir(DIRECTORY)
    file = env.open(segment_path(DIRECTORY, base_offset, name), create=True)
    file.truncate(0)
    write_fully(file, (data,), 0, len(data))


def decoded(data: bytes) -> list[tuple[Any, ...]]:
    """(offset, key, value, timestamp, type, headers) of every record, made without columns."""
    return [
        (it.offset, it.key, it.value, it.timestamp, TYPES[batch.timestamp_type], list(it.headers))
        for batch in batches(data)
        for it in batch.records()
    ]


def as_decoded(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            *(row["offset"], row["key"], row["value"], ms_of(row), row["timestampType"]),
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in rows
    ]


@settings(deadline=None)
@given(given=BATCHES, seed=st.integers(0, 1 << 30), range_bytes=st.sampled_from((1, 100, 400, 1 << 30)))
def test_rows_are_what_the_batches_hold(given: list[Batch], seed: int, range_bytes: int) -> None:
    env, rng, data, offset, index = FaultEnv(), Random(seed), b"", 0, b""
    for batch in given:
        piece = encoded(batch, offset, rng)
        offset += batch[2]
        if data:
            index += (offset - 1).to_bytes(4, "big") + len(data).to_bytes(4, "big")
        data += piece
    write_log(env, data)
    write_log(env, index + bytes(8 * rng.randrange(3)), OFFSET_INDEX_SUFFIX)
    view = look(env, "/logs")
    assert (view.log_start_offset, view.end_offset) == (0, offset)
    rows = decoded(data)
    assert as_decoded(read(env, view, range_bytes=range_bytes)) == rows
    first, end = sorted((rng.randint(0, offset), rng.randint(0, offset)))
    found = as_decoded(read(env, view, first, end, range_bytes=range_bytes))
    assert found == [row for row in rows if first <= row[0] < end]


def test_ranges_follow_each_other_and_are_of_the_size_asked_for() -> None:
    env = FaultEnv()
    log = new_log(env)
    for number in range(60):
        log.append_as_leader(make_batch(b"%d" % number * 50), 0)
    view = look(env, "/logs")
    for size in (1, 300, 1000, 5000, 1 << 30):
        ranges = plan_ranges(env, view, 0, 60, range_bytes=size)
        assert [it.first_offset for it in ranges] == [0, *(it.end_offset for it in ranges[:-1])]
        assert ranges[-1].end_offset == 60
        assert sum(it.size_bytes for it in ranges) == log.size
        assert size == 1 << 30 or len(ranges) > log.size // size // 5 or size < 300
        assert max(it.size_bytes for it in ranges) <= max(2 * size, 400)


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_a_torn_tail_ends_the_log(cut: int) -> None:
    env = FaultEnv()
    first, second = make_batch(b"a", b"b", base_offset=0), make_batch(b"c" * 100, base_offset=2)
    write_log(env, first + second[: min(cut, len(second) - 1)])
    view = look(env, "/logs")
    assert view.end_offset == 2
    assert [row["value"] for row in read(env, view)] == [b"a", b"b"]


@pytest.mark.parametrize("rest", [bytes(5000), b"\xff" * 100])
def test_bytes_after_the_last_batch_are_ignored(rest: bytes) -> None:
    env = FaultEnv()
    write_log(env, make_batch(b"a", base_offset=0) + rest)
    assert [row["value"] for row in read(env, look(env, "/logs"))] == [b"a"]


def test_an_index_of_another_segment_hides_no_records() -> None:
    env = FaultEnv()
    data = b"".join(make_batch(b"%d" % number, base_offset=number) for number in range(20))
    write_log(env, data)
    wrong = b"".join(
        (3 * slot).to_bytes(4, "big") + (70 * slot + 1).to_bytes(4, "big") for slot in range(1, 20)
    )
    write_log(env, wrong, OFFSET_INDEX_SUFFIX)
    view = look(env, "/logs")
    assert view.end_offset == 20
    assert [row["offset"] for row in read(env, view, 7, 15, range_bytes=100)] == list(range(7, 15))


def test_a_damaged_batch_is_named() -> None:
    env = FaultEnv()
    data = [bytearray(make_batch(b"%d" % number, base_offset=number)) for number in range(4)]
    view_data = b"".join(data)
    write_log(env, view_data)
    view = look(env, "/logs")
    data[1][-1] ^= 1
    write_log(env, b"".join(data))
    with pytest.raises(
        LogReadingError, match=r"00000000000000000000\.log: the batch at offset 1 .* claims CRC"
    ):
        read(env, view)
    unchecked = Reading(columns=("offset",), check_crc=False)
    assert [row["offset"] for row in rows_in(env, plan_ranges(env, view, 0, 1), unchecked)] == [0]


def test_damage_found_by_planning_names_the_file() -> None:
    """A user cannot know otherwise which of a thousand partitions is damaged."""
    env = FaultEnv()
    data = [bytearray(make_batch(b"v", base_offset=offset, timestamp=T0 + offset)) for offset in range(20)]
    data[10][16] ^= 0x7F  # the format's number
    write_log(env, b"".join(data))
    write_log(env, make_batch(b"v", base_offset=20, timestamp=T0 + 20), base_offset=20)
    view = look(env, "/logs")
    for plan in (partial(plan_ranges, env, view, 0, 21), partial(first_offset_of, env, view, T0 + 15)):
        with pytest.raises(LogReadingError, match=r"00000000000000000000\.log: magic .* offset 10: no such"):
            plan()


@pytest.mark.parametrize("has_index", [False, True])
def test_a_damaged_length_does_not_hide_later_batches(has_index: bool) -> None:
    """A search sees it as an incomplete batch, as at the end of a log."""
    env = FaultEnv()
    data = [bytearray(make_batch(b"v", base_offset=offset, timestamp=T0 + offset)) for offset in range(20)]
    data[10][8] ^= 0x7F
    write_log(env, b"".join(data))
    if has_index:
        size = len(data[0])
        entries = b"".join(struct.pack(">ii", at, at * size) for at in (8, 16, 18))
        write_log(env, entries, OFFSET_INDEX_SUFFIX)
    write_log(env, make_batch(b"v", base_offset=20, timestamp=T0 + 20), base_offset=20)
    view = look(env, "/logs")
    with pytest.raises(LogReadingError, match=r"00000000000000000000\.log: offset 15 cannot be reached"):
        plan_ranges(env, view, 15, 21)
    if not has_index:
        with pytest.raises(LogReadingError, match=r"00000000000000000000\.log: .* cannot be reached"):
            first_offset_of(env, view, T0 + 15)
    assert [row["offset"] for row in read(env, view, 20)] == [20]


def test_only_the_columns_asked_for() -> None:
    env = FaultEnv()
    write_log(env, make_batch(b"a", base_offset=0))
    ranges = plan_ranges(env, look(env, "/logs"), 0, 1)
    assert rows_in(env, ranges, Reading(columns=("value", "offset"))) == [{"value": b"a", "offset": 0}]
    assert only_partition(env, DIRECTORY) == only_partition(env, "/logs")


def test_a_time_outside_the_range_is_reported_with_its_file() -> None:
    """For example nanoseconds in place of milliseconds."""
    env = FaultEnv()
    write_log(env, make_batch(b"a", base_offset=0, timestamp=T0 * 1_000_000))
    ranges = plan_ranges(env, look(env, "/logs"), 0, 1)
    with pytest.raises(
        LogReadingError, match=r"00000000000000000000\.log: a record has a time .* nanoseconds"
    ):
        rows_in(env, ranges)
    assert rows_in(env, ranges, Reading(columns=("value",))) == [{"value": b"a"}]
