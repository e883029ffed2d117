"""From spawn to the first Metadata answer (median of ten), and memory when idle.

The claim: under 0.5 s and under 60 MiB on two cores. Every start is one in a new directory, so Barnabas formats its
storage within that time; Apache Kafka's is formatted beforehand and does not count.
"""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

from bench.brokers import Broker, Factory, fresh, rss_mib
from tests.support.apache_kafka import ApacheKafka, answers_metadata

STARTS = 10
CLAIMED_S = 0.5
CLAIMED_MIB = 60.0
LIMIT_S = 120.0
SETTLE_S = 2.0


class Startup(NamedTuple):
    """What ten starts of one broker showed."""

    seconds: list[float]
    idle_mib: float

    @property
    def median_s(self) -> float:
        """The figure that counts."""
        return statistics.median(self.seconds)


def measure(factory: Factory, starts: int = STARTS) -> Startup:
    """Starts a broker `starts` times, after one start that only warms the page cache."""
    start_once(factory)
    seconds = [start_once(factory) for _ in range(starts)]
    with fresh(factory) as broker:
        broker.start()
        time.sleep(SETTLE_S)
        return Startup(seconds, rss_mib(broker))


def start_once(factory: Factory) -> float:
    """Seconds from the spawn to the first answer."""
    with fresh(factory) as broker:
        if isinstance(broker, ApacheKafka):
            broker.prepare()
        started = time.perf_counter()
        broker.spawn()
        wait_for_metadata(broker, started)
        return time.perf_counter() - started


def wait_for_metadata(broker: Broker, started: float) -> None:
    """Asks again and again, from the first moment on."""
    while not answers_metadata(broker.bootstrap):
        if time.perf_counter() - started > LIMIT_S:
            raise TimeoutError(f"no Metadata answer within {LIMIT_S:g} s")
        if not broker.pid:
            raise ChildProcessError("it ended")
        time.sleep(0.002)


def report(factories: dict[str, Factory], starts: int = STARTS) -> bool:
    """Prints a line for each broker; False when ours (the first) is not what is claimed."""
    print(f"{'start-up and idle memory':<24}{'median s':>10}{'fastest':>10}{'slowest':>10}{'idle MiB':>10}")
    results = {}
    for name, factory in factories.items():
        found = results[name] = measure(factory, starts)
        line = f"{found.median_s:>10.3f}{min(found.seconds):>10.3f}{max(found.seconds):>10.3f}{found.idle_mib:>10.1f}"
        print(f"{name:<24}{line}", flush=True)
    ours = next(iter(results.values()))
    kept = ours.median_s < CLAIMED_S and ours.idle_mib < CLAIMED_MIB
    print(f"claimed: under {CLAIMED_S:g} s and {CLAIMED_MIB:g} MiB: {'kept' if kept else 'NOT KEPT'}")
    return kept
