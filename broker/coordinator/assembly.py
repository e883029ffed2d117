"""Wires both coordinators, for the server and for the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.coordinator.dependencies import CoordinatorLoop, RuntimeDependencies
from barnabas.broker.coordinator.group.classic.classic_service import ClassicGroupService
from barnabas.broker.coordinator.group.consumer.consumer_service import ConsumerGroupService
from barnabas.broker.coordinator.group.consumer.regexes import VisibleTopics
from barnabas.broker.coordinator.group.offsets.offset_service import OffsetService
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.partition_log import ReplicaLogs
from barnabas.broker.coordinator.records import (
    GROUP_RECORDS,
    OFFSET_KEY_TYPES,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
)
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.shard import random_uuid
from barnabas.broker.coordinator.transaction.appends import TransactionalAppends
from barnabas.broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.broker.coordinator.transaction.marker_writer import TxnMarkerWriter
from barnabas.broker.coordinator.transaction.shard import TransactionCoordinatorShard
from barnabas.broker.coordinator.transaction.verification import AddPartitionsToTxnManager, VerificationProbe
from barnabas.broker.coordinator.txn import MarkerSender, ProducerIds
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.groups import (
    GROUP_COORDINATOR_APPEND_LINGER_MS,
    OFFSETS_COMMIT_TIMEOUT_MS,
    OFFSETS_LOAD_BUFFER_SIZE,
    OFFSETS_TOPIC_COMPRESSION_CODEC,
)
from barnabas.config.catalogue.server import REQUEST_TIMEOUT_MS
from barnabas.config.catalogue.transactions import TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE
from barnabas.protocol.records.compression import CompressionType

if TYPE_CHECKING:
    from uuid import UUID

    from barnabas.broker.coordinator.transaction.marker_channels import TransactionMarkerChannelManager
    from barnabas.broker.coordinator.transaction.remote_coordinators import RemoteCoordinators
    from barnabas.broker.node_client.channel import NodeChannel

TRANSACTION_WRITE_TIMEOUT_MS: Final = 60_000
"""How long a transaction's record may wait to be committed; as long as a transaction lasts by default."""


class GroupCoordinator:
    """What handlers ask of the group coordinator, by subject."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self.classic = ClassicGroupService(runtime, config)
        self.consumers = ConsumerGroupService(runtime, config)
        self.offsets = OffsetService(runtime, config)


class InterBroker(NamedTuple):
    """The listener between brokers, and the channel to a broker on it; None where this broker has no address of it."""

    listener: str
    channel_to: Callable[[int], NodeChannel | None]


class CoordinatorDependencies(NamedTuple):
    """What both coordinators are given.

    `now_ms` is the time of day; `loading` is a runner of their own, so that no fsync queues behind a load.
    """

    config: BrokerConfig
    node_id: int
    replica_manager: ReplicaManager
    loop: CoordinatorLoop
    loading: BlockingRunner
    producer_ids: ProducerIds
    now_ms: Callable[[], int]
    new_uuid: Callable[[], UUID] = random_uuid
    channels: InterBroker | None = None
    """In a cluster: the way to the other brokers."""
    visible_topics: VisibleTopics | None = None
    """What the authorizer lets clients describe; None without one."""


class Coordinators:
    """Both coordinators, with the markers and the verifications of transactions between them and the partitions."""

    def __init__(self, dependencies: CoordinatorDependencies) -> None:
        self.image = MetadataImage.empty()
        self.group_runtime = CoordinatorRuntime(
            _group_dependencies(dependencies, lambda: self.image), dependencies.node_id
        )
        self.groups = GroupCoordinator(self.group_runtime, dependencies.config)
        self.txn_markers = TxnMarkerWriter(
            dependencies.replica_manager,
            self.group_runtime.complete_transaction,
            dependencies.config,
            dependencies.now_ms,
        )
        self.marker_channels, remote = self._over_brokers(dependencies)
        self.transaction_runtime = CoordinatorRuntime(
            _transaction_dependencies(
                dependencies, lambda: self.image, self.marker_channels or self.txn_markers
            ),
            dependencies.node_id,
        )
        self.transactions = TransactionCoordinator(
            self.transaction_runtime, dependencies.config, dependencies.producer_ids
        )
        self.verifications = VerificationProbe()
        verifier = AddPartitionsToTxnManager(
            self.transactions, self.verifications, dependencies.loop.time, remote
        )
        self.group_runtime.verifier = verifier
        self.txn_appends = TransactionalAppends(
            dependencies.replica_manager, verifier, dependencies.config, dependencies.loop
        )

    def _over_brokers(
        self, dependencies: CoordinatorDependencies
    ) -> tuple[TransactionMarkerChannelManager | None, RemoteCoordinators | None]:
        """The parts that a member of a cluster needs to reach the other brokers; imported only there."""
        given, config = dependencies.channels, dependencies.config
        if given is None:
            return None, None
        from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels
        from barnabas.broker.coordinator.transaction.marker_channels import TransactionMarkerChannelManager
        from barnabas.broker.coordinator.transaction.remote_coordinators import RemoteCoordinators

        brokers = BrokerChannels(
            dependencies.node_id,
            lambda: self.image,
            given.listener,
            given.channel_to,
            lambda: config[REQUEST_TIMEOUT_MS],
        )
        return TransactionMarkerChannelManager(brokers, self.txn_markers), RemoteCoordinators(brokers)

    @property
    def unknown_destinations(self) -> int:
        """How many markers wait for a leader; of a node that is alone, how many wait to be written again."""
        if self.marker_channels is not None:
            return self.marker_channels.unknown_destinations
        return sum(shard.markers.retried for shard in self.transaction_runtime.shards())

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Applies new metadata; called after the ReplicaManager."""
        self.image = image
        self.group_runtime.apply(image, delta)
        self.transaction_runtime.apply(image, delta)
        if self.marker_channels is not None:
            self.marker_channels.apply(image, delta)

    def log_opened(self, topic: str, partition: int) -> None:
        """Loads the shard of a partition whose missing log has been opened."""
        for runtime in (self.group_runtime, self.transaction_runtime):
            if runtime.topic == topic:
                runtime.log_opened(partition)

    def log_dir_failed(self) -> None:
        """Unloads the shards whose partitions lie in a log directory that has failed."""
        self.group_runtime.log_dir_failed()
        self.transaction_runtime.log_dir_failed()

    def stop(self) -> None:
        """Appends the records of all operations so far; later operations are rejected."""
        self.group_runtime.stop()
        self.transaction_runtime.stop()


def _group_dependencies(
    dependencies: CoordinatorDependencies, image: Callable[[], MetadataImage]
) -> RuntimeDependencies[GroupCoordinatorShard]:
    config = dependencies.config
    return RuntimeDependencies(
        topic=CONSUMER_OFFSETS,
        new_shard=lambda context: GroupCoordinatorShard(context, dependencies.visible_topics),
        records=GROUP_RECORDS,
        logs=ReplicaLogs(CONSUMER_OFFSETS, dependencies.replica_manager),
        config=config,
        loop=dependencies.loop,
        runner=dependencies.loading,
        now_ms=dependencies.now_ms,
        image=image,
        load_buffer_size=lambda: config[OFFSETS_LOAD_BUFFER_SIZE],
        write_timeout_ms=lambda: config[OFFSETS_COMMIT_TIMEOUT_MS],
        linger_ms=lambda: config[GROUP_COORDINATOR_APPEND_LINGER_MS],
        compression=lambda: CompressionType(config[OFFSETS_TOPIC_COMPRESSION_CODEC]),
        is_needed=_is_needed,
        base_sequence=0,
        new_uuid=dependencies.new_uuid,
    )


def _transaction_dependencies(
    dependencies: CoordinatorDependencies, image: Callable[[], MetadataImage], markers: MarkerSender
) -> RuntimeDependencies[TransactionCoordinatorShard]:
    config = dependencies.config
    return RuntimeDependencies(
        topic=TRANSACTION_STATE,
        new_shard=lambda context: TransactionCoordinatorShard(context, markers, dependencies.producer_ids),
        records=TRANSACTION_RECORDS,
        logs=ReplicaLogs(TRANSACTION_STATE, dependencies.replica_manager),
        config=config,
        loop=dependencies.loop,
        runner=dependencies.loading,
        now_ms=dependencies.now_ms,
        image=image,
        load_buffer_size=lambda: config[TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
        write_timeout_ms=lambda: TRANSACTION_WRITE_TIMEOUT_MS,
        new_uuid=dependencies.new_uuid,
    )


def _is_needed(record: CoordinatorRecord) -> bool:
    """Whether a record is written on a full disk: groups and tombstones are, offsets are committed again."""
    return record.value is None or record.key.api_key not in OFFSET_KEY_TYPES
