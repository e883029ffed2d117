"""Runs half the peak rate for half an hour, with retention and compaction, to find growth of memory or latency.

The peak is measured first. Then four clients run at once: a producer at half that rate into a topic of small
segments that keeps a few of them, a producer of keyed messages into a compacted topic, and a pair at 100 messages a
second that measures latency. Memory is sampled every few seconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench import accounting, results
from bench.section import Section, Table, number
from bench.side_by_side.contestants import Contestant, ours
from bench.side_by_side.crew import Crew, measure
from bench.side_by_side.figures import percentile
from bench.side_by_side.job import Job, Outcome
from tests.support.broker_process import BrokerProcess

MINUTE_S: Final = 60.0
PEAK_S: Final = 10.0
PATIENCE_S: Final = 120.0
SAMPLE_S: Final = 5.0
PACE: Final = 100.0
KEYED_PART: Final = 0.05
MOST_SLOWER: Final = 1.2
MOST_GROWTH: Final = 1.1
MOST_TO_COMPACT_MIB: Final = 256.0
"""Its buffers are 128 MiB, and some for the largest batch; the interpreter has thirty."""
MIB: Final = 1 << 20
OVERRIDES: Final = {
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
    "log.initial.task.delay.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
}
TOPICS: Final = {
    "kept-short": {"segment.bytes": str(16 * MIB), "retention.bytes": str(64 * MIB)},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": str(4 * MIB),
        "min.cleanable.dirty.ratio": "0.1",
    },
    "paced": {"segment.bytes": str(4 * MIB)},
}
PARTITIONS: Final = {"kept-short": 4, "compacted": 1, "paced": 1}


@dataclass(frozen=True)
class Soaked:
    """The figures of a soak."""

    seconds: float
    peak_rate: float
    rate: float
    memory_mib: Sequence[float]
    """Of the broker's process alone."""
    whole_mib: Sequence[float]
    """With the process that compacts."""
    ages_ms: Sequence[float]
    missing: int
    cpu_share: float

    @property
    def window_s(self) -> float:
        """The length of the first window, with which the last is compared: three minutes, or a quarter of a shorter
        run."""
        return min(3 * MINUTE_S, self.seconds / 4)

    @property
    def first_ages_ms(self) -> Sequence[float]:
        """The latencies of the first minutes."""
        return self.ages_ms[: round(PACE * self.window_s)]

    @property
    def last_ages_ms(self) -> Sequence[float]:
        """The latencies of the last minute."""
        return self.ages_ms[-round(PACE * min(MINUTE_S, self.window_s)) :]

    @property
    def slower(self) -> float:
        """The last minute's 99th percentile to that of the first minutes."""
        return percentile(self.last_ages_ms, 0.99) / percentile(self.first_ages_ms, 0.99)

    @property
    def growth(self) -> float:
        """Memory of the last tenth relative to that of the second: in the first it grows to its usual size."""
        tenth = max(len(self.memory_mib) // 10, 1)
        early = self.memory_mib[tenth : 2 * tenth] or self.memory_mib[:1]
        return statistics.median(self.memory_mib[-tenth:]) / statistics.median(early)

    @property
    def complaints(self) -> list[str]:
        """The failed checks."""
        found = []
        if self.missing:
            found.append(f"{self.missing} messages are missing")
        if self.slower > MOST_SLOWER:
            found.append(f"the last minute's p99 is {self.slower:.2f} times that of the first minutes")
        if self.growth > MOST_GROWTH:
            found.append(f"memory grew to {self.growth:.2f} times what it was")
        if max(self.whole_mib) - max(self.memory_mib) > MOST_TO_COMPACT_MIB:
            found.append(f"compaction takes {max(self.whole_mib) - max(self.memory_mib):.0f} MiB")
        return found


def soak(broker: Contestant, seconds: float, peak_s: float) -> Soaked:
    """Soaks a broker that has just started."""
    for topic, settings in TOPICS.items():
        broker.create(topic, PARTITIONS[topic], settings)
    bootstrap = broker.broker.bootstrap
    load = Job("produce", bootstrap, "kept-short", PARTITIONS["kept-short"], count=10**12, cap_s=peak_s)
    peak = measure([load], broker.pid, PATIENCE_S).outcomes[0]
    peak_rate = peak.done / peak.seconds
    paced = Job("", bootstrap, "paced", 1, 100, rate=PACE, count=round(PACE * seconds), ends=[0])
    jobs = [
        replace(load, rate=peak_rate / 2, cap_s=seconds),
        replace(
            load, topic="compacted", partitions=1, keyed=True, rate=peak_rate * KEYED_PART, cap_s=seconds
        ),
        replace(paced, kind="send-paced"),
        replace(paced, kind="receive-paced"),
    ]
    memory, whole = [], []
    with Crew(jobs, PATIENCE_S) as crew:
        used, began = accounting.cpu_s(broker.pid), time.monotonic()
        crew.go()
        while (left := began + seconds - time.monotonic()) > 0:
            memory.append(accounting.own_rss_mib(broker.pid))
            whole.append(accounting.rss_mib(broker.pid))
            time.sleep(min(SAMPLE_S, left, seconds / 10))
        outcomes = crew.outcomes()
        share = (accounting.cpu_s(broker.pid) - used) / (time.monotonic() - began)
    return Soaked(
        seconds=seconds,
        peak_rate=peak_rate,
        rate=outcomes[0].done / outcomes[0].seconds,
        memory_mib=memory,
        whole_mib=whole,
        ages_ms=outcomes[3].latencies_ms,
        missing=_missing(broker, jobs[:3], [peak, *outcomes]),
        cpu_share=share,
    )


def _missing(broker: Contestant, writers: Sequence[Job], outcomes: Sequence[Outcome]) -> int:
    """Messages that were not acknowledged or received, and acknowledged ones beyond the end offsets."""
    stored = sum(sum(broker.offsets(job.topic, job.partitions)[1]) for job in writers)
    acknowledged = sum(outcome.done + outcome.beside for outcome in outcomes)
    return max(acknowledged - stored, 0) + sum(outcome.missing for outcome in outcomes)


def report(found: Soaked) -> Section:
    """The section of the document."""
    early, late = list(found.first_ages_ms), list(found.last_ages_ms)
    rows = [
        ["peak, messages of 1 KiB a second", number(found.peak_rate, 0)],
        ["rate that was held, messages a second", number(found.rate, 0)],
        ["processor's time of the broker, cores", number(found.cpu_share, 2)],
        [
            "memory of the broker: least, most, MiB",
            f"{min(found.memory_mib):.0f}, {max(found.memory_mib):.0f}",
        ],
        ["most with the process that compacts, MiB", number(max(found.whole_mib), 0)],
        ["memory: the last tenth to the second", f"{number(found.growth, 2)} x"],
        *(
            [f"age of a message, {name}: p50, p99, p99.9 ms", ", ".join(_percentiles(ages))]
            for name, ages in (("first minutes", early), ("last minute", late))
        ),
        ["p99 of the last minute to that of the first minutes", f"{number(found.slower, 2)} x"],
        ["messages missing", number(found.missing, 0)],
        ["flat, as fast at the end as at the start, nothing lost", "no" if found.complaints else "yes"],
    ]
    return Section(
        name="soak",
        title=f"{found.seconds / MINUTE_S:g} minutes at half the peak rate, with retention and compaction",
        prose=[
            "1 KiB messages at half the peak rate into a topic of 4 partitions with segments of 16 MiB, of which "
            f"retention leaves 64 MiB a partition; keyed ones at {KEYED_PART:.0%} of the peak into a compacted topic "
            f"with segments of 4 MiB; beside them {PACE:.0f} messages a second from producer to consumer, whose ages "
            "are reported. Retention and the cleaner run every five seconds. Memory is that of the broker and, at the "
            "most, of the process that compacts, which comes and goes."
        ],
        tables=[Table(["", "Barnabas"], rows)],
        figures={
            "peak_rate": found.peak_rate,
            "rate": found.rate,
            "growth": found.growth,
            "slower": found.slower,
            "missing": float(found.missing),
            "most_mib": max(found.memory_mib),
            "whole_mib": max(found.whole_mib),
        },
        options={"minutes": f"{found.seconds / MINUTE_S:g}"},
    )


def _percentiles(ages: Sequence[float]) -> list[str]:
    return [number(percentile(ages, share), 2) for share in (0.5, 0.99, 0.999)]


def _broker(directory: Path) -> BrokerProcess:
    broker = ours(directory)
    assert isinstance(broker, BrokerProcess)
    broker.overrides.update(OVERRIDES)
    return broker


def main(argv: Sequence[str] | None = None) -> None:
    """Exits with a status when memory grows, latency rises or messages are lost."""
    parser = results.arguments(__doc__)
    parser.add_argument("--minutes", type=float, help="30, or a third of one when --quick")
    options = parser.parse_args(argv)
    minutes = options.minutes or (0.33 if options.quick else 30.0)
    broker = Contestant("Barnabas", _broker)
    try:
        broker.start()
        found = soak(broker, minutes * MINUTE_S, 2.0 if options.quick else PEAK_S)
    finally:
        broker.remove()
    results.publish(report(found), options)
    if found.complaints:
        sys.exit("; ".join(found.complaints))
