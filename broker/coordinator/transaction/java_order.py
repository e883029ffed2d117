"""The order in which Apache Kafka's coordinator lists the partitions of a transaction: that of java.util.HashSet.

Records of __transaction_state and answers to DescribeTransactions are in that order, so that those of this broker are
the same to the byte (see broker.coordinator.java_order). Source: TopicPartition.hashCode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.broker.coordinator.java_order import (
    SMALLEST_TABLE,
    bucket_of,
    in_table_order,
    string_hash,
    table_after_adding,
)
from barnabas.storage.offsets import TopicPartition


def in_java_order(partitions: Iterable[TopicPartition], table: int) -> list[TopicPartition]:
    """Partitions, given in the order in which they came, as a HashSet of `table` buckets lists them."""
    return in_table_order(partitions, _partition_hash, table)


def grouped_by_topic(partitions: Sequence[TopicPartition], table: int) -> Mapping[str, list[int]]:
    """The partitions of each topic, topics in the order of a HashMap that Collectors.groupingBy fills.

    That does it with computeIfAbsent, which puts a new entry in front of the others of its bucket, and looks whether
    the table is full before it does and not after.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in in_java_order(partitions, table):
        topics.setdefault(topic, []).append(partition)
    buckets = table_after_adding(SMALLEST_TABLE, len(topics) - 1)
    newest_first = list(reversed(topics))
    newest_first.sort(key=lambda name: bucket_of(string_hash(name), buckets))
    return {name: topics[name] for name in newest_first}


def _partition_hash(partition: TopicPartition) -> int:
    topic, index = partition
    return 31 * (31 + index) + string_hash(topic)
