"""Server: puts a broker together, starts it, serves, and stops it. Source: kafka.server.BrokerServer."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from broker import compiled
from broker.broker import Broker, Endpoint
from broker.compaction.scheduler import LogCleaner
from broker.compaction.worker_pool import WorkerPool
from broker.controller.cordoned_dirs import CordonedLogDirs
from broker.controller.directory_assignment import DirectoryAssignment, report_directory
from broker.controller.embedded import Controller
from broker.controller.log_dir_admin import LogDirAdmin, copying_threads, new_log_dir_admin
from broker.controller.producer_ids import ProducerIdManager
from broker.controller.topic_admin import TopicDefaults
from broker.coordinator.assembly import Coordinators, CoordinatorSurroundings
from broker.fetch.session import FetchManager, FetchSessionCache
from broker.http.server import HttpServer
from broker.kafka_apis.dispatch import KafkaApis
from broker.logging import setup as log_setup
from broker.metadata.followers import Followers
from broker.metadata.image import MetadataDelta, MetadataImage
from broker.metadata.loader import MetadataLoader
from broker.metadata.log import MetadataLogError
from broker.metadata.snapshot_generator import SnapshotGenerator
from broker.metadata.unenforced import UnenforcedNotices
from broker.network.connection_quotas import ConnectionLimitsUpdate, ConnectionQuotas, limits_of
from broker.network.listeners import ListenError
from broker.network.request_memory import RequestMemory
from broker.network.socket_server import SocketServer, SocketSettings
from broker.replica.replica_manager import ReplicaManager
from broker.startup.dynamic_config import DynamicConfigPublisher
from broker.startup.housekeeping import Housekeeping
from broker.startup.node_storage import NodeStorage
from broker.startup.observers import Observers
from broker.telemetry.client_metrics import ClientMetricsManager
from broker.telemetry.client_metrics_store import ClientMetricsStore
from broker.version import VERSION
from broker.waiting.blocking import ThreadRunner, Work
from broker.waiting.host_lookup import HostLookup
from broker.waiting.purgatory import DelayedOperationPurgatory
from config.broker_config import BrokerConfig
from config.catalogue import network
from config.catalogue.barnabas import (
    BARNABAS_CLIENT_METRICS_MAX_SERIES,
    BARNABAS_HTTP_HOST,
    BARNABAS_HTTP_PORT,
    BARNABAS_LOG_FORMAT,
    BARNABAS_LOG_LEVEL,
)
from config.catalogue.log import NUM_PARTITIONS
from config.catalogue.metrics import TELEMETRY_MAX_BYTES
from config.catalogue.replication import DEFAULT_REPLICATION_FACTOR
from config.catalogue.server import BROKER_RACK, MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS
from config.catalogue.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from config.layers import InvalidConfigError
from config.messages import MessageKind
from config.replicas import clamp_replication, replicas_of
from protocol.wire import random_uuid
from storage.env import Env, RealEnv
from storage.errors import StorageError

logger = logging.getLogger("barnabas.server")

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP comes when the terminal goes; who started the broker with nohup wants nothing to come of it."""
DRAIN_TIMEOUT_S: Final = 30.0
SETTLING_S: Final = 0.1
"""How long those who wait for the start have to get their first answers before the broker does what can wait."""
YOUNG_OBJECTS: Final = 5000
"""How many new objects make a collection. Requests leave no cycles, so it finds next to nothing and may be rare."""
WARM_S: Final = 60.0
"""After that all is there that comes with the first requests and scrapes: compiled codecs, libraries."""
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread beside the loop may keep the interpreter while the loop wants it. With Python's own 5 ms each call
to the system costs the loop up to that, while metrics are rendered or a coordinator loads."""
BLOCKING_THREADS: Final = 4
LOADING_THREADS: Final = 1
"""For coordinators: replaying their records is work for the interpreter, which does one thing at a time."""

_CANNOT_START: Final = (ListenError, StorageError, MetadataLogError, OSError)


class Server:
    """One broker. start() returns when clients are served, stop() when everything is on the disk and closed."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, env: Env) -> None:
        self.config = config
        self.env = env
        self.failed: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        self._runner = ThreadRunner(loop, BLOCKING_THREADS)
        self.observers = Observers()
        self.memory = RequestMemory(config.max_request_bytes_in_flight)
        self.socket_server = _socket_server(config, loop, self.memory, self.observers)
        self._give_up_on_failed_disks: list[Callable[[], None]] = []
        self.is_stopping = False
        self.ports: dict[str, int] = {}

    def start(self) -> None:
        """Raises InvalidConfigError or one of the errors that keep a broker from starting."""
        self.ports = self.socket_server.bind()
        try:
            self.storage = NodeStorage(self.config, self.env, self.ports)
        except BaseException:
            self.socket_server.close()
            raise
        self.storage.quorum.runner = self._runner
        self.socket_server.start(self._put_together(self.storage).handle)
        self.housekeeping.start()
        self.log_cleaner.start()
        self.cordoned_dirs.reconfigure()
        self.log_dirs.start()
        self.snapshot_generator.start()

    def _put_together(self, storage: NodeStorage) -> KafkaApis:
        """Makes the parts, each over those before it, and has them take over what the metadata hold."""
        everything = MetadataDelta.everything(storage.image)
        self._make_partitions(storage)
        self.replica_manager.apply(storage.image, everything, at_start=True)
        self._make_metadata(storage)
        self._make_followers(storage)
        broker = self._broker(storage)
        self.followers.add(broker.topic_answers.apply)
        self.followers.begin(storage.image, everything)
        return KafkaApis(broker, self.observers.requests, time.monotonic)

    def _make_partitions(self, storage: NodeStorage) -> None:
        """What has to do with logs and their records."""
        config, loop = self.config, self._loop
        self.fetch_manager = FetchManager(
            FetchSessionCache(
                config[MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], lambda: random.randint(1, 2**31 - 1)
            ),
            lambda: int(loop.time() * 1000),
        )
        self.replica_manager = ReplicaManager(
            log_manager=storage.log_manager,
            node_id=storage.node_id,
            runner=self._runner,
            produce_purgatory=DelayedOperationPurgatory("Produce", loop),
            fetch_purgatory=DelayedOperationPurgatory("Fetch", loop),
            delete_records_purgatory=DelayedOperationPurgatory("DeleteRecords", loop),
            probe=self.observers.topics,
            now_ms=lambda: int(loop.time() * 1000),
            log_dir_failed=self._log_dir_failed,
            verifies_transactions=config[TRANSACTION_PARTITION_VERIFICATION_ENABLE],
        )
        self.log_cleaner = LogCleaner(
            config,
            self.env,
            storage.log_manager,
            runner=self._runner,
            timer=loop,
            workers=WorkerPool(loop, self._runner),
            log_dir_failed=self.replica_manager.log_dir_failed,
        )
        storage.log_manager.cleaner = self.log_cleaner.manager
        self.housekeeping = Housekeeping(
            config, storage.log_manager, self.replica_manager, self._runner, loop
        )

    def _make_metadata(self, storage: NodeStorage) -> None:
        """What decides, commits and publishes metadata."""
        self.followers = Followers(first=self.replica_manager.apply)
        self.followers.add(UnenforcedNotices().apply)
        self.loader = MetadataLoader(storage.image, self._runner, self.followers.publish, self._prepare)
        self.directory_assignment = DirectoryAssignment(
            storage.node_id, storage.log_manager, lambda: self.controller.image
        )
        self.followers.add(self.directory_assignment.apply)
        self.controller = Controller(
            storage.store,
            self.loader,
            self._runner,
            assign=self.directory_assignment.assign,
        )
        storage.store.on_failure = lambda: self._loop.call_soon_threadsafe(
            self._log_dir_failed, storage.metadata_dir
        )

    def _make_followers(self, storage: NodeStorage) -> None:
        """What goes by the metadata, in the order in which each is told of them."""
        config, loop = self.config, self._loop
        self.log_dirs = self._log_dirs(storage)
        self.cordoned_dirs = CordonedLogDirs(config, storage.log_manager, self.controller, storage.node_id)
        self.followers.add(self._dynamic_config(storage).apply)
        self.followers.add(self.cordoned_dirs.apply)
        self.client_metrics = self._client_metrics()
        self.followers.add(self.client_metrics.apply)
        self.snapshot_generator = SnapshotGenerator(storage.store, self._runner, loop, storage.image)
        self.followers.add(self.snapshot_generator.apply)
        self.coordinators = self._coordinators(storage)
        self.followers.add(self.coordinators.apply)
        self._give_up_on_failed_disks.append(self.coordinators.log_dir_failed)

    def _broker(self, storage: NodeStorage) -> Broker:
        """What handlers work with."""
        config = self.config
        return Broker(
            config=config,
            node_id=storage.node_id,
            cluster_id=storage.cluster_id,
            rack=config[BROKER_RACK],
            advertised=_advertised(config),
            controller=self.controller,
            replica_manager=self.replica_manager,
            fetch_manager=self.fetch_manager,
            producer_ids=self.producer_ids,
            quorum=storage.quorum,
            topic_defaults=TopicDefaults(
                (storage.node_id,),
                partition_count=config[NUM_PARTITIONS],
                replication_factor=replicas_of(config, DEFAULT_REPLICATION_FACTOR),
                config=config,
            ),
            new_topic_id=lambda: random_uuid(self.env.random_bytes),
            error_probe=self.observers.requests,
            host_names=HostLookup(self._loop),
            client_metrics=self.client_metrics,
            log_dirs=self.log_dirs,
            coordinators=self.coordinators,
        )

    def _coordinators(self, storage: NodeStorage) -> Coordinators:
        """The coordinators of groups and of transactions."""
        self._loading = ThreadRunner(self._loop, LOADING_THREADS)
        self.producer_ids = ProducerIdManager(self.controller, storage.node_id)
        return Coordinators(
            CoordinatorSurroundings(
                config=self.config,
                node_id=storage.node_id,
                replica_manager=self.replica_manager,
                loop=self._loop,
                loading=self._loading,
                producer_ids=self.producer_ids,
                now_ms=self.env.now_ms,
            )
        )

    def _dynamic_config(self, storage: NodeStorage) -> DynamicConfigPublisher:
        """What brings changes of the configuration to the parts that keep something of it."""
        config, sockets = self.config, self.socket_server

        def listeners() -> None:
            sockets.change_listeners(config.listeners)
            self.ports = sockets.ports

        return DynamicConfigPublisher(
            storage.dynamic_config,
            storage.node_id,
            storage.log_manager,
            listeners,
            ConnectionLimitsUpdate(config, sockets.change_limits, self._runner).reconfigure,
            lambda: self.replica_manager.verify_transactions(
                config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
            ),
            self.log_cleaner.reconfigure,
            self.cordoned_dirs.reconfigure,
            self.log_dirs.reconfigure,
        )

    def _log_dirs(self, storage: NodeStorage) -> LogDirAdmin:
        """What moves replicas between log directories, and what clients may ask of those."""
        self._copying = ThreadRunner(self._loop, copying_threads(self.config))
        return new_log_dir_admin(
            self.config,
            self.replica_manager,
            lambda *place: report_directory(self.controller, storage.node_id, *place),
            timer=self._loop,
            runner=self._runner,
            copying=self._copying,
        )

    def _client_metrics(self) -> ClientMetricsManager:
        """What takes metrics of clients; they are kept where somebody can look at them, on the HTTP port."""
        config = self.config
        max_series = config[BARNABAS_CLIENT_METRICS_MAX_SERIES]
        is_shown = max_series > 0 and config[BARNABAS_HTTP_PORT] >= 0
        manager = ClientMetricsManager(
            max_bytes=config[TELEMETRY_MAX_BYTES],
            store=ClientMetricsStore(max_series, self._loop) if is_shown else None,
            runner=self._runner,
            timer=self._loop,
            new_id=lambda: random_uuid(self.env.random_bytes),
        )
        self.socket_server.connection_closed = manager.connection_closed
        return manager

    def _prepare(self, image: MetadataImage, delta: MetadataDelta) -> Work | None:
        self.storage.image = image  # by which logs that are opened from here on find their settings
        return self.replica_manager.prepare(image, delta)

    def _log_dir_failed(self, log_dir: str) -> None:
        """Without a directory left, or without the metadata, there is nothing that could be served."""
        self.log_cleaner.log_dir_failed(log_dir)
        for give_up in self._give_up_on_failed_disks:
            give_up()
        if self.failed.done():
            return
        if not self.storage.log_manager.dirs:
            self.failed.set_result(f"the last log directory, {log_dir}, has failed")
        elif log_dir == self.storage.metadata_dir:
            self.failed.set_result(f"{log_dir}, the log directory that holds the metadata, has failed")

    async def stop(self) -> None:
        """Takes nothing new, answers what is there, and leaves the directories as a clean stop does."""
        self.is_stopping = True
        self.housekeeping.stop()
        self.snapshot_generator.stop()
        await self.log_dirs.stop()
        await self.log_cleaner.stop()
        drained = asyncio.ensure_future(self.socket_server.drain(DRAIN_TIMEOUT_S))
        await asyncio.sleep(0)  # reading has stopped; what waits for records or members need not any longer
        self.replica_manager.fetch_purgatory.expire_all()
        self.coordinators.stop()
        cut_off = await drained
        if cut_off:
            logger.warning("%d connections did not finish within %.0f s", cut_off, DRAIN_TIMEOUT_S)
        self.replica_manager.produce_purgatory.expire_all()
        self.replica_manager.delete_records_purgatory.expire_all()
        await self._loop.run_in_executor(None, self._copying.close)
        await self._loop.run_in_executor(None, self._loading.close)
        await self._loop.run_in_executor(None, self._runner.close)
        self.storage.close()


def _socket_server(
    config: BrokerConfig, loop: asyncio.AbstractEventLoop, memory: RequestMemory, observers: Observers
) -> SocketServer:
    return SocketServer(
        loop=loop,
        listeners=config.listeners,
        settings=SocketSettings(
            connections_max_idle_ms=config[network.CONNECTIONS_MAX_IDLE_MS],
            socket_listen_backlog_size=config[network.SOCKET_LISTEN_BACKLOG_SIZE],
            socket_receive_buffer_bytes=config[network.SOCKET_RECEIVE_BUFFER_BYTES],
            socket_request_max_bytes=config[network.SOCKET_REQUEST_MAX_BYTES],
            socket_send_buffer_bytes=config[network.SOCKET_SEND_BUFFER_BYTES],
        ),
        quotas=ConnectionQuotas(limits_of(config)),
        memory=memory,
        probe=observers.sockets,
    )


def _advertised(config: BrokerConfig) -> dict[str, Endpoint]:
    """The listeners whose address is configured; the others name to each client the one that it dialled."""
    return {
        listener.name: Endpoint(listener.advertised_host, listener.advertised_port or 0)
        for listener in config.listeners
        if listener.advertised_host is not None
    }


def run(config: BrokerConfig) -> int:
    """Serves until a signal comes; returns the exit code."""
    log_setup.configure(config[BARNABAS_LOG_LEVEL], sys.stderr, as_json=_as_json(config[BARNABAS_LOG_FORMAT]))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    start_lines = log_setup.StartLines()
    _say_what_configuration_holds(config)
    _raise_open_files_limit()
    with _ended_by_signals(), asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(_serve(config, start_lines))


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is to be had, else what Python brings."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _serve(config: BrokerConfig, start_lines: log_setup.StartLines) -> int:
    loop = asyncio.get_running_loop()
    try:
        server = Server(config, loop, RealEnv())
        server.start()
    except InvalidConfigError as error:
        start_lines.end()
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except _CANNOT_START as error:
        start_lines.end()
        print(f"Barnabas cannot start: {error}", file=sys.stderr)
        return EXIT_FAILED
    stopping = _catch_signals(loop)
    http = server.observers.serve_http(server)
    _say_it_is_ready(_ready_line(server, http))
    gc.freeze()  # what is here now stays; the collector need not look at it again and again
    gc.set_threshold(YOUNG_OBJECTS)
    gc.enable()
    loop.call_later(SETTLING_S, start_lines.end)
    loop.call_later(SETTLING_S, _warn_of_stale_builds)
    loop.call_later(WARM_S, _freeze_what_came)
    endings: list[asyncio.Future[Any]] = [stopping, server.failed]
    await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
    start_lines.end()
    if server.failed.done():
        logger.error("stopping: %s", server.failed.result())
    else:
        logger.info("stopping on %s; once more stops at once", stopping.result().name)
    await server.stop()
    if http is not None:
        http.close()
    return EXIT_FAILED if server.failed.done() else EXIT_STOPPED


def _warn_of_stale_builds() -> None:
    """In a checkout, where sources are edited and what was compiled from them before is what runs."""
    sources = compiled.stale()
    if sources and compiled.form() != "interpreted":
        logger.warning("changed since they were compiled, so what runs is older: %s", ", ".join(sources))


def _freeze_what_came() -> None:
    """What the first requests brought stays, too: full collections look at all else, and everybody waits for them."""
    gc.collect()
    gc.freeze()


def _stop_signals() -> list[signal.Signals]:
    is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in STOP_SIGNALS if not (is_nohup and number is signal.SIGHUP)]


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Until signals are caught, each ends the process there and then: nobody is served yet, and a start may take long.

    The first process of a container would not notice them otherwise, and asyncio would finish the start first.
    """

    def end(number: int, _: object) -> None:
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in _stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _catch_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Future[signal.Signals]:
    """Completes with the first signal that asks to stop; the second ends the process there and then.

    But for SIGHUP: when a terminal goes, both its shell and the system send it.
    """
    stopping: asyncio.Future[signal.Signals] = loop.create_future()

    def caught(number: signal.Signals) -> None:
        if not stopping.done():
            stopping.set_result(number)
        elif number is not signal.SIGHUP:
            os._exit(128 + number)

    for number in _stop_signals():
        loop.add_signal_handler(number, caught, number)
    return stopping


def _say_it_is_ready(line: str) -> None:
    """Prints the ready line; where nobody reads standard output any more, or its disk is full, the log has it."""
    try:
        print(line, flush=True)
    except OSError as error:
        logger.warning("%s; standard output cannot be written to: %s", line, error)
        # What could not be written is tried again at the end of the process, which would then end with an error.
        with open(os.devnull, "wb") as nowhere, suppress(OSError):
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _ready_line(server: Server, http: HttpServer | None) -> str:
    addresses = ", ".join(
        f"{listener.host or '0.0.0.0'}:{server.ports[listener.name]}"
        for listener in server.config.listeners
        if listener.name
        in server.ports  # one that was set while a broker ran may have lost its port to somebody
    )
    data = ", ".join(os.path.abspath(path) for path in server.config.log_dirs)
    metrics = ""
    if http is not None:
        metrics = f", metrics on http://{server.config[BARNABAS_HTTP_HOST] or '0.0.0.0'}:{http.port}/metrics"
    return (
        f"Barnabas {VERSION} is ready on {addresses}, data in {data}{metrics}, {compiled.form()}, "
        f"started in {_seconds_since_spawn():.2f} s"
    )


def _seconds_since_spawn() -> float:
    """Since the process began, which is before Python could look at a clock."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            started_ticks = int(file.read().rpartition(")")[2].split()[19])
    except OSError:  # not Linux
        return time.process_time()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def _as_json(log_format: str) -> bool | None:
    return None if log_format == "auto" else log_format == "json"


def _say_what_configuration_holds(config: BrokerConfig) -> None:
    """A line for each thing to mend, and one for all keys that have no effect here."""
    for line in clamp_replication(config):
        logger.info("%s", line)
    inert = []
    for message in config.messages:
        if message.kind is MessageKind.INERT:
            inert.append(message.key)
        else:
            logger.warning("%s", message)
    if inert:
        logger.info(
            "accepted without effect (`barnabas config check` says why): %s", ", ".join(sorted(inert))
        )


def _raise_open_files_limit() -> None:
    """Every log has open files; the soft limit is often far below what the system allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
