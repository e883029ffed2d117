"""Mute: the time in which a connection is not read, because its client was throttled (KIP-219).

The response that says so is sent at once. A client that obeys it sends nothing meanwhile; what another one sends waits
in the sockets' buffers, and in the end at the client. All mutes of a server share one timer (`DeadlineQueue`).
Source: org.apache.kafka.server.quota.ThrottledChannel, kafka.network.SocketServer (ChannelMuteState).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Muted(Protocol):
    """The meter of the request that was throttled."""

    def unmuted(self) -> None: ...


class Mute:
    """One mute of one connection; an item of a DeadlineQueue. `over` is called when its time is over."""

    __slots__ = ("_meter", "_over", "is_completed")

    def __init__(self, meter: Muted, over: Callable[[], None]) -> None:
        self.is_completed = False
        self._meter = meter
        self._over: Callable[[], None] | None = over

    def expire(self) -> None:
        """The time is over."""
        over = self._over
        self.end()
        if over is not None:
            over()

    def end(self) -> None:
        """The connection has ended, or the time is over: once."""
        if not self.is_completed:
            self.is_completed = True
            self._over = None  # the connection need not wait for the queue to drop this
            self._meter.unmuted()
