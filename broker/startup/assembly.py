"""Wires the components of a broker, for the server, the tests and the simulation: each over those before it.

No constructor registers itself with another component; the wiring is done here. What a component needs from outside
(clock, threads, randomness, a callback for failures) comes in `Dependencies`, so that a test turns the clock of the
same broker that serves clients.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.broker import Broker, MetadataChanges
from barnabas.broker.compaction.scheduler import LogCleaner, Workers
from barnabas.broker.controller.log_dir_admin import LogDirAdmin, copying_threads
from barnabas.broker.controller.token_sweeper import TokenSweeper
from barnabas.broker.controller.topic_admin import TopicDefaults
from barnabas.broker.coordinator.assembly import CoordinatorDependencies, Coordinators
from barnabas.broker.coordinator.dependencies import CoordinatorLoop
from barnabas.broker.coordinator.shard import random_uuid
from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.kafka_apis.api_checks import MATCH_TOPIC
from barnabas.broker.kafka_apis.dispatch import KafkaApis
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader, MetadataPublishers, Publisher
from barnabas.broker.metadata.snapshot_generator import SnapshotGenerator
from barnabas.broker.metadata.topic_answers import TopicAnswers
from barnabas.broker.probes import BrokerTopicProbe, RequestProbe
from barnabas.broker.quotas.quota_callback import load_callback
from barnabas.broker.quotas.quota_managers import QuotaManagers
from barnabas.broker.replica.moves.alter_log_dirs import ReplicaAlterLogDirsManager
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.request import RequestContext
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.broker.security.tokens import DelegationTokens
from barnabas.broker.startup.control import Control, OpenNode
from barnabas.broker.startup.dynamic_config import DynamicConfigPublisher
from barnabas.broker.startup.housekeeping import Housekeeping
from barnabas.broker.telemetry.client_metrics import ClientMetricsManager
from barnabas.broker.telemetry.client_metrics_store import ClientMetricsStore
from barnabas.broker.waiting.blocking import BlockingRunner, Work
from barnabas.broker.waiting.host_lookup import HostNames
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_CLIENT_METRICS_MAX_SERIES, BARNABAS_HTTP_PORT
from barnabas.config.catalogue.log import NUM_PARTITIONS
from barnabas.config.catalogue.metrics import (
    ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM,
    ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS,
    REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND,
    TELEMETRY_MAX_BYTES,
)
from barnabas.config.catalogue.replication import (
    DEFAULT_REPLICATION_FACTOR,
    REPLICA_FETCH_BACKOFF_MS,
)
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME, MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS
from barnabas.config.catalogue.tls import (
    DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS,
    DELEGATION_TOKEN_SECRET_KEY,
)
from barnabas.config.catalogue.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from barnabas.config.replicas import replicas_of
from barnabas.protocol.wire import Uuid
from barnabas.storage.env import Env

if TYPE_CHECKING:
    from uuid import UUID


class Dependencies(NamedTuple):
    """The things that a broker gets from outside."""

    env: Env
    timer: CoordinatorLoop
    """The event loop, or a clock that a test turns."""
    runner: BlockingRunner
    """Runs work that waits for a disk."""
    copying: BlockingRunner
    """Copies logs from one directory to another."""
    loading: BlockingRunner
    """Loads coordinators."""
    workers: Workers
    """Runs compactions."""
    host_names: HostNames
    topic_probe: BrokerTopicProbe
    request_probe: RequestProbe
    log_dir_failed: Callable[[str], None]
    """Called for each log directory that has failed, after the components that have to abandon it."""
    new_fetch_session_id: Callable[[], int]
    new_topic_id: Callable[[], Uuid]
    new_client_instance_id: Callable[[], Uuid]
    request_clock: Callable[[], float]
    """The clock that times requests, in seconds."""
    new_member_uuid: Callable[[], UUID] = random_uuid
    """Makes the random part of a member's id."""
    config_changed: Sequence[Callable[[], None]] = ()
    """Called when the broker's own configuration has changed, before the components that are made here."""
    publishers: Sequence[Publisher] = ()
    """Called with each image, behind the components that are made here."""


class BrokerComponents:
    """The components of one broker, wired, with nothing started; `begin` comes next, and once."""

    def __init__(
        self, config: BrokerConfig, storage: OpenNode, control: Control, given: Dependencies
    ) -> None:
        self.config = config
        self.env = given.env
        self.storage = storage
        self.control = control
        self._given = given
        self._on_log_dir_failed: list[Callable[[str], None]] = []
        self.auth = _auth_helper(config)
        self.tokens = DelegationTokens(config[DELEGATION_TOKEN_SECRET_KEY], given.env.now_ms)
        self._make_partitions()
        self._make_metadata()
        self._make_log_dirs()
        self._make_coordinators()
        self.quotas = QuotaManagers(config, given.timer.time, given.request_clock, load_callback(config))
        self.broker = self._make_broker()
        self.token_sweeper = self._token_sweeper()
        self._make_publishers()
        self.apis = KafkaApis(self.broker, given.request_probe, given.request_clock)

    def begin(self) -> Iterator[None]:
        """Applies the image of the start, in steps between which the loop may run. Raises what a publisher raises."""
        image = self.storage.image
        yield from self.replica_manager.begin(image)
        yield from self.publishers.begin(image, MetadataDelta.everything(image))

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are published."""
        return self.loader.image

    @property
    def controller(self) -> MetadataChanges:
        return self.control.controller

    def _make_partitions(self) -> None:
        """The components for logs and their records."""
        config, given, log_manager = self.config, self._given, self.storage.log_manager
        timer = given.timer
        self.fetch_manager = FetchManager(
            FetchSessionCache(config[MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], given.new_fetch_session_id),
            lambda: int(timer.time() * 1000),
        )
        self.replica_manager = ReplicaManager(
            log_manager=log_manager,
            node_id=self.storage.node_id,
            runner=given.runner,
            produce_purgatory=DelayedOperationPurgatory("Produce", timer),
            fetch_purgatory=DelayedOperationPurgatory("Fetch", timer),
            delete_records_purgatory=DelayedOperationPurgatory("DeleteRecords", timer),
            probe=given.topic_probe,
            log_dir_failed=self._log_dir_failed,
            verifies_transactions=config[TRANSACTION_PARTITION_VERIFICATION_ENABLE],
            context=self.control.leader_context,
        )
        context = self.control.leader_context
        self.replica_reader = ReplicaReader(
            self.replica_manager,
            given.topic_probe,
            self.control.replica_selector,
            self.control.leader_throttle,
            None if context is None else context.traffic,
        )
        log_manager.on_log_dir_failed = self.replica_manager.log_dir_went_offline
        self.log_cleaner = LogCleaner(
            config,
            given.env,
            log_manager,
            runner=given.runner,
            timer=timer,
            workers=given.workers,
            log_dir_failed=self.replica_manager.log_dir_failed,
        )
        log_manager.cleaner = self.log_cleaner.manager
        self._on_log_dir_failed.append(self.log_cleaner.manager.handle_log_dir_failure)
        self.housekeeping = Housekeeping(config, log_manager, self.replica_manager, given.runner, timer)

    def _make_metadata(self) -> None:
        """The components that decide, commit and publish metadata."""
        storage, runner, control = self.storage, self._given.runner, self.control
        self.publishers = MetadataPublishers(first=self.replica_manager.apply_in_slices)
        self.loader = MetadataLoader(
            storage.image,
            runner,
            self.publishers.publish,
            self._prepare,
            None if control.leader_context is None else self._given.timer.call_soon,
        )
        control.attach(self.replica_manager, self.loader)
        self.snapshot_generator = SnapshotGenerator(
            storage.raft, runner, self._given.timer, storage.image, before_cleaning=control.before_cleaning
        )

    def _make_log_dirs(self) -> None:
        """The components that move replicas between log directories, and the requests of clients about those."""
        config, given = self.config, self._given
        self.moves = ReplicaAlterLogDirsManager(
            self.replica_manager,
            threads=copying_threads(config),
            runner=given.copying,
            timer=given.timer,
            quota=ReplicationQuota(
                lambda: config[REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND],
                samples=config[ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM],
                window_s=config[ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS],
                clock=given.timer.time,
            ),
            report=self.control.report_directory,
            backoff_s=lambda: config[REPLICA_FETCH_BACKOFF_MS] / 1000,
        )
        self.replica_manager.moves = self.moves
        self.log_dirs = LogDirAdmin(self.replica_manager, self.moves, config.log_dirs, given.runner)

    def _make_coordinators(self) -> None:
        """The coordinators of groups and transactions, and the receiver of clients' metrics."""
        config, given, node_id = self.config, self._given, self.storage.node_id
        self.coordinators = Coordinators(
            CoordinatorDependencies(
                config=config,
                node_id=node_id,
                replica_manager=self.replica_manager,
                loop=given.timer,
                loading=given.loading,
                producer_ids=self.control.producer_ids,
                now_ms=given.env.now_ms,
                new_uuid=given.new_member_uuid,
                channels=self.control.inter_broker,
                visible_topics=None if self.auth is None else self._visible_topics,
            )
        )
        self.replica_manager.on_missing_log_opened = self.coordinators.log_opened
        self._on_log_dir_failed.append(lambda _: self.coordinators.log_dir_failed())
        max_series = config[BARNABAS_CLIENT_METRICS_MAX_SERIES]
        is_shown = max_series > 0 and config[BARNABAS_HTTP_PORT] >= 0  # the HTTP port is where they are read
        self.client_metrics = ClientMetricsManager(
            max_bytes=config[TELEMETRY_MAX_BYTES],
            store=ClientMetricsStore(max_series, given.timer) if is_shown else None,
            runner=given.runner,
            timer=given.timer,
            new_id=given.new_client_instance_id,
        )

    def _visible_topics(self, context: RequestContext, names: Iterable[str]) -> Container[str]:
        assert self.auth is not None
        return self.auth.filter(context, MATCH_TOPIC, names)

    def _make_broker(self) -> Broker:
        """The components that handlers work with."""
        config, given, storage, control = self.config, self._given, self.storage, self.control
        return Broker(
            config=config,
            node_id=storage.node_id,
            cluster_id=storage.cluster_id,
            cluster=control.cluster,
            controller=control.controller,
            replica_manager=self.replica_manager,
            fetch_manager=self.fetch_manager,
            replica_reader=self.replica_reader,
            producer_ids=control.producer_ids,
            quorum=control.quorum,
            topic_defaults=TopicDefaults(
                (storage.node_id,),
                partition_count=config[NUM_PARTITIONS],
                replication_factor=replicas_of(config, DEFAULT_REPLICATION_FACTOR),
                config=config,
            ),
            new_topic_id=given.new_topic_id,
            error_probe=given.request_probe,
            host_names=given.host_names,
            client_metrics=self.client_metrics,
            log_dirs=self.log_dirs,
            topic_answers=TopicAnswers(listeners=control.listener_count),
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            txn_appends=self.coordinators.txn_appends,
            txn_markers=self.coordinators.txn_markers,
            quotas=self.quotas,
            tokens=self.tokens,
            auth=self.auth,
            topic_creation=control.topic_creation,
            forwarder=control.forwarder,
        )

    def _token_sweeper(self) -> TokenSweeper | None:
        """Of a broker with delegation tokens whose own controller decides."""
        if self.config.is_member or not self.tokens.is_enabled:
            return None
        interval_ms = self.config[DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS]
        given = self._given
        return TokenSweeper(self.control.controller, given.timer, given.env.now_ms, interval_ms)

    def _make_publishers(self) -> None:
        """The publishers, in the order in which each gets a new image."""
        self.dynamic_config = DynamicConfigPublisher(
            self.storage.dynamic_config,
            self.storage.node_id,
            self.storage.log_manager,
            *self._given.config_changed,
            lambda: self.replica_manager.verify_transactions(
                self.config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
            ),
            self.log_cleaner.reconfigure,
            self.control.reconfigure,
            self.moves.reconfigure,
        )
        acls = None if self.auth is None else self.auth.acls
        for publisher in (
            *(() if acls is None else (acls.apply,)),
            *((self.tokens.apply,) if self.tokens.is_enabled else ()),
            self.dynamic_config.apply,
            *self.control.publishers,
            self.client_metrics.apply,
            self.quotas.apply,
            self.snapshot_generator.apply,
            self.coordinators.apply,
            self.broker.topic_answers.apply,
            *self._given.publishers,
        ):
            self.publishers.add(publisher)

    def _prepare(self, image: MetadataImage, delta: MetadataDelta) -> Work | None:
        self.storage.image = image  # logs that are opened from here on find their settings in it
        return self.replica_manager.prepare(image, delta)

    def _log_dir_failed(self, log_dir: str) -> None:
        for abandon in self._on_log_dir_failed:
            abandon(log_dir)
        self._given.log_dir_failed(log_dir)


def _auth_helper(config: BrokerConfig) -> AuthHelper | None:
    """The authorizer that is configured. Raises InvalidConfigError."""
    if not config[AUTHORIZER_CLASS_NAME]:
        return None
    from barnabas.broker.security.loading import auth_helper_of

    return auth_helper_of(config)
