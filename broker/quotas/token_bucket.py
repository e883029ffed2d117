"""TokenBucket: tokens that come at a rate and are taken at once; below zero, one has to wait.

It holds at most samples * window * rate tokens, begins full, and may be overdrawn. All times are milliseconds of one
clock. Source: org.apache.kafka.common.metrics.stats.TokenBucket (KIP-599).
"""

from __future__ import annotations

from barnabas.broker.quotas.rate import LONGEST_THROTTLE_MS, throttle_ms


class TokenBucket:
    """A bucket. The rate, in tokens a second, comes with each call, since it may change."""

    __slots__ = ("_last_ms", "_tokens", "_window_s")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window_s = samples * (window_ms / 1000.0)
        self._tokens: float | None = None  # full
        self._last_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """How many there are; negative for those that were taken in advance."""
        burst = self._window_s * rate
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * ((now_ms - self._last_ms) / 1000.0))
        self._last_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: int) -> None:
        self._tokens = min(self._window_s * rate, self.tokens(rate, now_ms) - count)

    def throttle_time_ms(self, rate: float, now_ms: int) -> int:
        """How long it takes until there are no longer fewer than none; 0 where there are not."""
        tokens = self.tokens(rate, now_ms)
        if not tokens < 0:
            return 0
        return throttle_ms(-tokens / rate * 1000) if rate > 0 else LONGEST_THROTTLE_MS
