"""Columns equal the records that `decode_records` reads from the same bytes, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol.records import columns as columns_module
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.records.record import Record, decode_headers, decode_records, encode_records
from tests.protocol.records.test_record import HEADERS, KEYS, VALUES
from tests.support.loops import FORMS, in_form

same_module = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)

MAX_INT64 = (1 << 63) - 1
ROWS = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 1 << 40), HEADERS), max_size=12)
BATCHES = st.lists(st.tuples(ROWS, st.integers(0, 1 << 40), st.none() | st.integers(-1, 1 << 40)), max_size=4)


@pytest.fixture(params=FORMS, scope="session")
def columns(request: pytest.FixtureRequest) -> Any:
    return in_form(columns_module, request.param)


def encoded(rows: list[Any], base_offset: int) -> bytes:
    built = [
        Record(key, value, timestamp, headers, base_offset + 2 * index)
        for index, (key, value, timestamp, headers) in enumerate(rows)
    ]
    return encode_records(built, base_offset, 1000)


def contents(found: Any) -> list[tuple[Any, ...]]:
    """The rows as (offset, timestamp, key, value, headers)."""
    headers = [
        decode_headers(found.headers.row(row) or b"", found.header_counts[row])
        for row in range(found.row_count)
    ]
    assert len(found.offsets) == len(found.timestamps) == len(found.header_counts) == found.row_count
    return [
        (found.offsets[row], found.timestamps[row], found.keys.row(row), found.values.row(row), headers[row])
        for row in range(found.row_count)
    ]


@same_module
@given(batches=BATCHES, first=st.integers(0, 30), count=st.none() | st.integers(0, 30))
def test_rows_are_the_records(columns: Any, batches: list[Any], first: int, count: int | None) -> None:
    """Buffers grow as needed, and only the requested offsets are read."""
    end = MAX_INT64 if count is None else first + count
    found = columns.RecordColumns(1, 1)
    expected = []
    for rows, base_offset, log_append_time in batches:
        payload = encoded(rows, base_offset % 20)
        arguments = (len(rows), base_offset % 20, 1000)
        found.add(memoryview(payload), *arguments, log_append_time, first, end)
        records = decode_records(payload, *arguments, log_append_time=log_append_time)
        expected += [record for record in records if first <= record.offset < end]
    assert contents(found) == [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in expected]


@same_module
@given(rows=ROWS)
def test_buffers_are_those_of_arrow(columns: Any, rows: list[Any]) -> None:
    found = columns.RecordColumns()
    found.add(encoded(rows, 0), len(rows), 0, 1000)
    assert (found.offsets.format, found.timestamps.format, found.header_counts.format) == ("q", "q", "i")
    for column, index in ((found.keys, 0), (found.values, 1)):
        cells = [row[index] for row in rows]
        assert column.null_count == cells.count(None)
        assert bytes(column.data) == b"".join(cell or b"" for cell in cells)
        assert (column.ends.format, len(column.ends), column.ends[0]) == ("i", len(rows) + 1, 0)
        assert list(column.ends[1:]) == [
            sum(len(cell or b"") for cell in cells[: end + 1]) for end in range(len(cells))
        ]
        bits = int.from_bytes(column.validity, "little")
        assert bits == sum(1 << row for row, cell in enumerate(cells) if cell is not None)


@same_module
@given(
    rows=ROWS.filter(bool),
    flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3),
    cut=st.integers(0),
)
def test_any_bytes_are_validated_as_records_or_rejected(
    columns: Any, rows: list[Any], flips: list[Any], cut: int
) -> None:
    payload = bytearray(encoded(rows, 0))
    for position, byte in flips:
        payload[position % len(payload)] = byte
    del payload[len(payload) - cut % 3 :]
    found = columns.RecordColumns()
    try:
        expected = decode_records(payload, len(rows), 0, 1000)
    except InvalidRecordError:
        with pytest.raises(InvalidRecordError):
            found.add(bytes(payload), len(rows), 0, 1000)
        assert found.row_count == 0
    else:
        found.add(payload, len(rows), 0, 1000, None, -MAX_INT64)
        assert contents(found) == [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in expected]


@same_module
@given(rows=ROWS, least_offset=st.integers(0, 30), least_timestamp=st.integers(-1, 1 << 40))
def test_a_search_finds_the_first_record_that_is_young_enough(
    columns: Any, rows: list[Any], least_offset: int, least_timestamp: int
) -> None:
    payload = encoded(rows, 5)
    fitting = [
        (record.offset, record.timestamp)
        for record in decode_records(payload, len(rows), 5, 1000)
        if record.offset >= least_offset and record.timestamp >= least_timestamp
    ]
    found = columns.find_record(memoryview(payload), len(rows), 5, 1000, least_offset, least_timestamp)
    assert found == (fitting[0] if fitting else None)
    with pytest.raises(InvalidRecordError):
        columns.find_record(payload, len(rows) + 1, 5, 1000, least_offset, least_timestamp)


def test_lengths_count_by_their_lowest_32_bits(columns: Any) -> None:
    """As in the checks: a longer number must not lead to another place."""
    body = b"\0\0\0" + b"\x82\x80\x80\x80\x70" + b"k" + b"\x01\0"
    found = columns.RecordColumns()
    found.add(bytes([2 * len(body)]) + body, 1, 0, 0)
    assert contents(found) == [(0, 0, b"k", None, [])]


@pytest.mark.parametrize("base_offset", [-1, MAX_INT64])
def test_invalid_offsets_are_rejected(columns: Any, base_offset: int) -> None:
    found = columns.RecordColumns()
    with pytest.raises(InvalidRecordError, match="base offset"):
        found.add(b"", 0, base_offset, 0)


def test_a_column_ends_at_two_gibibytes() -> None:
    builder = in_form(columns_module, "plain").BinaryBuilder(1, 1)
    with pytest.raises(ValueError, match="too many"):
        builder._make_room(1 << 31)


@pytest.mark.parametrize(("data", "count"), [(b"", 1), (b"\x02", 1), (b"\x02a\x01", 0), (b"\x02a\x01", 2)])
def test_invalid_headers_are_rejected(data: bytes, count: int) -> None:
    with pytest.raises(InvalidRecordError):
        decode_headers(data, count)


def test_memory_comes_from_the_given_allocator(columns: Any) -> None:
    """Its previous contents do not matter."""
    given: list[int] = []

    def allocate(size: int) -> bytearray:
        given.append(size)
        return bytearray(b"\xff" * size)

    found = columns.RecordColumns(1, 10, allocate)
    rows = [Record(None, b"x" * 20, 5, [], offset) for offset in range(4)]
    found.add(encode_records(rows, 0, 0), 4, 0, 0)
    assert contents(found) == [(offset, 5, None, b"x" * 20, []) for offset in range(4)]
    assert given[:3] == [1024, 10, 1024]
    assert max(given) >= 80


@pytest.mark.parametrize("timestamp", [0, -1, 1_700_000_000_000, MAX_INT64 // 1000, -(MAX_INT64 // 1000)])
def test_timestamps_in_microseconds(columns: Any, timestamp: int) -> None:
    found = columns.RecordColumns()
    found.add(encode_records([Record(b"k", b"v", 0, [], 0)], 0, 0), 1, 0, 0, timestamp)
    assert list(found.timestamps_in_us()) == [1000 * timestamp]
    assert found.timestamps_in_us().format == "q"


@pytest.mark.parametrize(
    "timestamp", [MAX_INT64 // 1000 + 1, MAX_INT64, -(MAX_INT64 // 1000) - 1, -MAX_INT64]
)
def test_timestamps_beyond_the_range_of_microseconds(columns: Any, timestamp: int) -> None:
    found = columns.RecordColumns()
    found.add(encode_records([Record(b"k", b"v", 0, [], 0)], 0, 0), 1, 0, 0, timestamp)
    assert list(found.timestamps) == [timestamp]
    with pytest.raises(OverflowError, match=f"{timestamp} ms"):
        found.timestamps_in_us()


@same_module
@given(rows=ROWS, left_out=st.sets(st.sampled_from(["keys", "values", "headers"])))
def test_columns_not_requested_are_checked_and_omitted(
    columns: Any, rows: list[Any], left_out: set[str]
) -> None:
    payload = encoded(rows, 0)
    found = columns.RecordColumns(1, 1, **dict.fromkeys(left_out, False))
    complete = columns.RecordColumns()
    for one in (found, complete):
        one.add(payload, len(rows), 0, 1000)
    assert list(found.offsets) == list(complete.offsets)
    assert list(found.timestamps) == list(complete.timestamps)
    assert list(found.header_counts) == list(complete.header_counts)
    for name in ("keys", "values", "headers"):
        if name in left_out:
            with pytest.raises(ValueError, match="left out"):
                getattr(found, name)
        else:
            for row in range(len(rows)):
                assert getattr(found, name).row(row) == getattr(complete, name).row(row)
    with pytest.raises(InvalidRecordError):
        found.add(payload, len(rows) + 1, 0, 1000)
