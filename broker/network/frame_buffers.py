"""Reused buffers for large requests, so that memory is not zeroed and faulted in each time."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.framing import is_free

BUFFER_BYTES: Final = 1024 * 1024 + 64 * 1024
"""Room for what clients send at most by default: max.request.size of Java's, batch.size of librdkafka's."""

MOST_BUFFERS: Final = 8
"""How many there may be; while all are in use, large requests are put together in memory of their own."""


class FrameBuffers:
    """A few buffers for all connections together, which need no release.

    A buffer is free while no view of it exists, which Python tracks: a bytearray with views cannot be resized. So code
    that keeps records of a request keeps them unchanged, and the buffer out of use.
    """

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview | None:
        """A place for `size` bytes; None if they are too many, or no buffer is free."""
        if size > BUFFER_BYTES:
            return None
        for buffer in self._buffers:
            if is_free(buffer):
                return memoryview(buffer)[:size]
        if len(self._buffers) >= MOST_BUFFERS:
            return None
        self._buffers.append(bytearray(BUFFER_BYTES))
        return memoryview(self._buffers[-1])[:size]
