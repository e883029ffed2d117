"""ReplicationQuota: limits the rate of replication, and of copying between log directories, measured as in Kafka.

The rate is the sum of the samples over the time since the oldest of them began, at least one window: one window's worth
of bytes may pass at once after a pause in which all samples have expired. Kafka measures leaders, followers and moves
between log directories alike. It keeps an expired sample as an empty one, whose time counts; here it is removed, so
that no pause lets more than a window's worth pass on its account. Source: kafka.server.ReplicationQuotaManager,
kafka.server.QuotaFactory, org.apache.kafka.common.metrics.stats.SimpleRate, SampledStat (KIP-73).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

SHORTEST_DELAY_S: Final = 0.001


class _Sample:
    """The bytes of one window, which begins with the first of them. Times in seconds."""

    __slots__ = ("began", "last", "size")

    def __init__(self, now: float, size: int) -> None:
        self.began = now
        self.last = now
        self.size = size


class ReplicationQuota:
    """Counts bytes, and tells how long to wait. `bytes_per_second` is called each time, since it may change.

    A sample lasts `window_s`, and expires once nothing has been counted in it for `samples` windows.
    """

    def __init__(
        self,
        bytes_per_second: Callable[[], int],
        *,
        samples: int,
        window_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._window_s = window_s
        self._expires_after_s = samples * window_s
        self._clock = clock
        self._samples: deque[_Sample] = deque()

    def record(self, size: int) -> None:
        """Counts bytes that have passed, whether or not they should have waited."""
        now = self._clock()
        self._expire(now)
        if self._samples and now - self._samples[-1].began < self._window_s:
            newest = self._samples[-1]
            newest.size += size
            newest.last = now
        else:
            self._samples.append(_Sample(now, size))

    @property
    def byte_rate(self) -> float:
        """Bytes a second, as they are compared with the quota."""
        now = self._clock()
        self._expire(now)
        return self._total() / self._elapsed_s(now) if self._samples else 0.0

    def delay_s(self) -> float:
        """Seconds until bytes may pass; 0 when they may now. To be asked again then: a lower bound."""
        now = self._clock()
        self._expire(now)
        if not self._samples:
            return 0.0
        oldest, total, rate = self._samples[0], self._total(), self._bytes_per_second()
        if total <= rate * self._elapsed_s(now):
            return 0.0
        # The rate falls as time passes, and may when the oldest sample expires.
        delay_s = oldest.last + self._expires_after_s - now
        if rate:
            delay_s = min(delay_s, oldest.began + total / rate - now)
        return max(delay_s, SHORTEST_DELAY_S)

    def _expire(self, now: float) -> None:
        while self._samples and now - self._samples[0].last >= self._expires_after_s:
            self._samples.popleft()

    def _total(self) -> int:
        return sum(sample.size for sample in self._samples)

    def _elapsed_s(self, now: float) -> float:
        """The time in which the samples, of which there are some, count as passed."""
        return max(now - self._samples[0].began, self._window_s)
