"""What goes from this node to the controller, with Apache Kafka's controller: client, channel and Envelopes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from barnabas.broker.membership.alter_partition import AlterPartitionManager, alter_partition
from barnabas.broker.membership.controller_channel import ControllerChannel
from barnabas.broker.membership.directory_assignment import Place, assign_replicas
from barnabas.broker.membership.forwarding import ForwardingManager, ForwardResult
from barnabas.broker.membership.producer_ids import RpcProducerIdManager
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.opening import opener
from barnabas.broker.pending import Pending
from barnabas.broker.replica.isr import IsrProposal
from barnabas.broker.request import ConnectionInfo, RequestContext
from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionResponse,
)
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.log_dirs import AssignReplicasToDirsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message, VersionRange
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

R = TypeVar("R")

CLIENT = ConnectionInfo(
    connection_id=1,
    listener_name="PLAINTEXT",
    client_host="127.0.0.1",
    client_port=50_000,
    local_host="127.0.0.1",
    local_port=9092,
)
SETTINGS = NodeClientSettings("barnabas-test", reconnect_backoff_max_ms=50)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), jvm=QUICK_JVM) as running:
        yield running


async def result(pending: Pending[R]) -> R:
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    pending.add_done_callback(future.set_result)
    return await asyncio.wait_for(future, 60)


@asynccontextmanager
async def channel_to(kafka: ApacheKafka) -> AsyncIterator[ControllerChannel]:
    loop = asyncio.get_running_loop()
    channel = ControllerChannel(
        lambda: NodeAddress("127.0.0.1", kafka.controller_port),
        lambda address: NodeClient(address, SETTINGS, loop, opener(loop)),
        loop,
    )
    try:
        yield channel
    finally:
        channel.close()


async def ask_broker(kafka: ApacheKafka, request: Message) -> Any:
    loop = asyncio.get_running_loop()
    client = NodeClient(NodeAddress("127.0.0.1", kafka.port), SETTINGS, loop, opener(loop))
    try:
        return await result(client.send(request))
    finally:
        client.close()


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


def frame_of(request: Message, version: int, correlation_id: int = 77) -> bytes:
    """A client's request as it comes from its connection."""
    assert request.api_key is not None
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="a client",
    )
    return encode(header, request_header_version(request.api_key, version)) + encode(request, version)


async def forward(kafka: ApacheKafka, frame: bytes) -> ForwardResult:
    async with channel_to(kafka) as channel:
        return await result(ForwardingManager(channel).forward(frame, CLIENT))


async def partitions_of(kafka: ApacheKafka, topic: str, until: Callable[[int], bool]) -> int:
    """The partitions of a topic, as soon as there are as many as asked for: the broker follows the controller."""
    wanted = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    while True:
        response: MetadataResponse = await ask_broker(kafka, wanted)
        count = len(response.topics[0].partitions)
        if until(count):
            return count


@pytest.mark.parametrize("version", range(2, 8))
def test_a_forwarded_request_is_carried_out_and_its_response_is_in_the_clients_version(
    kafka: ApacheKafka, version: int
) -> None:
    async def scenario() -> None:
        data = await forward(kafka, frame_of(create(f"t{version}", 3), version))
        assert isinstance(data, bytes)
        assert data[:4] == (77).to_bytes(4, "big")
        body = data[5:] if version >= 5 else data[4:]
        response = decode(CreateTopicsResponse, version, body)
        assert [(each.name, each.error_code) for each in response.topics] == [(f"t{version}", 0)]
        assert await partitions_of(kafka, f"t{version}", bool) == 3

    asyncio.run(scenario())


def test_the_controllers_errors_are_passed_on(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        data = await forward(kafka, frame_of(create("not a name!"), 7))
        assert isinstance(data, bytes)
        (topic,) = decode(CreateTopicsResponse, 7, data[5:]).topics
        assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    asyncio.run(scenario())


def test_what_the_controller_does_not_forward_is_an_error_of_the_envelope(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        data = await forward(kafka, frame_of(MetadataRequest(topics=[]), 9))
        assert data is ErrorCode.UNKNOWN_SERVER_ERROR

    asyncio.run(scenario())


def test_topics_are_created_on_demand_for_clients_and_for_the_broker(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        context = RequestContext(CLIENT, ApiKey.METADATA, 9, "a client")
        async with channel_to(kafka) as channel:
            manager = ForwardingManager(channel)
            await result(manager.create_topics(create("for-a-client", 2), context))
            await result(manager.create_topics(create("for-the-broker", 4), None))
        assert await partitions_of(kafka, "for-a-client", bool) == 2
        assert await partitions_of(kafka, "for-the-broker", bool) == 4

    asyncio.run(scenario())


def test_versions_of_the_controller_are_known_once_it_was_asked(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        async with channel_to(kafka) as channel:
            manager = ForwardingManager(channel)
            await result(manager.forward(frame_of(create("versions"), 7), CLIENT))
            assert manager.controller_versions(ApiKey.CREATE_TOPICS) == VersionRange(2, 7)
            assert manager.controller_versions(ApiKey.PRODUCE) is None  # not on a controller's listener

    asyncio.run(scenario())


async def epoch_of_broker_1(channel: ControllerChannel) -> int:
    """Found by trial: the epoch is the offset of the registration, one of the first records."""
    for epoch in range(200):
        response = await result(channel.submit(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)))
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code == ErrorCode.NONE:
            assert response.producer_id_len == 1000
            return epoch
        assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    raise AssertionError("no epoch is right")


def test_producer_ids_are_granted_to_the_registered_broker_only(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        async with channel_to(kafka) as channel:
            epoch = await epoch_of_broker_1(channel)
            stale = await result(
                channel.submit(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1))
            )
            assert isinstance(stale, AllocateProducerIdsResponse)
            assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
            loop = asyncio.get_running_loop()
            ids = RpcProducerIdManager(channel.submit, loop, node_id=1, broker_epoch=lambda: epoch)
            assert await result(ids.generate()) is None
            behind = await result(channel.submit(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)))
            assert isinstance(
                behind, AllocateProducerIdsResponse
            )  # so the request in front of it is answered
            first = await result(ids.generate())
            assert first == behind.producer_id_start - 1000
            assert await result(ids.generate()) == first + 1
            unknown = await result(
                channel.submit(AllocateProducerIdsRequest(broker_id=9, broker_epoch=epoch))
            )
            assert isinstance(unknown, AllocateProducerIdsResponse)
            assert unknown.error_code != ErrorCode.NONE

    asyncio.run(scenario())


def test_changes_of_isrs_by_a_broker_of_a_stale_epoch_are_rejected_as_a_whole(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        async with channel_to(kafka) as channel:
            request = alter_partition(1, 10**9, [IsrProposal(bytes(15) + b"\1", 0, 0, 0, ((1, 10**9),))])
            response = await result(channel.submit(request))
            assert isinstance(response, AlterPartitionResponse)
            assert response.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_changes_of_isrs_are_answered_for_each_partition(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        async with channel_to(kafka) as channel:
            epoch = await epoch_of_broker_1(channel)
            created = await forward(kafka, frame_of(create("isr"), 7))
            assert isinstance(created, bytes)
            (topic,) = decode(CreateTopicsResponse, 7, created[5:]).topics
            loop = asyncio.get_running_loop()
            manager = AlterPartitionManager(channel.submit, loop, node_id=1, broker_epoch=lambda: epoch)
            same, unknown = await asyncio.gather(
                result(manager.submit(IsrProposal(topic.topic_id, 0, 0, 0, ((1, epoch),)))),
                result(manager.submit(IsrProposal(bytes(15) + b"\1", 0, 0, 0, ((1, epoch),)))),
            )
            assert (same.error, same.isr, same.leader_epoch) == (ErrorCode.NONE, (1,), 0)
            assert unknown.error is ErrorCode.UNKNOWN_TOPIC_ID

    asyncio.run(scenario())


def test_directories_of_replicas_are_reported(kafka: ApacheKafka) -> None:
    async def scenario() -> None:
        async with channel_to(kafka) as channel:
            epoch = await epoch_of_broker_1(channel)
            created = await forward(kafka, frame_of(create("directories", 2), 7))
            assert isinstance(created, bytes)
            (topic,) = decode(CreateTopicsResponse, 7, created[5:]).topics
            elsewhere = bytes(14) + b"\7\7"
            places = [Place(topic.topic_id, index) for index in (0, 1, 9)]
            request = assign_replicas(1, epoch, [(elsewhere, place) for place in places])
            response = await result(channel.submit(request))
            assert isinstance(response, AssignReplicasToDirsResponse)
            assert response.error_code == ErrorCode.NONE
            (directory,) = response.directories
            results = {p.partition_index: p.error_code for t in directory.topics for p in t.partitions}
            assert directory.id == elsewhere
            assert results == {0: 0, 1: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    asyncio.run(scenario())
