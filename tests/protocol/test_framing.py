"""Framing: the same frames for any split of the stream; memory is allocated only for bytes that have arrived."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import LARGE_FRAME_BYTES, Frame, Framer, is_free, is_of_tls_client, size_prefix

LIMIT = 1000


def on_the_wire(*frames: bytes) -> bytes:
    return b"".join(size_prefix(len(frame)) + frame for frame in frames)


def feed_into(frames: list[Frame], framer: Framer, *pieces: bytes) -> None:
    for piece in pieces:
        framer.feed(memoryview(piece), frames)


def feed(framer: Framer, *pieces: bytes) -> list[Frame]:
    frames: list[Frame] = []
    feed_into(frames, framer, *pieces)
    return frames


def test_the_prefix_is_big_endian_and_does_not_count_itself() -> None:
    assert size_prefix(258) == b"\x00\x00\x01\x02"


def test_many_frames_in_one_read_are_all_cut() -> None:
    framer = Framer(LIMIT)
    assert feed(framer, on_the_wire(b"one", b"", b"three")) == [b"one", b"", b"three"]
    assert framer.buffered == 0


def test_the_tail_of_a_read_waits_for_the_next() -> None:
    framer = Framer(LIMIT)
    stream = on_the_wire(b"one", b"two")
    assert feed(framer, stream[:9]) == [b"one"]
    assert framer.buffered == 2
    assert feed(framer, stream[9:]) == [b"two"]
    assert framer.buffered == 0


def test_frames_do_not_refer_to_the_buffer_that_they_came_in() -> None:
    buffer = bytearray(on_the_wire(b"one"))
    frames: list[Frame] = []
    Framer(LIMIT).feed(memoryview(buffer), frames)
    buffer[:] = bytes(len(buffer))
    assert frames == [b"one"]


@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(0, 500), max_size=20))
def test_any_split_of_a_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = on_the_wire(*frames)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    framer = Framer(LIMIT)
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert feed(framer, *pieces) == frames
    assert framer.buffered == 0


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_byte_by_byte_gives_the_same_frames(frames: list[bytes]) -> None:
    stream = on_the_wire(*frames)
    assert feed(Framer(LIMIT), *(stream[i : i + 1] for i in range(len(stream)))) == frames


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_either_give_frames_or_raise_protocol_error(data: bytes, cut: int) -> None:
    def cut_frames(*pieces: bytes) -> tuple[list[Frame], bool]:
        frames: list[Frame] = []
        try:
            feed_into(frames, Framer(50), *pieces)
        except ProtocolError:
            return frames, True
        return frames, False

    assert cut_frames(data) == cut_frames(data[:cut], data[cut:])


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [0, 1, 4, 7, 8, 10, 11])
def test_an_impossible_length_ends_the_stream_after_the_frames_before_it(size: int, cut: int) -> None:
    stream = on_the_wire(b"one") + struct.pack(">i", size) + b"never read"
    framer = Framer(LIMIT)
    frames: list[Frame] = []
    with pytest.raises(ProtocolError, match=str(size)):
        feed_into(frames, framer, stream[:cut], stream[cut:])
    assert frames == [b"one"]


def test_the_error_names_the_limit() -> None:
    with pytest.raises(ProtocolError, match="limit of 1000 bytes"):
        feed(Framer(LIMIT), struct.pack(">i", LIMIT + 1))


def test_a_frame_of_exactly_the_limit_is_accepted() -> None:
    assert feed(Framer(LIMIT), on_the_wire(bytes(LIMIT))) == [bytes(LIMIT)]


def test_a_claimed_length_allocates_nothing() -> None:
    framer = Framer(100 * 1024 * 1024)
    tracemalloc.start()
    try:
        feed(framer, size_prefix(100 * 1024 * 1024) + b"just this")
        assert tracemalloc.get_traced_memory()[1] < 16_384
    finally:
        tracemalloc.stop()
    assert framer.buffered == 13


def test_a_large_frame_allocates_memory_as_it_arrives_and_releases_it() -> None:
    size = 8 * 1024 * 1024
    framer = Framer(size)
    piece = memoryview(bytes(65_536))
    frames: list[Frame] = []
    tracemalloc.start()
    try:
        framer.feed(memoryview(size_prefix(size)), frames)
        for count in range(1, size // len(piece) + 1):
            framer.feed(piece, frames)
            arrived = count * len(piece)
            assert tracemalloc.get_traced_memory()[0] < arrived * 1.2 + 65_536
        assert [len(frame) for frame in frames] == [size]
        frames.clear()
        assert framer.buffered == 0
        assert tracemalloc.get_traced_memory()[0] < 65_536
    finally:
        tracemalloc.stop()


@given(st.integers(1, 3000))
def test_one_frame_over_many_reads(step: int) -> None:
    body = bytes(range(256)) * 40
    stream = on_the_wire(body, b"next")
    pieces = [stream[i : i + step] for i in range(0, len(stream), step)]
    assert feed(Framer(len(body)), *pieces) == [body, b"next"]


# ---- large frames, with memory of their own


class Places:
    """Memory for large frames, which the test can inspect."""

    def __init__(self, most: int = 100) -> None:
        self.given: list[memoryview] = []
        self.most = most

    def __call__(self, size: int) -> memoryview | None:
        if len(self.given) == self.most:
            return None
        self.given.append(memoryview(bytearray(size)))
        return self.given[-1]


def read_on(framer: Framer, stream: bytes, step: int) -> list[Frame]:
    """Reads as a connection does: into the rest of a large frame, and into a buffer of its own otherwise."""
    frames: list[Frame] = []
    buffer = memoryview(bytearray(step))
    position = 0
    while position < len(stream):
        target = buffer if framer.rest is None else framer.rest[:step]
        size = min(len(target), len(stream) - position)
        target[:size] = stream[position : position + size]
        position += size
        if framer.rest is None:
            framer.feed(buffer[:size], frames)
        else:
            framer.filled(size, frames)
        buffer[:] = b"\xff" * step
    return frames


SIZES = st.one_of(st.integers(0, 50), st.integers(LARGE_FRAME_BYTES - 2, 3 * LARGE_FRAME_BYTES))


@given(
    st.lists(SIZES, max_size=6),
    st.one_of(st.integers(1000, 5000), st.integers(LARGE_FRAME_BYTES, 4 * LARGE_FRAME_BYTES)),
    st.integers(0, 3),
)
def test_large_frames_are_the_same_in_their_own_memory(sizes: list[int], step: int, places: int) -> None:
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    framer = Framer(1 << 20, Places(places))
    assert read_on(framer, on_the_wire(*bodies), step) == bodies
    assert (framer.buffered, framer.started, framer.rest) == (0, False, None)


def test_the_rest_of_a_large_frame_is_read_into_its_memory() -> None:
    places = Places()
    framer = Framer(1 << 20, places)
    frames: list[Frame] = []
    framer.feed(memoryview(size_prefix(LARGE_FRAME_BYTES) + b"begin"), frames)
    assert framer.rest is not None
    assert framer.buffered == 9
    framer.rest[:3] = b"end"
    framer.filled(3, frames)
    assert framer.buffered == 12
    assert bytes(places.given[0][:9]) == b"beginend\0"
    framer.filled(LARGE_FRAME_BYTES - 8, frames)
    assert frames == [places.given[0]]


def test_a_lost_connection_releases_its_memory() -> None:
    framer = Framer(1 << 20, Places())
    framer.feed(memoryview(size_prefix(LARGE_FRAME_BYTES) + b"begin"), [])
    framer.forget()
    assert (framer.buffered, framer.started, framer.rest) == (0, False, None)


# -- memory that is a place again --


def test_memory_is_free_without_views_and_keeps_its_length() -> None:
    memory = bytearray(b"abc")
    assert is_free(memory)
    view = memoryview(memory)[1:2]
    assert not is_free(memory)
    del view
    assert is_free(memory)
    assert len(memory) == 3


def test_a_tls_client_at_a_listener_in_plain_text_is_named() -> None:
    hello = bytes.fromhex("160301020001")
    assert is_of_tls_client(int.from_bytes(hello[:4], "big"))
    assert not is_of_tls_client(0x16020000)
    with pytest.raises(ProtocolError, match="a TLS client is at a listener in plain text"):
        Framer(1 << 20).feed(memoryview(hello), [])
