"""Properties of assignors: every partition is assigned once, evenly, and members keep what they had.

tests/conformance/test_consumer_groups.py compares them with Kafka's own.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.coordinator.group.consumer.assignors import ASSIGNORS
from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import NOTHING, Partitions
from barnabas.broker.coordinator.java_order import partition_order, set_order, uuid_hash
from barnabas.protocol.wire import Uuid

TOPICS = [bytes([at]) * 16 for at in range(1, 5)]
NAMES = st.text("abcdef", min_size=1, max_size=3)
FEW = settings(max_examples=40)
SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=4)


def spec(
    sizes: list[int],
    members: Mapping[str, frozenset[int]],
    target: Mapping[str, Partitions],
    *,
    is_homogeneous: bool,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    """Topics by their sizes, members by the numbers of the topics that they are subscribed to."""
    assigned: dict[Uuid, set[int]] = {}
    for partitions in target.values():
        for topic_id, indexes in partitions.items():
            assigned.setdefault(topic_id, set()).update(indexes)
    specs = {
        member_id: MemberSpec(
            frozenset(TOPICS[at] for at in topics if at < len(sizes)),
            target.get(member_id, NOTHING),
            (instances or {}).get(member_id),
        )
        for member_id, topics in members.items()
    }
    wanted = frozenset[Uuid]().union(*(member.topics for member in specs.values()))
    counts = {TOPICS[at]: size for at, size in enumerate(sizes) if TOPICS[at] in wanted}
    return GroupSpec(specs, counts, is_homogeneous, assigned)


def same(sizes: list[int], names: set[str], target: Mapping[str, Partitions] | None = None) -> GroupSpec:
    everything = frozenset(range(len(sizes)))
    return spec(sizes, dict.fromkeys(sorted(names), everything), target or {}, is_homogeneous=True)


def pairs(assigned: Mapping[str, Partitions]) -> list[tuple[Uuid, int]]:
    return [
        (topic_id, partition)
        for partitions in assigned.values()
        for topic_id, indexes in partitions.items()
        for partition in indexes
    ]


def sizes_of(assigned: Mapping[str, Partitions], names: set[str]) -> list[int]:
    return [sum(map(len, assigned.get(name, {}).values())) for name in names]


def check_complete(group: GroupSpec, assigned: Mapping[str, Partitions]) -> None:
    """Each partition belongs to one member, which is subscribed to it."""
    given_out = pairs(assigned)
    assert len(given_out) == len(set(given_out))
    assert len(given_out) == sum(group.partition_counts.values())
    for member_id, partitions in assigned.items():
        assert set(partitions) <= set(group.members[member_id].topics)
        for topic_id, indexes in partitions.items():
            assert indexes
            assert max(indexes) < group.partition_counts[topic_id]


@pytest.mark.parametrize("name", ["uniform", "range"])
@FEW
@given(sizes=SIZES, members=st.dictionaries(NAMES, st.frozensets(st.integers(0, 3)), min_size=1))
def test_everything_is_assigned_to_subscribed_members(
    name: str, sizes: list[int], members: dict[str, frozenset[int]]
) -> None:
    group = spec(sizes, members, {}, is_homogeneous=False)
    check_complete(group, ASSIGNORS[name](group))


@FEW
@given(sizes=SIZES, first=st.sets(NAMES, min_size=1), second=st.sets(NAMES, min_size=1))
def test_uniform_is_even_and_moves_as_little_as_possible(
    sizes: list[int], first: set[str], second: set[str]
) -> None:
    before = ASSIGNORS["uniform"](same(sizes, first))
    kept = {name: partitions for name, partitions in before.items() if name in second}
    group = same(sizes, second, kept)
    after = ASSIGNORS["uniform"](group)
    check_complete(group, after)
    loads = sizes_of(after, second)
    assert max(loads) - min(loads) <= 1
    quota = -(-sum(sizes) // len(second))
    for name, partitions in kept.items():
        held = set(pairs({name: partitions}))
        lost = held - set(pairs({name: after.get(name, NOTHING)}))
        assert len(lost) <= max(len(held) - (quota - 1), 0), "it has given up more than the balance asks for"


@FEW
@given(sizes=SIZES, members=st.dictionaries(NAMES, st.frozensets(st.integers(0, 3), min_size=1), min_size=1))
def test_a_complete_assignment_is_kept(sizes: list[int], members: dict[str, frozenset[int]]) -> None:
    first = ASSIGNORS["uniform"](spec(sizes, members, {}, is_homogeneous=False))
    second = ASSIGNORS["uniform"](spec(sizes, members, first, is_homogeneous=False))
    third = ASSIGNORS["uniform"](spec(sizes, members, second, is_homogeneous=False))
    assert second == third


@FEW
@given(sizes=SIZES, names=st.sets(NAMES, min_size=1))
def test_ranges_are_contiguous_and_equal_for_topics_of_one_size(sizes: list[int], names: set[str]) -> None:
    assigned = ASSIGNORS["range"](same([sizes[0]] * len(sizes), names))
    for partitions in assigned.values():
        for indexes in partitions.values():
            assert sorted(indexes) == list(range(min(indexes), max(indexes) + 1))
        assert len(set(partitions.values())) <= 1


def test_ranges_sort_by_instance_ids_first() -> None:
    members = dict.fromkeys(["a", "b", "c"], frozenset({0}))
    group = spec([3], members, {}, is_homogeneous=True, instances={"c": "1", "b": "2"})
    assigned = ASSIGNORS["range"](group)
    assert [min(assigned[name][TOPICS[0]]) for name in "cba"] == [0, 1, 2]


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_no_members_or_no_topics(name: str, is_homogeneous: bool) -> None:
    assert ASSIGNORS[name](GroupSpec({}, {}, is_homogeneous, {})) == {}
    nothing = ASSIGNORS[name](spec([], {"a": frozenset()}, {}, is_homogeneous=is_homogeneous))
    assert not nothing.get("a")


def test_the_order_of_javas_hash_tables() -> None:
    """By bucket: the low bits of the hash."""
    assert partition_order({17, 2, 16}) == [16, 17, 2]
    assert partition_order(set(range(30))) == list(range(30))
    assert set_order([b"\0" * 15 + b"\2", b"\0" * 15 + b"\1"], uuid_hash)[0][-1] == 1
