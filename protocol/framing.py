"""Splits a stream of requests or responses into frames: each has its length before it, four bytes, big-endian, signed.

This module knows no sockets: bytes go in as they arrive, complete frames come out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from barnabas.protocol.errors import ProtocolError

SIZE_BYTES = 4
"""Length of the prefix, which does not count itself."""

LARGE_FRAME_BYTES = 16 * 1024
"""Longer frames that arrive in parts are assembled in memory of their own, and passed on without a copy."""

_SIZE = struct.Struct(">i")

_TLS_CLIENT = 0x160301
"""The first three bytes that a client sends which speaks TLS; as a length that is 369 MB or more."""


def is_of_tls_client(size: int) -> bool:
    """Whether a length that is claimed is the beginning of a TLS handshake."""
    return size >> 8 == _TLS_CLIENT


size_prefix: Callable[[int], bytes] = _SIZE.pack
"""The four bytes that go before a response of that many bytes."""

Frame = bytes | memoryview
"""One request; the memory of a view does not change while the view exists."""

FramePlace = Callable[[int], memoryview | None]
"""Returns memory for a frame of this size, or None."""


def no_place(size: int) -> None:
    """The FramePlace that always returns None."""


def is_free(memory: bytearray) -> bool:
    """Whether no view of memory that is not empty exists, so that it may be a place again.

    Python tracks that: a bytearray with views cannot be resized.
    """
    try:
        memory.pop()
    except BufferError:
        return False
    memory.append(0)
    return True


class Framer:
    """Cuts one connection's byte stream into requests (`NetworkReceive` in Kafka).

    Between two calls it keeps only the bytes of one incomplete frame: nothing while the connection is idle, and never
    more than the bytes that have arrived, whatever length the peer claims. The exception is the memory that `place`
    returns for a large frame, and bounds. The caller then reads the stream into `rest`, so that only the bytes that
    arrived before the length was known are copied.
    """

    __slots__ = ("_body", "_max_request_bytes", "_place", "_prefix", "_size", "rest", "started")

    def __init__(self, max_request_bytes: int, place: FramePlace = no_place) -> None:
        self._max_request_bytes = max_request_bytes
        self._place = place
        self._prefix = b""  # the bytes of an incomplete length
        self.started = False
        """Whether a frame is incomplete and its length known."""
        self._size = 0  # that length
        self._body: bytearray | memoryview = bytearray()  # its bytes so far, or the memory of `place`
        self.rest: memoryview | None = None
        """The memory for the missing bytes of a large frame: the caller fills it from its start and calls `filled`."""

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame."""
        if not self.started:
            return len(self._prefix)
        return SIZE_BYTES + len(self._body) - (len(self.rest) if self.rest is not None else 0)

    def feed(self, data: memoryview, frames: list[Frame]) -> None:
        """Appends to `frames` each frame that `data` completes, without its prefix.

        `data` may be overwritten after the call. Raises ProtocolError for a length that is negative or above
        the limit; the frames before it have been appended by then, and the stream is unusable.
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
                if is_of_tls_client(size):
                    raise ProtocolError("a TLS client is at a listener in plain text")
                wrong = "negative" if size < 0 else f"above the limit of {self._max_request_bytes} bytes"
                raise ProtocolError(f"a request claims a length of {size} bytes, which is {wrong}")
            position = start + size
            if position > end:
                self._begin(size, data[start:])
                return
            if stream is data and position < end < LARGE_FRAME_BYTES:
                stream = bytes(data)  # slices of bytes are faster than those of a view
            frames.append(bytes(stream[start:position]))
        if position < end:
            self._prefix = bytes(data[position:])

    def filled(self, size: int, frames: list[Frame]) -> None:
        """Reports that `size` bytes were read into `rest`; appends the frame if it is complete."""
        assert self.rest is not None
        if size < len(self.rest):
            self.rest = self.rest[size:]
        else:
            self._end(frames)

    def forget(self) -> None:
        """Releases the incomplete frame of a closed connection."""
        self.started = False
        self._prefix = b""
        self._body = bytearray()
        self.rest = None

    def _begin(self, size: int, arrived: memoryview) -> None:
        """Stores the first bytes of an incomplete frame."""
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
        """Appends to the incomplete frame; returns the number of bytes used."""
        assert isinstance(self._body, bytearray), "a frame in memory of its own is read into `rest`"
        taken = min(self._size - len(self._body), len(data))
        self._body += data[:taken]
        if len(self._body) == self._size:
            self._end(frames)
        return taken

    def _end(self, frames: list[Frame]) -> None:
        """Appends the completed frame. A large one is not copied, since its memory is not written to again."""
        large = self._size >= LARGE_FRAME_BYTES
        frames.append(memoryview(self._body) if large else bytes(self._body))
        self.started = False
        self._body = bytearray()
        self.rest = None
