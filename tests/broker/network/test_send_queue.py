"""What is sent next: everything in order, a piece at a time, records read no sooner than needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.send_queue import PIECE_BYTES, RecordsGoneError, SendQueue
from protocol.wire import Chunk
from tests.broker.scripted import FakeRecords, SliceableRecords


def drained(queue: SendQueue) -> list[bytes]:
    pieces: list[bytes] = []
    while queue:
        pieces.append(b"".join(queue.take()))
    return pieces


def test_small_chunks_go_together() -> None:
    queue = SendQueue()
    queue.put([b"a", memoryview(b"b"), FakeRecords(3, b"c")])
    assert drained(queue) == [b"abccc"]


def test_an_empty_queue_has_nothing_to_send() -> None:
    queue = SendQueue()
    assert not queue
    assert queue.take() == []


def test_records_that_cannot_be_divided_are_sent_whole() -> None:
    queue = SendQueue()
    queue.put([FakeRecords(3 * PIECE_BYTES, b"c"), b"d"])
    assert [len(piece) for piece in drained(queue)] == [3 * PIECE_BYTES, 1]


def test_what_is_cleared_is_not_sent() -> None:
    queue = SendQueue()
    queue.put([b"a"])
    queue.clear()
    assert not queue


def test_records_that_are_shorter_than_promised_are_an_error() -> None:
    records = FakeRecords(10)
    records.truncated_by = 1
    queue = SendQueue()
    queue.put([records])
    with pytest.raises(RecordsGoneError, match="gave 9 bytes"):
        queue.take()


chunks = st.one_of(
    st.integers(0, PIECE_BYTES * 3).map(SliceableRecords),
    st.integers(0, PIECE_BYTES).map(bytes),
)


@given(st.lists(chunks, max_size=8))
def test_every_byte_is_sent_once_in_pieces_of_bounded_size(items: list[Chunk]) -> None:
    expected = b"".join(item if isinstance(item, bytes) else item.read() for item in items)  # type: ignore[union-attr]
    queue = SendQueue()
    queue.put(items)
    pieces = drained(queue)
    assert b"".join(pieces) == expected
    assert all(len(piece) <= 2 * PIECE_BYTES for piece in pieces)
