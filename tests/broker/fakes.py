"""Fakes for the ports of the broker: a manual clock, a transport whose peer is the test."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable

from barnabas.broker.network.transport import StreamReader
from barnabas.broker.pending import Pending


class ManualHandle:
    """The handle of a call that ManualTimer has scheduled."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualTimer:
    """A Timer, and the `call_soon` of a loop, that advance only when the test calls them."""

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
        """Runs the calls of `call_soon`, and those that they schedule in turn."""
        while self._soon:
            calls, self._soon = self._soon, []
            for callback in calls:
                callback()

    def advance(self, seconds: float) -> None:
        """Advances the clock, stopping at each call that is due on the way."""
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
        """The scheduled calls that are not cancelled."""
        return sum(not handle.cancelled for _, _, handle in self._calls)


class FakeTransport:
    """A Transport whose peer is the test.

    `sent` is what has reached the peer, `unread` what the connection has not read of the peer's bytes. A peer
    that does not read is `FakeTransport.peer_window = n`: after n more bytes nothing can be sent.
    """

    def __init__(self, endpoint: StreamReader | None = None) -> None:
        self.endpoint = endpoint
        self.sent = bytearray()
        self.writes = 0
        self.peer_window: int | None = None
        self.reading = False
        self.awaits_room = False
        self.closed = False
        self.unread = bytearray()
        self.lost: OSError | None = None
        """The error of the peer's end, if the connection breaks."""
        self.on_send: Callable[[], None] = lambda: None
        """Called at the beginning of each `send`."""
        self._ended = False

    # ---- calls of the connection

    def start(self, endpoint: StreamReader) -> None:
        self.endpoint = endpoint
        self.reading = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def watch_writable(self) -> None:
        assert not self.awaits_room
        self.awaits_room = True

    def ignore_writable(self) -> None:
        assert self.awaits_room
        self.awaits_room = False

    def receive_into(self, buffer: memoryview, /) -> int:
        self._check()
        if not self.unread and not self._ended:
            raise BlockingIOError
        taken = min(len(buffer), len(self.unread))
        buffer[:taken] = self.unread[:taken]
        del self.unread[:taken]
        return taken

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        self._check()
        self.on_send()
        room = len(data) if self.peer_window is None else min(self.peer_window, len(data))
        if not room and data:
            raise BlockingIOError
        self.writes += 1
        self.sent += data[:room]
        if self.peer_window is not None:
            self.peer_window -= room
        return room

    def send_file(self, file: int, position: int, size: int) -> int:
        self._check()
        room = size if self.peer_window is None else min(self.peer_window, size)
        if not room:
            raise BlockingIOError
        return self.send(os.pread(file, room, position))

    def close(self) -> None:
        assert not self.closed
        self.closed = True
        self.endpoint = None

    def _check(self) -> None:
        assert not self.closed, "used after close"
        if self.lost is not None:
            raise self.lost

    # ---- actions of the test, as the peer

    def receive(self, data: bytes) -> None:
        """The peer sends `data`, which stays in the system's buffers while the connection does not read."""
        self.unread += data
        self.deliver()

    def deliver(self) -> bool:
        """Lets the connection read what was sent, in as many reads as it makes; returns whether there was any."""
        delivered = False
        while self.unread and self.reading and self.endpoint is not None:
            self.endpoint.readable()
            delivered = True
        return delivered

    def read(self, count: int | None = None) -> bytes:
        """The peer reads `count` of the bytes that wait for it, or all from now on."""
        self.peer_window = None if count is None else (self.peer_window or 0) + count
        while self.awaits_room and self.endpoint is not None and self.peer_window != 0:
            self.endpoint.writable()
        data = bytes(self.sent)
        self.sent.clear()
        return data

    def disconnect(self, lost: OSError | None = None) -> None:
        """The peer closes or breaks the connection; the broker's end notices."""
        self.lost = lost
        self._ended = True
        endpoint = self.endpoint
        assert endpoint is not None
        endpoint.readable()


class KnownHosts:
    """HostNames that resolves only the names that it is given."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)

    def known(self, names: Iterable[str]) -> Pending[frozenset[str]]:
        pending: Pending[frozenset[str]] = Pending()
        pending.complete(self._hosts & set(names))
        return pending
