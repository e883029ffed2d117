"""Where records end: drawn streams, cut anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.network.tls_records import HEADER_BYTES, MOST_RECORD_BYTES, TOGETHER_BYTES, whole_records

SIZES = st.lists(st.integers(0, MOST_RECORD_BYTES - HEADER_BYTES) | st.integers(0, 50), max_size=30)


def stream(sizes: list[int]) -> bytes:
    return b"".join(b"\x17\3\3" + size.to_bytes(2, "big") + bytes(size) for size in sizes)


@given(SIZES, st.integers(0, 30 * MOST_RECORD_BYTES), st.integers(0, 20))
def test_all_whole_records_are_found_in_their_order(sizes: list[int], cut: int, start: int) -> None:
    whole = bytes(start) + stream(sizes)
    data = memoryview(whole)[: start + cut]
    found, position = 0, start
    while True:
        end, count = whole_records(data, position)
        if not count:
            break
        assert end - position == sum(HEADER_BYTES + size for size in sizes[found : found + count])
        assert end - position <= TOGETHER_BYTES or count == 1
        position, found = end, found + count
    assert end == position
    if found < len(sizes):
        assert position + HEADER_BYTES + sizes[found] > len(data)


@given(st.binary(max_size=200), st.integers(0, 10))
def test_any_bytes(data: bytes, start: int) -> None:
    end, count = whole_records(memoryview(data), min(start, len(data)))
    assert (end > min(start, len(data))) is (count > 0)
    assert end <= len(data)


def test_as_many_as_fit_are_taken_together() -> None:
    data = memoryview(stream([1019] * 40))
    assert whole_records(data, 0) == (16 * 1024, 16)
    assert whole_records(data, 16 * 1024) == (32 * 1024, 16)
    assert whole_records(data, 32 * 1024) == (40 * 1024, 8)
    assert whole_records(data, 40 * 1024) == (40 * 1024, 0)


def test_a_record_may_be_larger() -> None:
    data = memoryview(stream([10, MOST_RECORD_BYTES - HEADER_BYTES, 10]))
    assert whole_records(data, 0) == (15, 1)
    assert whole_records(data, 15) == (15 + MOST_RECORD_BYTES, 1)


def test_what_can_be_no_record_is_given_at_once() -> None:
    assert whole_records(memoryview(b"GET / HTTP/1.1"), 0) == (14, 1)
    assert whole_records(memoryview(stream([2]) + b"\x17\3\3\xff\xff"), 0) == (12, 2)
    assert whole_records(memoryview(bytes(4)), 0) == (0, 0)
