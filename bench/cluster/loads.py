"""Rows of clients: replicated produce, latency, and processor time of brokers as leaders and as followers.

All with acks=all and min.insync.replicas=2.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench import machine
from bench.cluster import measuring
from bench.cluster.clusters import BROKERS, Cluster, led_by, spread
from bench.cluster.figures import Group
from bench.side_by_side import rounds
from bench.side_by_side.job import Job
from bench.side_by_side.workloads import scaled_job

SETTINGS: Final = {"min.insync.replicas": "2"}
LEADER: Final = BROKERS[0]
FOLLOWERS: Final = BROKERS[1:]


@dataclass(frozen=True)
class Load:
    """One row: each job of the team is a process. Counts and seconds are those of scale 1."""

    name: str
    title: str
    group: Group
    team: tuple[Job, ...]
    replication_factor: int = 3
    is_led_by_one: bool = False
    """Whether LEADER leads all partitions and all others follow, so that each role can be charged."""

    @property
    def partitions(self) -> int:
        """Of the row's topic."""
        return self.team[0].partitions

    @property
    def assignment(self) -> Mapping[int, Sequence[int]]:
        """The replicas of each partition, the leader first."""
        if self.is_led_by_one:
            return led_by(LEADER, self.partitions, self.replication_factor)
        return spread(self.partitions, self.replication_factor)

    def measure(self, cluster: Cluster, scale: float) -> Sequence[dict[str, float]]:
        """One measurement on a topic of its own."""
        topic = f"{self.name}-{time.time_ns()}"
        ends = [0] * self.partitions
        jobs = [
            replace(scaled_job(job, scale), bootstrap=cluster.bootstrap, topic=topic, ends=ends)
            for job in self.team
        ]
        cluster.create(topic, self.assignment, SETTINGS)
        machine.touch_free_memory(measuring.TOUCHED_BYTES)
        measured, used = measuring.measure(jobs, cluster)
        figures = rounds.figures_of(jobs, measured)
        figures["missing"] += rounds.lost(jobs, measured, cluster.stored(topic, self.partitions))
        cluster.delete(topic)
        if self.is_led_by_one:
            figures |= by_role(used, sum(outcome.done for outcome in measured.outcomes))
        return [figures]


def by_role(used: measuring.Used, records: int) -> dict[str, float]:
    """Processor time of the leader, and of one follower as the mean of all, in microseconds a record."""
    return {
        "leader_us": used.of([LEADER]) / records * 1e6,
        "follower_us": used.of(FOLLOWERS) / len(FOLLOWERS) / records * 1e6,
    }


def batches(replication_factor: int) -> Load:
    """One producer, as fast as it can."""
    job = Job("produce", count=300_000, partitions=6, cap_s=6.0, connects=True)
    title = f"1 KiB, batches up to 1 MB, {replication_factor} replicas"
    return Load(f"produce-rf{replication_factor}", title, Group.PRODUCE, (job,), replication_factor)


def one_each(replication_factor: int, seconds: float = 3.0) -> Load:
    """16 producers in two processes, each record in a request of its own."""
    job = Job("one-each", size=100, partitions=6, seconds=seconds, clients=8, connects=True)
    title = f"100 B, one record a request, 16 producers, {replication_factor} replicas"
    return Load(f"small-rf{replication_factor}", title, Group.SMALL, (job, job), replication_factor)


def latency(replication_factor: int) -> Load:
    """A producer at a fixed rate, and a consumer at the end of the topic."""
    job = Job("", size=100, partitions=3, rate=500.0, count=2500, connects=True)
    team = (replace(job, kind="send-paced"), replace(job, kind="receive-paced"))
    title = f"500 records of 100 B a second, {replication_factor} replicas"
    return Load(f"latency-rf{replication_factor}", title, Group.LATENCY, team, replication_factor)


WARM_UPS: Final = (
    replace(one_each(3, seconds=15.0), name="warm-up-small"),
    Load(
        "warm-up-batches",
        "1 KiB, batches up to 16 KiB, 3 replicas",
        Group.PRODUCE,
        (
            Job(
                "produce",
                count=10**9,
                partitions=6,
                cap_s=10.0,
                connects=True,
                settings={"batch.size": 16384},
            ),
        ),
    ),
)
"""Before the first round, and in no table: a JVM compiles what serves requests only after some ten thousand of them."""
_PACED: Final = Job(partitions=4, connects=True)

LOADS: Final = (
    batches(2),
    batches(3),
    one_each(2),
    one_each(3),
    latency(2),
    latency(3),
    Load(
        "cpu-batches",
        "20,000 records of 1 KiB a second, in batches",
        Group.CPU,
        (replace(_PACED, kind="produce", count=80_000, rate=20_000.0, cap_s=8.0, spread=True),),
        is_led_by_one=True,
    ),
    Load(
        "cpu-small",
        "1,000 records of 1 KiB a second, one a request",
        Group.CPU,
        (replace(_PACED, kind="send-paced", count=4000, rate=1000.0),),
        is_led_by_one=True,
    ),
)
