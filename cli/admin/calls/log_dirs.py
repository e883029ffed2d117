"""Log directories of brokers, the replicas in them, and moves between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.cli.admin.calls.topics import failure
from barnabas.cli.admin.client import AdminClient, Node
from barnabas.cli.admin.errors import AdminError, check
from barnabas.cli.admin.partitions import TopicPartition, by_topic
from barnabas.protocol.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest


class ReplicaInDir(NamedTuple):
    """One replica in a directory: its size in bytes, and how far it is behind, in records."""

    partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool
    """Whether it is the copy that a move between directories fills."""


class LogDir(NamedTuple):
    """One log directory; sizes are in bytes, -1: unknown."""

    path: str
    error: AdminError | None
    replicas: list[ReplicaInDir]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


def describe_log_dirs(client: AdminClient, broker_id: int) -> list[LogDir]:
    """The log directories of one broker, sorted by path, with their replicas, sorted by partition."""
    answer = client.send(DescribeLogDirsRequest(topics=None), Node(broker_id))
    check(answer.error_code, about=f"broker {broker_id}")
    return sorted(
        (
            LogDir(
                each.log_dir,
                failure(each.error_code, None, about=each.log_dir),
                sorted(_replicas(each.topics)),
                each.total_bytes,
                each.usable_bytes,
                each.is_cordoned,
            )
            for each in answer.results
        ),
        key=lambda found: found.path,
    )


def _replicas(topics: list[Any]) -> list[ReplicaInDir]:
    return [
        ReplicaInDir(
            TopicPartition(topic.name, each.partition_index),
            each.partition_size,
            each.offset_lag,
            each.is_future_key,
        )
        for topic in topics
        for each in topic.partitions
    ]


def alter_replica_log_dirs(
    client: AdminClient, broker_id: int, targets: Mapping[TopicPartition, str]
) -> dict[TopicPartition, AdminError | None]:
    """Moves replicas of one broker between its log directories; returns the error of each, None: the move began."""
    paths: dict[str, list[TopicPartition]] = {}
    for partition, path in targets.items():
        paths.setdefault(path, []).append(partition)
    dirs = [
        AlterReplicaLogDirsRequest.AlterReplicaLogDir(
            path=path,
            topics=[
                AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=name, partitions=indexes)
                for name, indexes in by_topic(partitions).items()
            ],
        )
        for path, partitions in paths.items()
    ]
    answer = client.send(AlterReplicaLogDirsRequest(dirs=dirs), Node(broker_id))
    return {
        TopicPartition(topic.topic_name, each.partition_index): failure(each.error_code, None)
        for topic in answer.results
        for each in topic.partitions
    }
