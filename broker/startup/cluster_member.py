"""ClusterMember: what this node exchanges with its cluster, wired: metadata, registration, requests for the controller.

    start      the metadata log is followed, and the registration is sent
    caught_up  the controller has seen that this node's metadata hold the registration: now logs can be opened
    hold       metadata that come from here on wait, so that logs and partitions are made from one image
    attach     ... until the partitions are there, which get them then
    ready      the controller may send clients here; `unfenced` says that it does
    leave      the controller moves the leaders elsewhere; `may_stop` says that it has
    close      nothing is sent or applied any more

Source: kafka.server.BrokerServer, kafka.server.SharedServer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.controller.cordoned_dirs import Cordons
from barnabas.broker.controller.registration import Node, endpoints
from barnabas.broker.membership.alter_partition import AlterPartitionManager
from barnabas.broker.membership.controller_channel import ControllerChannel
from barnabas.broker.membership.lifecycle import (
    BrokerLifecycleManager,
    LifecycleEvents,
    LifecycleSettings,
    MemberIdentity,
)
from barnabas.broker.metadata.features import check_levels, supported
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.observed_image import ObservedImage
from barnabas.broker.metadata.observer import MetadataObserver, ObserverEvents, ObserverSettings, Quorum
from barnabas.broker.metadata.versions import CORDONED_LOG_DIRS, DIRECTORY_ASSIGNMENT
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.opening import USE_SYSTEM_BUFFER, Open
from barnabas.broker.replica.isr import LeaderContext
from barnabas.broker.startup.member_storage import MemberStorage
from barnabas.broker.startup.quorum_addresses import bootstrap_servers, static_voters
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import controller as controller_keys
from barnabas.config.catalogue import network, replication, server
from barnabas.protocol.wire import Uuid, random_uuid
from barnabas.storage.env import Env

logger = logging.getLogger("barnabas.membership")

CONTROLLED_SHUTDOWN_S: Final = 300.0
"""How long a broker that stops waits until the controller lets it go."""
CONTROLLER_BACKOFF_MAX_MS: Final = 50
"""The controller is tried again as often as it is looked for."""


class MemberDependencies(NamedTuple):
    """What a member gets from outside."""

    env: Env
    loop: asyncio.AbstractEventLoop
    runner: BlockingRunner
    open_connection: Open
    """To brokers."""
    open_controller: Open
    failed: Callable[[str], object]
    """The broker has to stop; the text is for the operator."""


class _Held(NamedTuple):
    """Metadata that wait for the partitions."""

    image: MetadataImage
    delta: MetadataDelta
    published: Callable[[], None]


class ClusterMember:
    """This node's place in its cluster. Lives on the event loop."""

    def __init__(
        self, config: BrokerConfig, storage: MemberStorage, ports: dict[str, int], given: MemberDependencies
    ) -> None:
        """`ports`: the listeners' ports by name, for those that the configuration sets to 0."""
        self.config = config
        self.storage = storage
        self.loop = given.loop
        self._given = given
        self._loader: MetadataLoader | None = None
        self._is_holding = False
        self._held: _Held | None = None
        self.caught_up: asyncio.Future[None] = given.loop.create_future()
        self.unfenced: asyncio.Future[None] = given.loop.create_future()
        self._may_stop: asyncio.Future[None] = given.loop.create_future()
        self.cordons = Cordons(config, storage.log_manager)
        self.cordons.reconfigure()  # before the first heartbeat that has them: else they would be free for a moment
        self._quorum_clients: dict[NodeAddress, NodeClient] = {}
        self._follow_metadata()
        timeout_ms = config[replication.CONTROLLER_SOCKET_TIMEOUT_MS]
        settings = LifecycleSettings.of(config)
        self._heartbeats = self._controller_channel(
            "heartbeat", min(timeout_ms, settings.request_deadline_ms)
        )
        self.forwarding = self._controller_channel("forwarding", timeout_ms)
        self.directories = self._controller_channel("directory-assignments", timeout_ms)
        self._isr_changes = self._controller_channel("alter-partition", timeout_ms)
        self._channels = (self._heartbeats, self.forwarding, self.directories, self._isr_changes)
        self.lifecycle = BrokerLifecycleManager(
            self._identity(ports),
            self._heartbeats.submit,
            given.loop,
            settings,
            LifecycleEvents(
                partial(_happened, self.caught_up),
                partial(_happened, self.unfenced),
                partial(_happened, self._may_stop),
                given.failed,
            ),
            metadata_offset=lambda: self.observed.published.offset,
            cordoned_log_dirs=self._cordoned_log_dirs,
        )
        self.leader_context = LeaderContext(
            AlterPartitionManager(
                self._isr_changes.submit,
                given.loop,
                node_id=storage.node_id,
                broker_epoch=self.broker_epoch,
            ),
            broker_epoch=self.broker_epoch,
            now_ms=lambda: int(given.loop.time() * 1000),
            lag_max_ms=config[replication.REPLICA_LAG_TIME_MAX_MS],
        )

    # -- its parts --

    def _follow_metadata(self) -> None:
        config, storage, given = self.config, self.storage, self._given
        voters = static_voters(config)
        self.observed = ObservedImage(
            storage.raft,
            given.runner,
            lambda: self.observer.leader_high_watermark,
            self._publish,
            given.failed,
        )
        self.observer = MetadataObserver(
            storage.log,
            Quorum(storage.cluster_id, bootstrap_servers(config), voters),
            channel_to=self._quorum_client,
            timer=given.loop,
            runner=given.runner,
            events=ObserverEvents(
                self.observed.progressed,
                self.observed.replaced,
                self._controller_changed,
                given.failed,
            ),
            settings=ObserverSettings(
                config[controller_keys.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
                config[controller_keys.CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
                config[controller_keys.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS],
                config[controller_keys.CONTROLLER_QUORUM_FETCH_MAX_BYTES],
                config[controller_keys.CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES],
            ),
        )

    def _identity(self, ports: dict[str, int]) -> MemberIdentity:
        config, storage = self.config, self.storage
        incarnation_id = random_uuid(self._given.env.random_bytes)
        log_dirs = list(storage.directory_ids.values())
        node = Node.of(
            config,
            storage.node_id,
            incarnation_id=incarnation_id,
            ports=ports,
            features=supported(config),
            log_dirs=log_dirs,
        )
        return MemberIdentity(
            storage.node_id,
            storage.cluster_id,
            incarnation_id,
            endpoints(node.listeners),
            node.features,
            node.rack,
            log_dirs,
        )

    def _controller_channel(self, name: str, timeout_ms: int) -> ControllerChannel:
        return ControllerChannel(
            lambda: self.observer.leader,
            lambda address: self._controller_client(address, f"broker-{self.storage.node_id}-{name}"),
            self.loop,
            request_timeout_ms=timeout_ms,
        )

    def _quorum_client(self, address: NodeAddress) -> NodeClient:
        client = self._quorum_clients.get(address)
        if client is None:
            client = self._quorum_clients[address] = self._controller_client(
                address, f"raft-client-{self.storage.node_id}"
            )
        return client

    def _controller_client(self, address: NodeAddress, client_id: str) -> NodeClient:
        settings = client_settings(self.config, client_id)._replace(
            reconnect_backoff_max_ms=CONTROLLER_BACKOFF_MAX_MS
        )
        return NodeClient(address, settings, self.loop, self._given.open_controller)

    def client(
        self,
        address: NodeAddress,
        client_id: str,
        *,
        receive_buffer_bytes: int = USE_SYSTEM_BUFFER,
    ) -> NodeClient:
        """A connection of this broker to another one, made with its first request."""
        settings = client_settings(self.config, client_id)._replace(receive_buffer_bytes=receive_buffer_bytes)
        return NodeClient(address, settings, self.loop, self._given.open_connection)

    # -- what it says --

    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before that."""
        return self.lifecycle.broker_epoch

    def _cordoned_log_dirs(self) -> list[Uuid] | None:
        knows_cordons = self.observed.published.metadata_version >= CORDONED_LOG_DIRS
        return self.cordons.ids if knows_cordons else None

    def log_dir_failed(self, path: str) -> None:
        """Has the controller move the leaders off a directory of this broker."""
        directory_id = self.storage.directory_ids.get(path)
        if directory_id is not None:
            self.lifecycle.directory_failed(directory_id)

    def reconfigure(self) -> None:
        """The broker's configuration has changed."""
        self.cordons.reconfigure()
        self.lifecycle.cordons_changed()

    # -- its life --

    def start(self) -> None:
        """Begins to follow the metadata, and to register."""
        self.observer.start()
        self.lifecycle.start(self.storage.previous_broker_epoch)

    def hold(self) -> None:
        """Keeps the metadata as they are until `attach`. Raises MetadataLogError for levels that are not supported."""
        self._is_holding = True
        image = self.observed.published
        kraft_version = self.storage.raft.control.kraft_version
        check_levels(image.features, kraft_version, self.config)

    def attach(self, loader: MetadataLoader) -> None:
        """Publishes to the broker's parts, which were made from the image that is held."""
        self._loader = loader
        held, self._held = self._held, None
        if held is not None:
            self._take_over(*held)

    def ready(self) -> None:
        """Logs are open and the metadata applied: the controller may send clients here."""
        self.lifecycle.ready_to_unfence()

    async def leave(self) -> None:
        """Waits until the controller has moved the leaders elsewhere, while clients are still served."""
        self.lifecycle.begin_controlled_shutdown()
        try:
            async with asyncio.timeout(CONTROLLED_SHUTDOWN_S):
                await self._may_stop
        except TimeoutError:
            logger.error(
                "the controller has not let this broker go within %.0f s: it stops all the same",
                CONTROLLED_SHUTDOWN_S,
            )

    def close(self) -> None:
        """Sends and applies nothing more."""
        self.lifecycle.close()
        self.observer.stop()
        for channel in self._channels:
            channel.close()
        for client in self._quorum_clients.values():
            client.close()

    # -- the metadata --

    def _controller_changed(self) -> None:
        for channel in self._channels:
            channel.controller_changed()

    def _publish(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        if self._loader is not None:
            self._take_over(image, delta, published)
        elif self._is_holding:
            self._held = _Held(image, delta, published)
        else:
            self.storage.image = image
            published()

    def _take_over(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        assert self._loader is not None

        def done() -> None:
            published()
            self._maybe_register_again(image, delta)

        self._loader.take_over(image, delta, done)

    def _maybe_register_again(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """A cluster whose metadata.version rose beyond that of KIP-858 needs the log directories, too."""
        own = image.brokers.get(self.storage.node_id)
        if (
            (delta.feature_changes or self.storage.node_id in delta.broker_changes)
            and own is not None
            and own.epoch == self.broker_epoch()
            and not own.log_dirs
            and image.metadata_version >= DIRECTORY_ASSIGNMENT
        ):
            self.lifecycle.register_again()


def client_settings(config: BrokerConfig, client_id: str) -> NodeClientSettings:
    """The settings of connections to other nodes."""
    return NodeClientSettings(
        client_id,
        request_timeout_ms=config[server.REQUEST_TIMEOUT_MS],
        setup_timeout_ms=config[server.SOCKET_CONNECTION_SETUP_TIMEOUT_MS],
        setup_timeout_max_ms=config[server.SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS],
        idle_ms=config[network.CONNECTIONS_MAX_IDLE_MS],
    )


def _happened(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
