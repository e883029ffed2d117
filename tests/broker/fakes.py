"""Stand-ins for the ports of the broker: a clock that the test turns, a transport whose peer is the test."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import Any

from broker.request import Pending


class ManualHandle:
    """What ManualTimer gives for a call to come."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualTimer:
    """A Timer, and the `call_soon` of a loop, that stand still until the test moves them."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._order = 0
        self._calls: list[tuple[float, int, ManualHandle]] = []
        self._soon: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualHandle:
        handle = ManualHandle(callback)
        self._order += 1
        heapq.heappush(self._calls, (when, self._order, handle))
        return handle

    def call_later(self, delay: float, callback: Callable[[], object]) -> ManualHandle:
        return self.call_at(self.now + delay, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def run_soon(self) -> None:
        """Runs what asked to be called soon, and what that asks for in turn."""
        while self._soon:
            calls, self._soon = self._soon, []
            for callback in calls:
                callback()

    def advance(self, seconds: float) -> None:
        """Moves the clock, stopping at each call that falls due on the way."""
        end = self.now + seconds
        self.run_soon()
        while self._calls and self._calls[0][0] <= end:
            when, _, handle = heapq.heappop(self._calls)
            self.now = max(self.now, when)
            if not handle.cancelled:
                handle.callback()
                self.run_soon()
        self.now = end

    @property
    def scheduled(self) -> int:
        """Calls to come that nobody has cancelled."""
        return sum(not handle.cancelled for _, _, handle in self._calls)


class FakeTransport(asyncio.Transport):
    """A transport whose peer is the test.

    `sent` is what has reached the peer, `unread` what the protocol has not read of what the peer sent. A
    peer that does not read is `FakeTransport.peer_window = n`: after n more bytes the rest stays in the
    transport, and the protocol is paused above `high_water` bytes as asyncio does it.
    """

    high_water = 65_536

    def __init__(
        self,
        protocol: asyncio.BaseProtocol | None = None,
        *,
        peername: tuple[Any, ...] = ("192.0.2.7", 50_000),
        sockname: tuple[Any, ...] = ("192.0.2.1", 9092),
    ) -> None:
        super().__init__({"peername": peername, "sockname": sockname})
        self.protocol = protocol
        self.sent = bytearray()
        self.writes = 0
        self.peer_window: int | None = None
        self.reading = True
        self.closed = False
        self.aborted = False
        self.writing_paused = False
        self.unread = bytearray()
        self._unsent = bytearray()

    # ---- what the protocol calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "written to after close"
        self.writes += 1
        self._unsent += data
        self._drain()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        if not self._unsent:
            self._lose_connection(None)

    def abort(self) -> None:
        self.closed = self.aborted = True
        self._unsent.clear()
        self._lose_connection(None)

    # ---- what the test, as the peer, does

    def receive(self, data: bytes) -> None:
        """The peer sends `data`, which stays in the system's buffers while the protocol does not read."""
        self.unread += data
        self.deliver()

    def deliver(self) -> bool:
        """Hands over what has been sent, in as many reads as the protocol's buffer asks for; whether there was any."""
        delivered = False
        while self.unread and self.reading and not self.closed:
            assert isinstance(self.protocol, asyncio.BufferedProtocol)
            view = memoryview(self.protocol.get_buffer(-1))
            taken = min(len(view), len(self.unread))
            view[:taken] = self.unread[:taken]
            del self.unread[:taken]
            self.protocol.buffer_updated(taken)
            delivered = True
        return delivered

    def read(self, count: int | None = None) -> bytes:
        """The peer reads `count` bytes of what waits for it, or all from now on."""
        self.peer_window = None if count is None else (self.peer_window or 0) + count
        self._drain()
        data = bytes(self.sent)
        self.sent.clear()
        return data

    def disconnect(self, error: Exception | None = None) -> None:
        """The peer goes away."""
        self.closed = True
        self._lose_connection(error)

    # ---- inside

    def _drain(self) -> None:
        room = len(self._unsent) if self.peer_window is None else min(self.peer_window, len(self._unsent))
        self.sent += self._unsent[:room]
        del self._unsent[:room]
        if self.peer_window is not None:
            self.peer_window -= room
        self._tell_flow()
        if self.closed and not self._unsent:
            self._lose_connection(None)

    def _tell_flow(self) -> None:
        if self.protocol is None:
            return
        if not self.writing_paused and len(self._unsent) > self.high_water:
            self.writing_paused = True
            self.protocol.pause_writing()
        elif self.writing_paused and len(self._unsent) <= self.high_water // 4:
            self.writing_paused = False
            self.protocol.resume_writing()
            self._drain()

    def _lose_connection(self, error: Exception | None) -> None:
        protocol, self.protocol = self.protocol, None
        if protocol is not None:
            protocol.connection_lost(error)


class KnownHosts:
    """HostNames that knows the names that it is given, and asks nobody."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)

    def known(self, names: Iterable[str]) -> Pending[frozenset[str]]:
        pending: Pending[frozenset[str]] = Pending()
        pending.complete(self._hosts & set(names))
        return pending
