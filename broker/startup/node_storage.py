"""NodeStorage: prepares the disk before clients are served: directories locked and formatted, metadata read, logs open.

Everything here blocks and runs before the listeners open. A start takes these steps, each of which the next
start may find half done:

    lock the directories; format those that are new
    read the metadata log into an image; reject feature levels that are not supported
    lead the metadata log: a new epoch; the first records in an empty log
    open the logs; adopt them where the metadata are lost; put strays aside
    register the controller and the broker, elect, unfence

A stop is Kafka's controlled shutdown, then the logs are closed and .kafka_cleanshutdown names the broker epoch.
Source: kafka.server.KafkaRaftServer.initializeLogDirs, kafka.log.LogManager.startup, BrokerLifecycleManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from barnabas.broker.controller.registration import (
    Node,
    broker_registration,
    configured_controller_listeners,
    controller_registration,
    in_batches,
    shutdown_changes,
    start_changes,
    unfencing,
)
from barnabas.broker.metadata.bootstrap import first_records, read_bootstrap
from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
from barnabas.broker.metadata.features import check_levels
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.quorum import MetadataQuorum
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import RaftLogSettings
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import supported_levels
from barnabas.broker.startup.log_adoption import adopted_topics
from barnabas.broker.startup.node_directories import NodeDirectories
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.controller import CONTROLLER_QUORUM_BOOTSTRAP_SERVERS, CONTROLLER_QUORUM_VOTERS
from barnabas.config.catalogue.log import MIN_INSYNC_REPLICAS
from barnabas.config.catalogue.server import CONTROLLED_SHUTDOWN_ENABLE, UNSTABLE_FEATURE_VERSIONS_ENABLE
from barnabas.protocol.messages.topic_records import BeginTransactionRecord, EndTransactionRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid, random_uuid
from barnabas.storage.env import Env
from barnabas.storage.errors import StorageError

logger = logging.getLogger("barnabas.startup")

NO_BROKER_EPOCH: Final = -1
DYNAMIC_QUORUM: Final = 1
"""The kraft.version in which the log names the voters."""

_MARKS: Final = (BeginTransactionRecord, EndTransactionRecord)


class NodeStorage:
    """The node's identity, metadata and logs, open and consistent with each other."""

    store: EmbeddedRaftLog
    """The metadata log, which this node leads."""

    def __init__(
        self, config: BrokerConfig, env: Env, ports: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Opens everything. `ports`: the listeners' ports by name, for those that the configuration sets to 0.

        Raises InvalidConfigError, StorageError, MetadataLogError or OSError; the text is for the operator.
        """
        self._env = env
        self._leaves_in_order = config[CONTROLLED_SHUTDOWN_ENABLE]
        self.image = MetadataImage.empty()
        self.incarnation_id: Uuid = random_uuid(env.random_bytes)
        self.was_recovered = False
        self._directories = NodeDirectories(config, env, lambda: self.image)
        self.dynamic_config = self._directories.dynamic_config
        self.log_manager = self._directories.log_manager
        try:
            self._open_metadata(config)
            self._open_logs()
            self._register(config, ports)
        except BaseException:
            self.abandon()  # the next try, perhaps in this process, must find nothing locked
            raise

    # -- the metadata --

    def _open_metadata(self, config: BrokerConfig) -> None:
        self._directories.lock()
        identity, directory = self._directories.settle()
        self.cluster_id, self.node_id = identity.cluster_id, identity.node_id
        self.store = EmbeddedRaftLog.open(
            self._env,
            directory.path,
            self.node_id,
            directory.directory_id or ZERO_UUID,
            RaftLogSettings.of(config),
        )
        for batch in self.store.load():
            self.image, _ = replayed(self.image, batch.records, offset=batch.last_offset, epoch=batch.epoch)
        check_levels(self.image.features, self.store.raft.control.kraft_version, config)
        self.store.become_leader()
        self.quorum = MetadataQuorum(self.store, configured_controller_listeners(config), self._env.now_ms)
        if not self.image.metadata_version:
            if _names_no_voters(config) and self.quorum.kraft_version == 0:
                self.quorum.upgrade(DYNAMIC_QUORUM)
            bootstrap = read_bootstrap(self._env, directory.path)
            self.commit([first_records(bootstrap, config[MIN_INSYNC_REPLICAS])])
            check_levels(self.image.features, self.store.raft.control.kraft_version, config)

    @property
    def raft(self) -> RaftLog:
        """The metadata log's directory, and what reads it."""
        return self.store.raft

    @property
    def metadata_dir(self) -> str:
        """The log directory of the metadata, without which the broker stops."""
        return self.raft.directory.rpartition("/")[0]

    @property
    def broker_epoch(self) -> int:
        """The offset of this broker's registration; NO_BROKER_EPOCH before that."""
        broker = self.image.brokers.get(self.node_id)
        return NO_BROKER_EPOCH if broker is None else broker.epoch

    def commit(self, batches: Sequence[Sequence[Message]], *, may_wait: bool = False) -> None:
        """Makes records durable, each inner list atomically, and replays them, as the controller does once it runs.

        With `may_wait` they need not be durable yet on a full disk: see `EmbeddedRaftLog.append`. Raises StorageError,
        OSError.
        """
        if not batches:
            return
        end_offset = self.store.append(batches, may_wait=may_wait)
        records = [record for batch in batches for record in batch if not isinstance(record, _MARKS)]
        self.image, _ = replayed(self.image, records, offset=end_offset - 1, epoch=self.store.leader_epoch)

    # -- the logs --

    def _open_logs(self) -> None:
        self.was_recovered = self._directories.load_logs()
        if self.image.topics or self.image.brokers:
            self._directories.finish()
        else:  # the first start, or one that got no further than this
            self.commit(in_batches(adopted_topics(self.log_manager, self.node_id, self._env)))

    # -- in the cluster --

    def _register(self, config: BrokerConfig, ports: Mapping[str, int]) -> None:
        """Registers controller and broker, and elects the broker leader where it can be, with one write."""
        unstable = config[UNSTABLE_FEATURE_VERSIONS_ENABLE]
        node = Node.of(
            config,
            self.node_id,
            incarnation_id=self.incarnation_id,
            ports=ports,
            features=supported_levels(unstable=unstable),
            log_dirs=[one.directory_id for one in self.log_manager.dirs if one.directory_id],
        )
        version = self.image.metadata_version
        controller = controller_registration(node, version)
        epoch = self.store.end_offset + len(controller)
        found = self.log_manager.places()
        changes = start_changes(self.image, self.node_id, found, elect_all=self.was_recovered)
        batches: list[list[Message]] = [
            controller,
            [broker_registration(node, version, epoch)],
            *in_batches([unfencing(self.node_id, epoch), *changes]),
        ]
        self.commit([batch for batch in batches if batch], may_wait=True)

    # -- the end --

    def close(self) -> None:
        """Leaves the cluster in order, flushes and closes everything, and leaves the marker of a clean stop."""
        try:
            if self._leaves_in_order:
                self.commit(shutdown_changes(self.image, self.node_id))
            self.store.raft.maybe_snapshot(self.image)
        except (StorageError, OSError) as error:
            logger.warning("the metadata may not say that this broker stopped in order: %s", error)
        try:
            self.store.raft.close()
        except (
            StorageError,
            OSError,
        ) as error:  # its directory has failed, which may be why the broker stops
            logger.warning("the metadata log was not closed in order: %s", error)
        finally:
            self._directories.close(self.broker_epoch)

    def abandon(self) -> None:
        """Releases files and locks without any write, like a killed process."""
        self._directories.abandon()


def _names_no_voters(config: BrokerConfig) -> bool:
    """Whether a new log has to name its voter, so that Kafka with the same configuration finds the quorum."""
    looks_for_quorum = (
        bool(config[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]) and not config[CONTROLLER_QUORUM_VOTERS]
    )
    return looks_for_quorum and bool(configured_controller_listeners(config))
