"""The preferred assignor of a group equals that of Apache Kafka (see the dialogues about consumer groups)."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.group.consumer.assignors.preference import preferred, preferred_with_change
from tests.broker.coordinator.group.consumer.consumer_harness import ConsumerHarness


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, None),
        ({"range": 1}, "range"),
        ({"range": 1, "uniform": 1}, "uniform"),
        ({"uniform": 1, "range": 1}, "uniform"),
        ({"range": 2, "uniform": 1}, "range"),
        ({"range": 1, "uniform": 2, "plugin": 1}, "uniform"),
    ],
)
def test_the_majority_decides_and_the_hash_table_breaks_ties(
    counts: dict[str, int], expected: str | None
) -> None:
    assert preferred(counts) == expected
    assert preferred_with_change(counts, None, None) == expected


@pytest.mark.parametrize(
    ("counts", "old", "new", "expected"),
    [
        ({}, None, "range", "range"),
        ({"range": 1}, "range", None, None),
        ({"range": 1}, None, "uniform", "uniform"),
        ({"uniform": 1}, None, "range", "range"),
        ({"range": 1, "uniform": 1}, "range", "range", "range"),
        ({"range": 1, "uniform": 1}, "uniform", "uniform", "uniform"),
        ({"range": 1, "uniform": 1}, None, None, "uniform"),
        ({"range": 2, "uniform": 1}, "range", "uniform", "uniform"),
        ({"range": 2, "uniform": 2}, "range", "range", "uniform"),
        ({"range": 1, "uniform": 2}, None, "range", "uniform"),
        ({"range": 2, "uniform": 1}, None, "uniform", "uniform"),
        ({"uniform": 1}, "range", "uniform", "uniform"),
    ],
)
def test_a_tie_of_two_assignors(
    counts: dict[str, int], old: str | None, new: str | None, expected: str | None
) -> None:
    assert preferred_with_change(counts, old, new) == expected


def test_assignors_of_plugins_of_another_broker_are_counted() -> None:
    assert preferred({"range": 1, "plugin": 2}) == "plugin"
    assert preferred_with_change({"range": 1, "plugin": 2}, "plugin", "range") == "range"


@pytest.mark.parametrize(("first", "second", "share"), [("range", "uniform", 3), ("uniform", "range", 2)])
def test_the_second_member_decides_the_assignment_and_the_table_the_description(
    first: str, second: str, share: int
) -> None:
    """With two topics of three partitions each, ranges leave one of each to the second member."""
    harness = ConsumerHarness(t=3, u=3)
    harness.join("g", "a", "t", "u", server_assignor=first)
    harness.join("g", "b", "t", "u", server_assignor=second)
    described = harness.describe()
    assert described.assignor_name == "uniform"
    target = {
        member.member_id: harness.named(member.target_assignment.topic_partitions)
        for member in described.members
    }
    assert sum(map(len, target["b"].values())) == share
