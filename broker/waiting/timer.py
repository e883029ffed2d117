"""Calling something later: the little of an event loop that whoever waits needs, so that tests can turn it.

Under asyncio and uvloop the loop itself is the timer. One of its timers costs as much as reading a small answer (made,
cancelled, and closed in the next pass), and nearly every wait ends before its time. So those who wait in large
numbers share one, in a `DeadlineQueue`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Protocol

MIN_DEADLINES: Final = 64
"""So many entries a DeadlineQueue keeps without asking whether they are still of use."""

RESOLUTION_S: Final = 0.0005
"""A loop's clock goes in milliseconds: what is due less than half of one from now is due."""


class TimerHandle(Protocol):
    """What can be called off."""

    def cancel(self) -> None:
        """Prevents the call; does nothing once it has happened."""


class Timer(Protocol):
    """A monotonic clock in seconds, and calls at a time of that clock. An asyncio event loop is one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle: ...


class Expiring(Protocol):
    """What has a deadline, unless it is completed before."""

    is_completed: bool

    def expire(self) -> None:
        """The time is over."""


class DeadlineQueue:
    """Deadlines of many, on one timer that is set for the first of them.

    Whoever completes says nothing here: his entry is dropped when its time comes, or when fewer than half of them are
    of those who still wait. The timer goes off for nothing now and then, and is set for the first who really waits.
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
        """Entries, those of the completed that have not been dropped yet included."""
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
        """Forgets everybody."""
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
        finally:  # whatever one of them raises, the others have their time
            if self._entries and self._entries[0][0] < self._set_for:
                self._set(self._entries[0][0])
