"""The loop over records: what it reads and what it rejects, the same interpreted and compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol.records import record
from barnabas.protocol.records.errors import InvalidRecordError

# The fixture is a module and keeps nothing from one example to the next.
same_module = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)

INT64 = 1 << 63
KEYS = st.none() | st.binary(max_size=70)
VALUES = st.none() | st.binary(max_size=300)
NAMES = st.text(max_size=8) | st.just("n" * 70)
HEADERS = st.lists(st.tuples(NAMES, KEYS), max_size=4) | st.just([("h", None)] * 65)
TIMESTAMPS = st.integers(0, 300) | st.integers(-INT64 // 2, INT64 // 2 - 1)
ROWS = st.lists(st.tuples(KEYS, VALUES, TIMESTAMPS, HEADERS), min_size=1, max_size=6)

# The worked example of the module's docstring.
EXAMPLE = bytes.fromhex("0e 00 0a 00 02 6b 01 00")


def contents(decoded: list[Any]) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers), r.sequence) for r in decoded]


def test_the_worked_example(records: Any) -> None:
    assert records.encode_records([records.Record(b"k", None, 105, [], 7)], 7, 100) == EXAMPLE
    assert contents(records.decode_records(EXAMPLE, 1, 7, 100)) == [(7, 105, b"k", None, [], -1)]
    summary = records.validate_records(EXAMPLE, 1, 100)
    assert (summary.record_count, summary.min_timestamp, summary.max_timestamp) == (1, 105, 105)
    assert (summary.max_timestamp_index, summary.null_key_index, summary.offset_gap_index) == (0, -1, -1)


@same_module
@given(
    rows=ROWS, gaps=st.lists(st.integers(1, 1 << 20), min_size=6, max_size=6), base=st.integers(0, INT64 // 2)
)
def test_round_trip(records: Any, rows: list[Any], gaps: list[int], base: int) -> None:
    built = []
    offset = base
    for row, gap in zip(rows, gaps, strict=False):
        built.append(records.Record(*row, offset))
        offset += gap
    payload = records.encode_records(built, base, rows[0][2])
    decoded = records.decode_records(memoryview(payload), len(rows), base, rows[0][2])
    assert contents(decoded) == contents(built)
    assert decoded == built

    summary = records.validate_records(memoryview(payload), len(rows), rows[0][2])
    timestamps = [row[2] for row in rows]
    keys = [row[0] for row in rows]
    assert (summary.min_timestamp, summary.max_timestamp) == (min(timestamps), max(timestamps))
    assert summary.max_timestamp_index == timestamps.index(max(timestamps))
    assert summary.null_key_index == (keys.index(None) if None in keys else -1)
    gaps_at = [index for index, row in enumerate(built) if row.offset != base + index]
    assert summary.offset_gap_index == (gaps_at[0] if gaps_at else -1)


@same_module
@given(
    rows=ROWS, flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4), cut=st.integers(0)
)
def test_any_bytes_are_read_or_rejected_by_both_loops(
    records: Any, rows: list[Any], flips: Any, cut: int
) -> None:
    """Validation and decoding agree on any bytes, and raise nothing but InvalidRecordError."""
    built = [records.Record(*row, offset) for offset, row in enumerate(rows)]
    payload = bytearray(records.encode_records(built, 0, rows[0][2]))
    for position, byte in flips:
        payload[position % len(payload)] = byte
    del payload[len(payload) - cut % 3 :]
    agree(records, bytes(payload), len(rows))


@same_module
@given(payload=st.binary(max_size=60), count=st.integers(-2, 5))
def test_random_bytes_are_read_or_rejected(records: Any, payload: bytes, count: int) -> None:
    agree(records, payload, count)


def agree(records: Any, payload: bytes, count: int) -> bool:
    """Both loops read the payload, or both reject it."""
    try:
        summary = records.validate_records(payload, count, 0)
    except InvalidRecordError:
        with pytest.raises(InvalidRecordError):
            records.decode_records(payload, count, 0, 0)
        return False
    decoded = records.decode_records(payload, count, 0, 0)
    timestamps = [r.timestamp for r in decoded] or [-1]
    assert summary.record_count == len(decoded)
    assert (summary.min_timestamp, summary.max_timestamp) == (min(timestamps), max(timestamps))
    return True


def test_records_cut_at_every_byte(records: Any) -> None:
    sizes = (0, 100, 9000)
    headers = [("h", b"x"), ("n", None)]
    built = [records.Record(b"k" * 70, bytes(size), 5 + size, headers, i) for i, size in enumerate(sizes)]
    payload = records.encode_records(built, 0, 5)
    assert agree(records, payload, 3)
    assert not any(agree(records, payload[:end], 3) for end in range(len(payload)))
    assert not agree(records, payload + b"\0", 3)


def record_of(*fields: bytes) -> bytes:
    body = b"".join(fields)
    assert len(body) < 64
    return bytes([2 * len(body)]) + body


START = b"\0\0\0"  # attributes, timestamp delta, offset delta


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "past the end"),
        (b"\x01", "claims -1 of 0 bytes"),
        (b"\x40\0\0", "claims 32 of 2 bytes"),
        (record_of(START, b"\x06ab", b"\x01\0"), "past the end|does not end"),
        (record_of(START, b"\x01\x01\0", b"more"), "does not end where its size says"),
        (record_of(START, b"\x01\x01", b"\x01"), "header count of -1"),
        (record_of(START, b"\x01\x01", b"\x7e"), "header count of 63"),
        (record_of(START, b"\x01\x01", b"\x02\x01\x01"), "a header has no key"),
        (record_of(START, b"\x01\x01\0") + b"?", "1 bytes are left after 1 records"),
        (b"\xff\xff\xff\xff\xff\x01", "more than 32 bits"),
        (record_of(b"\0" + b"\xff" * 10 + b"\x01", b"\0\x01\x01\0"), "more than 64 bits"),
    ],
)
def test_invalid_records_are_rejected(records: Any, payload: bytes, message: str) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        records.validate_records(payload, 1, 0)
    with pytest.raises(InvalidRecordError):
        records.decode_records(payload, 1, 0, 0)


def test_invalid_record_counts_are_rejected(records: Any) -> None:
    for count in (-1, 2, 2**31 - 1):
        assert not agree(records, EXAMPLE, count)


def test_a_payload_without_records(records: Any) -> None:
    summary = records.validate_records(b"", 0, 17)
    assert (summary.min_timestamp, summary.max_timestamp, summary.max_timestamp_index) == (-1, -1, -1)
    assert records.decode_records(b"", 0, 0, 0) == []


def test_timestamps_stay_within_64_bits(records: Any) -> None:
    assert records.validate_records(EXAMPLE, 1, INT64 - 6).max_timestamp == INT64 - 1
    with pytest.raises(InvalidRecordError, match="out of range"):
        records.validate_records(EXAMPLE, 1, INT64 - 5)
    with pytest.raises(InvalidRecordError, match="out of range"):
        records.decode_records(EXAMPLE, 1, 0, INT64 - 5)
    assert records.decode_records(EXAMPLE, 1, 0, INT64 - 5, log_append_time=9)[0].timestamp == 9


def test_numbers_longer_than_their_type_are_truncated(records: Any) -> None:
    """As Kafka's ByteUtils does: five bytes hold 35 bits, of which 32 count."""
    payload = record_of(START, b"\x82\x80\x80\x80\x70k", b"\x01\0")
    assert records.decode_records(payload, 1, 0, 0)[0].key == b"k"
    assert agree(records, payload, 1)


def test_negative_lengths_other_than_minus_one_are_null_too(records: Any) -> None:
    payload = record_of(START, b"\x03\x05\0")
    assert contents(records.decode_records(payload, 1, 0, 0)) == [(0, 0, None, None, [], -1)]
    assert agree(records, payload, 1)


def test_header_keys_that_are_not_utf8_are_read(records: Any) -> None:
    payload = record_of(START, b"\x01\x01\x02", b"\x02\xff\x01")
    assert records.decode_records(payload, 1, 0, 0)[0].headers == [("\ufffd", None)]


def test_sequences_wrap(records: Any) -> None:
    built = [records.Record(None, None, 0, [], offset) for offset in range(3)]
    decoded = records.decode_records(records.encode_records(built, 0, 0), 3, 0, 0, base_sequence=2**31 - 2)
    assert [r.sequence for r in decoded] == [2**31 - 2, 2**31 - 1, 0]


def test_log_append_time_is_every_record_s_time(records: Any) -> None:
    built = [records.Record(None, None, stamp, [], offset) for offset, stamp in enumerate((5, 6))]
    decoded = records.decode_records(records.encode_records(built, 0, 5), 2, 0, 5, log_append_time=99)
    assert [r.timestamp for r in decoded] == [99, 99]


@pytest.mark.parametrize(("offset", "timestamp"), [(9, 0), (10 + (1 << 31), 0), (10, -INT64), (10, INT64)])
def test_offsets_and_timestamps_too_far_from_the_base(records: Any, offset: int, timestamp: int) -> None:
    with pytest.raises(ValueError, match="cannot be in a batch"):
        records.encode_records(
            [records.Record(None, None, timestamp, [], offset)], 10, timestamp and -timestamp
        )


def test_records_compare_by_their_fields(records: Any) -> None:
    one = records.Record(b"k", b"v", 5, (("h", None),), 3, sequence=2)
    assert one == records.Record(b"k", b"v", 5, [("h", None)], 3, sequence=2)
    for field, other in (("key", None), ("value", b""), ("timestamp", 6), ("headers", []), ("offset", 4)):
        changed = records.Record(b"k", b"v", 5, [("h", None)], 3, sequence=2)
        setattr(changed, field, other)
        assert one != changed
    assert one != "a record"
    assert repr(one) == (
        "Record(offset=3, timestamp=5, key=b'k', value=b'v', headers=[('h', None)], sequence=2)"
    )
    with pytest.raises(TypeError):
        hash(one)


def test_the_compiled_module_is_as_new_as_its_source() -> None:
    """A stale compiled module would shadow the changed source file."""
    if not record.COMPILED:
        pytest.skip("record.py is not compiled here")
    built = Path(record.__file__)
    for name in ("record.py", "record.pxd"):
        source = built.parent / name
        if source.exists():
            newer_s = source.stat().st_mtime - built.stat().st_mtime
            assert newer_s < 3, f"{name} has changed: run make test"  # archives keep times to 2 s
