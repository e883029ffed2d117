"""The order in which Apache Kafka's coordinator lists the partitions of a transaction: that of java.util.HashSet.

Records of __transaction_state and answers to DescribeTransactions are in that order, so that those of this broker are
the same to the byte. A HashSet is a table of buckets, a power of two, that doubles when it is three quarters full;
entries of one bucket stay in the order in which they came. Source: java.util.HashMap; TopicPartition.hashCode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.controller.internal_topics import java_hash
from broker.coordinator.txn import TopicPartition

SMALLEST_TABLE: Final = 16
_MASK: Final = 0xFFFFFFFF


def table_for_copy(count: int) -> int:
    """How many buckets a HashSet has that was made as a copy of `count` elements."""
    wanted = max(int(count / 0.75) + 1, SMALLEST_TABLE)
    return 1 << (wanted - 1).bit_length()


def table_after_adding(table: int, count: int) -> int:
    """How many buckets a HashSet of `table` buckets has once it holds `count` elements, added one after the other."""
    while count > table * 3 // 4:
        table *= 2
    return table


def in_java_order(partitions: Iterable[TopicPartition], table: int) -> list[TopicPartition]:
    """Partitions, given in the order in which they came, as a HashSet of `table` buckets lists them."""
    return sorted(partitions, key=lambda partition: _bucket(_partition_hash(partition), table))


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
    newest_first.sort(key=lambda name: _bucket(java_hash(name), buckets))
    return {name: topics[name] for name in newest_first}


def _partition_hash(partition: TopicPartition) -> int:
    topic, index = partition
    return 31 * (31 + index) + java_hash(topic)


def _bucket(hash_code: int, table: int) -> int:
    unsigned = hash_code & _MASK
    return (unsigned ^ unsigned >> 16) & (table - 1)
