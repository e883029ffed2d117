"""RemoteCoordinators: the requests by which transactions are verified in other brokers, and their results."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels
from barnabas.broker.coordinator.transaction.remote_coordinators import RemoteCoordinators
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.internal_topics import partition_for
from barnabas.broker.node_client.channel import NodeClientError, ResponseCorrupt, UnsupportedVersion
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.storage.offsets import TopicPartition
from tests.broker.cluster_images import INSIDE, election, fencing, image_of, registration, topic_records
from tests.broker.fake_channels import LOST, FakeChannels

STATE = "__transaction_state"
IDS = {partition_for(name, 3): name for name in map(str, range(100))}
"""A transactional id of each partition; brokers 1, 2 and none lead them."""
HERE, THERE, NOWHERE = IDS[0], IDS[1], IDS[2]
OTHERS = [name for name in map(str, range(100)) if partition_for(name, 3) == 1 and name != THERE]
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class Asking:
    """The coordinators as broker 1 of two reaches them."""

    def __init__(self) -> None:
        self.image = image_of(registration(1), registration(2), *topic_records(STATE, [1, 2, -1]))
        self.channels = FakeChannels()
        self.remote = RemoteCoordinators(
            BrokerChannels(1, self._image, INSIDE, self.channels.to, lambda: 1234)
        )

    def _image(self) -> MetadataImage:
        return self.image

    def ask(
        self, *partitions: TopicPartition, name: str = THERE, epoch: int = 0, adds: bool = False
    ) -> dict[TopicPartition, str]:
        """The names of the codes, when they have come."""
        told: dict[TopicPartition, str] = {}

        def answered(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            assert not told
            told.update({partition: code.name for partition, code in codes.items()})

        producer = TransactionalProducer(name, 7, epoch, adds)
        self.remote.ask(producer, partitions).add_done_callback(answered)
        return told

    def requests(self) -> list[list[tuple[str, int]]]:
        """The transactional ids and epochs in each request for broker 2."""
        found = []
        for sent in self.channels[2].sent:
            assert isinstance(sent.request, AddPartitionsToTxnRequest)
            found.append([(each.transactional_id, each.producer_epoch) for each in sent.request.transactions])
        return found

    def respond(self, codes: Mapping[str, Mapping[TopicPartition, int]], error: int = 0) -> None:
        self.channels[2].respond(response(codes, error))


def response(codes: Mapping[str, Mapping[TopicPartition, int]], error: int = 0) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=error,
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=name,
                topic_results=[
                    AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                        name=topic,
                        results_by_partition=[
                            AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=code
                            )
                        ],
                    )
                    for (topic, index), code in of_name.items()
                ],
            )
            for name, of_name in codes.items()
        ],
    )


def test_the_leader_of_the_ids_partition_coordinates() -> None:
    asking = Asking()
    assert [asking.remote.is_local(name) for name in (HERE, THERE, NOWHERE)] == [True, False, False]
    asking.image = image_of(election(STATE, 0, 2), election(STATE, 1, 1), before=asking.image)
    assert [asking.remote.is_local(name) for name in (HERE, THERE, NOWHERE)] == [False, True, False]


def test_without_an_alive_coordinator_nothing_is_asked() -> None:
    asking = Asking()
    assert asking.ask(T0, U0, name=NOWHERE) == dict.fromkeys((T0, U0), "COORDINATOR_NOT_AVAILABLE")
    asking.image = image_of(fencing(2, fenced=True), before=asking.image)
    assert asking.ask(T0) == {T0: "COORDINATOR_NOT_AVAILABLE"}
    asking.image = MetadataImage.empty()
    assert asking.ask(T0) == {T0: "COORDINATOR_NOT_AVAILABLE"}
    assert not asking.channels[2].sent


@pytest.mark.parametrize("adds", [False, True])
def test_partitions_are_verified_or_added(adds: bool) -> None:
    asking = Asking()
    told = asking.ask(T0, T1, U0, epoch=3, adds=adds)
    (sent,) = asking.channels[2].sent
    assert (sent.version, sent.timeout_ms) == (5, 1234)
    for version in (4, 5):
        (asked,) = decode(AddPartitionsToTxnRequest, version, encode(sent.request, version)).transactions
        assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (THERE, 7, 3)
        assert asked.verify_only is not adds
        assert {topic.name: topic.partitions for topic in asked.topics} == {"t": [0, 1], "u": [0]}
    fenced = ErrorCode.PRODUCER_FENCED
    asking.respond({THERE: {T0: 0, T1: fenced, U0: ErrorCode.TRANSACTION_ABORTABLE}})
    assert told == {T0: "NONE", T1: "PRODUCER_FENCED", U0: "TRANSACTION_ABORTABLE"}


def test_transactions_gather_while_a_request_is_under_way() -> None:
    asking = Asking()
    first = asking.ask(T0)
    second, third = asking.ask(T1, name=OTHERS[0]), asking.ask(U0, name=OTHERS[1])
    assert asking.requests() == [[(THERE, 0)]]
    asking.respond({THERE: {T0: 0}})
    assert asking.requests()[1:] == [[(OTHERS[0], 0), (OTHERS[1], 0)]]
    asking.respond({OTHERS[1]: {U0: 48}, OTHERS[0]: {T1: 0}})
    assert (first, second, third) == ({T0: "NONE"}, {T1: "NONE"}, {U0: ErrorCode(48).name})


def test_a_later_request_of_the_same_transaction_replaces_one_that_waits() -> None:
    asking = Asking()
    under_way = asking.ask(T0, epoch=1)
    waiting = asking.ask(T0, epoch=1)
    repeated = asking.ask(T1, epoch=1)
    assert (under_way, waiting) == ({}, {T0: "NETWORK_EXCEPTION"})
    newer = asking.ask(T0, epoch=2)
    assert repeated == {T1: "INVALID_PRODUCER_EPOCH"}
    assert asking.ask(T0, epoch=1) == {T0: "INVALID_PRODUCER_EPOCH"}
    asking.respond({THERE: {T0: 0}})
    assert asking.requests() == [[(THERE, 1)], [(THERE, 2)]]
    asking.respond({THERE: {T0: 0}})
    assert (under_way, newer) == ({T0: "NONE"}, {T0: "NONE"})


@pytest.mark.parametrize("result", [LOST, ResponseCorrupt("bytes")])
def test_a_coordinator_that_gives_no_response(result: NodeClientError) -> None:
    asking = Asking()
    told, later = asking.ask(T0, U0), asking.ask(T1, name=OTHERS[0])
    asking.channels[2].respond(result)
    assert told == {T0: "NETWORK_EXCEPTION", U0: "NETWORK_EXCEPTION"}
    asking.respond({OTHERS[0]: {T1: 0}})
    assert later == {T1: "NONE"}


def test_a_coordinator_without_a_channel() -> None:
    asking = Asking()
    asking.channels.missing.add(2)
    assert asking.ask(T0) == {T0: "NETWORK_EXCEPTION"}
    asking.channels.missing.clear()
    assert asking.ask(T0) == {}
    assert asking.requests() == [[(THERE, 0)]]


def test_an_older_coordinator_is_asked_in_its_version_and_one_that_cannot_verify_has_verified() -> None:
    asking = Asking()
    told = asking.ask(T0, U0)
    asking.channels[2].respond(UnsupportedVersion("5"))
    assert [sent.version for sent in asking.channels[2].sent] == [5, 4]
    assert told == {}
    asking.channels[2].respond(UnsupportedVersion("4"))
    assert told == {T0: "NONE", U0: "NONE"}
    told = asking.ask(T0)
    asking.channels[2].respond(UnsupportedVersion("5"))
    asking.respond({THERE: {T0: 48}})
    assert told == {T0: ErrorCode(48).name}


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "INVALID_TXN_STATE"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_an_error_of_the_whole_request_is_that_of_all_partitions(error: ErrorCode, name: str) -> None:
    asking = Asking()
    told = asking.ask(T0, U0)
    asking.respond({}, error)
    assert told == {T0: name, U0: name}


def test_what_a_response_lacks_is_asked_again_by_the_client() -> None:
    asking = Asking()
    told = asking.ask(T0, U0)
    asking.respond({THERE: {T0: 0}})
    assert told == {T0: "NONE", U0: "NETWORK_EXCEPTION"}
    told = asking.ask(T0)
    asking.respond({})
    assert told == {T0: "NETWORK_EXCEPTION"}
