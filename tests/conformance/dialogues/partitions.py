"""CreatePartitions, ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and DescribeProducers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.producers import DescribeProducersRequest
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.metadata import metadata_request
from tests.conformance.dialogues.producers import Producer

PREFERRED, UNCLEAN = 0, 1

# ---- CreatePartitions


def more(
    name: str, count: int, assignments: Sequence[list[int]] | None = None
) -> CreatePartitionsRequest.CreatePartitionsTopic:
    by_hand = None
    if assignments is not None:
        by_hand = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=nodes) for nodes in assignments
        ]
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=by_hand)


def creating(
    *topics: CreatePartitionsRequest.CreatePartitionsTopic, validate_only: bool = False
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), timeout_ms=30_000, validate_only=validate_only)


def by_name(answer: Any) -> object:
    answer.results.sort(key=lambda result: (result.name, result.error_code))
    return answer


def note_grown(client: DialogueClient, name: str, count: int) -> None:
    """Waits until the topic has `count` partitions, then notes its metadata."""
    client.request_until(metadata_request(name), lambda answer: len(answer.topics[0].partitions) == count, 12)
    client.request(
        metadata_request(name),
        12,
        noting=lambda it: sorted(p.partition_index for p in it.topics[0].partitions),
    )


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def more_partitions(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.request(creating(more(name, 5)))
    note_grown(client, name, 5)
    client.request(creating(more(name, 6, [[1]])))
    note_grown(client, name, 6)


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def counts_that_do_not_grow(client: DialogueClient) -> None:
    name = client.create("a", 2)
    for count in (2, 1, 0, -1, -(2**31)):
        client.request(creating(more(name, count)))
        client.request(creating(more(name, count, [[1]])))
    client.request(creating())


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def unknown_topics(client: DialogueClient) -> None:
    for name in (client.topic("b"), "", "a b"):
        client.request(creating(more(name, 3)))
    client.request(creating(more("__cluster_metadata", 3)))


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def invalid_assignments(client: DialogueClient) -> None:
    name = client.create("a")
    impossible: list[list[list[int]]] = [
        [],
        [[1], [1], [1]],
        [[1], []],
        [[], [1]],
        [[1, 1], [1]],
        [[1], [2]],
        [[1], [-1]],
        [[2], [2]],
    ]
    for assignments in impossible:
        client.request(creating(more(name, 3, assignments)))
        client.request(creating(more(name, 20_000, assignments)))
    note_grown(client, name, 1)


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def validation_only(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(creating(more(name, 3), validate_only=True))
    client.request(creating(more(name, 1), validate_only=True))
    note_grown(client, name, 1)


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def valid_and_invalid_topics(client: DialogueClient) -> None:
    a, b, c = (client.create(word) for word in "abc")
    client.request(creating(more(a, 2), more(b, 1), more(client.topic("d"), 2), more(c, 3)), noting=by_name)
    note_grown(client, a, 2)
    note_grown(client, c, 3)


@dialogue(ApiKey.CREATE_PARTITIONS, 0, 3)
def the_same_topic_grows_twice(client: DialogueClient) -> None:
    a, b = client.create("a"), client.create("b")
    client.request(creating(more(a, 2), more(b, 2), more(a, 3)), noting=by_name)
    note_grown(client, b, 2)
    note_grown(client, a, 1)


@dialogue(
    ApiKey.CREATE_PARTITIONS,
    3,
    3,
    differs="Kafka answers UNKNOWN_SERVER_ERROR where CreateTopics returns POLICY_VIOLATION",
)
def too_many_new_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(creating(more(name, 10_002), validate_only=True))
    note_grown(client, name, 1)


@dialogue(ApiKey.CREATE_PARTITIONS, 3, 3)
def new_partitions_are_writable(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(creating(more(name, 2)))
    note_grown(client, name, 2)
    from tests.conformance.dialogues.words import list_offsets

    client.request_until(list_offsets(name, 1), lambda a: a.topics[0].partitions[0].error_code == 0, 7)
    client.note(client.write(name, batch(b"x"), partition=1))


# ---- ElectLeaders


def electing(
    client: DialogueClient,
    *topics: tuple[str, list[int]],
    election_type: int = PREFERRED,
    everything: bool = False,
) -> ElectLeadersRequest:
    named = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics]
    request = ElectLeadersRequest(topic_partitions=None if everything else named, timeout_ms=10_000)
    if client.version >= 1:
        request.election_type = election_type
    return request


def elected(answer: Any) -> object:
    """The results, sorted, of the partitions that other dialogues left in the same state."""
    answer.replica_election_results.sort(key=lambda result: result.topic)
    return answer


@dialogue(ApiKey.ELECT_LEADERS, 0, 2)
def preferred_leaders_that_already_lead(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.request(electing(client, (name, [0, 1])))
    client.request(electing(client, (name, [1])))
    client.request(electing(client, (name, [])))
    client.request(electing(client))


@dialogue(ApiKey.ELECT_LEADERS, 1, 2)
def an_unclean_election_is_not_needed(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.request(electing(client, (name, [0, 1]), election_type=UNCLEAN))


@dialogue(ApiKey.ELECT_LEADERS, 0, 2)
def elections_of_unknown_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    for election_type in (PREFERRED, UNCLEAN):
        client.request(
            electing(client, (name, [0, 1, -1]), (client.topic("b"), [0]), election_type=election_type),
            noting=elected,
        )
    client.request(electing(client, (name, [0, 0])))


@dialogue(ApiKey.ELECT_LEADERS, 0, 2)
def elections_of_all_partitions(client: DialogueClient) -> None:
    client.create("a")
    client.request(
        electing(client, everything=True),
        noting=lambda it: [
            result for topic in it.replica_election_results for result in topic.partition_result
        ],
    )


@dialogue(ApiKey.ELECT_LEADERS, 1, 2)
def unknown_election_types(client: DialogueClient) -> None:
    name = client.create("a")
    for election_type in (2, -1, 127):
        client.request(electing(client, (name, [0]), election_type=election_type))
    client.request(electing(client, election_type=2))
    client.request(electing(client, election_type=2, everything=True))


# ---- AlterPartitionReassignments and ListPartitionReassignments


def moving(
    client: DialogueClient,
    *moves: tuple[str, int, list[int] | None],
    may_change_count: bool = True,
) -> AlterPartitionReassignmentsRequest:
    topics: dict[str, list[AlterPartitionReassignmentsRequest.ReassignablePartition]] = {}
    for name, index, replicas in moves:
        topics.setdefault(name, []).append(
            AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=replicas)
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
    if client.version >= 1:
        request.allow_replication_factor_change = may_change_count
    return request


def moved(answer: Any) -> object:
    answer.responses.sort(key=lambda topic: topic.name)
    for topic in answer.responses:
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return answer


@dialogue(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
def a_move_to_the_current_replicas(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.request(moving(client, (name, 0, [1]), (name, 1, [1])), noting=moved)
    client.request(metadata_request(name), 12)
    client.request(moving(client))


@dialogue(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
def invalid_moves(client: DialogueClient) -> None:
    name = client.create("a")
    impossible: list[list[int]] = [[], [2], [1, 2], [1, 1], [-1], [-1, 1]]
    for replicas in impossible:
        client.request(moving(client, (name, 0, replicas)))
        client.request(moving(client, (name, 0, replicas), may_change_count=False))
    client.request(metadata_request(name), 12)


@dialogue(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
def moves_of_unknown_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(
        moving(client, (name, 1, [1]), (name, -1, [1]), (client.topic("b"), 0, [1]), ("", 0, [1])),
        noting=moved,
    )
    client.request(moving(client, (name, 1, None), (client.topic("b"), 0, None)), noting=moved)


@dialogue(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
def nothing_to_cancel(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.request(moving(client, (name, 0, None)))
    client.request(moving(client, (name, 0, None), (name, 1, [1])), noting=moved)


@dialogue(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
def the_same_partition_moves_twice(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(moving(client, (name, 0, [1]), (name, 0, [1])))


@dialogue(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)
def no_reassignments(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.request(ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None))
    client.request(ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=[]))
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    for named in (
        [topic(name=name, partition_indexes=[0, 1])],
        [topic(name=name, partition_indexes=[0, 7, -1])],
        [topic(name=client.topic("b"), partition_indexes=[0])],
        [topic(name=name, partition_indexes=[])],
        [topic(name="", partition_indexes=[0])],
    ):
        client.request(ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=named))


# ---- DescribeProducers


def producers(name: str, *indexes: int) -> DescribeProducersRequest:
    topic = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=list(indexes))
    return DescribeProducersRequest(topics=[topic])


@dialogue(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
def no_producers(client: DialogueClient) -> None:
    name = client.create("a", 2)
    client.write(name, batch(b"x"))
    client.request(producers(name, 0, 1))
    client.request(producers(name))
    client.request(DescribeProducersRequest(topics=[]))


@dialogue(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
def producers_that_wrote(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.client.version = 12
    producer.send(0, 3)
    producer.send(3, 2)
    client.request(producers(producer.name, 0), 0)
    producer.send(0, 1, epoch=1)
    client.request(producers(producer.name, 0), 0)
    client.write(producer.name, batch(b"y", producer_id=producer.new_id(), base_sequence=0, producer_epoch=0))
    client.request(producers(producer.name, 0), 0, noting=_by_id)


def _by_id(answer: Any) -> object:
    answer.topics[0].partitions[0].active_producers.sort(key=lambda producer: producer.producer_id)
    return answer


@dialogue(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
def producers_of_unknown_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    for unknown in (
        (name, 1),
        (name, -1),
        (client.topic("b"), 0),
        ("", 0),
        ("a b", 0),
        ("__cluster_metadata", 0),
    ):
        client.request(producers(*unknown))
