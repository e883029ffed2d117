"""New replicas catch up: by a reassignment a broker gets a replica of each partition of a topic, and fetches all of it.

The topic is filled once, with one replica of each partition. In each round a second broker is added, which is measured
until it is in all ISRs, and removed again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench import machine
from bench.cluster import measuring
from bench.cluster.clusters import Cluster
from bench.cluster.figures import Group
from bench.side_by_side.job import Job
from tests.support.cluster.history import At
from tests.support.cluster.waiting import wait_until

LEADER: Final = 1
FOLLOWER: Final = 2
PARTITIONS: Final = 4
LEAST_MIB: Final = 32
LIMIT_S: Final = 120.0
_RECORD_BYTES: Final = 1024
_POLL_S: Final = 0.02


@dataclass(frozen=True)
class CatchUp:
    """The row; `mib` is the topic's size at scale 1."""

    mib: int = 512
    name: str = "catch-up"
    group: Group = Group.CATCH_UP

    @property
    def title(self) -> str:
        """What the report calls it."""
        return f"{self.mib} MiB in {PARTITIONS} partitions"

    def measure(self, cluster: Cluster, scale: float) -> Sequence[dict[str, float]]:
        """Adds the follower, and removes it afterwards."""
        topic = filled(cluster, max(round(self.mib * scale), LEAST_MIB))
        ats = [At(topic, number) for number in range(PARTITIONS)]
        size_bytes = sum(log_bytes(cluster, at) for at in ats)
        machine.touch_free_memory(measuring.TOUCHED_BYTES)
        meter, began = measuring.Meter(cluster), time.monotonic()
        cluster.rig.move({at: [LEADER, FOLLOWER] for at in ats})
        _wait_for_isr(cluster, topic, {LEADER, FOLLOWER})
        seconds, used = time.monotonic() - began, meter.used()
        _remove_follower(cluster, ats)
        return [figures_of(size_bytes, seconds, used)]


def figures_of(size_bytes: int, seconds: float, used: measuring.Used) -> dict[str, float]:
    """MB (1,000,000 bytes) a second, and the processor time of both brokers for 1,000 MB."""
    return {
        "mb_s": size_bytes / seconds / 1e6,
        "leader_s_gb": used.of([LEADER]) / size_bytes * 1e9,
        "follower_s_gb": used.of([FOLLOWER]) / size_bytes * 1e9,
        "others": used.others,
    }


def filled(cluster: Cluster, mib: int) -> str:
    """The topic with so many MiB; it is filled the first time."""
    topic = f"catch-up-{mib}"
    if topic not in cluster.lasting:
        assignment = {number: [LEADER] for number in range(PARTITIONS)}
        cluster.create(topic, assignment, {"min.insync.replicas": "1"})
        count = (mib << 20) // _RECORD_BYTES
        job = Job(
            "produce",
            cluster.bootstrap,
            topic,
            PARTITIONS,
            _RECORD_BYTES,
            count,
            cap_s=LIMIT_S,
            spread=True,
        )
        measuring.measure([job], cluster)
        cluster.lasting[topic] = PARTITIONS
    return topic


def log_bytes(cluster: Cluster, at: At) -> int:
    """The size of the leader's segments."""
    directory = cluster.rig.partition_directory(LEADER, at)
    assert directory is not None, at
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def _wait_for_isr(cluster: Cluster, topic: str, wanted: set[int]) -> None:
    """Looks more often than the rig's waits."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = cluster.rig.partitions([topic], among=[LEADER])
        if all(set(each.isr) == wanted for each in found.values()):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all ISRs are {wanted}: {found}")
        time.sleep(_POLL_S)


def _remove_follower(cluster: Cluster, ats: Sequence[At]) -> None:
    """Returns when the follower's directories are gone."""
    cluster.rig.move({at: [LEADER] for at in ats})
    for at in ats:
        cluster.rig.wait_replicas(at, [LEADER])
    wait_until(
        "the follower has deleted its replicas",
        lambda: [at for at in ats if cluster.rig.partition_directory(FOLLOWER, at)],
    )
