"""ClusterControl: the Control of a member of a cluster, whose controller decides the metadata."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from barnabas.broker.controller.auto_topic_creation import AutoTopicCreationManager
from barnabas.broker.controller.embedded import Decide, Failed
from barnabas.broker.coordinator.assembly import InterBroker
from barnabas.broker.fetch.leader_throttle import LeaderThrottle
from barnabas.broker.fetch.preferred_replica import RACK_AWARE, RackAwareReplicaSelector
from barnabas.broker.kafka_apis.forwarding import RequestForwarder
from barnabas.broker.membership.directory_assignment import DirectoryAssignments
from barnabas.broker.membership.forwarding import ForwardingManager
from barnabas.broker.membership.producer_ids import RpcProducerIdManager
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader, Publisher
from barnabas.broker.metadata.member_answers import MemberAnswers
from barnabas.broker.metadata.observed_image import ObservedImage
from barnabas.broker.metadata.quorum import ObservedQuorum
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.metadata.tiered_topics import TieredTopics
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeChannel
from barnabas.broker.node_client.client import NodeClient
from barnabas.broker.pending import Pending
from barnabas.broker.replica.fetcher.fetcher import FetcherConfig
from barnabas.broker.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.broker.replica.fetcher.throttle import FollowerThrottle
from barnabas.broker.replica.following import BrokerFetchers
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.startup.cluster_member import ClusterMember
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import metrics, replication
from barnabas.config.catalogue.server import BROKER_RACK
from barnabas.config.catalogue.topic import FOLLOWER_REPLICATION_THROTTLED_REPLICAS
from barnabas.config.keys import ConfigKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import Uuid

R = TypeVar("R")

logger = logging.getLogger("barnabas.membership")

NOT_HERE: Final = "The controller of the cluster decides this, and this broker does not ask it."


class NoController:
    """The newest metadata of a node that decides none: requests that change them are forwarded before they get here."""

    def __init__(self, loader: MetadataLoader) -> None:
        self._loader = loader

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    def submit(self, decide: Decide[R], failed: Failed[R]) -> Pending[R]:
        """Fails: nothing is decided here."""
        pending: Pending[R] = Pending()
        pending.complete(failed(ApiError(ErrorCode.NOT_CONTROLLER, NOT_HERE)))
        return pending

    def change(self, what: str, decide: Decide[R], rejected: Callable[[ApiError], R]) -> Pending[R]:
        """Fails: nothing is decided here."""
        pending: Pending[R] = Pending()
        pending.complete(rejected(ApiError(ErrorCode.NOT_CONTROLLER, f"{what}: {NOT_HERE}")))
        return pending


class BrokerConnections:
    """One connection to each other broker, by its address on the listener between brokers, for one purpose."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        listener: str,
        connect: Callable[[NodeAddress], NodeClient],
    ) -> None:
        self._image = image
        self._listener = listener
        self._connect = connect
        self._clients: dict[int, NodeClient] = {}

    def to(self, node_id: int) -> NodeChannel | None:
        """The connection to a broker, made anew when it has moved; None where its address is not known."""
        known = self._image().brokers.get(node_id)
        at = None if known is None else known.listeners.get(self._listener)
        if at is None:
            return None
        address = NodeAddress(at.host, at.port)
        client = self._clients.get(node_id)
        if client is None or client.address != address:
            if client is not None:
                client.close()
            client = self._clients[node_id] = self._connect(address)
        return client

    def close(self) -> None:
        """Closes all of them."""
        for client in self._clients.values():
            client.close()


class ClusterControl:
    """The parts of a broker that are those of a member of a cluster."""

    def __init__(self, member: ClusterMember) -> None:
        config, storage, loop = member.config, member.storage, member.loop
        self.member = member
        self._tiered_topics = TieredTopics(storage.node_id)
        self._next_look: asyncio.TimerHandle | None = None
        self.leader_context = member.leader_context
        self._listener = config.inter_broker_listener
        self.replica_selector = self._selector(config)
        self.leader_throttle = LeaderThrottle(self._quota(metrics.LEADER_REPLICATION_THROTTLED_RATE))
        self.follower_throttle = FollowerThrottle(
            self._quota(metrics.FOLLOWER_REPLICATION_THROTTLED_RATE),
            self._throttled_replicas,
            storage.node_id,
        )
        self._coordinator_connections = BrokerConnections(
            lambda: self._loader.image,
            self._listener,
            partial(member.client, client_id=f"broker-{storage.node_id}-txn"),
        )
        self._to_close: list[Callable[[], None]] = [self._coordinator_connections.close]
        self.inter_broker = InterBroker(self._listener, self._coordinator_connections.to)
        self.quorum = ObservedQuorum(storage.raft)
        self.cluster = MemberAnswers(random.choice)
        self.listener_count = len(config.listeners)
        self.producer_ids = RpcProducerIdManager(
            member.forwarding.submit, loop, node_id=storage.node_id, broker_epoch=member.broker_epoch
        )
        manager = ForwardingManager(member.forwarding, loop.time)
        self.forwarding_probe = manager.probe
        self.forwarder = RequestForwarder(manager)
        self.topic_creation = AutoTopicCreationManager(config, manager.create_topics, clock=loop.time)

    def _selector(self, config: BrokerConfig) -> RackAwareReplicaSelector | None:
        key = replication.REPLICA_SELECTOR_CLASS
        wanted = config[key]
        if wanted == RACK_AWARE:
            return RackAwareReplicaSelector(self.leader_context, config[BROKER_RACK])
        if wanted is not None:
            logger.warning("%s=%s has no effect: only %s is built in", key.name, wanted, RACK_AWARE)
        return None

    @property
    def leader(self) -> QuorumView:
        return self.member.observer.view

    def before_cleaning(self) -> None:
        """Nothing waits to be written: this node does not decide what is in the log."""

    def attach(self, replica_manager: ReplicaManager, loader: MetadataLoader) -> None:
        """Makes the fetchers and the reports of directories."""
        member, storage = self.member, self.member.storage
        self._loader = loader
        self._replica_manager = replica_manager
        self.controller = NoController(loader)
        self.directory_assignments = DirectoryAssignments(
            member.directories.submit,
            member.loop,
            node_id=storage.node_id,
            broker_epoch=member.broker_epoch,
            image=lambda: loader.image,
            directory_of=self._directory_of,
        )
        self.fetchers = self._make_fetchers(replica_manager)
        self._to_close.append(self._stop_fetching)
        assert replica_manager.roles is not None
        replica_manager.roles.fetchers = BrokerFetchers(self.fetchers, self._listener)

    def _stop_fetching(self) -> None:
        """What is still to be applied of an image begins no fetcher any more."""
        assert self._replica_manager.roles is not None
        self._replica_manager.roles.fetchers = None
        self.fetchers.close()

    def _quota(self, rate: ConfigKey[int]) -> ReplicationQuota:
        config = self.member.config
        return ReplicationQuota(
            lambda: config[rate],
            samples=config[metrics.REPLICATION_QUOTA_WINDOW_NUM],
            window_s=config[metrics.REPLICATION_QUOTA_WINDOW_SIZE_SECONDS],
            clock=self.member.loop.time,
        )

    def _make_fetchers(self, replica_manager: ReplicaManager) -> ReplicaFetcherManager:
        config, member, node_id = self.member.config, self.member, self.member.storage.node_id
        return ReplicaFetcherManager(
            partial(
                member.client,
                client_id=f"broker-{node_id}-fetcher",
                receive_buffer_bytes=config[replication.REPLICA_SOCKET_RECEIVE_BUFFER_BYTES],
            ),
            member.loop,
            FetcherConfig(
                node_id=node_id,
                wait_max_ms=config[replication.REPLICA_FETCH_WAIT_MAX_MS],
                min_bytes=config[replication.REPLICA_FETCH_MIN_BYTES],
                partition_max_bytes=config[replication.REPLICA_FETCH_MAX_BYTES],
                response_max_bytes=config[replication.REPLICA_FETCH_RESPONSE_MAX_BYTES],
                backoff_ms=config[replication.REPLICA_FETCH_BACKOFF_MS],
                request_timeout_ms=config[replication.REPLICA_SOCKET_TIMEOUT_MS],
                metadata_version=lambda: self._loader.image.metadata_version,
                broker_epoch=member.broker_epoch,
            ),
            events=replica_manager,
            quota=self.follower_throttle,
            count=config[replication.NUM_REPLICA_FETCHERS],
        )

    def _throttled_replicas(self, topic: str) -> Sequence[str]:
        text = self._loader.image.topic_config(topic).get(FOLLOWER_REPLICATION_THROTTLED_REPLICAS.name)
        return [part.strip() for part in text.split(",")] if text else ()

    def _directory_of(self, topic: str, index: int) -> tuple[Partition, Uuid] | None:
        partition = self._replica_manager.find(topic, index)
        if partition is None or partition.offline or self._is_moving(partition):
            return None
        directory = self.member.storage.log_manager.directory_of(partition.log)
        return (partition, directory.directory_id) if directory.directory_id else None

    def _is_moving(self, partition: Partition) -> bool:
        """Whether it is on its way to another directory: the move reports that one."""
        moves = self._replica_manager.moves
        return moves is not None and moves.target_of(partition.key) is not None

    @property
    def observed(self) -> ObservedImage:
        return self.member.observed

    @property
    def metadata_records_rate(self) -> float:
        """Metadata records a second that are fetched: fetch-records-rate."""
        return self.member.observer.fetch_rate.per_second

    @property
    def reassigning_partitions(self) -> int:
        """The partitions led here whose replicas are being changed: ReassigningPartitions."""
        traffic = self.leader_context.traffic
        return sum(
            partition.is_leader and not partition.offline and traffic.is_reassigning(partition.key)
            for partition in self._replica_manager.partitions()
        )

    def report_directory(self, partition: Partition, directory_id: Uuid) -> Pending[bool]:
        return self.directory_assignments.report(partition, directory_id)

    @property
    def publishers(self) -> Sequence[Publisher]:
        return (self.directory_assignments.apply, self._tiered_topics.apply)

    def reconfigure(self) -> None:
        self.fetchers.resize(self.member.config[replication.NUM_REPLICA_FETCHERS])
        self.fetchers.wake()
        self.member.reconfigure()

    def start(self) -> None:
        """Begins to look for replicas that lag: every half of replica.lag.time.max.ms."""
        interval_s = self.leader_context.lag_max_ms / 2000

        def look() -> None:
            self._next_look = self.member.loop.call_later(interval_s, look)
            self._replica_manager.maybe_shrink_isrs()

        self._next_look = self.member.loop.call_later(interval_s, look)

    def begin_controlled_shutdown(self) -> None:
        """What the controller takes from this broker is not followed any more."""
        roles = self._replica_manager.roles
        assert roles is not None
        roles.begin_controlled_shutdown()

    def stop(self) -> None:
        """Follows nothing any more; what other brokers were asked is given up. At any time, before `attach` too."""
        if self._next_look is not None:
            self._next_look.cancel()
        for close in self._to_close:
            close()
