"""The report of `barnabas cluster describe`: each broker's part of the cluster, and what is out of sync."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from barnabas.cli.admin.calls.cluster import ClusterInfo, NodeInfo, describe_cluster
from barnabas.cli.admin.calls.topics import PartitionInfo, TopicInfo
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import UnsupportedApiError
from barnabas.cli.admin.shapes import BrokerRow, ClusterSummaryRow, UnderReplicatedRow

ABSENT: Final = "absent"


class Registered(NamedTuple):
    """The brokers of a cluster."""

    cluster: ClusterInfo
    knows_fenced: bool
    """Whether the fenced ones are among them."""


def registered_brokers(client: AdminClient) -> Registered:
    """All registered brokers; the unfenced ones alone where the cluster cannot name the others (before Kafka 4.0)."""
    try:
        return Registered(describe_cluster(client, include_fenced=True), knows_fenced=True)
    except UnsupportedApiError:
        return Registered(describe_cluster(client), knows_fenced=False)


class ClusterReport:
    """What a list of brokers and a list of topics say together."""

    BROKER_HEADS: ClassVar = (
        "BROKER",
        "HOST",
        "PORT",
        "RACK",
        "STATE",
        "LEADERS",
        "PREFERRED",
        "REPLICAS",
        "OUT_OF_SYNC",
    )
    PARTITION_HEADS: ClassVar = ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "OUT_OF_SYNC")

    def __init__(self, registered: Registered, topics: Sequence[TopicInfo]) -> None:
        self._cluster_id = registered.cluster.cluster_id
        self._knows_fenced = registered.knows_fenced
        self._nodes = {node.id: node for node in registered.cluster.nodes}
        self._partitions = [(topic.name, each) for topic in topics for each in topic.partitions]

    def summary(self) -> ClusterSummaryRow:
        """The cluster as a whole."""
        fenced = sum(node.is_fenced for node in self._nodes.values())
        return ClusterSummaryRow(
            self._cluster_id,
            len(self._nodes),
            fenced if self._knows_fenced else None,
            len(self._partitions),
            sum(bool(_out_of_sync(each)) for _, each in self._partitions),
            sum(each.leader is None for _, each in self._partitions),
        )

    def line(self) -> str:
        """The summary as text."""
        found = self.summary()
        fenced = f", {found.fenced_brokers} fenced" if found.fenced_brokers else ""
        return (
            f"Cluster {found.cluster_id}: {found.brokers} brokers{fenced}; {found.partitions} partitions, "
            f"{found.under_replicated_partitions} under-replicated, {found.leaderless_partitions} without a leader"
        )

    def brokers(self) -> list[BrokerRow]:
        """Each broker that is registered or has replicas, by id."""
        leaders = Counter(each.leader for _, each in self._partitions)
        preferred = Counter(each.replicas[0] for _, each in self._partitions if each.replicas)
        replicas = Counter(broker for _, each in self._partitions for broker in each.replicas)
        behind = Counter(broker for _, each in self._partitions for broker in _out_of_sync(each))
        rows = []
        for broker in sorted({*self._nodes, *replicas}):
            host, port, rack, state = _place(self._nodes.get(broker))
            counts = (leaders[broker], preferred[broker], replicas[broker], behind[broker])
            rows.append(BrokerRow(broker, host, port, rack, state, *counts))
        return rows

    def under_replicated(self) -> list[UnderReplicatedRow]:
        """The partitions that need attention, by topic and number."""
        return [
            UnderReplicatedRow(topic, each.number, each.leader, each.replicas, each.isr, _out_of_sync(each))
            for topic, each in self._partitions
            if each.leader is None or _out_of_sync(each)
        ]


def _place(node: NodeInfo | None) -> tuple[str | None, int | None, str | None, str]:
    if node is None:
        return None, None, None, ABSENT
    return node.host, node.port, node.rack, "fenced" if node.is_fenced else "unfenced"


def _out_of_sync(partition: PartitionInfo) -> list[int]:
    return [broker for broker in partition.replicas if broker not in partition.isr]
