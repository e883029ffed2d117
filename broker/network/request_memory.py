"""The memory that requests take between the socket and their handler, for all connections together.

Requests are read into one buffer that all connections share, and most are handled out of it at once. Bytes
that have to be kept, of a large unfinished request or a request that waits for its turn, are charged to a
budget (queued.max.request.bytes). While the budget is used up, connections with unfinished large requests
stop being read and queue; small requests are not affected.

Like Kafka's SimpleMemoryPool, the budget may be exceeded by one request: one must always be able to
finish, or many half-read requests would wait for each other forever. Unlike it, only bytes that have
arrived are charged, so that a claim of 100 MiB costs the other clients nothing. The few buffers in which large
requests are put together (FrameBuffers) come on top: a constant.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.broker.network.frame_buffers import FrameBuffers

READ_BYTES = 128 * 1024
"""Most that is read from one connection at once."""

SCARCE_READ_BYTES = 16 * 1024
"""The same while the budget is used up."""

FREE_BYTES = 16 * 1024
"""The part of an unfinished request that is not charged, so that small requests never wait for large ones."""


class MemoryWaiter(Protocol):
    """A connection that stopped reading because the budget is used up."""

    def memory_available(self) -> None: ...


class RequestMemory:
    """The shared read buffer and the budget. `limit_bytes` is what all requests in flight may hold.

    One read buffer is enough for any number of connections: the event loop asks for it, fills it and hands
    it back in one step for each socket, and nothing refers to it after that.
    """

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.window = self.buffer  # the part of the buffer that the next read may fill
        self.frame_buffers = FrameBuffers()
        self._scarce = self.buffer[:SCARCE_READ_BYTES]
        self._waiters: dict[MemoryWaiter, None] = {}  # first come, first served
        self._exception: MemoryWaiter | None = None  # may read on although the budget is used up

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    @property
    def waiting(self) -> int:
        """Connections that are not read because of the budget."""
        return len(self._waiters)

    def charge(self, size: int) -> None:
        self.used_bytes += size
        if self.used_bytes >= self.limit_bytes:
            self.window = self._scarce

    def release(self, size: int) -> None:
        self.used_bytes -= size
        assert self.used_bytes >= 0
        if self.used_bytes < self.limit_bytes:
            self.window = self.buffer
            if self._waiters:
                self.wake()

    def may_read(self, waiter: MemoryWaiter) -> bool:
        """Whether a connection with an unfinished large request may be read on.

        If not, its memory_available() is called when its turn has come.
        """
        if not self.exhausted:
            return True
        if self._exception is None:
            self._exception = waiter
        if self._exception is waiter:
            return True
        self._waiters[waiter] = None
        return False

    def leave(self, waiter: MemoryWaiter) -> None:
        """The connection's large request is complete, or the connection is gone."""
        self._waiters.pop(waiter, None)
        if self._exception is waiter:
            self._exception = None
            self.wake()

    def wake(self) -> None:
        """Wakes as many waiters as there is room for, one full read each.

        Called when memory is released, and by the sweep, since a woken connection may not use its room.
        """
        room = self.limit_bytes - self.used_bytes
        while self._waiters and room > 0:
            self._pop().memory_available()
            room -= READ_BYTES
        if self._waiters and room <= 0 and self._exception is None and self.exhausted:
            self._exception = self._pop()
            self._exception.memory_available()

    def _pop(self) -> MemoryWaiter:
        waiter = next(iter(self._waiters))
        del self._waiters[waiter]
        return waiter
