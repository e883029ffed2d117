"""Who holds a piece of a buffer keeps it; nobody has to give one back."""

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


def test_a_buffer_that_nobody_holds_is_used_again(buffers: FrameBuffers) -> None:
    first = place(buffers)
    first[:] = b"x" * 100
    del first
    assert bytes(place(buffers)) == b"x" * 100


def test_a_buffer_is_kept_by_whoever_has_a_slice_of_it(buffers: FrameBuffers) -> None:
    first = place(buffers)
    first[:] = b"a" * 100
    records = first[10:20]
    del first
    for _ in range(20):
        place(buffers)[:] = b"b" * 100
    assert records == b"a" * 10


def test_there_are_only_so_many(buffers: FrameBuffers) -> None:
    held = [place(buffers) for _ in range(MOST_BUFFERS)]
    assert buffers.take(100) is None
    held.pop(3)
    place(buffers)


def test_what_does_not_fit_has_to_go_elsewhere(buffers: FrameBuffers) -> None:
    place(buffers, BUFFER_BYTES)
    assert buffers.take(BUFFER_BYTES + 1) is None


def test_a_buffer_stays_as_long_as_it_was(buffers: FrameBuffers) -> None:
    for _ in range(100):
        place(buffers, BUFFER_BYTES)
