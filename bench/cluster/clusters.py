"""The compared clusters: three brokers of one kind each, and a controller of Apache Kafka."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.cli.admin.calls.offsets import Offset, list_offsets
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.protocol.messages.offsets import LATEST
from bench import accounting, machine
from bench.brokers import STOCK_JVM
from bench.side_by_side.contestants import KAFKA, OURS
from tests.conformance.kafka_jars import classpath
from tests.support.cluster.nodes import Implementation, JvmSettings
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_until

BROKERS: Final = (1, 2, 3)
STOCK: Final = JvmSettings(broker=STOCK_JVM, controller=STOCK_JVM)
TUNING: Final = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "1000",
    "barnabas.http.port": "0",
}
"""The keys that differ from Apache Kafka's defaults: leaders stay where a row puts them, deleted logs go at once."""
IN_MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 6 << 30
"""What the clusters write at most, at the same time."""
LEAST_MEMORY_GIB: Final = 16
"""Of a machine that has room for it in memory."""


def usual_root() -> Path:
    """A directory in memory where there is room for it, else the place for temporary files."""
    has_room = (
        IN_MEMORY.is_dir()
        and machine.memory_gib() >= LEAST_MEMORY_GIB
        and shutil.disk_usage(IN_MEMORY).free >= ROOM_BYTES
    )
    return IN_MEMORY if has_room else Path(tempfile.gettempdir())


def spread(partitions: int, replication_factor: int) -> dict[int, list[int]]:
    """The replicas of each partition, the leader first: each broker leads as many as the others."""
    return {
        number: [BROKERS[(number + place) % len(BROKERS)] for place in range(replication_factor)]
        for number in range(partitions)
    }


def led_by(leader: int, partitions: int, replication_factor: int) -> dict[int, list[int]]:
    """The replicas of each partition, all led by one broker; the others take turns to follow."""
    others = [node for node in BROKERS if node != leader]
    return {
        number: [
            leader,
            *(others[(number + place) % len(others)] for place in range(replication_factor - 1)),
        ]
        for number in range(partitions)
    }


def deleted(log_dirs: Iterable[Path], topics: Iterable[str]) -> list[Path]:
    """The directories whose files a broker has still to remove: of replicas that it has deleted, and of deleted topics,
    of which it may not have heard yet."""
    patterns = ["*-delete", *(f"{topic}-*" for topic in topics)]
    return [left for log_dir in log_dirs for pattern in patterns for left in log_dir.glob(pattern)]


class Cluster:
    """A cluster whose brokers are of one kind, in a directory that is new with each start."""

    def __init__(self, name: str, kind: Implementation, jars: str, root: Path) -> None:
        self.name = name
        self._kind, self._jars, self._root = kind, jars, root
        self._directory: Path | None = None
        self._rig: ClusterRig | None = None
        self.lasting: dict[str, int] = {}
        """Topics that a row keeps for all its rounds, with their partitions."""
        self._deleted: set[str] = set()

    @property
    def rig(self) -> ClusterRig:
        """The nodes and their files."""
        assert self._rig is not None, f"{self.name} was never started"
        return self._rig

    def start(self) -> None:
        """Formats a new directory, starts all nodes, and waits until all brokers serve."""
        self.remove()
        self._directory = Path(tempfile.mkdtemp(prefix="bench-cluster-", dir=self._root))
        layout = self._kind.value * len(BROKERS)
        rig = ClusterRig(self._directory, layout, self._jars, direct=True, jvm=STOCK, tuning=TUNING)
        self._rig = rig.__enter__()

    def remove(self) -> None:
        """Kills all nodes and removes the directory."""
        if self._rig is not None:
            self._rig.close()
            self._rig = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self.lasting.clear()
        self._deleted.clear()

    @property
    def bootstrap(self) -> str:
        """The value of a client's bootstrap.servers."""
        return self.rig.bootstrap

    def pid(self, broker: int) -> int:
        """The id of a broker's process."""
        return self.rig.brokers[broker].pid

    def cpu_s(self) -> dict[int, float]:
        """Processor time that each node has used since its start, in seconds."""
        return {number: accounting.cpu_s(node.pid) for number, node in self.rig.nodes.items()}

    def create(
        self, topic: str, assignment: Mapping[int, Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Creates a topic; returns when all replicas are in sync, as each broker knows it."""
        self.rig.create_topic(topic, assignment=assignment, configs=settings)

    def delete(self, topic: str) -> None:
        """Deletes a topic."""
        self.rig.delete_topic(topic)
        self._deleted.add(topic)

    def wait_until_deleted(self) -> None:
        """Returns when nothing is left of deleted replicas: to free their pages would slow down what follows."""
        wait_until(
            "deleted replicas are gone",
            lambda: [
                left
                for node in self.rig.brokers.values()
                for left in deleted(node.files.log_dirs, self._deleted)
            ],
        )
        self._deleted.clear()

    def stored(self, topic: str, partitions: int) -> int:
        """The records of a topic that consumers may read: the sum of the high watermarks."""
        wanted = {TopicPartition(topic, number): LATEST for number in range(partitions)}
        found = self.rig.ask(lambda admin: list_offsets(admin, wanted))
        total = 0
        for partition, offset in found.items():
            assert isinstance(offset, Offset), f"{partition}: {offset}"
            total += offset.offset
        return total


def clusters(root: Path, *, with_kafka: bool) -> list[Cluster]:
    """Ours first. Raises KafkaMissingError: the controllers of both are Apache Kafka's."""
    jars = classpath()
    found = [Cluster(OURS, Implementation.BARNABAS, jars, root)]
    if with_kafka:
        found.append(Cluster(KAFKA, Implementation.JVM, jars, root))
    return found
