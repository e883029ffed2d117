"""A whole broker as the member of a cluster, whose controller is a stand-in: its start, its work and its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.startup import member_start
from barnabas.broker.startup.exit_codes import StartFailedError, StartInterruptedError
from barnabas.broker.startup.member_storage import MemberStorage
from barnabas.broker.startup.server import Server
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.cluster_records import RegisterBrokerRecord
from barnabas.protocol.messages.metadata import DescribeClusterRequest
from barnabas.protocol.messages.topic_records import FeatureLevelRecord, PartitionChangeRecord
from barnabas.protocol.schema import Message
from barnabas.storage.errors import LogDirLockedError
from barnabas.storage.log.checkpoints import CleanShutdownFile
from tests.broker.cluster_images import election, registration, topic_id, topic_records
from tests.broker.logs import batch
from tests.broker.running_server import LOCALHOST, TIMEOUT_S, Stream, connected, new_server, running
from tests.broker.startup.fake_controller import (
    CLUSTER_ID,
    MEMBER_ID,
    FakeController,
    config_of_member,
    controlling,
    silence,
    until,
)
from tests.conformance.dialogues.words import produce
from tests.support import raw

PLAINTEXT = "PLAINTEXT"
MARKER = ".kafka_cleanshutdown"
OTHER = 8


@pytest.fixture
async def controller() -> AsyncIterator[FakeController]:
    async with controlling() as found:
        yield found


@asynccontextmanager
async def starting(config: BrokerConfig) -> AsyncIterator[tuple[Server, asyncio.Future[None]]]:
    """A server whose start is under way; the test waits for that, and the server is stopped at the end."""
    server = new_server(config)
    start = asyncio.ensure_future(server.start())
    try:
        yield server, start
    finally:
        if start.done():
            await server.stop()
        else:  # the test has failed
            start.cancel()


async def failed_start(config: BrokerConfig) -> str:
    """Why a start fails."""
    with pytest.raises(StartFailedError) as caught:
        await asyncio.wait_for(new_server(config).start(), TIMEOUT_S)
    return str(caught.value)


async def produced(client: Stream, topic: str) -> ErrorCode:
    """Produces a record to the topic's only partition, to all of its replicas in sync."""
    response = await client.call(produce(topic, batch("a")), 8)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def has_log(server: Server, topic: str) -> bool:
    return server.components.replica_manager.find(topic, 0) is not None


def partition_directories(log_dir: Path) -> list[str]:
    return sorted(path.name for path in log_dir.glob("*-0"))


def registered_at(node_id: int, port: int) -> RegisterBrokerRecord:
    """Another broker, at a port of this machine."""
    record = registration(node_id, listeners=[PLAINTEXT])
    record.end_points[0].host, record.end_points[0].port = LOCALHOST, port
    return record


def not_ready(server: Server) -> str | None:
    """What /health/ready says."""
    assert server.membership is not None
    return server.membership.not_ready


# -- the start --


async def test_a_new_broker_asks_the_controllers_for_their_clusters_id(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)) as server:
        assert server.storage.cluster_id == CLUSTER_ID
        assert isinstance(controller.requests[0], DescribeClusterRequest)
    controller.requests.clear()
    async with running(config_of_member(tmp_path, controller)) as server:
        assert server.storage.cluster_id == CLUSTER_ID
        assert controller.sent(DescribeClusterRequest) == [], "its directories know it by now"


async def test_a_configured_cluster_id_is_not_asked_for(tmp_path: Path, controller: FakeController) -> None:
    config = config_of_member(tmp_path, controller)
    config.cluster_id = CLUSTER_ID
    async with running(config):
        assert controller.sent(DescribeClusterRequest) == []


async def test_it_registers_with_the_port_that_its_listener_has(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)) as server:
        (at,) = controller.broker().end_points
        assert (at.name, at.host, at.port) == (PLAINTEXT, LOCALHOST, server.ports[PLAINTEXT])
        assert controller.broker().log_dirs == [one.directory_id for one in server.storage.log_manager.dirs]
        await until(lambda: not server.components.image.brokers[MEMBER_ID].fenced)
        async with connected(server.ports[PLAINTEXT]) as client:
            answer = await client.ask(raw.metadata_request())
            assert raw.string(LOCALHOST) + server.ports[PLAINTEXT].to_bytes(4, "big") in answer


async def test_clients_are_served_once_it_is_unfenced(tmp_path: Path, controller: FakeController) -> None:
    controller.unfences = False
    async with starting(config_of_member(tmp_path, controller)) as (server, start):
        await until(lambda: any(not beat.want_fence for beat in controller.sent(BrokerHeartbeatRequest)))
        async with connected(server.ports[PLAINTEXT]) as client:
            response = asyncio.ensure_future(client.ask(raw.metadata_request()))
            for _ in range(3):
                await controller.next(BrokerHeartbeatRequest)
            assert not start.done()
            assert not response.done(), "connections wait in the system's queue"
            controller.unfences = True
            await start
            assert len(await response) > 4


async def test_a_topic_that_is_assigned_to_it_gets_a_log_and_can_be_produced_to(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(OTHER), *topic_records("before", [MEMBER_ID]))
    async with running(config_of_member(tmp_path, controller)) as server:
        assert has_log(server, "before")
        controller.append(*topic_records("later", [MEMBER_ID]), *topic_records("elsewhere", [OTHER]))
        await until(lambda: server.components.image.offset == controller.end_offset - 1)
        async with connected(server.ports[PLAINTEXT]) as client:
            assert await produced(client, "before") == ErrorCode.NONE
            assert await produced(client, "later") == ErrorCode.NONE
            assert await produced(client, "elsewhere") == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert await produced(client, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition_directories(tmp_path) == [
            "__cluster_metadata-0",
            "before-0",
            "later-0",
        ]


async def test_metadata_that_come_while_logs_are_opened_are_applied_afterwards(
    tmp_path: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opening, goes_on = threading.Event(), threading.Event()
    load_logs = MemberStorage.load_logs

    def slow(storage: MemberStorage) -> None:
        is_opening.set()
        assert goes_on.wait(TIMEOUT_S)
        load_logs(storage)

    monkeypatch.setattr(MemberStorage, "load_logs", slow)
    controller.append(*topic_records("before", [MEMBER_ID]))
    async with starting(config_of_member(tmp_path, controller)) as (server, start):
        await until(is_opening.is_set)
        held = controller.end_offset - 1
        controller.append(*topic_records("meanwhile", [MEMBER_ID]))
        controller.append(*topic_records("more", [MEMBER_ID]))
        for _ in range(3):
            beat = await controller.next(BrokerHeartbeatRequest)
            assert (beat.current_metadata_offset, beat.want_fence) == (held, True)
        goes_on.set()
        await start
        await until(lambda: has_log(server, "more"))
        assert has_log(server, "before")
        assert has_log(server, "meanwhile")
        async with connected(server.ports[PLAINTEXT]) as client:
            assert await produced(client, "meanwhile") == ErrorCode.NONE


async def test_what_the_cluster_has_and_this_version_does_not_serve_is_named(
    tmp_path: Path, controller: FakeController, caplog: pytest.LogCaptureFixture
) -> None:
    controller.append(FeatureLevelRecord(name="share.version", feature_level=1))
    with caplog.at_level(logging.WARNING, "barnabas.startup"):
        async with running(config_of_member(tmp_path, controller)):
            pass
    (warning,) = [text for text in caplog.messages if text.startswith("the cluster has")]
    assert warning.startswith("the cluster has share groups (share.version=1), which this broker does not")
    assert warning.endswith("downgrade --feature share.version=0")


async def test_a_step_that_others_decide_on_is_named_when_it_takes_long(
    tmp_path: Path,
    controller: FakeController,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(member_start, "PATIENCE_S", 0.0)
    with caplog.at_level(logging.INFO, "barnabas.startup"):
        async with running(config_of_member(tmp_path, controller)):
            pass
    assert [text for text in caplog.messages if text.startswith("waiting until")] == [
        "waiting until the controllers have said their cluster's id",
        "waiting until the controller has seen that this broker's metadata are up to date",
        "waiting until the controller has unfenced this broker",
    ]


async def test_full_collections_are_rare_in_a_start_which_they_would_hold_up(
    tmp_path: Path, controller: FakeController
) -> None:
    before = gc.get_threshold()
    gc.set_threshold(*member_start.COLLECTED_IN_A_START)
    rare = gc.get_threshold()  # Python 3.14 has no third generation
    gc.set_threshold(*before)
    gc.disable()
    try:
        async with running(config_of_member(tmp_path, controller)):
            assert gc.isenabled()
            assert gc.get_threshold() == rare != before
    finally:
        gc.enable()
        gc.set_threshold(*before)


# -- starts that fail --


async def test_a_start_with_the_directories_of_another_cluster_fails(
    tmp_path: Path, controller: FakeController
) -> None:
    async with (
        controlling(FakeController(cluster_id="anothercluster")) as other,
        running(config_of_member(tmp_path, other)),
    ):
        pass
    reason = await failed_start(config_of_member(tmp_path, controller))
    assert "INCONSISTENT_CLUSTER_ID; cluster.id here is anothercluster" in reason
    assert controller.image.brokers == {}


async def test_a_registration_with_another_cluster_ends_the_start(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.answers[BrokerRegistrationRequest] = lambda _: BrokerRegistrationResponse(
        error_code=ErrorCode.INCONSISTENT_CLUSTER_ID
    )
    reason = await failed_start(config_of_member(tmp_path, controller))
    assert "the controller rejects the registration" in reason
    assert f"{CLUSTER_ID} is their cluster.id" in reason


@pytest.mark.parametrize(
    ("stage", "awaited"),
    [
        (DescribeClusterRequest, "the controllers have said their cluster's id"),
        (BrokerRegistrationRequest, "the controller has seen that this broker's metadata are up to date"),
        (None, "the controller has unfenced this broker"),
    ],
    ids=["cluster id", "registration", "unfencing"],
)
async def test_the_time_of_a_start_is_bounded(
    tmp_path: Path,
    controller: FakeController,
    monkeypatch: pytest.MonkeyPatch,
    stage: type[Message] | None,
    awaited: str,
) -> None:
    """The loop's clock is set forward once the stage is reached: 30 s are enough on any machine to get there."""
    if stage is None:
        controller.unfences = False
    else:
        controller.answers[stage] = silence
    config = config_of_member(tmp_path, controller, server_max_startup_time_ms="30000")
    failure = asyncio.ensure_future(failed_start(config))
    if stage is None:
        await until(lambda: any(not beat.want_fence for beat in controller.sent(BrokerHeartbeatRequest)))
    else:
        await until(lambda: controller.sent(stage))
    loop = asyncio.get_running_loop()
    time_of_loop = loop.time
    monkeypatch.setattr(loop, "time", lambda: time_of_loop() + 31)
    assert await failure == f"not within server.max.startup.time.ms: {awaited}"


async def test_a_registration_that_no_controller_accepts_in_time_ends_the_start(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.answers[BrokerRegistrationRequest] = silence
    config = config_of_member(tmp_path, controller, initial_broker_registration_timeout_ms="50")
    assert "within 0.05 s (initial.broker.registration.timeout.ms)" in await failed_start(config)


async def test_levels_that_it_does_not_support_end_the_start(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(FeatureLevelRecord(name="of.the.future.version", feature_level=3))
    with pytest.raises(MetadataLogError, match=r"of\.the\.future\.version"):
        await new_server(config_of_member(tmp_path, controller)).start()


async def test_directories_that_another_process_uses_end_the_start(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)):
        with pytest.raises(LogDirLockedError):
            await new_server(config_of_member(tmp_path, controller)).start()
    assert len(controller.sent(BrokerRegistrationRequest)) == 1


async def test_after_a_failed_start_nothing_goes_on_and_the_next_one_succeeds(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.unfences = False
    async with controlling() as leader:
        controller.append(
            registered_at(OTHER, leader.port), *topic_records("t", [OTHER], replicas=[OTHER, MEMBER_ID])
        )
        failed = new_server(config_of_member(tmp_path, controller))
        start = asyncio.ensure_future(failed.start())
        await until(lambda: leader.connection_count)
        assert not start.done(), "partitions are fetched before the broker is unfenced"
        failed.failed.set_result("the test")
        with pytest.raises(StartFailedError, match="the test"):
            await start
        with pytest.raises(ConnectionRefusedError):
            async with connected(failed.ports[PLAINTEXT]):
                pass
        await until(lambda: controller.connection_count == 0)
        await until(lambda: leader.connection_count == 0)
        controller.unfences = True
        async with running(config_of_member(tmp_path, controller)) as server:
            assert has_log(server, "t")


async def test_a_registration_that_is_rejected_for_a_while_is_repeated(
    tmp_path: Path, controller: FakeController
) -> None:
    rejections = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 2

    def register(request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        if rejections:
            return BrokerRegistrationResponse(error_code=rejections.pop())
        return controller.register(request)

    controller.answers[BrokerRegistrationRequest] = register
    async with running(config_of_member(tmp_path, controller)):
        assert len(controller.sent(BrokerRegistrationRequest)) == 3


# -- while it runs --


async def test_clients_are_sent_here_while_the_controller_hears_it(
    tmp_path: Path, controller: FakeController
) -> None:
    config = config_of_member(tmp_path, controller, broker_session_timeout_ms="400")
    async with running(config) as server:
        await until(lambda: not_ready(server) is None)
        controller.answers[BrokerHeartbeatRequest] = silence
        await until(lambda: not_ready(server) is not None)
        assert not_ready(server) == "no controller has answered a heartbeat within broker.session.timeout.ms"
        controller.answers[BrokerHeartbeatRequest] = controller.beat
        await until(lambda: not_ready(server) is None)


async def test_a_broker_that_is_fenced_while_it_runs_says_so_until_it_is_unfenced(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)) as server:
        controller.unfences = False
        controller.fence(MEMBER_ID)
        await until(lambda: not_ready(server) is not None)
        controller.unfences = True
        await until(lambda: not_ready(server) is None)


async def test_the_failure_of_another_broker_makes_this_one_the_leader(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(OTHER), *topic_records("t", [OTHER], replicas=[OTHER, MEMBER_ID]))
    async with (
        running(config_of_member(tmp_path, controller)) as server,
        connected(server.ports[PLAINTEXT]) as client,
    ):
        partition = server.components.replica_manager.partition("t", 0)
        assert await produced(client, "t") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        controller.append(
            registration(OTHER, fenced=True),
            PartitionChangeRecord(partition_id=0, topic_id=topic_id("t"), isr=[MEMBER_ID], leader=MEMBER_ID),
        )
        await until(lambda: partition.is_leader)
        assert await produced(client, "t") == ErrorCode.NONE
        controller.append(election("t", 0, OTHER))
        await until(lambda: not partition.is_leader)
        assert await produced(client, "t") == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_failed_log_directory_is_in_the_next_heartbeat(
    tmp_path: Path, controller: FakeController
) -> None:
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    async with running(config_of_member(f"{a},{b}", controller)) as server:
        failed = server.storage.log_manager.dirs[1].directory_id
        assert failed in controller.broker().log_dirs
        server.components.replica_manager.log_dir_failed(b)
        await until(lambda: controller.last(BrokerHeartbeatRequest).offline_log_dirs == [failed])
        await until(lambda: failed not in controller.broker().log_dirs)
        assert not server.failed.done()
        server.components.replica_manager.log_dir_failed(a)
        assert a in server.failed.result()


async def test_a_directory_that_fails_while_logs_are_opened_is_reported_after_it(
    tmp_path: Path, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    load_logs = MemberStorage.load_logs

    def failing(storage: MemberStorage) -> None:
        load_logs(storage)
        storage.log_manager.log_dir_failed(b, "the test")

    monkeypatch.setattr(MemberStorage, "load_logs", failing)
    async with running(config_of_member(f"{a},{b}", controller)) as server:
        await until(lambda: controller.last(BrokerHeartbeatRequest).offline_log_dirs)
        (remaining,) = server.storage.log_manager.dirs
        await until(lambda: controller.broker().log_dirs == [remaining.directory_id])


# -- the end --


async def test_a_stop_leaves_a_marker_whose_epoch_the_next_registration_repeats(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(*topic_records("t", [MEMBER_ID]))
    async with running(config_of_member(tmp_path, controller)) as server:
        epoch = controller.broker().broker_epoch
        assert controller.last(BrokerRegistrationRequest).previous_broker_epoch == -1
        assert not (tmp_path / MARKER).exists()
        async with connected(server.ports[PLAINTEXT]) as client:
            assert await produced(client, "t") == ErrorCode.NONE
    assert controller.broker().in_controlled_shutdown
    assert CleanShutdownFile(server.env, str(tmp_path)).read_epoch() == epoch > 0
    async with running(config_of_member(tmp_path, controller)) as server:
        assert controller.last(BrokerRegistrationRequest).previous_broker_epoch == epoch
        assert controller.broker().broker_epoch > epoch
        assert server.components.replica_manager.partition("t", 0).log.log_end_offset == 1


async def test_a_start_that_fails_before_logs_are_opened_leaves_the_stop_before_as_clean_as_it_was(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)):
        epoch = controller.broker().broker_epoch
    controller.answers[BrokerRegistrationRequest] = silence
    await failed_start(config_of_member(tmp_path, controller, initial_broker_registration_timeout_ms="50"))
    controller.answers[BrokerRegistrationRequest] = controller.register
    async with running(config_of_member(tmp_path, controller)):
        assert controller.last(BrokerRegistrationRequest).previous_broker_epoch == epoch


async def test_a_start_that_fails_after_logs_were_opened_is_not_a_clean_stop(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)):
        pass
    controller.unfences = False
    failed = new_server(config_of_member(tmp_path, controller))
    start = asyncio.ensure_future(failed.start())
    await until(lambda: failed.membership)
    failed.failed.set_result("the test")
    with pytest.raises(StartFailedError, match="the test"):
        await start
    controller.unfences = True
    async with running(config_of_member(tmp_path, controller)):
        assert controller.last(BrokerRegistrationRequest).previous_broker_epoch == -1


async def test_a_start_that_is_interrupted_before_its_logs_are_opened_leaves_them_as_they_were(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)):
        epoch = controller.broker().broker_epoch
    controller.answers[BrokerRegistrationRequest] = silence
    server = new_server(config_of_member(tmp_path, controller))
    start = asyncio.ensure_future(server.start())
    await until(lambda: len(controller.sent(BrokerRegistrationRequest)) == 2)
    server.interrupt_start()
    server.interrupt_start()
    with pytest.raises(StartInterruptedError):
        await start
    assert CleanShutdownFile(server.env, str(tmp_path)).read_epoch() == epoch
    with pytest.raises(ConnectionRefusedError):
        async with connected(server.ports[PLAINTEXT]):
            pass
    await until(lambda: controller.connection_count == 0)


async def test_a_start_that_is_interrupted_after_that_closes_them_in_order(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(*topic_records("t", [MEMBER_ID]))
    controller.unfences = False
    server = new_server(config_of_member(tmp_path, controller))
    start = asyncio.ensure_future(server.start())
    await until(lambda: server.membership)
    server.interrupt_start()
    with pytest.raises(StartInterruptedError):
        await asyncio.wait_for(start, TIMEOUT_S)
    epoch = controller.broker().broker_epoch
    assert CleanShutdownFile(server.env, str(tmp_path)).read_epoch() == epoch > 0
    await until(lambda: controller.connection_count == 0)
    controller.unfences = True
    async with running(config_of_member(tmp_path, controller)) as again:
        assert controller.last(BrokerRegistrationRequest).previous_broker_epoch == epoch
        assert has_log(again, "t")


async def test_clients_are_served_until_the_controller_lets_it_go(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(*topic_records("t", [MEMBER_ID]))
    controller.grants_shutdown = False
    server = new_server(config_of_member(tmp_path, controller))
    await server.start()
    stop = asyncio.ensure_future(server.stop())
    await until(lambda: controller.last(BrokerHeartbeatRequest).want_shut_down)
    async with connected(server.ports[PLAINTEXT]) as client:
        assert await produced(client, "t") == ErrorCode.NONE
        assert not_ready(server) == "the controller does not send clients here: PENDING_CONTROLLED_SHUTDOWN"
        controller.grants_shutdown = True
        await asyncio.wait_for(stop, TIMEOUT_S)
        assert await client.is_closed()
    assert not controller.last(BrokerHeartbeatRequest).want_fence


async def test_without_controlled_shutdown_it_does_not_ask(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller, controlled_shutdown_enable="false")):
        pass
    assert not any(beat.want_shut_down for beat in controller.sent(BrokerHeartbeatRequest))
    assert (tmp_path / MARKER).exists()


async def test_a_broker_that_has_failed_does_not_ask_either(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(tmp_path, controller)) as server:
        server.failed.set_result("the test")
    assert not any(beat.want_shut_down for beat in controller.sent(BrokerHeartbeatRequest))


async def test_a_failure_while_it_leaves_ends_the_wait_for_the_controller(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.grants_shutdown = False
    server = new_server(config_of_member(tmp_path, controller))
    await server.start()
    stop = asyncio.ensure_future(server.stop())
    await until(lambda: controller.last(BrokerHeartbeatRequest).want_shut_down)
    server.components.replica_manager.log_dir_failed(str(tmp_path))
    await asyncio.wait_for(stop, TIMEOUT_S / 4)
    assert "the last log directory" in server.failed.result()
