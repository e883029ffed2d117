"""The figures of fetchers, as metrics show them. Source: kafka.server.FetcherStats, FetcherLagStats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.storage.offsets import TopicPartition

TICK_S: Final = 5.0
_ALPHA: Final = 1 - math.exp(-TICK_S / 60)


class OneMinuteRate:
    """Events a second over about the last minute: an average that forgets exponentially, in ticks of 5 s.

    Source: com.yammer.metrics.stats.EWMA.
    """

    __slots__ = ("_clock", "_rate", "_ticked", "_uncounted")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ticked = clock()
        self._uncounted = 0
        self._rate: float | None = None

    def mark(self, count: int = 1) -> None:
        self._tick()
        self._uncounted += count

    @property
    def value(self) -> float:
        self._tick()
        return self._rate or 0.0

    def _tick(self) -> None:
        ticks = int((self._clock() - self._ticked) / TICK_S)
        if ticks <= 0:
            return
        self._ticked += ticks * TICK_S
        now, self._uncounted = self._uncounted / TICK_S, 0
        self._rate = now if self._rate is None else self._rate + _ALPHA * (now - self._rate)
        self._rate *= (1 - _ALPHA) ** (ticks - 1)


class FetcherFigures(NamedTuple):
    """One fetcher's: totals since it began."""

    client_id: str
    host: str
    port: int
    requests: int
    bytes: int


class LagFigure(NamedTuple):
    """How far a partition is behind its leader's high watermark, in records."""

    client_id: str
    partition: TopicPartition
    lag: int
