"""The order of java.util.HashSet: what Java itself listed for the same partitions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.coordinator.java_order import table_after_adding, table_for_copy
from barnabas.broker.coordinator.transaction.java_order import grouped_by_topic, in_java_order
from barnabas.storage.offsets import TopicPartition

TOPICS = ("orders", "payments", "__consumer_offsets", "a-b")
INDEXES = (5, 0, 11, 3, 7)
JAVA = (
    "orders:7,orders:11,orders:0,orders:3,orders:5",
    "orders:7,payments:22,payments:6,orders:11,payments:0,orders:0,payments:14,orders:3,orders:5,payments:10",
    "orders:7,__consumer_offsets:15,payments:6,orders:11,payments:0,__consumer_offsets:9,payments:14,"
    "__consumer_offsets:21,payments:10,__consumer_offsets:0,payments:22,orders:0,orders:3,orders:5,"
    "__consumer_offsets:33",
    "orders:7,__consumer_offsets:15,payments:6,a-b:20,orders:11,payments:0,__consumer_offsets:9,payments:14,"
    "__consumer_offsets:21,a-b:44,a-b:12,payments:10,__consumer_offsets:0,payments:22,a-b:0,orders:0,a-b:28,"
    "orders:3,orders:5,__consumer_offsets:33",
)
"""Printed by Java: sets that begin as a copy of the one before, and have five partitions added."""


def shown(partitions: Sequence[TopicPartition]) -> str:
    return ",".join(f"{topic}:{index}" for topic, index in partitions)


def test_partitions_come_as_java_lists_them() -> None:
    partitions: list[TopicPartition] = []
    for at, expected in enumerate(JAVA):
        table = table_for_copy(len(partitions))
        partitions += [(TOPICS[at], index * (at + 1)) for index in INDEXES]
        table = table_after_adding(table, len(partitions))
        assert shown(in_java_order(partitions, table)) == expected


def test_topics_come_as_java_groups_them() -> None:
    partitions = [(topic, index * (at + 1)) for at, topic in enumerate(TOPICS) for index in INDEXES]
    assert list(grouped_by_topic(partitions, table_for_copy(20)).items()) == [
        ("a-b", [20, 44, 12, 0, 28]),
        ("payments", [6, 0, 14, 10, 22]),
        ("orders", [7, 11, 0, 3, 5]),
        ("__consumer_offsets", [15, 9, 21, 0, 33]),
    ]


@given(st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 200)), unique=True, max_size=120))
def test_a_copy_keeps_the_order_within_each_topic(partitions: list[TopicPartition]) -> None:
    """What is loaded from a record is written again as it was read."""
    table = table_for_copy(len(partitions))
    grouped = grouped_by_topic(partitions, table)
    read = [(topic, index) for topic, indexes in grouped.items() for index in indexes]
    assert grouped_by_topic(read, table) == grouped
    assert sorted(read) == sorted(partitions)
