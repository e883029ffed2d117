"""ClusterMember with a controller behind a socket: registration, heartbeats, and when metadata are published."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.membership.lifecycle import BrokerState
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.metadata.versions import CORDONED_LOG_DIRS, DIRECTORY_ASSIGNMENT
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.opening import opener
from barnabas.broker.startup import cluster_member
from barnabas.broker.startup.cluster_member import ClusterMember, MemberDependencies, client_settings
from barnabas.broker.startup.member_storage import MemberStorage
from barnabas.broker.waiting.blocking import InlineRunner, ThreadRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import CORDONED_LOG_DIRS as CORDONED_KEY
from barnabas.config.layers import Setting, Source
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.topic_records import FeatureLevelRecord
from barnabas.storage.env import RealEnv
from tests.broker.cluster_images import registration, topic_records
from tests.broker.running_server import LOCALHOST
from tests.broker.startup.fake_controller import (
    CLUSTER_ID,
    MEMBER_ID,
    FakeController,
    config_of_member,
    controlling,
    silence,
    until,
)

PORTS = {"PLAINTEXT": 19092, "INSIDE": 19093}


class Joining:
    """A member, whose storage is open; the test is the rest of the broker."""

    def __init__(self, config: BrokerConfig, cluster_id: str = CLUSTER_ID) -> None:
        loop = asyncio.get_running_loop()
        self.failures: list[str] = []
        self.published: list[tuple[MetadataImage, MetadataDelta]] = []
        self.storage = MemberStorage(config, RealEnv())
        self.storage.lock()
        self.storage.open(cluster_id)
        self.runner = ThreadRunner(loop, 1)
        given = MemberDependencies(
            RealEnv(), loop, self.runner, opener(loop), opener(loop), self.failures.append
        )
        self.member = ClusterMember(config, self.storage, PORTS, given)

    def attach(self) -> None:
        """The partitions are there, made from the image of the storage."""

        def publish(image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
            self.published.append((image, delta))
            return iter(())

        loader = MetadataLoader(self.storage.image, InlineRunner(), publish)
        self.member.attach(loader)

    async def caught_up(self) -> Joining:
        self.member.start()
        await asyncio.wait_for(asyncio.shield(self.member.caught_up), 20)
        return self

    async def running(self) -> Joining:
        """Unfenced, with its partitions made."""
        await self.caught_up()
        self.member.hold()
        self.attach()
        self.member.ready()
        await asyncio.wait_for(asyncio.shield(self.member.unfenced), 20)
        return self

    def offset(self) -> int:
        """That of the newest metadata that are published everywhere."""
        return self.member.observed.published.offset

    def replayed_offset(self) -> int:
        """That of the newest metadata that this node has read."""
        return self.member.observed.image.offset

    def state(self) -> BrokerState:
        return self.member.lifecycle.state

    def close(self) -> None:
        self.member.close()
        self.runner.close()
        self.storage.abandon()


@asynccontextmanager
async def joining(config: BrokerConfig, **options: Any) -> AsyncIterator[Joining]:
    one = Joining(config, **options)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
async def controller() -> AsyncIterator[FakeController]:
    async with controlling() as found:
        yield found


# -- the registration --


async def test_it_registers_as_it_is_configured_with_the_ports_that_are_open(
    tmp_path: Path, controller: FakeController
) -> None:
    config = config_of_member(
        f"{tmp_path}/a,{tmp_path}/b",
        controller,
        listeners=f"PLAINTEXT://:0,INSIDE://{LOCALHOST}:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        broker_rack="r7",
    )
    async with joining(config) as one:
        assert one.member.broker_epoch() == -1
        await one.caught_up()
        sent = controller.last(BrokerRegistrationRequest)
        assert (sent.broker_id, sent.cluster_id, sent.rack) == (MEMBER_ID, CLUSTER_ID, "r7")
        assert [(at.name, at.host, at.port, at.security_protocol) for at in sent.listeners] == [
            ("PLAINTEXT", socket.gethostname(), 19092, 0),
            ("INSIDE", LOCALHOST, 19093, 0),
        ]
        assert sent.log_dirs == sorted(one.storage.directory_ids.values())
        assert "metadata.version" in {feature.name for feature in sent.features}
        assert (sent.previous_broker_epoch, sent.is_migrating_zk_broker) == (-1, False)
        assert one.member.broker_epoch() == controller.broker().broker_epoch


async def test_it_repeats_the_epoch_of_a_clean_stop(tmp_path: Path, controller: FakeController) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        one.storage.previous_broker_epoch = 12
        await one.caught_up()
        assert controller.last(BrokerRegistrationRequest).previous_broker_epoch == 12


async def test_each_process_is_another_incarnation(tmp_path: Path, controller: FakeController) -> None:
    for _ in range(2):
        async with joining(config_of_member(tmp_path, controller)) as one:
            await one.caught_up()
    first, second = controller.sent(BrokerRegistrationRequest)
    assert first.incarnation_id != second.incarnation_id
    assert first.log_dirs == second.log_dirs


async def test_it_has_caught_up_when_the_controller_sees_that_its_metadata_hold_the_registration(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.commits = False
    async with joining(config_of_member(tmp_path, controller)) as one:
        one.member.start()
        await until(lambda: controller.sent(BrokerHeartbeatRequest))
        await until(lambda: len(controller.sent(BrokerHeartbeatRequest)) > 3)
        assert not one.member.caught_up.done()
        assert controller.last(BrokerHeartbeatRequest).current_metadata_offset == 0
        controller.commit()
        await until(one.member.caught_up.done)
        assert controller.last(BrokerHeartbeatRequest).current_metadata_offset == 1
        assert one.state() is BrokerState.RECOVERY
        assert one.storage.image.brokers[MEMBER_ID].epoch == one.member.broker_epoch() == 1


async def test_the_log_of_another_cluster_is_a_failure(tmp_path: Path, controller: FakeController) -> None:
    async with joining(config_of_member(tmp_path, controller), cluster_id="another") as one:
        one.member.start()
        await until(lambda: one.failures)
        assert (
            "rejects this broker with INCONSISTENT_CLUSTER_ID; cluster.id here is another" in one.failures[0]
        )


async def test_a_registration_that_another_cluster_gets_is_a_failure(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.answers[BrokerRegistrationRequest] = lambda _: BrokerRegistrationResponse(
        error_code=ErrorCode.INCONSISTENT_CLUSTER_ID
    )
    async with joining(config_of_member(tmp_path, controller)) as one:
        one.member.start()
        await until(lambda: one.failures)
        assert f"{CLUSTER_ID} is their cluster.id" in one.failures[0]


async def test_it_registers_again_when_the_cluster_comes_to_know_log_directories(tmp_path: Path) -> None:
    async with (
        controlling(FakeController(metadata_version=DIRECTORY_ASSIGNMENT - 1)) as controller,
        joining(config_of_member(tmp_path, controller)) as one,
    ):
        await one.running()
        epoch = one.member.broker_epoch()
        assert controller.broker().log_dirs == []
        controller.append(*topic_records("t", [MEMBER_ID]))
        await until(lambda: one.offset() == controller.end_offset - 1)
        assert len(controller.sent(BrokerRegistrationRequest)) == 1
        controller.append(
            FeatureLevelRecord(name="metadata.version", feature_level=DIRECTORY_ASSIGNMENT),
        )
        await until(lambda: controller.broker().log_dirs)
        first, second = controller.sent(BrokerRegistrationRequest)
        assert first == second, "the same incarnation with the same directories"
        assert controller.broker().log_dirs == list(one.storage.directory_ids.values())
        await until(lambda: one.offset() == controller.end_offset - 1)
        assert one.member.broker_epoch() == epoch
        assert len(controller.sent(BrokerRegistrationRequest)) == 2


async def test_a_registration_that_lacks_the_directories_already_is_sent_again_once_it_is_published(
    tmp_path: Path,
) -> None:
    async with (
        controlling(FakeController(metadata_version=DIRECTORY_ASSIGNMENT - 1)) as controller,
        joining(config_of_member(tmp_path, controller)) as one,
    ):
        await one.caught_up()
        controller.append(FeatureLevelRecord(name="metadata.version", feature_level=DIRECTORY_ASSIGNMENT))
        await until(lambda: one.offset() == controller.end_offset - 1)
        one.member.hold()
        one.attach()
        one.member.ready()
        await until(lambda: controller.broker().log_dirs)
        assert len(controller.sent(BrokerRegistrationRequest)) == 2


# -- the metadata --


async def test_until_logs_are_opened_metadata_only_change_the_image(
    tmp_path: Path, controller: FakeController
) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.caught_up()
        controller.append(*topic_records("t", [MEMBER_ID]))
        await until(lambda: "t" in one.storage.image.topics)
        assert one.offset() == controller.end_offset - 1
        assert one.published == []


async def test_metadata_that_come_while_logs_are_opened_are_published_afterwards(
    tmp_path: Path, controller: FakeController
) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.caught_up()
        one.member.hold()
        held = one.offset()
        controller.append(*topic_records("first", [MEMBER_ID]))
        await until(lambda: "first" in one.member.observed.image.topics)
        controller.append(*topic_records("second", [MEMBER_ID]))
        request = await controller.next(BrokerHeartbeatRequest)
        assert request.current_metadata_offset == held, "what is not published is not reported"
        assert (one.offset(), one.storage.image.offset) == (held, held)
        one.attach()
        await until(lambda: one.offset() == controller.end_offset - 1)
        created = [delta.created_topics for _, delta in one.published]
        assert set().union(*created) == {"first", "second"}
        assert sum(map(len, created)) == 2, "each of them once"
        assert one.published[0][0].offset > held
        request = await controller.next(BrokerHeartbeatRequest)
        assert request.current_metadata_offset == controller.end_offset - 1


async def test_without_news_attaching_publishes_nothing(tmp_path: Path, controller: FakeController) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.caught_up()
        one.member.hold()
        one.attach()
        assert one.published == []
        controller.append(*topic_records("t", [MEMBER_ID]))
        await until(lambda: one.published)
        ((image, delta),) = one.published
        assert delta.created_topics == {"t"}
        assert image.offset == controller.end_offset - 1


async def test_what_the_controller_writes_of_other_brokers_is_published(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(8), registration(9))
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.running()
        assert set(one.storage.image.brokers) == {7, 8, 9}
        controller.append(registration(8, fenced=True))
        await until(lambda: one.offset() == controller.end_offset - 1)
        image, delta = one.published[-1]
        assert 8 in delta.broker_changes
        assert image.brokers[8].fenced


async def test_a_snapshot_of_the_controller_takes_the_place_of_a_long_log(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(8), *topic_records("t", [8]))
    controller.write_snapshot()
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.running()
        assert set(one.storage.image.topics) == {"t"}
        assert set(one.storage.image.brokers) == {MEMBER_ID, 8}
        assert len(list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))) == 1


async def test_levels_that_this_broker_does_not_support_end_the_start(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(FeatureLevelRecord(name="of.the.future.version", feature_level=3))
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.caught_up()
        with pytest.raises(MetadataLogError, match=r"of\.the\.future\.version at level 3"):
            one.member.hold()


# -- serving --


async def test_it_is_unfenced_when_it_is_ready_and_not_before(
    tmp_path: Path, controller: FakeController
) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.caught_up()
        one.member.hold()
        one.attach()
        for _ in range(2):
            assert (await controller.next(BrokerHeartbeatRequest)).want_fence
        assert controller.broker().fenced
        one.member.ready()
        await until(one.member.unfenced.done)
        assert not controller.last(BrokerHeartbeatRequest).want_fence
        assert not controller.broker().fenced
        assert one.state() is BrokerState.RUNNING


async def test_a_failed_directory_is_in_the_next_heartbeat(
    tmp_path: Path, controller: FakeController
) -> None:
    config = config_of_member(f"{tmp_path}/a,{tmp_path}/b", controller)
    async with joining(config) as one:
        await one.running()
        failed = one.storage.directory_ids[f"{tmp_path}/b"]
        one.member.log_dir_failed(f"{tmp_path}/b")
        one.member.log_dir_failed(f"{tmp_path}/was never online")
        await until(lambda: controller.last(BrokerHeartbeatRequest).offline_log_dirs)
        assert controller.last(BrokerHeartbeatRequest).offline_log_dirs == [failed]
        await until(lambda: failed not in controller.broker().log_dirs)
        assert not one.failures


# -- cordoned directories --


def cordon(config: BrokerConfig, *paths: str) -> None:
    """Sets cordoned.log.dirs while the broker runs."""
    setting = Setting(CORDONED_KEY.name, ",".join(paths), Source.DYNAMIC_BROKER, "the test")
    config.adopt(config.overlaid([setting]))


async def test_cordoned_directories_are_in_the_heartbeats(tmp_path: Path, controller: FakeController) -> None:
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    config = config_of_member(f"{a},{b}", controller, cordoned_log_dirs="*")
    async with joining(config) as one:
        ids = one.storage.directory_ids
        await one.running()
        first, *others = controller.sent(BrokerHeartbeatRequest)
        assert first.cordoned_log_dirs is None, "the metadata.version is not known yet"
        told = [beat.cordoned_log_dirs for beat in others if beat.cordoned_log_dirs is not None]
        assert told
        assert all(dirs == [ids[a], ids[b]] for dirs in told), "none is free for a moment"
        cordon(config, b)
        one.member.reconfigure()
        await until(lambda: controller.last(BrokerHeartbeatRequest).cordoned_log_dirs == [ids[b]])


async def test_a_cluster_that_does_not_know_cordons_is_told_none(tmp_path: Path) -> None:
    async with controlling(FakeController(metadata_version=CORDONED_LOG_DIRS - 1)) as controller:
        config = config_of_member(tmp_path, controller, cordoned_log_dirs="*")
        async with joining(config) as one:
            one.member.reconfigure()
            await one.running()
            beats = controller.sent(BrokerHeartbeatRequest)
            assert {beat.cordoned_log_dirs is None for beat in beats} == {True}


# -- the end --


async def test_it_leaves_when_the_controller_lets_it_go(tmp_path: Path, controller: FakeController) -> None:
    controller.grants_shutdown = False
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.running()
        leaving = asyncio.ensure_future(one.member.leave())
        await until(lambda: controller.last(BrokerHeartbeatRequest).want_shut_down)
        await controller.next(BrokerHeartbeatRequest)
        assert not leaving.done()
        controller.append(*topic_records("t", [MEMBER_ID]))
        await until(lambda: one.offset() == controller.end_offset - 1)
        controller.grants_shutdown = True
        await asyncio.wait_for(leaving, 20)
        assert controller.broker().in_controlled_shutdown


async def test_a_controller_that_never_lets_it_go_is_not_waited_for_for_ever(
    tmp_path: Path,
    controller: FakeController,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(cluster_member, "CONTROLLED_SHUTDOWN_S", 0.0)
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.running()
        controller.answers[BrokerHeartbeatRequest] = silence
        with caplog.at_level(logging.ERROR):
            await one.member.leave()
        assert (
            "the controller has not let this broker go within 0 s: it stops all the same" in caplog.messages
        )


async def test_a_closed_member_asks_nothing_more(tmp_path: Path, controller: FakeController) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.running()
        one.member.close()
        count = len(controller.requests)
        controller.append(*topic_records("t", [MEMBER_ID]))
        one.runner.close()
        assert one.published[-1:] == [] or "t" not in one.published[-1][0].topics
        one.member.log_dir_failed(str(tmp_path))
        assert len(controller.requests) == count


# -- connections --


async def test_another_controller_gets_everything_from_then_on(
    tmp_path: Path, controller: FakeController
) -> None:
    async with (
        controlling(FakeController(metadata_version=0, node_id=3001)) as other,
        joining(config_of_member(tmp_path, controller)) as one,
    ):
        await one.running()
        controller.answers[BrokerHeartbeatRequest] = lambda _: BrokerHeartbeatResponse(
            error_code=ErrorCode.NOT_CONTROLLER
        )
        controller.hand_over(other)
        await until(lambda: other.sent(BrokerHeartbeatRequest))
        await until(lambda: other.sent(FetchRequest))
        other.append(*topic_records("t", [MEMBER_ID]))
        await until(lambda: one.published and "t" in one.published[-1][0].topics)
        assert one.member.observer.leader == other.address
        assert one.member.observer.view == QuorumView(2, 3001)
        assert len(other.sent(BrokerRegistrationRequest)) == 0, "a registration outlives its controller"


async def test_each_purpose_has_a_connection_of_its_own(tmp_path: Path, controller: FakeController) -> None:
    async with joining(config_of_member(tmp_path, controller)) as one:
        await one.running()
        assert controller.client_ids == {"raft-client-7", "broker-7-heartbeat"}
        assert one.member.client(NodeAddress("b8.test", 9092), "mine").address == NodeAddress("b8.test", 9092)


async def test_the_settings_of_connections_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = config_of_member(
        tmp_path,
        FakeController(),
        request_timeout_ms="1234",
        socket_connection_setup_timeout_ms="55",
        socket_connection_setup_timeout_max_ms="66",
        connections_max_idle_ms="7777",
    )
    settings = client_settings(config, "me")
    assert (settings.client_id, settings.request_timeout_ms, settings.idle_ms) == ("me", 1234, 7777)
    assert (settings.setup_timeout_ms, settings.setup_timeout_max_ms) == (55, 66)
