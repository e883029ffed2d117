"""ReplicationQuota: limits the rate of copying between log directories, measured as in Kafka.

The rate is that of the last `samples` windows, counted as at least all but one of them: so after a pause so many
seconds' worth of bytes may go through at once. Source: kafka.server.ReplicationQuotaManager,
org.apache.kafka.common.metrics.stats.Rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

SHORTEST_DELAY_S: Final = 0.001


class ReplicationQuota:
    """Counts bytes, and tells how long to wait. `bytes_per_second` is called each time, since it may change."""

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
        now = self._clock()
        if self._samples and now - self._samples[-1][0] < self._window_s:
            began, before = self._samples.pop()
            self._samples.append((began, before + size))
        else:
            self._samples.append((now, size))

    def delay_s(self) -> float:
        """Seconds until bytes may go through; 0 when they may now."""
        now = self._clock()
        while self._samples and now - self._samples[0][0] >= self._count * self._window_s:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        total = sum(size for _, size in self._samples)
        elapsed = max(now - self._samples[0][0], (self._count - 1) * self._window_s)
        if total <= self._bytes_per_second() * elapsed:
            return 0.0
        # The rate falls as time passes, and when the oldest sample expires.
        oldest_ends = self._samples[0][0] + self._count * self._window_s - now
        rate = self._bytes_per_second()
        return max(min(total / rate - elapsed, oldest_ends) if rate else oldest_ends, SHORTEST_DELAY_S)
