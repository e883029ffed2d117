"""What the parts of a broker are for the member of a cluster, in whole brokers with a stand-in for the controller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.startup.cluster_control import BrokerConnections, ClusterControl, NoController
from barnabas.broker.startup.server import Server
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    EnvelopeRequest,
    EnvelopeResponse,
)
from barnabas.protocol.messages.cluster_records import RegisterBrokerRecord
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.topic_records import ConfigRecord, PartitionChangeRecord
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.schema import Message
from barnabas.storage.manager.log_dir import LogDir
from tests.broker.cluster_images import election, image_of, registration, topic_id, topic_records
from tests.broker.fakes import ManualTimer
from tests.broker.logs import batch
from tests.broker.node_client.scripted_node import ScriptedNode, parse_requests, response_frame
from tests.broker.running_server import LOCALHOST, TIMEOUT_S, Stream, connected, new_server, running
from tests.broker.startup.fake_controller import (
    CONTROLLER_ID,
    MEMBER_ID,
    FakeController,
    config_of_member,
    controlling,
    until,
)
from tests.conformance.dialogues.words import named, produce

PLAINTEXT: Final = "PLAINTEXT"
OTHER: Final = 8
BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2


@pytest.fixture
async def controller() -> AsyncIterator[FakeController]:
    async with controlling() as found:
        yield found


def control_of(server: Server) -> ClusterControl:
    control = server.components.control
    assert isinstance(control, ClusterControl)
    return control


def end_of(server: Server, topic: str) -> int:
    """The end of the log of the topic's only partition; -1 without one."""
    partition = server.components.replica_manager.find(topic, 0)
    return -1 if partition is None else partition.log.log_end_offset


async def produced(client: Stream, topic: str, *values: str) -> ErrorCode:
    """Produces a batch to all replicas in sync."""
    response: ProduceResponse = await client.call(produce(topic, batch(*values)), 8)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def config_record(name: str, value: str | None, *, topic: str | None = None) -> ConfigRecord:
    """Sets a key of all brokers, or of a topic."""
    kind = BROKER_RESOURCE if topic is None else TOPIC_RESOURCE
    return ConfigRecord(resource_type=kind, resource_name=topic or "", name=name, value=value)


# -- without a controller of its own --


def test_a_member_decides_no_metadata() -> None:
    loader = MetadataLoader(image_of(registration(3)), InlineRunner(), lambda image, delta: iter(()))
    nobody = NoController(loader)
    assert nobody.image is loader.image
    failures: list[BaseException] = []
    nobody.submit(lambda image: Decision(None, []), failures.append)
    rejections: list[ApiError] = []
    nobody.change("CreateTopics", lambda image: Decision(None, []), rejections.append)
    assert [error.code for error in rejections] == [ErrorCode.NOT_CONTROLLER]
    assert "CreateTopics: The controller of the cluster decides" in str(rejections[0])
    (failure,) = failures
    assert isinstance(failure, ApiError)
    assert failure.code == ErrorCode.NOT_CONTROLLER


def forwarded(controller: FakeController) -> tuple[RequestHeader, Message]:
    """The last request that a broker has forwarded."""
    frame = controller.last(EnvelopeRequest).request_data
    ((header, request),) = parse_requests(len(frame).to_bytes(4, "big") + frame)
    return header, request


async def test_requests_that_change_metadata_go_to_the_controller(
    tmp_path: Path, controller: FakeController
) -> None:
    created = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="t")])

    def answer(_: EnvelopeRequest) -> EnvelopeResponse:
        header = forwarded(controller)[0]
        key, version = header.request_api_key, header.request_api_version
        response = response_frame(key, version, header.correlation_id, created)
        return EnvelopeResponse(response_data=response[4:])

    controller.answers[EnvelopeRequest] = answer
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic])
    async with (
        running(config_of_member(tmp_path, controller)) as server,
        connected(server.ports[PLAINTEXT]) as client,
    ):
        assert await client.call(request, 5) == created
        assert forwarded(controller)[1] == request


async def test_a_topic_that_a_client_asks_for_is_created_by_the_controller(
    tmp_path: Path, controller: FakeController
) -> None:
    async with (
        running(config_of_member(tmp_path, controller)) as server,
        connected(server.ports[PLAINTEXT]) as client,
    ):
        request = MetadataRequest(topics=named("wanted"), allow_auto_topic_creation=True)
        response = await client.call(request, 9)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await until(lambda: controller.sent(EnvelopeRequest))
        sent = forwarded(controller)[1]
        assert isinstance(sent, CreateTopicsRequest)
        assert [topic.name for topic in sent.topics] == ["wanted"]


async def test_producer_ids_come_in_blocks_of_the_controller(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.answers[AllocateProducerIdsRequest] = lambda _: AllocateProducerIdsResponse(
        producer_id_start=5000, producer_id_len=1000
    )
    async with running(config_of_member(tmp_path, controller)) as server:
        async with connected(server.ports[PLAINTEXT]) as client:
            while (found := await client.call(InitProducerIdRequest(transactional_id=None), 2)).error_code:
                assert found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block yet"
            assert found.producer_id == 5000
        request = controller.last(AllocateProducerIdsRequest)
        assert (request.broker_id, request.broker_epoch) == (MEMBER_ID, controller.broker().broker_epoch)


async def test_the_leader_of_the_metadata_is_a_controller(tmp_path: Path, controller: FakeController) -> None:
    config = config_of_member(
        tmp_path,
        controller,
        listeners=f"PLAINTEXT://{LOCALHOST}:0,INSIDE://{LOCALHOST}:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    async with running(config) as server:
        control = control_of(server)
        assert control.leader == QuorumView(1, CONTROLLER_ID)
        assert control.quorum.kraft_version == 0
        assert control.listener_count == 2
        control.before_cleaning()


# -- connections to brokers --


class Links:
    """BrokerConnections; the test is the brokers."""

    def __init__(self, *brokers: Message) -> None:
        self.timer = ManualTimer()
        self.node = ScriptedNode()
        self.image = image_of(*brokers)
        self.connections = BrokerConnections(lambda: self.image, PLAINTEXT, self._connect)

    def _connect(self, address: NodeAddress) -> NodeClient:
        return NodeClient(address, NodeClientSettings("test"), self.timer, self.node.open)

    def to(self, node_id: int) -> NodeClient | None:
        found = self.connections.to(node_id)
        assert found is None or isinstance(found, NodeClient)
        return found

    def known(self, node_id: int) -> NodeClient:
        found = self.to(node_id)
        assert found is not None
        return found


def is_closed(client: NodeClient) -> bool:
    results: list[Message | NodeClientError] = []
    client.send(HeartbeatRequest()).add_done_callback(results.append)
    return len(results) == 1 and isinstance(results[0], NodeUnavailable)


def moved(node_id: int, port: int) -> RegisterBrokerRecord:
    record = registration(node_id, listeners=[PLAINTEXT])
    record.end_points[0].port = port
    return record


def test_a_broker_has_one_connection_until_it_moves() -> None:
    links = Links(moved(8, 9000), moved(9, 9000))
    first = links.known(8)
    assert first.address == NodeAddress("b8", 9000)
    assert links.known(8) is first
    other = links.known(9)
    links.image = image_of(moved(8, 9001), before=links.image)
    second = links.known(8)
    assert second.address == NodeAddress("b8", 9001)
    assert (is_closed(first), is_closed(second), is_closed(other)) == (True, False, False)
    links.connections.close()
    assert (is_closed(second), is_closed(other)) == (True, True)


def test_a_broker_without_an_address_on_the_listener_is_not_reached() -> None:
    links = Links(registration(8, listeners=["OUTSIDE"]))
    assert links.to(8) is None
    assert links.to(9) is None
    links.connections.close()
    assert links.node.opened == []


# -- following and leading --


async def test_what_one_member_leads_another_follows(tmp_path: Path, controller: FakeController) -> None:
    first, second = (
        config_of_member(tmp_path / str(node), controller, node_id=str(node)) for node in (MEMBER_ID, OTHER)
    )
    async with running(first) as leader, running(second) as follower:
        controller.append(*topic_records("t", [MEMBER_ID], replicas=[MEMBER_ID, OTHER]))
        await until(lambda: end_of(leader, "t") == end_of(follower, "t") == 0)
        async with connected(leader.ports[PLAINTEXT]) as client:
            assert await produced(client, "t", "a", "b") == ErrorCode.NONE
        assert end_of(follower, "t") == 2, "all replicas in sync have what is acknowledged"
        controller.append(election("t", 0, OTHER))
        await until(lambda: follower.components.replica_manager.partition("t", 0).is_leader)
        async with connected(follower.ports[PLAINTEXT]) as client:
            assert await produced(client, "t", "c") == ErrorCode.NONE
        assert end_of(leader, "t") == 3


async def test_a_replica_that_lags_is_proposed_to_leave_the_isr(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(OTHER))
    config = config_of_member(
        tmp_path, controller, replica_lag_time_max_ms="100", replica_fetch_wait_max_ms="100"
    )
    async with running(config) as server:
        controller.append(*topic_records("t", [MEMBER_ID], replicas=[MEMBER_ID, OTHER]))
        await until(lambda: end_of(server, "t") == 0)
        async with connected(server.ports[PLAINTEXT]) as client:
            await client.call(produce("t", batch("a"), acks=1), 8)
        await until(lambda: controller.sent(AlterPartitionRequest))
        request = controller.last(AlterPartitionRequest)
        (partition,) = request.topics[0].partitions
        assert request.broker_epoch == controller.broker().broker_epoch
        assert [one.broker_id for one in partition.new_isr_with_epochs] == [MEMBER_ID]


async def test_throttled_replicas_wait_while_the_others_go_on(
    tmp_path: Path, controller: FakeController
) -> None:
    first, second = (
        config_of_member(tmp_path / str(node), controller, node_id=str(node), replica_fetch_max_bytes="1024")
        for node in (MEMBER_ID, OTHER)
    )
    controller.append(
        config_record("follower.replication.throttled.rate", "1"),
        config_record("follower.replication.throttled.replicas", "0:8, 1:8", topic="slow"),
    )
    async with running(first) as leader, running(second) as follower:
        for topic in ("slow", "quick"):
            controller.append(*topic_records(topic, [MEMBER_ID], replicas=[MEMBER_ID]))
            await until(partial(leader.components.replica_manager.find, topic, 0))
            async with connected(leader.ports[PLAINTEXT]) as client:
                for _ in range(5):
                    assert await produced(client, topic, "x" * 1000) == ErrorCode.NONE
            controller.append(
                PartitionChangeRecord(partition_id=0, topic_id=topic_id(topic), replicas=[MEMBER_ID, OTHER])
            )
        await until(lambda: end_of(follower, "quick") == 5)
        assert end_of(follower, "slow") < 5
        controller.append(config_record("follower.replication.throttled.rate", None))
        await until(lambda: end_of(follower, "slow") == 5)


async def test_a_changed_number_of_fetchers_acts_at_once(tmp_path: Path, controller: FakeController) -> None:
    controller.append(registration(OTHER, listeners=[PLAINTEXT]))
    for index in range(4):
        controller.append(*topic_records(f"t{index}", [OTHER], replicas=[OTHER, MEMBER_ID]))
    async with running(config_of_member(tmp_path, controller)) as server:
        fetchers = control_of(server).fetchers
        assert len(list(fetchers.figures())) == 1
        controller.append(config_record("num.replica.fetchers", "2"))
        await until(lambda: len(list(fetchers.figures())) == 2)


async def test_what_is_applied_after_the_stop_begins_no_fetcher(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(OTHER, listeners=[PLAINTEXT]))
    controller.append(*topic_records("t", [OTHER], replicas=[OTHER, MEMBER_ID]))
    async with running(config_of_member(tmp_path, controller)) as server:
        control, roles = control_of(server), server.components.replica_manager.roles
        assert roles is not None
        assert list(control.fetchers.figures())
        control.stop()
        roles.follow(server.components.replica_manager.partition("t", 0))
        assert not list(control.fetchers.figures())


@pytest.mark.parametrize(
    ("name", "is_used"),
    [
        (None, False),
        ("org.apache.kafka.common.replica.RackAwareReplicaSelector", True),
        ("com.example.OwnSelector", False),
    ],
)
async def test_the_replica_selector_is_the_one_that_is_built_in_or_none(
    tmp_path: Path,
    controller: FakeController,
    caplog: pytest.LogCaptureFixture,
    name: str | None,
    is_used: bool,
) -> None:
    settings = {} if name is None else {"replica_selector_class": name}
    with caplog.at_level(logging.WARNING, "barnabas.membership"):
        async with running(config_of_member(tmp_path, controller, broker_rack="r", **settings)) as server:
            assert (control_of(server).replica_selector is not None) is is_used
    is_unknown = name is not None and not is_used
    assert any("com.example.OwnSelector has no effect" in text for text in caplog.messages) is is_unknown


# -- log directories of replicas --


def reports(controller: FakeController) -> Iterator[tuple[bytes, bytes, int]]:
    """The directory, the topic and the partition of each report so far."""
    for request in controller.sent(AssignReplicasToDirsRequest):
        for directory in request.directories:
            for topic in directory.topics:
                for part in topic.partitions:
                    yield directory.id, topic.topic_id, part.partition_index


async def test_the_directories_of_new_replicas_are_reported(
    tmp_path: Path, controller: FakeController
) -> None:
    controller.append(registration(OTHER), *topic_records("before", [MEMBER_ID]))
    async with running(config_of_member(tmp_path, controller)) as server:
        own = server.storage.log_manager.dirs[0].directory_id
        controller.append(*topic_records("later", [MEMBER_ID]), *topic_records("elsewhere", [OTHER]))
        await until(lambda: len(list(reports(controller))) == 2)
        await until(lambda: server.components.image.offset == controller.end_offset - 1)
        assert set(reports(controller)) == {(own, topic_id("before"), 0), (own, topic_id("later"), 0)}
        directories = {
            name: topic.partitions[0].directory_of(MEMBER_ID)
            for name, topic in controller.image.topics.items()
        }
        assert directories["before"] == directories["later"] == own


async def begin_move(server: Server, controller: FakeController) -> tuple[LogDir, LogDir]:
    """Moves t-0 to the other directory, up to its report; returns where it is and where it moves to."""
    controller.append(*topic_records("t", [MEMBER_ID]))
    await until(lambda: list(reports(controller)))
    partition = server.components.replica_manager.partition("t", 0)
    log_manager = server.storage.log_manager
    source = log_manager.directory_of(partition.log)
    (target,) = (one for one in log_manager.dirs if one is not source)
    server.components.moves.begin(partition, target)
    await until(lambda: len(list(reports(controller))) > 1)
    return source, target


async def test_a_replica_that_moves_reports_the_directory_that_it_moves_to(
    tmp_path: Path, controller: FakeController
) -> None:
    async with running(config_of_member(f"{tmp_path}/a,{tmp_path}/b", controller)) as server:
        source, target = await begin_move(server, controller)
        await until(lambda: not server.components.moves.moves)
        assert [one for one, _, _ in reports(controller)] == [source.directory_id, target.directory_id]
        assert controller.image.topics["t"].partitions[0].directory_of(MEMBER_ID) == target.directory_id
        log = server.components.replica_manager.partition("t", 0).log
        assert server.storage.log_manager.directory_of(log) is target


def silent_after(controller: FakeController, count: int) -> None:
    """The controller answers so many reports, and no more."""

    def answer(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse | None:
        is_early = len(controller.sent(AssignReplicasToDirsRequest)) <= count
        return controller.assign(request) if is_early else None

    controller.answers[AssignReplicasToDirsRequest] = answer


async def test_the_directory_that_a_replica_leaves_is_not_reported(
    tmp_path: Path, controller: FakeController
) -> None:
    silent_after(controller, 1)
    async with running(config_of_member(f"{tmp_path}/a,{tmp_path}/b", controller)) as server:
        await begin_move(server, controller)
        unassigned = PartitionChangeRecord(partition_id=0, topic_id=topic_id("t"), directories=[bytes(16)])
        controller.append(unassigned)
        await until(lambda: server.components.image.offset == controller.end_offset - 1)
        assert control_of(server).directory_assignments.unacknowledged == 1, "that of the move"


async def test_a_stop_does_not_wait_for_a_controller_that_does_not_answer_a_report(
    tmp_path: Path, controller: FakeController
) -> None:
    silent_after(controller, 1)
    server = new_server(config_of_member(f"{tmp_path}/a,{tmp_path}/b", controller))
    await server.start()
    source, _ = await begin_move(server, controller)
    await asyncio.wait_for(server.stop(), TIMEOUT_S / 4)
    silent_after(controller, 99)
    async with running(config_of_member(f"{tmp_path}/a,{tmp_path}/b", controller)) as again:
        log = again.components.replica_manager.partition("t", 0).log
        assert again.storage.log_manager.directory_of(log).path == source.path
        await until(lambda: not again.components.moves.moves)


async def test_a_replica_without_a_working_log_is_not_reported(
    tmp_path: Path, controller: FakeController
) -> None:
    config = config_of_member(f"{tmp_path}/a,{tmp_path}/b", controller, metadata_log_dir=f"{tmp_path}/m")
    async with running(config) as server:
        controller.append(*topic_records("t", [MEMBER_ID]))
        await until(lambda: list(reports(controller)))
        replicas = server.components.replica_manager
        replicas.log_dir_failed(server.storage.log_manager.directory_of(replicas.partition("t", 0).log).path)
        controller.append(
            PartitionChangeRecord(partition_id=0, topic_id=topic_id("t"), directories=[bytes(16)])
        )
        await until(lambda: server.components.image.offset == controller.end_offset - 1)
        assert control_of(server).directory_assignments.unacknowledged == 0
