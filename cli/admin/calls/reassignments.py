"""Moves of replicas between brokers, and elections of leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.cli.admin.calls.topics import TIMEOUT_MS, failure
from barnabas.cli.admin.client import CONTROLLER, AdminClient
from barnabas.cli.admin.errors import AdminError, ServerError, check
from barnabas.cli.admin.partitions import TopicPartition, by_topic
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)


class Reassignment(NamedTuple):
    """A reassignment in progress: all replicas, and those that are added and removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def list_reassignments(
    client: AdminClient, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The reassignments in progress of these partitions, or of all."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
                name=name, partition_indexes=indexes
            )
            for name, indexes in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics)
    answer = client.send(request, CONTROLLER)
    check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            list(each.replicas), list(each.adding_replicas), list(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def alter_reassignments(
    client: AdminClient,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> dict[TopicPartition, AdminError | None]:
    """Starts reassignments to these replicas, or cancels the one in progress for None; returns the error of each."""
    topics = [
        AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=name, partitions=[_target(index, targets[TopicPartition(name, index)]) for index in indexes]
        )
        for name, indexes in by_topic(targets).items()
    ]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS, topics=topics, allow_replication_factor_change=allow_replication_factor_change
    )
    answer = client.send(request, CONTROLLER, versions="0-1" if allow_replication_factor_change else "1")
    check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): failure(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
    }


def _target(index: int, replicas: Sequence[int] | None) -> Any:
    return AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=index, replicas=None if replicas is None else list(replicas)
    )


def elect_leaders(
    client: AdminClient, election_type: int, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ServerError | None]:
    """Elects leaders of these partitions, or of all that need it; returns the error of each, None: elected.

    ELECTION_NOT_NEEDED means that the elected leader leads already.
    """
    topics = None
    if partitions is not None:
        topics = [
            ElectLeadersRequest.TopicPartitions(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=TIMEOUT_MS)
    answer = client.send(request, CONTROLLER, versions="1-2")
    check(answer.error_code)
    results: dict[TopicPartition, ServerError | None] = {}
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            failed = each.error_code != ErrorCode.NONE
            key = TopicPartition(topic.topic, each.partition_id)
            results[key] = ServerError(each.error_code, each.error_message) if failed else None
    return results
