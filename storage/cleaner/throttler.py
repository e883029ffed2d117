"""Throttler: limits the bytes per second that the log cleaner reads and writes (Kafka's Throttler)."""

import math
from collections.abc import Callable
from typing import Final

CHECK_INTERVAL_S: Final = 0.3
LONGEST_SLEEP_S: Final = 0.5


class Throttler:
    """Sleeps when the last interval exceeded the rate.

    `clock` returns monotonic seconds, `sleep` takes seconds; `check` is called between short sleeps, and may raise to
    end the wait.
    """

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        check: Callable[[], None],
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._check = check
        self._period_start = clock()
        self._observed_bytes = 0

    def observe(self, size: int) -> None:
        """Counts bytes, and waits until their rate is within the limit."""
        if math.isinf(self._rate):
            return
        self._observed_bytes += size
        elapsed = self._clock() - self._period_start
        if elapsed < CHECK_INTERVAL_S and self._observed_bytes <= self._rate * CHECK_INTERVAL_S:
            return
        self._wait(self._observed_bytes / self._rate - elapsed)
        self._period_start = self._clock()
        self._observed_bytes = 0

    def _wait(self, seconds: float) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            self._check()
            self._sleep(min(left, LONGEST_SLEEP_S))
