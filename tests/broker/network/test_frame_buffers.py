"""A buffer is reused once no slice of it is referenced; it need not be given back."""

from __future__ import annotations

import pytest

from barnabas.broker.network.frame_buffers import BUFFER_BYTES, MOST_BUFFERS, FrameBuffers


@pytest.fixture
def buffers() -> FrameBuffers:
    return FrameBuffers()


def place(buffers: FrameBuffers, size: int = 100) -> memoryview:
    taken = buffers.take(size)
    assert taken is not None
    assert len(taken) == size
    return taken


def test_an_unreferenced_buffer_is_reused(buffers: FrameBuffers) -> None:
    first = place(buffers)
    first[:] = b"x" * 100
    del first
    assert bytes(place(buffers)) == b"x" * 100


def test_a_buffer_with_a_referenced_slice_is_kept(buffers: FrameBuffers) -> None:
    first = place(buffers)
    first[:] = b"a" * 100
    records = first[10:20]
    del first
    for _ in range(20):
        place(buffers)[:] = b"b" * 100
    assert records == b"a" * 10


def test_the_number_of_buffers_is_limited(buffers: FrameBuffers) -> None:
    held = [place(buffers) for _ in range(MOST_BUFFERS)]
    assert buffers.take(100) is None
    held.pop(3)
    place(buffers)


def test_a_frame_larger_than_a_buffer_is_not_accepted(buffers: FrameBuffers) -> None:
    place(buffers, BUFFER_BYTES)
    assert buffers.take(BUFFER_BYTES + 1) is None


def test_a_buffer_keeps_its_length(buffers: FrameBuffers) -> None:
    for _ in range(100):
        place(buffers, BUFFER_BYTES)
