"""What a client of the HTTP port sends, within bounds: until a deadline, and so many bytes.

The standard library's server would wait as often as a client sends a byte, and keep a hundred headers of 64 KiB: eight
such clients would hold all threads of the port, and 50 MB, without a login.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_REQUEST_BYTES: Final = 128 * 1024
"""Of a request's head and its body."""


class Arriving(io.RawIOBase):
    """The stream of one request. Reading raises TimeoutError after `timeout_s` in all, OSError after too many bytes."""

    def __init__(
        self,
        connection: socket.socket,
        timeout_s: float,
        max_bytes: int = MAX_REQUEST_BYTES,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """The connection's own timeout stays `timeout_s`, for what is sent."""
        self._connection = connection
        self._timeout_s = timeout_s
        self._left = max_bytes
        self._now = now
        self._deadline_s = now() + timeout_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Reads what has come, at least a byte; 0 at the end."""
        remaining_s = self._deadline_s - self._now()
        if remaining_s <= 0:
            raise TimeoutError("the request took too long")
        if self._left <= 0:
            raise OSError("the request is too large")
        window = memoryview(buffer).cast("B")[: self._left]
        self._connection.settimeout(remaining_s)
        try:
            count = self._connection.recv_into(window)
        finally:
            self._connection.settimeout(self._timeout_s)
        self._left -= count
        return count
