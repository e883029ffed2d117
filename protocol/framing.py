"""Where one request ends and the next begins: four bytes of length, big-endian and signed, before each.

The same on the way back. Nothing here knows of sockets: bytes go in as they arrive, whole frames come out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from protocol.errors import ProtocolError

SIZE_BYTES = 4
"""Length of the prefix; the length that it states does not count itself."""

_SIZE = struct.Struct(">i")

size_prefix: Callable[[int], bytes] = _SIZE.pack
"""The four bytes that go before a response of that many bytes."""


class Framer:
    """Cuts one connection's byte stream into requests (`NetworkReceive` in Kafka).

    Between two calls it keeps only the bytes of the one frame that has begun and not ended: nothing while the
    connection is idle, and never more than what has arrived, whatever length the peer claims.
    """

    __slots__ = ("_max_request_bytes", "_partial", "_partial_end")

    def __init__(self, max_request_bytes: int) -> None:
        self._max_request_bytes = max_request_bytes
        self._partial = bytearray()
        self._partial_end = 0  # length of the partial frame when whole, prefix included; 0: not known yet

    @property
    def buffered(self) -> int:
        """Bytes held of a frame that is not whole yet."""
        return len(self._partial)

    def feed(self, data: memoryview, frames: list[bytes]) -> None:
        """Takes what has arrived and appends to `frames` each frame that is whole now, without its prefix.

        `data` may be overwritten after the call. Raises ProtocolError for a length that is negative or above
        the limit; the frames before it have been appended by then, and the stream cannot be used any more.
        """
        end = len(data)
        position = self._resume(data, frames) if self._partial else 0
        while end - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            frame_end = start + self._frame_size(data, position)
            if frame_end > end:
                break
            frames.append(bytes(data[start:frame_end]))
            position = frame_end
        if position < end:
            self._partial += data[position:]

    def _frame_size(self, data: memoryview | bytearray, position: int) -> int:
        size: int = _SIZE.unpack_from(data, position)[0]
        if 0 <= size <= self._max_request_bytes:
            return size
        wrong = "negative" if size < 0 else f"above the limit of {self._max_request_bytes} bytes"
        raise ProtocolError(f"a request claims a length of {size} bytes, which is {wrong}")

    def _resume(self, data: memoryview, frames: list[bytes]) -> int:
        """Gives the partial frame what belongs to it, cuts it once it is whole; returns the bytes taken."""
        partial = self._partial
        taken = 0
        if not self._partial_end:
            taken = max(SIZE_BYTES - len(partial), 0)
            partial += data[:taken]
            if len(partial) < SIZE_BYTES:
                return len(data)
            self._partial_end = SIZE_BYTES + self._frame_size(partial, 0)
        body_end = taken + self._partial_end - len(partial)
        if body_end > len(data):
            partial += data[taken:]
            return len(data)
        partial += data[taken:body_end]
        frames.append(bytes(memoryview(partial)[SIZE_BYTES:]))
        self._partial = bytearray()
        self._partial_end = 0
        return body_end
