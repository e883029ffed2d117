"""DescribeQuorum and UnregisterBroker, and the brokers that DescribeCluster shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest
from barnabas.protocol.messages.cluster_records import RegisterBrokerRecord
from barnabas.protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tests.broker.broker_fixture import InProcessBroker
from tests.support.difference import Like

METADATA = "__cluster_metadata"
CONTROLLER = {
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


def describing(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.TopicData(
                topic_name=name,
                partitions=[DescribeQuorumRequest.PartitionData(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ]
    )


def with_gone_broker(root: Path, *, fenced: bool = True) -> InProcessBroker:
    """A broker with another registered broker in its metadata."""
    first = InProcessBroker(root)
    record = RegisterBrokerRecord(
        broker_id=2,
        incarnation_id=b"x" * 16,
        broker_epoch=first.storage.store.end_offset,
        end_points=[RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host="gone", port=1)],
        fenced=fenced,
    )
    first.storage.commit([[record]])
    first.stop()
    return InProcessBroker(root)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_this_node(tmp_path: Path, version: int) -> None:
    broker = InProcessBroker(tmp_path, CONTROLLER)
    answer = broker.client(version=version).ask(describing((METADATA, [0])))
    assert isinstance(answer, DescribeQuorumResponse)
    partition = answer.topics[0].partitions[0]
    (voter,) = partition.current_voters
    store = broker.storage.store
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, store.leader_epoch)
    assert partition.high_watermark == voter.log_end_offset == store.end_offset
    assert voter.last_caught_up_timestamp == (broker.env.ms if version > 0 else -1)
    assert [node.node_id for node in answer.nodes] == ([1] if version == 2 else [])
    if version == 2:
        (listener,) = answer.nodes[0].listeners
        assert (listener.name, listener.port) == ("CONTROLLER", 9093)
        assert listener.host
    broker.stop()


@pytest.mark.parametrize(
    "named", [[(METADATA, [1])], [("t", [0])], [(METADATA, [0]), ("t", [0])], [(METADATA, [0, 1])]]
)
def test_a_request_for_another_partition_is_rejected_as_a_whole(
    broker: InProcessBroker, named: list[tuple[str, list[int]]]
) -> None:
    answer = broker.client(version=2).ask(describing(*named))
    assert isinstance(answer, DescribeQuorumResponse)
    codes = {part.error_code for topic in answer.topics for part in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert answer.nodes == []


def test_an_absent_broker_is_unregistered(tmp_path: Path) -> None:
    broker = with_gone_broker(tmp_path)
    client = broker.client(version=0)
    assert client >> UnregisterBrokerRequest(broker_id=2) << Like(error_code=0, error_message="")
    assert set(broker.broker.image.brokers) == {1}
    assert (
        client
        >> UnregisterBrokerRequest(broker_id=2)
        << Like(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message="Broker ID 2 is not currently registered",
        )
    )
    broker.stop()


def test_the_serving_broker_cannot_be_unregistered(broker: InProcessBroker) -> None:
    refused = Like(error_code=ErrorCode.INVALID_REQUEST)
    assert broker.client(version=0) >> UnregisterBrokerRequest(broker_id=1) << refused
    assert set(broker.broker.image.brokers) == {1}


@pytest.mark.parametrize(("include", "ids"), [(False, [1]), (True, [1, 2])])
def test_fenced_brokers_are_included_on_request(tmp_path: Path, include: bool, ids: list[int]) -> None:
    broker = with_gone_broker(tmp_path)
    answer = broker.client(version=2).ask(DescribeClusterRequest(include_fenced_brokers=include))
    assert isinstance(answer, DescribeClusterResponse)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(n, n == 2) for n in ids]
    broker.stop()
