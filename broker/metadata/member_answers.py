"""MemberAnswers: what the members of a cluster tell clients about brokers, leaders and replicas; all from the image.

Source: org.apache.kafka.metadata.KRaftMetadataCache, org.apache.kafka.common.DirectoryId.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.cluster_answers import BrokerNode, CacheKey, PartitionAnswer
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage, TopicImage
from barnabas.broker.request import ConnectionInfo
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.wire import Uuid

NO_CONTROLLER: Final = -1

_LISTENER_NOT_FOUND_SINCE: Final = 6
"""Older Metadata requests get LEADER_NOT_AVAILABLE in its place."""

_UNASSIGNED_DIR: Final = bytes(16)
_LOST_DIR: Final = bytes(15) + b"\1"
_MIGRATING_DIR: Final = bytes(15) + b"\2"
"""Reserved ids of directories: not known yet, failed, and of before directories had ids."""

Choose = Callable[[Sequence[int]], int]
"""random.choice."""


def broker_node(registration: BrokerRegistration | None, listener: str) -> BrokerNode | None:
    """A broker with its endpoint on `listener`, fenced or not; None where it has none."""
    at = None if registration is None else registration.listeners.get(listener)
    if registration is None or at is None:
        return None
    return BrokerNode(registration.broker_id, at.host, at.port, registration.rack, registration.fenced)


def alive_node(image: MetadataImage, node_id: int, listener: str) -> BrokerNode | None:
    """As `broker_node`, and None for a fenced broker."""
    node = broker_node(image.brokers.get(node_id), listener)
    return None if node is None or node.is_fenced else node


def has_online_dir(registration: BrokerRegistration, directory: Uuid) -> bool:
    """Whether a replica in `directory` can be served. Brokers of before KIP-858 list no directories."""
    if directory in {_UNASSIGNED_DIR, _MIGRATING_DIR}:
        return True
    if directory == _LOST_DIR:
        return False
    return not registration.log_dirs or directory in registration.log_dirs


class _Listener:
    """The brokers as the clients of one listener see them."""

    def __init__(self, brokers: Mapping[int, BrokerRegistration], name: str) -> None:
        nodes = (broker_node(known, name) for known in brokers.values())
        self.nodes = {node.node_id: node for node in nodes if node is not None}
        self.alive = {node_id: node for node_id, node in self.nodes.items() if not node.is_fenced}


class MemberAnswers:
    """ClusterAnswers from the image. `choose` picks the node to which clients send the requests for the controller:
    every broker forwards them."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._brokers: Mapping[int, BrokerRegistration] | None = None
        self._listeners: dict[str, _Listener] = {}

    def _listener(self, image: MetadataImage, connection: ConnectionInfo) -> _Listener:
        """Computed once for each listener and state of the brokers, of which images share the unchanged."""
        if self._brokers is not image.brokers:
            self._brokers, self._listeners = image.brokers, {}
        name = connection.listener_name
        listener = self._listeners.get(name)
        if listener is None:
            listener = self._listeners[name] = _Listener(image.brokers, name)
        return listener

    def brokers(self, image: MetadataImage, connection: ConnectionInfo) -> list[BrokerNode]:
        return list(self._listener(image, connection).alive.values())

    def described_brokers(
        self, image: MetadataImage, connection: ConnectionInfo, *, include_fenced: bool
    ) -> list[BrokerNode]:
        listener = self._listener(image, connection)
        return list((listener.nodes if include_fenced else listener.alive).values())

    def node(self, image: MetadataImage, node_id: int, connection: ConnectionInfo) -> BrokerNode | None:
        return self._listener(image, connection).alive.get(node_id)

    def controller_id(self, image: MetadataImage) -> int:
        alive = [node_id for node_id, known in image.brokers.items() if not known.fenced]
        return self._choose(alive) if alive else NO_CONTROLLER

    def partition(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partition: PartitionImage,
        connection: ConnectionInfo,
        version: int | None,
    ) -> PartitionAnswer:
        """A fenced leader is still named, as in Kafka: the controller is about to elect another."""
        listener = self._listener(image, connection)
        error = _leader_error(image, partition, listener, version)
        leader = partition.leader if partition.leader in listener.nodes else NO_LEADER
        replicas, isr = partition.replicas, partition.isr
        if version == 0:  # which has no offline replicas
            replicas, isr = (
                tuple(node for node in nodes if node in listener.alive) for nodes in (replicas, isr)
            )
            is_complete = len(replicas) == len(partition.replicas) and len(isr) == len(partition.isr)
            if error is ErrorCode.NONE and not is_complete:
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        return PartitionAnswer(error, leader, replicas, isr, _offline(image, partition, listener))

    def cache_key(self, image: MetadataImage, connection: ConnectionInfo) -> CacheKey | None:
        return CacheKey(connection.listener_name, image.brokers)


def _leader_error(
    image: MetadataImage, partition: PartitionImage, listener: _Listener, version: int | None
) -> ErrorCode:
    """Why the client cannot reach the leader. DescribeTopicPartitions has no error for that."""
    if partition.leader in listener.nodes or version is None:
        return ErrorCode.NONE
    if partition.leader in image.brokers and version >= _LISTENER_NOT_FOUND_SINCE:
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE


def _offline(image: MetadataImage, partition: PartitionImage, listener: _Listener) -> list[int]:
    """Replicas on brokers that are unknown, fenced or without the listener, or in a directory that has failed."""
    return [
        node
        for node in partition.replicas
        if node not in listener.alive or not has_online_dir(image.brokers[node], partition.directory_of(node))
    ]
