"""ThrottleTimes: how long clients were throttled lately, for metrics."""

from __future__ import annotations

from typing import Final

_WINDOW_MS: Final = 30_000
"""As Kafka's metrics, which keep two of them."""


class ThrottleTimes:
    """The throttle times of this half minute and the last, without those of 0; times in milliseconds."""

    __slots__ = ("_before", "_began_ms", "_running", "count")

    def __init__(self) -> None:
        self.count = 0
        self._began_ms = 0
        self._before = self._running = (0, 0)

    def add(self, time_ms: int, now_ms: int) -> None:
        self.count += 1
        self._turn(now_ms)
        count, total = self._running
        self._running = count + 1, total + time_ms

    def average_ms(self, now_ms: int) -> float:
        """0 where there were none."""
        self._turn(now_ms)
        count = self._before[0] + self._running[0]
        return (self._before[1] + self._running[1]) / count if count else 0.0

    def _turn(self, now_ms: int) -> None:
        age_ms = now_ms - self._began_ms
        if age_ms >= _WINDOW_MS:
            self._before = self._running if age_ms < 2 * _WINDOW_MS else (0, 0)
            self._running = 0, 0
            self._began_ms = now_ms
