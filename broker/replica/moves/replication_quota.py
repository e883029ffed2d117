"""ReplicationQuota: a rate that copying between log directories keeps below, measured as Kafka measures it.

The rate is that of the last `samples` windows, taken to be no shorter than all but one of them: so what comes after a
rest may go through at once, up to so many seconds' worth. Source: kafka.server.ReplicationQuotaManager,
org.apache.kafka.common.metrics.stats.Rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

SHORTEST_DELAY_S: Final = 0.001


class ReplicationQuota:
    """Counts what goes through, and says how long to wait. `bytes_per_second` is asked each time: it may change."""

    def __init__(
        self,
        bytes_per_second: Callable[[], int],
        *,
        samples: int,
        window_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._count = samples
        self._window_s = window_s
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()  # when each began, and its bytes

    def record(self, size: int) -> None:
        """Notes that so many bytes went through."""
        now = self._clock()
        if self._samples and now - self._samples[-1][0] < self._window_s:
            began, before = self._samples.pop()
            self._samples.append((began, before + size))
        else:
            self._samples.append((now, size))

    def delay_s(self) -> float:
        """How long nothing may go through; 0 when something may now."""
        now = self._clock()
        while self._samples and now - self._samples[0][0] >= self._count * self._window_s:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        total = sum(size for _, size in self._samples)
        elapsed = max(now - self._samples[0][0], (self._count - 1) * self._window_s)
        if total <= self._bytes_per_second() * elapsed:
            return 0.0
        # It gets less when time passes, or when the oldest sample is out of sight.
        oldest_ends = self._samples[0][0] + self._count * self._window_s - now
        rate = self._bytes_per_second()
        return max(min(total / rate - elapsed, oldest_ends) if rate else oldest_ends, SHORTEST_DELAY_S)
