"""Timers: the part of an event loop that waiting code needs, so that tests can supply a manual one.

Under asyncio and uvloop the loop itself is the timer. One of its timers costs as much as reading a small answer (made,
cancelled, and closed in the next pass), and nearly every wait ends before its time. So waits that are many
share one, in a `DeadlineQueue`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Protocol

MIN_DEADLINES: Final = 64
"""Up to so many entries a DeadlineQueue keeps without checking whether they are complete."""

RESOLUTION_S: Final = 0.0005
"""A loop's clock goes in milliseconds: what is due less than half of one from now is due."""


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Prevents the call; does nothing once it has happened."""


class Timer(Protocol):
    """A monotonic clock in seconds, and calls at a time of that clock. An asyncio event loop is one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle: ...


class Expiring(Protocol):
    """Expires at its deadline, unless it completes before."""

    is_completed: bool

    def expire(self) -> None:
        """Called when the deadline has passed."""


class DeadlineQueue:
    """Many deadlines on one timer, which is set for the first of them.

    An item that completes need not report it: its entry is dropped at its deadline, or when more than half of the
    entries are complete. So the timer fires in vain now and then, and is set again for the first item that waits.
    """

    __slots__ = ("_count", "_entries", "_handle", "_limit", "_set_for", "_timer")

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._entries: list[
            tuple[float, int, Expiring]
        ] = []  # a heap; the number keeps equals in their order
        self._count = 0
        self._limit = MIN_DEADLINES
        self._handle: TimerHandle | None = None
        self._set_for = float("inf")

    def __len__(self) -> int:
        """The entries, with those of completed items that have not been dropped yet."""
        return len(self._entries)

    def add(self, delay_ms: int, item: Expiring) -> None:
        """Has `item` expire in `delay_ms`, never at once."""
        when = self._timer.time() + delay_ms / 1000
        self._count += 1
        heapq.heappush(self._entries, (when, self._count, item))
        if len(self._entries) > self._limit:
            self._drop_completed()
        if when < self._set_for:
            self._set(when)

    def clear(self) -> None:
        self._entries.clear()
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._set_for = float("inf")

    def _drop_completed(self) -> None:
        self._entries = [entry for entry in self._entries if not entry[2].is_completed]
        heapq.heapify(self._entries)
        self._limit = max(MIN_DEADLINES, 2 * len(self._entries))

    def _set(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._set_for = when
        self._handle = self._timer.call_at(when, self._due)

    def _due(self) -> None:
        self._handle = None
        self._set_for = float("inf")
        now = self._timer.time() + RESOLUTION_S
        try:
            while self._entries and (self._entries[0][2].is_completed or self._entries[0][0] <= now):
                item = heapq.heappop(self._entries)[2]
                if not item.is_completed:
                    item.expire()
        finally:  # one that raises does not delay the others
            if self._entries and self._entries[0][0] < self._set_for:
                self._set(self._entries[0][0])
