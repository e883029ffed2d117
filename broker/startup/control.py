"""Control: who decides the metadata of a broker, and what the broker's parts therefore are.

OwnControl       a node that is alone: its own controller decides, and this node is its whole cluster
ClusterControl   a member of a cluster (`startup.cluster_control`): the cluster's controller decides
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.broker import Forwarder, MetadataChanges
from barnabas.broker.controller.cordoned_dirs import CordonedLogDirs
from barnabas.broker.controller.directory_assignment import DirectoryAssignment, report_directory
from barnabas.broker.controller.embedded import Controller
from barnabas.broker.controller.producer_ids import ProducerIdManager
from barnabas.broker.coordinator.txn import ProducerIds
from barnabas.broker.metadata.cluster_answers import ClusterAnswers, Endpoint, SingleNode
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader, Publisher
from barnabas.broker.metadata.quorum import KRaftLevel
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.pending import Pending
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.startup.dynamic_config import DynamicConfig
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import BROKER_RACK
from barnabas.protocol.wire import Uuid
from barnabas.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.broker.controller.auto_topic_creation import AutoTopicCreationManager
    from barnabas.broker.coordinator.assembly import InterBroker
    from barnabas.broker.fetch.leader_throttle import LeaderThrottle
    from barnabas.broker.fetch.reader import ReplicaSelector
    from barnabas.broker.replica.isr import LeaderContext
    from barnabas.broker.startup.node_storage import NodeStorage


class OpenNode(Protocol):
    """What the parts of a broker find on the disk: identity, metadata and logs, all open."""

    image: MetadataImage
    """The newest one; set before each is published, since logs find their settings in it."""

    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def log_manager(self) -> LogManager: ...

    @property
    def dynamic_config(self) -> DynamicConfig: ...

    @property
    def raft(self) -> RaftLog: ...


class Control(Protocol):
    """The parts of a broker that depend on who decides its metadata; those after `attach` are there after it."""

    @property
    def leader_context(self) -> LeaderContext | None:
        """What partitions with replicas on other brokers share; None where there are no others."""

    @property
    def replica_selector(self) -> ReplicaSelector | None: ...

    @property
    def leader_throttle(self) -> LeaderThrottle | None:
        """The replication quota of what this broker leads."""

    @property
    def inter_broker(self) -> InterBroker | None: ...

    @property
    def leader(self) -> QuorumView:
        """The newest epoch of the metadata quorum, and its leader."""

    def before_cleaning(self) -> None:
        """Blocking work before each round of deletions of old metadata."""

    def attach(self, replica_manager: ReplicaManager, loader: MetadataLoader) -> None:
        """Makes the parts that need the partitions and the newest metadata. No image was applied yet."""

    @property
    def controller(self) -> MetadataChanges: ...

    @property
    def producer_ids(self) -> ProducerIds: ...

    @property
    def cluster(self) -> ClusterAnswers: ...

    @property
    def quorum(self) -> KRaftLevel: ...

    @property
    def listener_count(self) -> int:
        """How many listeners clients may be given different answers on."""

    @property
    def topic_creation(self) -> AutoTopicCreationManager | None: ...

    @property
    def forwarder(self) -> Forwarder | None: ...

    def report_directory(self, partition: Partition, directory_id: Uuid) -> Pending[bool]:
        """Has the controller write the log directory of a replica of this node into the metadata."""

    @property
    def publishers(self) -> Sequence[Publisher]:
        """Called with each image after the replicas and the configuration have been brought in line with it."""

    def reconfigure(self) -> None:
        """The broker's configuration has changed."""


class OwnControl:
    """The Control of a node that is alone."""

    leader_context = replica_selector = leader_throttle = inter_broker = topic_creation = forwarder = None
    listener_count = 1

    def __init__(self, config: BrokerConfig, storage: NodeStorage, runner: BlockingRunner) -> None:
        self._config = config
        self._storage = storage
        self._runner = runner
        self.quorum = storage.quorum

    @property
    def leader(self) -> QuorumView:
        return QuorumView(self._storage.store.leader_epoch, self._storage.node_id)

    def before_cleaning(self) -> None:
        self._storage.store.write_waiting()

    def attach(self, replica_manager: ReplicaManager, loader: MetadataLoader) -> None:
        """Makes the controller and what works through it."""
        config, storage, log_manager = self._config, self._storage, self._storage.log_manager
        self.directory_assignment = DirectoryAssignment(storage.node_id, log_manager, lambda: loader.image)
        self.controller = Controller(
            storage.store, loader, self._runner, assign=self.directory_assignment.assign
        )
        self.cordoned_dirs = CordonedLogDirs(config, log_manager, self.controller, storage.node_id)
        self.producer_ids = ProducerIdManager(self.controller, storage.node_id)
        self.cluster = SingleNode(
            storage.node_id, config[BROKER_RACK], dict(_advertised(config)), replica_manager
        )

    def report_directory(self, partition: Partition, directory_id: Uuid) -> Pending[bool]:
        return report_directory(self.controller, self._storage.node_id, partition, directory_id)

    @property
    def publishers(self) -> Sequence[Publisher]:
        return self.directory_assignment.apply, self.cordoned_dirs.apply

    def reconfigure(self) -> None:
        self.cordoned_dirs.reconfigure()


def _advertised(config: BrokerConfig) -> Iterator[tuple[str, Endpoint]]:
    """The listeners with a configured address; of the others each client is given the address that it dialled."""
    for listener in config.listeners:
        if listener.advertised_host is not None:
            yield listener.name, Endpoint(listener.advertised_host, listener.advertised_port or 0)
