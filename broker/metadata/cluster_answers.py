"""ClusterAnswers: what clients are told about brokers, leaders and replicas; and the answers of a node that is alone.

A member of a cluster answers from the image (`broker.metadata.member_answers`). A node that is alone is the only broker
that its clients can reach: it gives each of them the address that it dialled, unless an advertised one is configured.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage, TopicImage
from barnabas.broker.request import ConnectionInfo
from barnabas.protocol.errors import ErrorCode


class Endpoint(NamedTuple):
    """Where clients reach a broker."""

    host: str
    port: int


class BrokerNode(NamedTuple):
    """A broker, with its endpoint on the listener of one client."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


class PartitionAnswer(NamedTuple):
    """The fields of a partition that depend on the brokers. `leader` is NO_LEADER where the client cannot reach it."""

    error: ErrorCode
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]


class CacheKey(NamedTuple):
    """What an encoded topic depends on beside the topic itself: answers with an equal key are the same.

    `brokers` is compared by identity.
    """

    listener: str
    brokers: Mapping[int, BrokerRegistration] | None


class ClusterAnswers(Protocol):
    """What a client is told; its listener decides which endpoints it can reach."""

    def brokers(self, image: MetadataImage, connection: ConnectionInfo) -> list[BrokerNode]:
        """The brokers of a Metadata response."""

    def described_brokers(
        self, image: MetadataImage, connection: ConnectionInfo, *, include_fenced: bool
    ) -> list[BrokerNode]:
        """The brokers of a DescribeCluster response."""

    def node(self, image: MetadataImage, node_id: int, connection: ConnectionInfo) -> BrokerNode | None:
        """A broker that the client can reach; None where it is fenced, unknown, or not on the client's listener."""

    def controller_id(self, image: MetadataImage) -> int:
        """The node to which clients send the requests for the controller; -1: none."""

    def partition(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partition: PartitionImage,
        connection: ConnectionInfo,
        version: int | None,
    ) -> PartitionAnswer:
        """The partition in a Metadata response of `version`; None: in a DescribeTopicPartitions response."""

    def cache_key(self, image: MetadataImage, connection: ConnectionInfo) -> CacheKey | None:
        """The key under which encoded topics may be cached; None: not at all."""


_ALONE = CacheKey("", None)


class Disks(Protocol):
    """The replicas of this node whose disk has failed; the ReplicaManager."""

    @property
    def has_offline_partitions(self) -> bool:
        """Whether is_offline() can be true of any partition."""

    def is_offline(self, topic: str, index: int) -> bool: ...


class SingleNode:
    """The answers of a node that serves alone. `advertised` has the listeners with a configured address."""

    def __init__(
        self, node_id: int, rack: str | None, advertised: Mapping[str, Endpoint], disks: Disks
    ) -> None:
        self._node_id = node_id
        self._rack = rack
        self._advertised = advertised
        self._disks = disks
        self._nodes: dict[tuple[str, str, int], BrokerNode] = {}

    def _this_node(self, connection: ConnectionInfo) -> BrokerNode:
        """The address that this client is given: the advertised one of its listener, else the one that it dialled."""
        dialled = connection.listener_name, connection.local_host, connection.local_port
        node = self._nodes.get(dialled)
        if node is None:
            at = self._advertised.get(connection.listener_name) or Endpoint(*dialled[1:])
            node = self._nodes[dialled] = BrokerNode(self._node_id, at.host, at.port, self._rack)
        return node

    def brokers(self, image: MetadataImage, connection: ConnectionInfo) -> list[BrokerNode]:
        return [self._this_node(connection)]

    def described_brokers(
        self, image: MetadataImage, connection: ConnectionInfo, *, include_fenced: bool
    ) -> list[BrokerNode]:
        """This broker, and the others that are registered; those are fenced, since it serves alone.

        Their addresses are those of the client's listener; brokers without one of that name are left out.
        """
        others = [
            BrokerNode(node_id, at.host, at.port, known.rack, known.fenced)
            for node_id, known in sorted(image.brokers.items())
            if node_id != self._node_id
            and (at := known.listeners.get(connection.listener_name)) is not None
            and (include_fenced or not known.fenced)
        ]
        return [self._this_node(connection), *others]

    def node(self, image: MetadataImage, node_id: int, connection: ConnectionInfo) -> BrokerNode | None:
        return self._this_node(connection) if node_id == self._node_id else None

    def controller_id(self, image: MetadataImage) -> int:
        return self._node_id

    def partition(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partition: PartitionImage,
        connection: ConnectionInfo,
        version: int | None,
    ) -> PartitionAnswer:
        """Replicas on other brokers are offline, and this one's where its log directory has failed."""
        there: Collection[int] = (self._node_id,)
        if self._disks.is_offline(topic.name, partition.partition):
            there = ()
        offline = [node for node in partition.replicas if node not in there]
        leader = NO_LEADER if partition.leader in offline else partition.leader
        return PartitionAnswer(
            ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
            leader,
            partition.replicas,
            partition.isr,
            offline,
        )

    def cache_key(self, image: MetadataImage, connection: ConnectionInfo) -> CacheKey | None:
        return None if self._disks.has_offline_partitions else _ALONE
