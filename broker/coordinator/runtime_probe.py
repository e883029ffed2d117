"""RuntimeProbe: the counts and times of a coordinator's runtime, for its metrics.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntimeMetrics.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.coordinator.loading import LoadSummary

KEPT_TIMES: Final = 1024
LOAD_WINDOW_S: Final = 30.0
"""How long the duration of a load counts, as in Kafka."""


class RecentTimes:
    """The latest KEPT_TIMES durations, in ms, and the count of all."""

    def __init__(self) -> None:
        self.count = 0
        self._kept = array("d")

    def add(self, seconds: float) -> None:
        if self.count < KEPT_TIMES:
            self._kept.append(seconds * 1000)
        else:
            self._kept[self.count % KEPT_TIMES] = seconds * 1000
        self.count += 1

    def values(self) -> array[float]:
        """A copy, in no particular order."""
        return self._kept[:]


class RuntimeProbe:
    """The probe of one runtime. `clock` is a monotonic clock in seconds.

    `processing`: operations, from their beginning until their records are replayed; `linger`: batches, from the first
    record in them until they are appended; `flush`: appends; `purgatory`: batches, from the first record until they are
    committed and answered.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.processing = RecentTimes()
        self.linger = RecentTimes()
        self.flush = RecentTimes()
        self.purgatory = RecentTimes()
        self.load_failures = 0
        self.shard_gone: list[Callable[[Any], None]] = []
        """Called with each shard that is unloaded."""
        self._loads: deque[tuple[float, float]] = deque()

    def loaded(self, summary: LoadSummary) -> None:
        self._loads.append((self.clock(), summary.ended_ms - summary.started_ms))

    def load_times_ms(self) -> list[float]:
        """The durations of the loads that ended within the last LOAD_WINDOW_S."""
        since = self.clock() - LOAD_WINDOW_S
        while self._loads and self._loads[0][0] < since:
            self._loads.popleft()
        return [duration for _, duration in self._loads]
