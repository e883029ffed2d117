"""Membership: the start of a member of a cluster, step by step, and its end.

    join     the directories are locked, the metadata followed, this broker registered; once the controller has seen
             that the metadata hold the registration, the logs are opened in a thread
    enter    (the partitions are made, and fetch what they follow) the controller unfences this broker
    leave    the controller moves the leaders elsewhere
    close    fetchers, connections and the observer end

All that waits does so off the event loop, on which heartbeats go on meanwhile. Source: kafka.server.BrokerServer.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.broker.membership.cluster_id import find_cluster_id
from barnabas.broker.membership.lifecycle import BrokerLifecycleManager, BrokerState
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.versions import SHARE_VERSION, STREAMS_VERSION
from barnabas.broker.node_client.client import NodeClient
from barnabas.broker.node_client.opening import Open
from barnabas.broker.startup.cluster_control import ClusterControl
from barnabas.broker.startup.cluster_member import ClusterMember, MemberDependencies, client_settings
from barnabas.broker.startup.exit_codes import StartFailedError, StartInterruptedError
from barnabas.broker.startup.member_storage import MemberStorage
from barnabas.broker.startup.peer_security import peer_opener
from barnabas.broker.startup.quorum_addresses import bootstrap_servers, static_voters
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_CLUSTER_UNENFORCED_ACLS_ALLOW
from barnabas.config.catalogue.controller import CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS
from barnabas.config.catalogue.server import (
    AUTHORIZER_CLASS_NAME,
    BROKER_SESSION_TIMEOUT_MS,
    CONTROLLED_SHUTDOWN_ENABLE,
    SERVER_MAX_STARTUP_TIME_MS,
)
from barnabas.storage.env import Env

logger = logging.getLogger("barnabas.startup")

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""After this time a step that others decide on is named in the log."""

COLLECTED_IN_A_START: Final = (5_000, 10, 100)
"""New objects that trigger a collection, such collections before one of older objects, and those before a full one: it
would hold heartbeats up while logs are opened, and some five million new objects come before it."""


class MemberSurroundings(NamedTuple):
    """What the server gives a membership."""

    env: Env
    loop: asyncio.AbstractEventLoop
    runner: BlockingRunner
    ports: dict[str, int]
    failed: asyncio.Future[str]
    """Done once the broker has to stop, with the reason."""
    fail: Callable[[str], None]
    interrupted: asyncio.Future[Any]
    """Done once the start is to be given up."""


class Membership:
    """The membership of one broker. Lives on the event loop."""

    control: ClusterControl

    def __init__(self, config: BrokerConfig, given: MemberSurroundings) -> None:
        self._config = config
        self._given = given
        self._storage = MemberStorage(config, given.env)
        self._member: ClusterMember | None = None
        self._open_connection = self._opener(controllers=False)
        self._open_controller = self._opener(controllers=True)
        limit_ms = config[SERVER_MAX_STARTUP_TIME_MS]
        self._limit_s = None if limit_ms > 1 << 40 else limit_ms / 1000
        self._deadline_s: float | None = None

    async def join(self) -> tuple[MemberStorage, ClusterControl]:
        """Returns with all logs open. Raises what prevents the start.

        Before the logs are opened that leaves a clean stop as clean as it was.
        """
        if self._limit_s is not None:
            self._deadline_s = self._given.loop.time() + self._limit_s
        if not gc.isenabled():  # others decide how long the start takes
            gc.set_threshold(*COLLECTED_IN_A_START)
            gc.enable()
        storage, given = self._storage, self._given
        is_formatted = await self._in_thread(storage.lock)
        cluster_id = None
        if not is_formatted and self._config.cluster_id is None:
            cluster_id = await self._until(self._cluster_id(), "the controllers have said their cluster's id")
        await self._in_thread(partial(storage.open, cluster_id))
        dependencies = MemberDependencies(
            given.env, given.loop, given.runner, self._open_connection, self._open_controller, given.fail
        )
        member = ClusterMember(self._config, storage, given.ports, dependencies)
        self.control = ClusterControl(member)
        self._member = member
        member.start()
        await self._until(
            member.caught_up, "the controller has seen that this broker's metadata are up to date"
        )
        member.hold()
        _check_unserved(storage, self._config)
        await self._in_thread(storage.load_logs)
        return storage, self.control

    async def enter(self, loader: MetadataLoader) -> None:
        """Returns when the controller has unfenced this broker, whose partitions get new metadata from `loader`."""
        member = self._joined()
        for path in self._storage.failed_dirs():
            member.log_dir_failed(path)
        self.control.start()
        member.attach(loader)
        member.ready()
        await self._until(member.unfenced, "the controller has unfenced this broker")

    async def leave(self) -> None:
        """Has the leaders moved elsewhere, where controlled.shutdown.enable; a broker that fails does not wait."""
        if self._config[CONTROLLED_SHUTDOWN_ENABLE]:
            self.control.begin_controlled_shutdown()
            await self._until_failed(self._joined().leave())

    def close(self) -> None:
        """Ends what goes on between this broker and others."""
        self.control.stop()
        self._joined().close()
        self._storage.broker_epoch = self._joined().broker_epoch()

    def give_up(self) -> None:
        """Ends what goes on between this broker and others, wherever the start has got to; `abandon` comes next."""
        if self._member is not None:
            self.control.stop()
            self._member.close()

    def abandon(self) -> None:
        """Releases the directories of a start that was given up, without any write."""
        self._storage.abandon()

    @property
    def lifecycle(self) -> BrokerLifecycleManager:
        return self._joined().lifecycle

    @property
    def not_ready(self) -> str | None:
        """Why clients should not be sent here; None where they should."""
        lifecycle = self.lifecycle
        if lifecycle.is_serving:
            return None
        if lifecycle.state is BrokerState.RUNNING and not lifecycle.is_fenced:
            return f"no controller has answered a heartbeat within {BROKER_SESSION_TIMEOUT_MS.name}"
        return f"the controller does not send clients here: {lifecycle.state.name}"

    def log_dir_failed(self, path: str) -> None:
        """Has the controller move the leaders off a directory of this broker."""
        self._joined().log_dir_failed(path)

    # -- waiting --

    def _joined(self) -> ClusterMember:
        assert self._member is not None
        return self._member

    def _opener(self, *, controllers: bool) -> Open:
        return peer_opener(self._given.loop, self._config, controllers=controllers, client_id="barnabas")

    async def _cluster_id(self) -> str:
        config, loop = self._config, self._given.loop
        return await find_cluster_id(
            [*bootstrap_servers(config), *static_voters(config).values()],
            lambda address: NodeClient(
                address, client_settings(config, "barnabas"), loop, self._open_controller
            ),
            timeout_ms=config[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._given.loop.run_in_executor(None, work)

    async def _until_failed(self, awaited: Coroutine[Any, Any, None]) -> None:
        """Waits for something, or until the broker has to stop."""
        waited = asyncio.ensure_future(awaited)
        both: list[asyncio.Future[Any]] = [waited, self._given.failed]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waited.cancel()

    async def _until(self, awaited: Awaitable[T], what: str) -> T:
        """Waits for one step; says what it waits for where that takes long.

        Raises StartFailedError, StartInterruptedError.
        """
        loop, failed, interrupted = self._given.loop, self._given.failed, self._given.interrupted
        waited = asyncio.ensure_future(awaited)
        says_at: float | None = loop.time() + PATIENCE_S
        while True:
            times = [at for at in (says_at, self._deadline_s) if at is not None]
            timeout_s = max(min(times) - loop.time(), 0) if times else None
            endings: list[asyncio.Future[Any]] = [waited, failed, interrupted]
            await asyncio.wait(endings, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if interrupted.done():
                waited.cancel()
                raise StartInterruptedError
            if waited.done():
                return waited.result()
            if failed.done():
                waited.cancel()
                raise StartFailedError(failed.result())
            if self._deadline_s is not None and loop.time() >= self._deadline_s:
                waited.cancel()
                raise StartFailedError(f"not within {SERVER_MAX_STARTUP_TIME_MS.name}: {what}")
            if says_at is not None:
                logger.info("waiting until %s", what)
                says_at = None


def _check_unserved(storage: MemberStorage, config: BrokerConfig) -> None:
    """Warns of what the cluster has and this version does not serve.

    Raises StartFailedError for ACLs that the other brokers enforce, and this one without an authorizer would not.
    """
    key = BARNABAS_CLUSTER_UNENFORCED_ACLS_ALLOW
    if storage.image.acls and not (config[AUTHORIZER_CLASS_NAME] or config[key]):
        raise StartFailedError(
            f"the cluster has {len(storage.image.acls)} ACLs, and this broker has no {AUTHORIZER_CLASS_NAME.name}: "
            "whoever reaches its ports could read and write everything. Set it as on the other brokers, or, where that "
            f"is what you want, {key.name}=true"
        )
    for feature, groups in ((SHARE_VERSION, "share"), (STREAMS_VERSION, "streams")):
        if storage.image.features.get(feature, 0) > 0:
            logger.warning(
                "the cluster has %s groups (%s=%d), which this broker does not serve: groups whose coordinator is here "
                "get no answer. Without them: kafka-features.sh --bootstrap-server ... downgrade --feature %s=0",
                groups,
                feature,
                storage.image.features[feature],
                feature,
            )
