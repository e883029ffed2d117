"""The order of Java's hash tables, compared with the order in which Java itself listed the same keys."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.coordinator.java_order import (
    SMALLEST_TABLE,
    bucket_of,
    grouped_by_topic,
    in_java_order,
    map_order,
    set_order,
    string_hash,
    table_after_adding,
    table_for_copy,
    table_for_map_copy,
    timeline_order,
)
from barnabas.storage.offsets import TopicPartition


def test_string_hashes_are_those_of_java_without_the_sign() -> None:
    assert string_hash("a") == 97
    assert string_hash("polygenelubricants") == 1 << 31


def test_the_upper_half_of_a_hash_is_mixed_in() -> None:
    assert bucket_of(0x10000, 16) == 1
    assert bucket_of(-1, 16) == bucket_of(0xFFFFFFFF, 16) == 0


def test_keys_are_ordered_by_bucket_and_then_by_insertion() -> None:
    assert map_order(["b", "a", "c"], string_hash) == ["a", "b", "c"]
    assert map_order(["b", "a", "q"], string_hash) == ["a", "q", "b"], "a is 97 and q 113, both 1 of 16"
    assert map_order(["q", "a"], string_hash) == ["q", "a"]


def test_tables_double_at_three_quarters() -> None:
    many = [chr(ord("a") + at) for at in range(13)]
    assert map_order([*reversed(many), "q"], string_hash)[-1] == "q", "the 13th key makes 32 buckets of 16"
    assert [table_for_copy(count) for count in (0, 11, 12, 23, 24, 1000)] == [16, 16, 32, 32, 64, 2048]
    assert [table_after_adding(SMALLEST_TABLE, count) for count in (12, 13, 24, 25)] == [16, 32, 32, 64]


def test_a_copied_table_has_more_buckets() -> None:
    twelve = [*map(chr, range(ord("a"), ord("a") + 11)), "q"]
    assert map_order(twelve, string_hash)[:2] == ["a", "q"]
    assert set_order(twelve, string_hash)[-1] == "q"


def test_a_copied_map_is_as_small_as_possible() -> None:
    assert [table_for_map_copy(count) for count in (0, 1, 2, 3, 6, 12)] == [16, 2, 4, 8, 16, 32]


def test_timeline_tables_mix_hashes_differently_and_list_a_bucket_from_its_end() -> None:
    assert timeline_order(["range", "uniform"], string_hash) == ["uniform", "range"]
    assert timeline_order(["uniform", "range"], string_hash) == ["uniform", "range"]
    same = ["Aa", "BB"]
    assert string_hash("Aa") == string_hash("BB")
    assert timeline_order(same, string_hash) == ["BB", "Aa"]
    assert timeline_order([*same, "C#"], string_hash) == ["C#", "BB", "Aa"]


# ---- partitions

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
"""Printed by Java: sets that begin as a copy of the one before, with five partitions added to each."""


def shown(partitions: Sequence[TopicPartition]) -> str:
    return ",".join(f"{topic}:{index}" for topic, index in partitions)


def test_partitions_are_ordered_as_in_java() -> None:
    partitions: list[TopicPartition] = []
    for at, expected in enumerate(JAVA):
        table = table_for_copy(len(partitions))
        partitions += [(TOPICS[at], index * (at + 1)) for index in INDEXES]
        table = table_after_adding(table, len(partitions))
        assert shown(in_java_order(partitions, table)) == expected


def test_topics_are_grouped_as_in_java() -> None:
    partitions = [(topic, index * (at + 1)) for at, topic in enumerate(TOPICS) for index in INDEXES]
    assert list(grouped_by_topic(partitions, table_for_copy(20)).items()) == [
        ("a-b", [20, 44, 12, 0, 28]),
        ("payments", [6, 0, 14, 10, 22]),
        ("orders", [7, 11, 0, 3, 5]),
        ("__consumer_offsets", [15, 9, 21, 0, 33]),
    ]


@given(st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 200)), unique=True, max_size=120))
def test_a_copy_keeps_the_order_within_each_topic(partitions: list[TopicPartition]) -> None:
    """State that is loaded from a record is written again in the same order."""
    table = table_for_copy(len(partitions))
    grouped = grouped_by_topic(partitions, table)
    read = [(topic, index) for topic, indexes in grouped.items() for index in indexes]
    assert grouped_by_topic(read, table) == grouped
    assert sorted(read) == sorted(partitions)
