"""Rate: what was recorded over the last windows, by the second; the throttle time that brings it back to a limit.

    record(v, t): where t - current.start >= window, the next of samples + 1 becomes the current one; its value grows
    purge(t):     a sample begins anew at t when t - its last record >= samples * window
    W(t):         t - the oldest sample's start; with fewer than samples - 1 whole windows, those that are missing too
    rate:         the sum of all samples / W

All times are milliseconds of one clock. Recorded values may be negative: they take back. Kafka's arithmetic, in its
order, so that the results are equal to the last bit. Source: org.apache.kafka.common.metrics.stats.Rate, SampledStat,
org.apache.kafka.server.quota.QuotaUtils.
"""

from __future__ import annotations

import math
from array import array
from typing import Final

LONGEST_THROTTLE_MS: Final = 2**31 - 1
"""25 days. Kafka cuts a longer throttle time to 32 bits, which may leave none."""

_FIELDS: Final = 3
_START, _LAST, _VALUE = range(_FIELDS)


class Rate:
    """A rate over `samples` windows of `window_ms`."""

    __slots__ = ("_current", "_kept", "_samples", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._kept = array("d")  # the fields of one sample after the other: most counters have few
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        kept = self._kept
        if not kept:
            kept.extend((now_ms, now_ms, 0.0))
        elif now_ms - kept[self._current + _START] >= self._window_ms:
            self._advance(now_ms)
        kept[self._current + _VALUE] += value
        kept[self._current + _LAST] = now_ms

    def _advance(self, now_ms: int) -> None:
        """The next sample becomes the current one: a new one, or the one that has been recorded longest ago."""
        kept = self._kept
        self._current = (self._current + _FIELDS) % ((self._samples + 1) * _FIELDS)
        if self._current >= len(kept):
            kept.extend((now_ms, now_ms, 0.0))
        else:
            self._begin(self._current, now_ms)

    def _begin(self, sample: int, now_ms: int) -> None:
        kept = self._kept
        kept[sample + _START] = kept[sample + _LAST] = now_ms
        kept[sample + _VALUE] = 0.0

    def _purge(self, now_ms: int) -> None:
        kept, age_ms = self._kept, self._samples * self._window_ms
        if not kept:
            kept.extend((now_ms, now_ms, 0.0))
        for sample in range(0, len(kept), _FIELDS):
            if now_ms - kept[sample + _LAST] >= age_ms:
                self._begin(sample, now_ms)

    def window_size_ms(self, now_ms: int) -> int:
        """The time over which the rate is taken, W; at least 1."""
        self._purge(now_ms)
        elapsed_ms = now_ms - int(min(self._kept[_START::_FIELDS]))
        full, least = elapsed_ms // self._window_ms, self._samples - 1
        if full < least:
            elapsed_ms += (least - full) * self._window_ms
        return max(elapsed_ms, 1)

    def measure(self, now_ms: int) -> float:
        """What was recorded a second."""
        window_ms = self.window_size_ms(now_ms)
        total = 0.0
        for value in self._kept[_VALUE::_FIELDS]:
            total += value
        return total / (window_ms / 1000.0)

    def throttle_time_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may be recorded until the rate is down to `limit`; 0 where it is not above."""
        rate = self.measure(now_ms)
        if not rate > limit:
            return 0
        if limit <= 0:
            return LONGEST_THROTTLE_MS
        return throttle_ms((rate - limit) / limit * self.window_size_ms(now_ms))


def throttle_ms(time_ms: float) -> int:
    """A throttle time in whole milliseconds, rounded as Java's Math.round does: halves up."""
    if not time_ms < LONGEST_THROTTLE_MS:
        return LONGEST_THROTTLE_MS
    whole = math.floor(time_ms)
    return max(0, whole + (time_ms - whole >= 0.5))
