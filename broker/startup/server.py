"""Server: starts a broker over an event loop, sockets and threads, and stops it. Source: kafka.server.BrokerServer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from barnabas.broker.compaction.worker_pool import WorkerPool
from barnabas.broker.controller.log_dir_admin import copying_threads
from barnabas.broker.network.connection_quotas import ConnectionLimitsUpdate, ConnectionQuotas, limits_of
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.socket_server import SocketServer, SocketSettings
from barnabas.broker.startup.assembly import BrokerComponents, Dependencies
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.broker.startup.observers import Observers
from barnabas.broker.waiting.blocking import ThreadRunner
from barnabas.broker.waiting.host_lookup import HostLookup
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import network
from barnabas.protocol.wire import random_uuid
from barnabas.storage.env import Env

logger = logging.getLogger("barnabas.server")

DRAIN_TIMEOUT_S: Final = 30.0
BLOCKING_THREADS: Final = 4
LOADING_THREADS: Final = 1
"""For coordinators: replaying records is bound by the interpreter, which runs one thread at a time."""


class Server:
    """One broker. start() returns when it serves clients, stop() when everything is on the disk and closed."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, env: Env) -> None:
        self.config = config
        self.env = env
        self.failed: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        self._runner = ThreadRunner(loop, BLOCKING_THREADS)
        self.observers = Observers()
        self.memory = RequestMemory(config.max_request_bytes_in_flight)
        self.socket_server = _socket_server(config, loop, self.memory, self.observers)
        self._copying = ThreadRunner(loop, copying_threads(config))
        self._loading = ThreadRunner(loop, LOADING_THREADS)
        self.is_stopping = False
        self.ports: dict[str, int] = {}

    def start(self) -> None:
        """Raises InvalidConfigError or another error that prevents the start."""
        self.ports = self.socket_server.bind()
        try:
            storage = NodeStorage(self.config, self.env, self.ports)
        except BaseException:
            self.socket_server.close()
            raise
        self.storage = storage
        storage.quorum.runner = self._runner
        storage.store.on_failure = lambda: self._loop.call_soon_threadsafe(
            self._log_dir_failed, storage.metadata_dir
        )
        components = self.components = BrokerComponents(self.config, storage, self._dependencies())
        self.socket_server.connection_closed = components.client_metrics.connection_closed
        self.socket_server.start(components.apis.handle)
        components.housekeeping.start()
        components.log_cleaner.start()
        components.cordoned_dirs.reconfigure()
        components.moves.start()
        components.snapshot_generator.start()

    def _dependencies(self) -> Dependencies:
        """The event loop, threads and processes, the system's randomness, and this server's sockets."""
        loop = self._loop
        limits = ConnectionLimitsUpdate(self.config, self.socket_server.change_limits, self._runner)
        return Dependencies(
            env=self.env,
            timer=loop,
            runner=self._runner,
            copying=self._copying,
            loading=self._loading,
            workers=WorkerPool(loop),
            host_names=HostLookup(loop),
            topic_probe=self.observers.topics,
            request_probe=self.observers.requests,
            log_dir_failed=self._log_dir_failed,
            new_fetch_session_id=lambda: 1 + int.from_bytes(self.env.random_bytes(4)) % (2**31 - 1),
            new_topic_id=lambda: random_uuid(self.env.random_bytes),
            new_client_instance_id=lambda: random_uuid(self.env.random_bytes),
            request_clock=time.monotonic,
            config_changed=(self._change_listeners, limits.reconfigure),
        )

    def _change_listeners(self) -> None:
        self.socket_server.change_listeners(self.config.listeners)
        self.ports = self.socket_server.ports

    def _log_dir_failed(self, log_dir: str) -> None:
        """Without a directory left, or without the metadata, the broker stops."""
        if self.failed.done():
            return
        if not self.storage.log_manager.dirs:
            self.failed.set_result(f"the last log directory, {log_dir}, has failed")
        elif log_dir == self.storage.metadata_dir:
            self.failed.set_result(f"{log_dir}, the log directory that holds the metadata, has failed")

    async def stop(self) -> None:
        """Takes no new requests, answers those in flight, and closes the directories cleanly."""
        components = self.components
        self.is_stopping = True
        components.housekeeping.stop()
        components.snapshot_generator.stop()
        await components.moves.stop()
        await components.log_cleaner.stop()
        drained = asyncio.ensure_future(self.socket_server.drain(DRAIN_TIMEOUT_S))
        await asyncio.sleep(0)  # reading has stopped: no request need wait for records or members any longer
        components.replica_manager.fetch_purgatory.expire_all()
        components.coordinators.stop()
        cut_off = await drained
        if cut_off:
            logger.warning("%d connections did not finish within %.0f s", cut_off, DRAIN_TIMEOUT_S)
        components.replica_manager.produce_purgatory.expire_all()
        components.replica_manager.delete_records_purgatory.expire_all()
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
