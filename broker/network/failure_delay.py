"""FailureDelay: holds back the ends of failed logins, by one timer for all of them.

The delay is connection.failed.authentication.delay.ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """The event loop, or a clock that a test turns."""

    def time(self) -> float:
        """Seconds that never go back."""

    def call_at(self, when: float, callback: Callable[[], object]) -> object: ...


class FailureDelay:
    """Calls what is given to `after` when the delay has passed: in order, since the delay is the same for all."""

    def __init__(self, timer: Timer, delay_ms: int) -> None:
        self._timer = timer
        self._delay_s = delay_ms / 1000
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def __len__(self) -> int:
        """The failures that wait."""
        return len(self._waiting)

    def after(self, end: Callable[[], None]) -> None:
        """Calls `end` after the delay; at once where there is none."""
        if not self._delay_s:
            end()
            return
        due = self._timer.time() + self._delay_s
        self._waiting.append((due, end))
        if len(self._waiting) == 1:
            self._timer.call_at(due, self._run)

    def _run(self) -> None:
        """A timer may end early, as uvloop's do, which count whole milliseconds: up to one of them is no delay."""
        now = self._timer.time() + 0.001
        while self._waiting and self._waiting[0][0] <= now:
            _, end = self._waiting.popleft()
            end()
        if self._waiting:
            self._timer.call_at(self._waiting[0][0], self._run)
