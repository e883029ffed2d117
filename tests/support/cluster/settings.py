"""The configuration of the nodes of a cluster: Kafka's keys, with timers so quick that a test sees what they do
unless others are given.

The same file serves a JVM node and a Barnabas node, so that one can take the place of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.cluster.names import LOOPBACK, name_of

INTERNAL: Final = "INTERNAL"
CLIENT: Final = "CLIENT"
CONTROLLER: Final = "CONTROLLER"

SESSION_S: Final = 3.0
"""A broker that is silent for this long is fenced."""
LAG_S: Final = 2.0
"""A replica that is behind for this long leaves the ISR."""

QUICK: Final = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
    "leader.imbalance.check.interval.seconds": "1",
    "unclean.leader.election.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.min.session.timeout.ms": "3000",
}
"""The timers of the brokers and of the controllers."""

MODEST: Final = {
    "num.network.threads": "1",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "auto.create.topics.enable": "false",
    "replication.quota.window.num": "2",
    "num.partitions": "1",
}
"""For small heaps and few processors."""

FOR_TESTS: Final = {
    **QUICK,
    **MODEST,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "barnabas.http.port": "-1",
}
"""All that the nodes of a test have besides what makes them a cluster. A JVM ignores keys of Barnabas."""


class Ports(NamedTuple):
    """The ports of a node on 127.0.0.1: of a controller only the first counts."""

    internal: int
    """Of a broker's listener for other brokers, or of a controller's for everybody."""
    client: int


class ClusterShape(NamedTuple):
    """The nodes of a cluster, by id, and where they listen."""

    controllers: Mapping[int, Ports]
    brokers: Mapping[int, Ports]
    is_direct: bool = False
    """Whether the nodes connect to each other's ports themselves, without a link of `network.py` in between."""

    def host_of(self, node: int) -> str:
        """The host that a node is advertised by to the other nodes."""
        return LOOPBACK if self.is_direct else name_of(node)

    @property
    def replication_factor(self) -> int:
        """Of the internal topics, and of those that tests create: 3 where there are so many brokers."""
        return min(3, len(self.brokers))

    @property
    def min_in_sync(self) -> int:
        """What is left when one broker is gone."""
        return max(1, self.replication_factor - 1)

    @property
    def quorum(self) -> str:
        """The value of controller.quorum.bootstrap.servers."""
        return ",".join(f"{self.host_of(node)}:{ports.internal}" for node, ports in self.controllers.items())


def controller_settings(
    shape: ClusterShape, node: int, directory: Path, tuning: Mapping[str, str] = FOR_TESTS
) -> dict[str, str]:
    """The configuration of a controller."""
    port = shape.controllers[node].internal
    return {
        **tuning,
        **_common(shape, node, [directory]),
        "process.roles": "controller",
        "listeners": f"{CONTROLLER}://{LOOPBACK}:{port}",
        "advertised.listeners": f"{CONTROLLER}://{shape.host_of(node)}:{port}",
    }


def broker_settings(
    shape: ClusterShape,
    node: int,
    directories: Sequence[Path],
    client_host: str = LOOPBACK,
    tuning: Mapping[str, str] = FOR_TESTS,
) -> dict[str, str]:
    """The configuration of a broker; clients reach it at `client_host`. Its rack follows from its id: r1 or r0."""
    ports = shape.brokers[node]
    internal, client = f"{shape.host_of(node)}:{ports.internal}", f"{client_host}:{ports.client}"
    factor, least = str(shape.replication_factor), str(shape.min_in_sync)
    return {
        **tuning,
        **_common(shape, node, directories),
        "process.roles": "broker",
        "listeners": f"{INTERNAL}://{LOOPBACK}:{ports.internal},{CLIENT}://{LOOPBACK}:{ports.client}",
        "advertised.listeners": f"{INTERNAL}://{internal},{CLIENT}://{client}",
        "inter.broker.listener.name": INTERNAL,
        "broker.rack": rack_of(node),
        "default.replication.factor": factor,
        "min.insync.replicas": least,
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": least,
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": least,
    }


def rack_of(node: int) -> str:
    """The rack of a broker: neighbours are in different ones."""
    return f"r{node % 2}"


def _common(shape: ClusterShape, node: int, directories: Sequence[Path]) -> dict[str, str]:
    return {
        "node.id": str(node),
        "controller.listener.names": CONTROLLER,
        "controller.quorum.bootstrap.servers": shape.quorum,
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in (CONTROLLER, INTERNAL, CLIENT)
        ),
        "log.dirs": ",".join(map(str, directories)),
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Writes a server.properties."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
