"""The metadata records of a node's start and stop, about itself and its partitions.

Start, each line one batch:

    RegisterControllerRecord                  its listener and the features it supports
    RegisterBrokerRecord                      fenced; its broker epoch is this record's offset
    BrokerRegistrationChangeRecord (unfence)  with the elections of every partition that has no leader

Stop:

    BrokerRegistrationChangeRecord            in controlled shutdown, with its partitions left without a leader
    BrokerRegistrationChangeRecord            fenced

A broker that is not fenced at its next start was not stopped cleanly; Kafka's controller then waits for
broker.session.timeout.ms before it accepts the registration of another incarnation. With eligible leader replicas
(KIP-966) the last replica in sync leaves the ISR for the ELR, from which it is elected again.
Source: ClusterControlManager.registerBroker, ReplicationControlManager, PartitionChangeBuilder.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.broker.metadata.cluster import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    ListenerEndpoint,
    end_points,
    supported_features,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import NO_LEADER, RECOVERING, PartitionImage
from barnabas.broker.metadata.versions import (
    CONTROLLER_REGISTRATION,
    CORDONED_LOG_DIRS,
    DIRECTORY_ASSIGNMENT,
    ELIGIBLE_LEADER_REPLICAS,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    LevelRange,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.controller import CONTROLLER_LISTENER_NAMES
from barnabas.config.catalogue.network import ADVERTISED_LISTENERS, LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS
from barnabas.config.catalogue.replication import SECURITY_PROTOCOLS
from barnabas.config.catalogue.server import BROKER_RACK
from barnabas.config.listeners import Listener, controller_listeners
from barnabas.protocol.messages.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

RECORDS_PER_BATCH: Final = 1_000
"""Elections need not be atomic; batches of this size stay far below what Kafka reads at once."""

_EVERY_INTERFACE: Final = frozenset({None, "0.0.0.0", "::"})


class Node(NamedTuple):
    """A node's registration: ids, the addresses of its listeners, and the features that it supports."""

    node_id: int
    incarnation_id: Uuid
    listeners: Sequence[Listener]
    controller_listeners: Sequence[Listener]
    features: Mapping[str, LevelRange]
    rack: str | None
    log_dirs: Sequence[Uuid]
    cordoned_log_dirs: Sequence[Uuid] = ()

    @classmethod
    def of(
        cls,
        config: BrokerConfig,
        node_id: int,
        *,
        incarnation_id: Uuid,
        ports: Mapping[str, int],
        features: Mapping[str, LevelRange],
        log_dirs: Sequence[Uuid],
    ) -> Node:
        """The node of a configuration. `ports`: those that were opened, by listener, where the configuration has 0."""
        return cls(
            node_id,
            incarnation_id,
            [_reached_at(listener, ports) for listener in config.listeners],
            [_reached_at(listener, ports) for listener in configured_controller_listeners(config)],
            features,
            config[BROKER_RACK],
            log_dirs,
        )


def configured_controller_listeners(config: BrokerConfig) -> list[Listener]:
    """The controller's listeners of a configuration, none of which is opened; empty where there are none."""
    listeners, advertised = config[LISTENERS], config[ADVERTISED_LISTENERS]
    names = config[CONTROLLER_LISTENER_NAMES]
    return controller_listeners(listeners, advertised, config[LISTENER_SECURITY_PROTOCOL_MAP], names or ())


def _reached_at(listener: Listener, ports: Mapping[str, int]) -> Listener:
    """The advertised address; a listener on every interface is reached by the machine's name."""
    host = listener.advertised_host or listener.host
    port = listener.advertised_port if listener.advertised_host else listener.port
    return Listener(
        listener.name,
        socket.gethostname() if host in _EVERY_INTERFACE else host,
        port or ports.get(listener.name, 0),
        security_protocol=listener.security_protocol,
    )


# -- the start --


def controller_registration(node: Node, metadata_version: int) -> list[Message]:
    """The controller's registration, where the metadata.version supports it."""
    if metadata_version < CONTROLLER_REGISTRATION:
        return []
    return [
        RegisterControllerRecord(
            controller_id=node.node_id,
            incarnation_id=node.incarnation_id,
            zk_migration_ready=False,
            end_points=end_points(
                RegisterControllerRecord.ControllerEndpoint, endpoints(node.controller_listeners)
            ),
            features=supported_features(RegisterControllerRecord.ControllerFeature, node.features),
        )
    ]


def broker_registration(node: Node, metadata_version: int, broker_epoch: int) -> RegisterBrokerRecord:
    """The broker's registration, fenced. `broker_epoch`: the offset that the record will have."""
    has_cordons = metadata_version >= CORDONED_LOG_DIRS
    return RegisterBrokerRecord(
        broker_id=node.node_id,
        incarnation_id=node.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=end_points(RegisterBrokerRecord.BrokerEndpoint, endpoints(node.listeners)),
        features=supported_features(RegisterBrokerRecord.BrokerFeature, node.features),
        rack=node.rack,
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=list(node.log_dirs) if metadata_version >= DIRECTORY_ASSIGNMENT else [],
        cordoned_log_dirs=list(node.cordoned_log_dirs) if has_cordons else None,
    )


def endpoints(listeners: Iterable[Listener]) -> dict[str, ListenerEndpoint]:
    """Where others reach these listeners, by name."""
    return {
        at.name: ListenerEndpoint(at.host or "", at.port, SECURITY_PROTOCOLS.index(at.security_protocol))
        for at in listeners
    }


def unfencing(node_id: int, broker_epoch: int) -> BrokerRegistrationChangeRecord:
    """The record that unfences the broker."""
    return BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker_epoch, fenced=UNFENCE)


def start_changes(
    image: MetadataImage, node_id: int, directories: Mapping[tuple[str, int], Uuid], *, elect_all: bool
) -> Iterator[PartitionChangeRecord]:
    """Elections of the node's partitions that have no leader, and the log directories in which their logs are.

    With `elect_all` the others get a new leader epoch, too: records that a crash may have lost were of an older one,
    which consumers detect. `directories`: where each log was found, by topic and partition.
    """
    assigns = image.metadata_version >= DIRECTORY_ASSIGNMENT
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if node_id not in partition.replicas:
                continue
            record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
            elects = elect_all or partition.leader != node_id
            if elects:
                _elect(record, partition, node_id)
            found = directories.get((topic.name, index)) if assigns else None
            moved = found is not None and found != partition.directory_of(node_id)
            if moved and found is not None:
                record.directories = partition.with_directory(node_id, found)
            if elects or moved:
                yield record


def _elect(record: PartitionChangeRecord, partition: PartitionImage, node_id: int) -> None:
    """Makes the node the leader; an unclean election unless it was in sync or eligible."""
    record.leader = node_id
    if node_id not in partition.isr:
        record.isr = [node_id]
        if node_id not in partition.elr:
            record.leader_recovery_state = RECOVERING
    if partition.elr:
        record.eligible_leader_replicas = []
    if partition.last_known_elr:
        record.last_known_elr = []


# -- the stop --


def shutdown_changes(image: MetadataImage, node_id: int) -> list[list[Message]]:
    """The batches of a controlled shutdown; none where the broker is not registered."""
    broker = image.brokers.get(node_id)
    if broker is None:
        return []
    leaving = BrokerRegistrationChangeRecord(
        broker_id=node_id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
    )
    gone = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, fenced=FENCE)
    return [*in_batches([leaving, *_resignations(image, node_id)]), [gone]]


def _resignations(image: MetadataImage, node_id: int) -> Iterator[PartitionChangeRecord]:
    eligible = has_eligible_leader_replicas(image)
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if node_id != partition.leader:
                continue
            record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=NO_LEADER)
            if eligible and partition.isr == (node_id,):
                record.isr = []
                record.eligible_leader_replicas = sorted({*partition.elr, node_id})
                record.last_known_elr = [node_id]
            yield record


def has_eligible_leader_replicas(image: MetadataImage) -> bool:
    """Whether replicas that leave the ISR are remembered as eligible (KIP-966)."""
    level = image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0)
    return level > 0 and image.metadata_version >= ELIGIBLE_LEADER_REPLICAS


def in_batches(records: Iterable[Message]) -> list[list[Message]]:
    """Records that need not be atomic, in batches of RECORDS_PER_BATCH."""
    rows = list(records)
    return [rows[at : at + RECORDS_PER_BATCH] for at in range(0, len(rows), RECORDS_PER_BATCH)]
