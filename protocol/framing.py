"""Where one request ends and the next begins: four bytes of length, big-endian and signed, before each.

The same on the way back. Nothing here knows of sockets: bytes go in as they arrive, whole frames come out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from barnabas.protocol.errors import ProtocolError

SIZE_BYTES = 4
"""Length of the prefix; the length that it states does not count itself."""

LARGE_FRAME_BYTES = 16 * 1024
"""From this length on a frame that comes in parts is put together in a place of its own, and handed over there."""

_SIZE = struct.Struct(">i")

size_prefix: Callable[[int], bytes] = _SIZE.pack
"""The four bytes that go before a response of that many bytes."""

Frame = bytes | memoryview
"""One request; as a view, it is of memory in which nothing changes while anybody holds it."""

FramePlace = Callable[[int], memoryview | None]
"""Gives memory for a frame of so many bytes, if there is any to spare."""


def no_place(size: int) -> None:
    """A FramePlace that has nothing to give."""


class Framer:
    """Cuts one connection's byte stream into requests (`NetworkReceive` in Kafka).

    Between two calls it keeps only the bytes of the one frame that has begun and not ended: nothing while the
    connection is idle, and never more than what has arrived, whatever length the peer claims. The exception is
    the memory that `place` gives for a large frame; whoever gives it bounds it. There the stream is to be read
    on, into `rest`: so the bytes of a large frame are copied once at most, those that came before its length
    was known.
    """

    __slots__ = ("_body", "_max_request_bytes", "_place", "_prefix", "_size", "rest", "started")

    def __init__(self, max_request_bytes: int, place: FramePlace = no_place) -> None:
        self._max_request_bytes = max_request_bytes
        self._place = place
        self._prefix = b""  # of a length that has not arrived as a whole
        self.started = False
        """A frame has begun, its length is known, and not all of it has come."""
        self._size = 0  # that length
        self._body: bytearray | memoryview = bytearray()  # what has come of it, or its own place
        self.rest: memoryview | None = None
        """What is still to come of a large frame: where it goes. To be filled from the beginning, then `filled`."""

    @property
    def buffered(self) -> int:
        """Bytes held of a frame that is not whole yet."""
        if not self.started:
            return len(self._prefix)
        return SIZE_BYTES + len(self._body) - (len(self.rest) if self.rest is not None else 0)

    def feed(self, data: memoryview, frames: list[Frame]) -> None:
        """Takes what has arrived and appends to `frames` each frame that is whole now, without its prefix.

        `data` may be overwritten after the call. Raises ProtocolError for a length that is negative or above
        the limit; the frames before it have been appended by then, and the stream cannot be used any more.
        """
        position = 0
        if self.started:
            position = self._resume(data, frames)
        elif self._prefix:
            data = memoryview(self._prefix + data)
            self._prefix = b""
        end = len(data)
        stream: memoryview | bytes = data
        while end - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            size: int = _SIZE.unpack_from(stream, position)[0]
            if not 0 <= size <= self._max_request_bytes:
                wrong = "negative" if size < 0 else f"above the limit of {self._max_request_bytes} bytes"
                raise ProtocolError(f"a request claims a length of {size} bytes, which is {wrong}")
            position = start + size
            if position > end:
                self._begin(size, data[start:])
                return
            if stream is data and position < end < LARGE_FRAME_BYTES:
                stream = bytes(data)  # several small ones are cut out of bytes faster than out of a view
            frames.append(bytes(stream[start:position]))
        if position < end:
            self._prefix = bytes(data[position:])

    def filled(self, size: int, frames: list[Frame]) -> None:
        """So many bytes have been put into `rest`; appends the frame if that was all of it."""
        assert self.rest is not None
        if size < len(self.rest):
            self.rest = self.rest[size:]
        else:
            self._end(frames)

    def forget(self) -> None:
        """The connection is gone: lets go of the frame that has begun."""
        self.started = False
        self._prefix = b""
        self._body = bytearray()
        self.rest = None

    def _begin(self, size: int, arrived: memoryview) -> None:
        """The first bytes of a frame that is not whole."""
        self.started = True
        self._size = size
        place = self._place(size) if size >= LARGE_FRAME_BYTES else None
        if place is None:
            self._body = bytearray(arrived)
        else:
            place[: len(arrived)] = arrived
            self._body = place
            self.rest = place[len(arrived) :]

    def _resume(self, data: memoryview, frames: list[Frame]) -> int:
        """Gives the unfinished frame what belongs to it; returns the bytes taken."""
        assert isinstance(self._body, bytearray), "what has a place of its own is read on there"
        taken = min(self._size - len(self._body), len(data))
        self._body += data[:taken]
        if len(self._body) == self._size:
            self._end(frames)
        return taken

    def _end(self, frames: list[Frame]) -> None:
        """The unfinished frame is whole. A large one is not copied: nobody writes to where it has been put together."""
        large = self._size >= LARGE_FRAME_BYTES
        frames.append(memoryview(self._body) if large else bytes(self._body))
        self.started = False
        self._body = bytearray()
        self.rest = None
