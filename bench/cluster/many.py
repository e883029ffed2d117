"""A topic of 2,000 partitions with three replicas each, and the memory of brokers that have a replica of each.

The first half of the partitions is led by broker 1, the other half by the others in turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench import accounting
from bench.cluster import measuring
from bench.cluster.clusters import BROKERS, Cluster
from bench.cluster.figures import Group
from bench.side_by_side.job import Job

TOPIC: Final = "many"
PARTITIONS: Final = 2000
LEAST_PARTITIONS: Final = 200
FIRST: Final = 1
"""The broker that leads the first half."""
IDLE_S: Final = 5.0
LOAD: Final = Job("produce", partitions=PARTITIONS, count=200_000, cap_s=30.0, spread=True)


def count_of(scale: float) -> int:
    """The partitions at a scale: an even number."""
    return max(round(PARTITIONS * min(scale, 1.0) / 2), LEAST_PARTITIONS // 2) * 2


def assignment_of(partitions: int) -> dict[int, list[int]]:
    """The replicas of each partition, the leader first."""
    others = [node for node in BROKERS if node != FIRST]
    found = {}
    for number in range(partitions):
        turned = others if number % 2 else others[::-1]
        found[number] = [FIRST, *turned] if number < partitions // 2 else [*turned, FIRST]
    return found


def filled(cluster: Cluster, scale: float) -> int:
    """Creates the topic the first time; returns the number of its partitions."""
    if TOPIC not in cluster.lasting:
        partitions = count_of(scale)
        cluster.create(TOPIC, assignment_of(partitions), {"min.insync.replicas": "2"})
        cluster.lasting[TOPIC] = partitions
    return cluster.lasting[TOPIC]


def memory_of(cluster: Cluster, broker: int) -> dict[str, float]:
    """Of all processes of a broker, in MiB."""
    pid = cluster.pid(broker)
    return {"rss_mib": accounting.rss_mib(pid), "pss_mib": accounting.pss_mib(pid)}


@dataclass(frozen=True)
class Memory:
    """The row, to be measured on brokers that have done nothing else."""

    name: str = "memory"
    group: Group = Group.MEMORY

    @property
    def title(self) -> str:
        """What the report calls it."""
        return f"{PARTITIONS:,} replicas"

    def measure(self, cluster: Cluster, scale: float) -> Sequence[dict[str, float]]:
        """The memory of each broker, idle for some seconds and after a load over all partitions."""
        partitions = filled(cluster, scale)
        time.sleep(IDLE_S)
        idle = [memory_of(cluster, broker) for broker in BROKERS]
        count = round(LOAD.count * min(scale, 1.0))
        load = Job(
            LOAD.kind,
            cluster.bootstrap,
            TOPIC,
            partitions,
            count=count,
            cap_s=LOAD.cap_s,
            spread=LOAD.spread,
        )
        measuring.measure([load], cluster)
        time.sleep(IDLE_S)
        loaded = [memory_of(cluster, broker) for broker in BROKERS]
        return [
            {**before, **{f"loaded_{name}": value for name, value in after.items()}}
            for before, after in zip(idle, loaded, strict=True)
        ]
