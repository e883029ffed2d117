"""What is counted while the broker works: plain numbers on plain objects, so that counting costs next to nothing.

Each part of the broker is given its probe and calls its verbs; broker.metrics turns the numbers into
Prometheus families when somebody asks. Nothing here locks: the event loop writes, and what a scrape reads
is copied on the event loop.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable

WINDOW_SAMPLES = 1024
RATE_WINDOW_S = 30


class TimeWindow:
    """The last WINDOW_SAMPLES durations of one thing, in seconds, and how many there have been in all.

    (Kafka's histograms keep a sample that favours the last five minutes; here it is the last thousand
    exactly.)
    """

    __slots__ = ("_values", "count")

    def __init__(self) -> None:
        self.count = 0
        self._values = array("d", bytes(8 * WINDOW_SAMPLES))

    def record(self, seconds: float) -> None:
        self._values[self.count % WINDOW_SAMPLES] = seconds
        self.count += 1

    def values(self) -> array[float]:
        """A copy of the durations that are kept."""
        return self._values[: min(self.count, WINDOW_SAMPLES)]


class Rate:
    """How fast a total grows, over the last RATE_WINDOW_S seconds."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def sample(self, now: float, total: float) -> None:
        """Notes the total, about once a second."""
        self._samples.append((now, total))
        while now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (since, before), (until, after) = self._samples[0], self._samples[-1]
        return (after - before) / (until - since) if until > since else 0.0


class ListenerProbe:
    """Connections and bytes of one listener."""

    __slots__ = ("_rates", "bytes_in", "bytes_out", "connections_closed", "connections_created", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_created = 0
        self.connections_closed = 0
        self._rates = {what: Rate() for what in self._totals()}

    @property
    def connection_count(self) -> int:
        return self.connections_created - self.connections_closed

    def sample(self, now: float) -> None:
        for what, total in self._totals().items():
            self._rates[what].sample(now, total)

    def per_second(self, what: str) -> float:
        """The rate of `bytes_in`, `bytes_out`, `connections_created` or `connections_closed`."""
        return self._rates[what].per_second

    def _totals(self) -> dict[str, int]:
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "connections_created": self.connections_created,
            "connections_closed": self.connections_closed,
        }


class SocketServerProbe:
    """The listeners' probes, and how busy the event loop's thread is.

    The thread's own CPU time tells that without a clock read for every event. What it does not count as
    busy is waiting for a disk.
    """

    def __init__(self, thread_time: Callable[[], float] = time.thread_time) -> None:
        self.listeners: dict[str, ListenerProbe] = {}
        self._thread_time = thread_time
        self._busy = Rate()

    def listener(self, name: str) -> ListenerProbe:
        probe = self.listeners.get(name)
        if probe is None:
            probe = self.listeners[name] = ListenerProbe(name)
        return probe

    def sample(self, now: float) -> None:
        """Notes where every total stands; once a second, on the event loop."""
        self._busy.sample(now, self._thread_time())
        for probe in self.listeners.values():
            probe.sample(now)

    @property
    def idle_ratio(self) -> float:
        """The part of the last RATE_WINDOW_S seconds in which the event loop had nothing to do, 0 to 1."""
        return max(0.0, min(1.0, 1.0 - self._busy.per_second))
