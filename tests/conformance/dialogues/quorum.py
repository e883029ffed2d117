"""DescribeQuorum and UnregisterBroker."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest
from barnabas.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

METADATA = "__cluster_metadata"


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


def state(answer: DescribeQuorumResponse) -> object:
    """The quorum without what differs between any two logs: offsets, epochs and times."""
    (topic,) = answer.topics
    (partition,) = topic.partitions
    (voter,) = partition.current_voters
    assert voter.log_end_offset == partition.high_watermark > 0
    assert partition.leader_epoch > 0
    times = (voter.last_fetch_timestamp, voter.last_caught_up_timestamp)
    nodes = [node.node_id for node in answer.nodes]  # only one of the two brokers has a controller listener
    return (
        answer.error_code,
        answer.error_message,
        (partition.partition_index, partition.error_code, partition.error_message),
        partition.leader_id,
        (voter.replica_id, voter.replica_directory_id != bytes(16), [time > 0 for time in times]),
        partition.observers,
        nodes,
    )


@dialogue(ApiKey.DESCRIBE_QUORUM, 0, 2)
def the_quorum(client: DialogueClient) -> None:
    client.request(describing((METADATA, [0])), noting=state)


@dialogue(ApiKey.DESCRIBE_QUORUM, 0, 2)
def topics_without_a_quorum(client: DialogueClient) -> None:
    topic = client.create("t")
    client.request(describing())
    for name, indexes in ((METADATA, [1]), (topic, [0]), (METADATA, [0, 0]), ("no such", [0])):
        client.request(describing((name, indexes)))
    client.request(describing((METADATA, [])))
    client.request(describing((METADATA, [0]), (topic, [0])))
    client.request(describing((METADATA, [0, 1])))


@dialogue(ApiKey.UNREGISTER_BROKER, 0, 0)
def unknown_brokers(client: DialogueClient) -> None:
    for broker_id in (5, -1, 2**31 - 1):
        client.request(UnregisterBrokerRequest(broker_id=broker_id))
