"""RuntimeProbe: the counts and times of a coordinator's runtime, for its metrics.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntimeMetrics.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.coordinator.loading import LoadSummary
from barnabas.broker.probes import RecentTimes

LOAD_WINDOW_S: Final = 30.0
"""How long the duration of a load counts, as in Kafka."""


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
