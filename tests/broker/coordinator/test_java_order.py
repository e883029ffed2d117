"""The order of Java's hash tables; what Java itself lists is held against it where it is used (transaction/)."""

from __future__ import annotations

from barnabas.broker.coordinator.java_order import (
    SMALLEST_TABLE,
    bucket_of,
    map_order,
    set_order,
    string_hash,
    table_after_adding,
    table_for_copy,
    table_for_map_copy,
    timeline_order,
)


def test_strings_have_javas_hash_without_its_sign() -> None:
    assert string_hash("a") == 97
    assert string_hash("polygenelubricants") == 1 << 31


def test_the_upper_half_of_a_hash_counts_as_well() -> None:
    assert bucket_of(0x10000, 16) == 1
    assert bucket_of(-1, 16) == bucket_of(0xFFFFFFFF, 16) == 0


def test_keys_come_by_bucket_and_in_a_bucket_as_they_came() -> None:
    assert map_order(["b", "a", "c"], string_hash) == ["a", "b", "c"]
    assert map_order(["b", "a", "q"], string_hash) == ["a", "q", "b"], "a is 97 and q 113, both 1 of 16"
    assert map_order(["q", "a"], string_hash) == ["q", "a"]


def test_tables_double_when_they_are_three_quarters_full() -> None:
    many = [chr(ord("a") + at) for at in range(13)]
    assert map_order([*reversed(many), "q"], string_hash)[-1] == "q", "the 13th key makes 32 buckets of 16"
    assert [table_for_copy(count) for count in (0, 11, 12, 23, 24, 1000)] == [16, 16, 32, 32, 64, 2048]
    assert [table_after_adding(SMALLEST_TABLE, count) for count in (12, 13, 24, 25)] == [16, 32, 32, 64]


def test_a_copy_leaves_more_room() -> None:
    twelve = [*map(chr, range(ord("a"), ord("a") + 11)), "q"]
    assert map_order(twelve, string_hash)[:2] == ["a", "q"]
    assert set_order(twelve, string_hash)[-1] == "q"


def test_the_copy_of_a_map_is_as_small_as_it_can_be() -> None:
    assert [table_for_map_copy(count) for count in (0, 1, 2, 3, 6, 12)] == [16, 2, 4, 8, 16, 32]


def test_timeline_tables_mix_hashes_in_another_way_and_list_a_bucket_from_its_end() -> None:
    assert timeline_order(["range", "uniform"], string_hash) == ["uniform", "range"]
    assert timeline_order(["uniform", "range"], string_hash) == ["uniform", "range"]
    same = ["Aa", "BB"]
    assert string_hash("Aa") == string_hash("BB")
    assert timeline_order(same, string_hash) == ["BB", "Aa"]
    assert timeline_order([*same, "C#"], string_hash) == ["C#", "BB", "Aa"]
