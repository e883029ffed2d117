"""Server: starts a broker over an event loop, sockets and threads, and stops it. Source: kafka.server.BrokerServer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from barnabas.broker.compaction.worker_pool import WorkerPool
from barnabas.broker.controller.log_dir_admin import copying_threads
from barnabas.broker.kafka_apis.unauthenticated import UnauthenticatedApis
from barnabas.broker.network.connection_quotas import ConnectionLimitsUpdate, ConnectionQuotas, limits_of
from barnabas.broker.network.ip_quotas import IpQuotasUpdate
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.socket_server import SocketServer, SocketSettings
from barnabas.broker.startup.assembly import BrokerComponents, Dependencies
from barnabas.broker.startup.control import Control, OwnControl
from barnabas.broker.startup.exit_codes import StartInterruptedError
from barnabas.broker.startup.http_security import http_security
from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.broker.startup.observers import Observers
from barnabas.broker.startup.security_check import weaknesses_of
from barnabas.broker.waiting.blocking import ThreadRunner
from barnabas.broker.waiting.host_lookup import HostLookup
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import barnabas, metrics, network
from barnabas.protocol.wire import random_uuid
from barnabas.storage.env import Env

if TYPE_CHECKING:
    from barnabas.broker.startup.member_start import Membership
    from barnabas.broker.startup.member_storage import MemberStorage

logger = logging.getLogger("barnabas.server")

DRAIN_TIMEOUT_S: Final = 30.0
BLOCKING_THREADS: Final = 4
AUTHENTICATION_THREADS: Final = 4
"""For checks of credentials that wait for others, apart from those that wait for the disk."""
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
        self._authenticating = ThreadRunner(loop, AUTHENTICATION_THREADS)
        self.securities = ListenerSecurities(config, loop, self._runner, authenticating=self._authenticating)
        self.http_security = http_security(config)
        self.socket_server = self._make_socket_server()
        self._copying = ThreadRunner(loop, copying_threads(config))
        self._loading = ThreadRunner(loop, LOADING_THREADS)
        self.is_stopping = False
        self.membership: Membership | None = None
        """The place in a cluster, of a member."""
        self._interrupted: asyncio.Future[None] = loop.create_future()

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the listeners that are open, by name."""
        return self.socket_server.ports

    def interrupt_start(self) -> None:
        """Has a member give its start up at the next step that it waits for, with its directories in order."""
        if not self._interrupted.done():
            self._interrupted.set_result(None)

    async def start(self) -> None:
        """Returns when clients are served. Raises InvalidConfigError or another error that prevents the start.

        A node that is alone starts without waiting for anything but its disk. Raises StartInterruptedError.
        """
        self.socket_server.bind()
        try:
            if self.config.is_member:
                await self._start_as_member()
            else:
                self._start_alone()
        except BaseException:
            self.socket_server.close()
            raise
        apis = self.components.apis
        self.socket_server.start(apis.handle, UnauthenticatedApis(apis))
        self.securities.start()
        for weakness in weaknesses_of(self.config, self.securities, self.http_security):
            logger.warning("%s", weakness)

    def _start_alone(self) -> None:
        storage = NodeStorage(self.config, self.env, self.ports)
        storage.quorum.runner = self._runner
        self._opened(storage)
        components = self._make_components(storage, OwnControl(self.config, storage, self._runner))
        for _ in components.begin():
            pass  # nobody else waits for the loop
        self._start_components()

    async def _start_as_member(self) -> None:
        from barnabas.broker.startup.member_start import Membership, MemberSurroundings

        membership = Membership(
            self.config,
            MemberSurroundings(
                self.env, self._loop, self._runner, self.ports, self.failed, self._fail, self._interrupted
            ),
        )
        try:
            storage, control = await membership.join()
            self._opened(storage)
            components = self._make_components(storage, control)
            for _ in components.begin():
                await asyncio.sleep(0)
            self._start_components()
            self.membership = membership
            await membership.enter(self.components.loader)
        except StartInterruptedError:
            if self.membership is None:
                await self._give_up(membership)
            else:
                await self.stop()
            raise
        except BaseException:
            await self._give_up(membership)
            raise

    async def _give_up(self, membership: Membership) -> None:
        """Ends a start that failed. No thread is at work in the directories any more when they are released."""
        membership.give_up()
        await self._close_threads()
        membership.abandon()

    def _opened(self, storage: NodeStorage | MemberStorage) -> None:
        self.storage = storage
        storage.raft.on_failure = lambda: self._loop.call_soon_threadsafe(
            self._log_dir_failed, storage.metadata_dir
        )

    def _make_components(self, storage: NodeStorage | MemberStorage, control: Control) -> BrokerComponents:
        self.components = BrokerComponents(self.config, storage, control, self._dependencies())
        return self.components

    def _start_components(self) -> None:
        """What the components do by themselves begins."""
        components = self.components
        self.securities.attach(lambda: components.image.scram, self.storage.metadata_dir, components.tokens)
        self.socket_server.connection_closed = components.client_metrics.connection_closed
        components.housekeeping.start()
        components.log_cleaner.start()
        components.control.reconfigure()
        components.moves.start()
        components.snapshot_generator.start()
        if components.token_sweeper is not None:
            components.token_sweeper.start()

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
            config_changed=(self._change_listeners, self.securities.reconfigure, limits.reconfigure),
            publishers=(IpQuotasUpdate(self.socket_server.change_ip_limits, self._runner).apply,),
        )

    def _change_listeners(self) -> None:
        self.socket_server.change_listeners(self.config.listeners)

    def _log_dir_failed(self, log_dir: str) -> None:
        """Without a directory left, or without the metadata, the broker stops."""
        if not self.storage.log_manager.dirs:
            self._fail(f"the last log directory, {log_dir}, has failed")
        elif log_dir == self.storage.metadata_dir:
            self._fail(f"{log_dir}, the log directory that holds the metadata, has failed")
        elif self.membership is not None:
            self.membership.log_dir_failed(log_dir)

    def _fail(self, reason: str) -> None:
        """The broker has to stop."""
        if not self.failed.done():
            self.failed.set_result(reason)

    async def stop(self) -> None:
        """Takes no new requests, answers those in flight, and closes the directories cleanly.

        A member first has the controller move its leaders to other brokers.
        """
        components, membership = self.components, self.membership
        self.is_stopping = True
        if membership is not None and not self.failed.done():
            await membership.leave()
        components.housekeeping.stop()
        components.snapshot_generator.stop()
        if components.token_sweeper is not None:
            components.token_sweeper.stop()
        moves_stopped = asyncio.ensure_future(components.moves.stop())
        await components.log_cleaner.stop()
        drained = asyncio.ensure_future(self.socket_server.drain(DRAIN_TIMEOUT_S))
        await asyncio.sleep(0)  # reading has stopped: no request need wait for records or members any longer
        components.replica_manager.fetch_purgatory.expire_all()
        components.coordinators.stop()
        cut_off = await drained
        if cut_off:
            logger.warning("%d connections did not finish within %.0f s", cut_off, DRAIN_TIMEOUT_S)
        self.securities.close()
        components.replica_manager.produce_purgatory.expire_all()
        components.replica_manager.delete_records_purgatory.expire_all()
        components.quotas.close()
        if membership is not None:
            membership.close()
        await (
            moves_stopped
        )  # a report of theirs waits for the controller of a cluster as long as `membership` does
        await self._close_threads()
        self.storage.close()

    async def _close_threads(self) -> None:
        """Returns when all work in threads has ended, and its results have been taken."""
        for runner in (self._authenticating, self._copying, self._loading, self._runner):
            await self._loop.run_in_executor(None, runner.close)

    def _make_socket_server(self) -> SocketServer:
        config = self.config
        return SocketServer(
            loop=self._loop,
            listeners=config.listeners,
            settings=SocketSettings(
                barnabas_authentication_timeout_ms=config[barnabas.BARNABAS_AUTHENTICATION_TIMEOUT_MS],
                connection_failed_authentication_delay_ms=config[
                    network.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS
                ],
                connections_max_idle_ms=config[network.CONNECTIONS_MAX_IDLE_MS],
                socket_listen_backlog_size=config[network.SOCKET_LISTEN_BACKLOG_SIZE],
                socket_receive_buffer_bytes=config[network.SOCKET_RECEIVE_BUFFER_BYTES],
                socket_request_max_bytes=config[network.SOCKET_REQUEST_MAX_BYTES],
                socket_send_buffer_bytes=config[network.SOCKET_SEND_BUFFER_BYTES],
            ),
            quotas=ConnectionQuotas(
                limits_of(config),
                self._loop.time,
                samples=config[metrics.QUOTA_WINDOW_NUM],
                window_ms=config[metrics.QUOTA_WINDOW_SIZE_SECONDS] * 1000,
            ),
            memory=self.memory,
            probe=self.observers.sockets,
            secure=self.securities,
            now_ms=self.env.now_ms,
            runner=self._authenticating,
        )
