"""DescribeProducers: the state of a partition's producers."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.producers import DescribeProducersRequest, DescribeProducersResponse
from barnabas.protocol.records.builder import build_batch
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.conformance.dialogues.words import produce
from tests.support.difference import Like


def asking(name: str, *indexes: int) -> DescribeProducersRequest:
    topic = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=list(indexes))
    return DescribeProducersRequest(topics=[topic])


def test_producers_are_described_from_the_log(broker: InProcessBroker) -> None:
    broker.create_topic("t", partitions=2)
    records = [(None, b"x", 1000 + number, ()) for number in range(3)]
    payload = build_batch(records, producer_id=7, producer_epoch=2, base_sequence=0)
    done = Like(responses=[Like(partition_responses=[Like(error_code=0)])])
    assert broker.client(version=12) >> produce("t", payload) << done
    state = DescribeProducersResponse.ProducerState(
        producer_id=7,
        producer_epoch=2,
        last_sequence=2,
        last_timestamp=1002,
        coordinator_epoch=-1,
        current_txn_start_offset=-1,
    )
    answer = Like(
        topics=[
            Like(
                name="t",
                partitions=[
                    Like(partition_index=0, error_code=0, error_message=None, active_producers=[state]),
                    Like(partition_index=1, error_code=0, error_message=None, active_producers=[]),
                ],
            )
        ]
    )
    assert broker.client(version=0) >> asking("t", 0, 1) << answer


@pytest.mark.parametrize(
    ("name", "index", "code"),
    [
        ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_producers_of_unknown_partitions(
    broker: InProcessBroker, name: str, index: int, code: ErrorCode
) -> None:
    broker.create_topic("t")
    refused = Like(topics=[Like(partitions=[Like(partition_index=index, error_code=code)])])
    assert broker.client(version=0) >> asking(name, index) << refused


def test_a_follower_describes_its_producers(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    broker.replica_manager.partition("t", 0).leader_id = 2
    told = Like(topics=[Like(partitions=[Like(error_code=ErrorCode.NONE, active_producers=[])])])
    assert broker.client(version=0) >> asking("t", 0) << told


def test_a_replica_on_a_failed_disk(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    broker.replica_manager.partition("t", 0).offline = True
    refused = Like(topics=[Like(partitions=[Like(error_code=ErrorCode.KAFKA_STORAGE_ERROR)])])
    assert broker.client(version=0) >> asking("t", 0) << refused


# ---- authorization


def test_producers_are_shown_of_topics_that_may_be_read(guarded: GuardedBroker) -> None:
    guarded.create_topic("t")
    client = guarded.client(version=0)

    def answer(*codes: ErrorCode | int) -> Like:
        return Like(topics=[Like(partitions=[Like(error_code=code) for code in codes])])

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert client >> asking("t", 0, 1) << answer(denied, denied)
    assert client >> asking("not a name", 0) << answer(ErrorCode.INVALID_TOPIC_EXCEPTION)
    guarded.allow(AclOperation.READ, AclResourceType.TOPIC, "t")
    assert client >> asking("t", 0, 1) << answer(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
