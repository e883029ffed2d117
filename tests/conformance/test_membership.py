"""A member's registration, heartbeats, controlled shutdown and observed metadata, with Kafka's own controller.

The member is not a whole broker: it holds no replica and opens no listener.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.broker.membership.controller_channel import ControllerChannel
from barnabas.broker.membership.lifecycle import (
    BrokerLifecycleManager,
    BrokerState,
    LifecycleEvents,
    LifecycleSettings,
    MemberIdentity,
)
from barnabas.broker.metadata.cluster import BrokerRegistration, ListenerEndpoint
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.observed_image import ObservedImage
from barnabas.broker.metadata.observer import MetadataObserver, ObserverEvents, Quorum
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import RaftLogSettings
from barnabas.broker.metadata.versions import supported_levels
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.opening import opener
from barnabas.broker.waiting.blocking import ThreadRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import MetaProperties
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.conformance

MEMBER, DIR_ID = 7, bytes([7] * 16)
LIMIT_S = 60.0
QUICK = LifecycleSettings(heartbeat_interval_ms=200, session_timeout_ms=3_000)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    overrides = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), overrides) as running:
        yield running


class Member:
    """Follows the metadata and keeps its place in the cluster; nothing else."""

    def __init__(
        self, kafka: ApacheKafka, directory: Path, incarnation: int, cluster_id: str | None = None
    ) -> None:
        """`cluster_id`: what it claims in its registration."""
        loop = asyncio.get_running_loop()
        self.events: list[str] = []
        self.failures: list[str] = []
        self._changed = asyncio.Event()
        own_cluster_id = self._cluster_id(kafka)
        self._runner = ThreadRunner(loop, 1)
        self._clients: dict[NodeAddress, NodeClient] = {}
        self.channel = ControllerChannel(lambda: self.observer.leader, self._connect, loop)
        directory.mkdir()
        raft = RaftLog(RealEnv(), str(directory), RaftLogSettings.of(BrokerConfig()))
        self.observed = ObservedImage(
            raft,
            self._runner,
            lambda: self.observer.leader_high_watermark,
            self._publish,
            self.failures.append,
        )
        self.observer = MetadataObserver(
            ObserverRaftLog(raft, RealEnv(), MEMBER, DIR_ID),
            Quorum(own_cluster_id, [NodeAddress("127.0.0.1", kafka.controller_port)]),
            channel_to=lambda node: self._clients.setdefault(node, self._connect(node)),
            timer=loop,
            runner=self._runner,
            events=ObserverEvents(
                self.observed.progressed,
                self.observed.replaced,
                self.channel.controller_changed,
                self._failed,
            ),
        )
        self.lifecycle = BrokerLifecycleManager(
            MemberIdentity(
                MEMBER,
                cluster_id or own_cluster_id,
                bytes([incarnation] * 16),
                {"PLAINTEXT": ListenerEndpoint("127.0.0.1", 19092, 0)},
                supported_levels(unstable=False),
                "r7",
                [DIR_ID],
            ),
            self.channel.submit,
            loop,
            QUICK,
            LifecycleEvents(
                lambda: self._happened("caught up"),
                lambda: self._happened("unfenced"),
                lambda: self._happened("may stop"),
                self._failed,
            ),
            metadata_offset=lambda: self.observed.published.offset,
        )
        self.raft = raft

    @staticmethod
    def _cluster_id(kafka: ApacheKafka) -> str:
        found = MetaProperties.read(RealEnv(), str(kafka.data_dir))
        assert found is not None
        return found.cluster_id

    def _connect(self, node: NodeAddress) -> NodeClient:
        loop = asyncio.get_running_loop()
        return NodeClient(node, NodeClientSettings("member"), loop, opener(loop))

    def _publish(self, image: MetadataImage, delta: MetadataDelta, published: Callable[[], None]) -> None:
        published()
        self._changed.set()

    def _happened(self, event: str) -> None:
        self.events.append(event)
        self._changed.set()

    def _failed(self, reason: str) -> None:
        self.failures.append(reason)
        self._changed.set()

    @property
    def registration(self) -> BrokerRegistration | None:
        """This broker in the metadata, as the controller has committed them."""
        return self.observed.published.brokers.get(MEMBER)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds, looking whenever something has happened."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    async def close(self) -> None:
        self.lifecycle.close()
        self.observer.stop()
        self.channel.close()
        for client in self._clients.values():
            client.close()
        await asyncio.get_running_loop().run_in_executor(None, self._runner.close)
        self.raft.close()


@asynccontextmanager
async def member(
    kafka: ApacheKafka, directory: Path, incarnation: int, cluster_id: str | None = None
) -> AsyncIterator[Member]:
    running = Member(kafka, directory, incarnation, cluster_id)
    running.observer.start()
    try:
        yield running
    finally:
        await running.close()


async def test_a_member_registers_is_unfenced_and_leaves_in_order(kafka: ApacheKafka, tmp_path: Path) -> None:
    async with member(kafka, tmp_path / "m", 1) as one:
        one.lifecycle.start()
        await one.until(lambda: one.events == ["caught up"])
        fenced = one.registration
        assert fenced is not None
        assert (fenced.fenced, fenced.epoch) == (True, one.lifecycle.broker_epoch)
        assert fenced.listeners == {"PLAINTEXT": ListenerEndpoint("127.0.0.1", 19092, 0)}
        assert (fenced.log_dirs, fenced.rack) == ((DIR_ID,), "r7")
        assert dict(fenced.features) == dict(supported_levels(unstable=False))
        one.lifecycle.ready_to_unfence()
        await one.until(lambda: one.lifecycle.state is BrokerState.RUNNING)
        await one.until(lambda: one.registration is not None and not one.registration.fenced)
        assert one.lifecycle.is_serving
        one.lifecycle.begin_controlled_shutdown()
        await one.until(lambda: one.events[-1] == "may stop")
        await one.until(lambda: one.registration is not None and one.registration.fenced)
        assert not one.failures


async def test_an_incarnation_waits_until_the_one_before_is_fenced(
    kafka: ApacheKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with member(kafka, tmp_path / "killed", 2) as killed:
        killed.lifecycle.start()
        killed.lifecycle.ready_to_unfence()
        await killed.until(lambda: killed.lifecycle.state is BrokerState.RUNNING)
        epoch = killed.lifecycle.broker_epoch
    with caplog.at_level(logging.WARNING):
        async with member(kafka, tmp_path / "again", 3) as again:
            again.lifecycle.start()
            again.lifecycle.ready_to_unfence()
            await again.until(lambda: again.lifecycle.state is BrokerState.RUNNING)
            assert again.lifecycle.broker_epoch > epoch
    assert "DUPLICATE_BROKER_REGISTRATION: a broker with this node.id is registered" in caplog.text


async def test_another_cluster_is_refused(kafka: ApacheKafka, tmp_path: Path) -> None:
    async with member(kafka, tmp_path / "m", 4, "AAAAAAAAAAAAAAAAAAAAAA") as one:
        one.lifecycle.start()
        await one.until(lambda: bool(one.failures))
        assert "AAAAAAAAAAAAAAAAAAAAAA is their cluster.id" in one.failures[0]
