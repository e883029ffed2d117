"""The rows: their workers, jobs and topics. Counts and seconds are those of `--scale 1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from bench.side_by_side.job import Job

WRITERS: Final = frozenset({"produce", "one-each", "send-paced", "connections", "java-produce"})
READERS: Final = frozenset({"consume", "java-consume"})
"""They read the topic that was filled for them, and write nothing."""
_LEAST_S: Final = 0.3
_LEAST_COUNT: Final = 1000
_LARGE_BYTES: Final = 512 * 2**20


class Part(StrEnum):
    """The section that a row belongs to."""

    PRODUCE = "produce"
    CONSUME = "consume"
    LATENCY = "latency"


@dataclass(frozen=True)
class Fill:
    """The content of a topic that is only read; it is filled once for each broker."""

    count: int
    size: int = 1024
    partitions: int = 4


@dataclass(frozen=True)
class Workload:
    """One row. Each job of the team is a process; rate and CPU are reported for those of the first one's kind."""

    name: str
    title: str
    part: Part
    team: tuple[Job, ...]
    fill: Fill | None = None
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    lasting: bool = False
    """Whether the topic stays for all rounds, since making it costs too much; such rows come last."""
    needs_java: bool = False

    @property
    def is_large(self) -> bool:
        """Whether the clients hold so much that memory which nobody has used for minutes is what they wait for."""
        held = self.team[0].clients * self.fill.count * self.fill.size if self.fill else 0
        return held >= _LARGE_BYTES

    @property
    def unit(self) -> str:
        """The unit of the rate."""
        return "request" if self.team[0].kind == "metadata" else "message"

    @property
    def own_partitions(self) -> int | None:
        """The partitions of the row's own topic; None for rows that read a filled one."""
        own = [job.partitions for job in self.team if job.kind not in READERS]
        return own[0] if own else None

    def scaled(self, scale: float) -> Workload:
        """The same with more or less to do."""
        fill = replace(self.fill, count=_count(self.fill.count, scale)) if self.fill else None
        return replace(self, fill=fill, team=tuple(scaled_job(job, scale) for job in self.team))


def _count(count: int, scale: float) -> int:
    return max(round(count * scale), min(count, _LEAST_COUNT))


def scaled_job(job: Job, scale: float) -> Job:
    """The same with more or less to do; a pace stays."""
    seconds = max(job.seconds * scale, min(job.seconds, _LEAST_S))
    count = _count(job.count, scale)
    if job.rate:  # paced workers run by the clock
        count = max(round(job.count * scale), min(job.count, round(job.rate * _LEAST_S)))
    return replace(
        job,
        count=count,
        seconds=seconds,
        least_s=job.least_s * min(scale, 1.0),
        cap_s=max(job.cap_s * scale, 1.0),
    )


def produce(name: str, title: str, count: int = 200_000, **more: Any) -> Workload:
    """One producer, as fast as it can."""
    topic_settings = more.pop("topic_settings", {})
    job = Job("produce", count=count, **more)
    return Workload(f"produce-{name}", title, Part.PRODUCE, (job,), topic_settings=topic_settings)


def small(name: str, title: str, acks: str, seconds: float, **topic_settings: str) -> Workload:
    """16 producers in two processes, each message in a request of its own."""
    job = Job("one-each", size=100, acks=acks, seconds=seconds, clients=8)
    settings = {key.replace("_", "."): value for key, value in topic_settings.items()}
    return Workload(name, title, Part.PRODUCE, (job, job), topic_settings=settings)


def connections(count: int) -> Workload:
    """Many connections with one request in flight on each."""
    job = Job("connections", acks="1", seconds=2, clients=count)
    title = f"1 KiB a request, {count:,} connections, one request in flight on each"
    return Workload(f"connections-{count}", title, Part.PRODUCE, (job,))


def consume(name: str, title: str, fill: Fill, **more: Any) -> Workload:
    """One process of consumers over a filled topic."""
    job = Job("consume", size=fill.size, partitions=fill.partitions, **more)
    return Workload(f"consume-{name}", title, Part.CONSUME, (job,), fill)


def paced(name: str, title: str, rate: float, seconds: float, partitions: int = 1, **more: Any) -> Workload:
    """A producer at a fixed rate, and a consumer at the end of the topic."""
    job = Job("", size=100, partitions=partitions, rate=rate, count=round(rate * seconds))
    team = (replace(job, kind="send-paced"), replace(job, kind="receive-paced"))
    return Workload(name, title, Part.LATENCY, team, **more)


def beside_catch_up() -> Workload:
    """One client reads the whole topic while others follow its end: measures its rate and their latency."""
    tail = paced("", "", 1000, 4).team
    catch_up = Job("consume", least_s=2.0)
    title = "catching up 1 KiB messages, beside 1,000 messages a second end to end"
    return Workload("catch-up", title, Part.LATENCY, (catch_up, *tail), Fill(200_000))


def java() -> tuple[Workload, Workload]:
    """The tools that come with Apache Kafka."""
    sent, read = Job("java-produce", count=200_000), Job("java-consume")
    return (
        Workload(
            "java-produce",
            "Java ProducerPerformance, 1 KiB, its defaults",
            Part.PRODUCE,
            (sent,),
            needs_java=True,
        ),
        Workload(
            "java-consume",
            "Java ConsumerPerformance, 1 KiB",
            Part.CONSUME,
            (read,),
            Fill(200_000),
            needs_java=True,
        ),
    )


_JAVA_PRODUCE, _JAVA_CONSUME = java()
_FAN_OUT: Final = Fill(40_000)

WORKLOADS: Final[tuple[Workload, ...]] = (
    produce("1k", "1 KiB, batches up to 1 MB"),
    produce("16k", "1 KiB, batches up to 16 KiB (Java's default)", 100_000, settings={"batch.size": 16384}),
    produce("100", "100 B, batches up to 1 MB", 500_000, size=100),
    produce("gzip", "1 KiB, gzip", 60_000, settings={"compression.type": "gzip"}),
    produce("snappy", "1 KiB, snappy", settings={"compression.type": "snappy"}),
    produce("lz4", "1 KiB, lz4", settings={"compression.type": "lz4"}),
    produce("zstd", "1 KiB, zstd", settings={"compression.type": "zstd"}),
    produce("1p", "1 KiB, 1 partition", partitions=1),
    produce("200p", "1 KiB, one after the other over 200 partitions", 100_000, partitions=200, spread=True),
    produce("idempotent", "1 KiB, idempotent", settings={"enable.idempotence": True}),
    produce(
        "transactional", "1 KiB, 1 partition, a transaction every 100 ms", partitions=1, transaction_s=0.1
    ),
    produce(
        "durable",
        "1 KiB, acknowledged when synced (flush.messages=1)",
        50_000,
        topic_settings={"flush.messages": "1"},
    ),
    small("small", "one message a request, acks=1, 16 producers", "1", 3),
    small("small-all", "one message a request, acks=all, 16 producers", "all", 2),
    small(
        "small-durable",
        "one message a request, acknowledged when synced, 16 producers",
        "all",
        2,
        flush_messages="1",
    ),
    connections(16),
    connections(1000),
    _JAVA_PRODUCE,
    consume("1k", "1 KiB", Fill(200_000)),
    consume("100", "100 B", Fill(500_000, 100)),
    consume("1p", "1 KiB, 1 partition", Fill(200_000, partitions=1)),
    consume("200p", "1 KiB, 200 partitions", Fill(100_000, partitions=200)),
    *(
        consume(
            f"by-{count}",
            f"1 KiB, {count} consumer{'s' if count > 1 else ''} of one topic",
            _FAN_OUT,
            clients=count,
        )
        for count in (1, 4, 16, 32)
    ),
    _JAVA_CONSUME,
    Workload(
        "metadata",
        "Metadata of a topic of 200 partitions, over and over on 16 connections",
        Part.CONSUME,
        (Job("metadata", partitions=200, clients=16, seconds=2),),
    ),
    paced("latency-200", "200 messages a second", 200, 4),
    paced("latency-1000", "1,000 messages a second", 1000, 4),
    beside_catch_up(),
    paced("trickle", "1,000 messages a second over 2,000 partitions", 1000, 4, 2000, lasting=True),
)
