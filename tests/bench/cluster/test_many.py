"""Tests the topic of many partitions."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.cluster.many import assignment_of, count_of


@pytest.mark.parametrize(("scale", "partitions"), [(1.0, 2000), (0.5, 1000), (0.01, 200), (3.0, 2000)])
def test_partitions_at_a_scale(scale: float, partitions: int) -> None:
    assert count_of(scale) == partitions


def test_each_broker_has_a_replica_of_each_partition_and_the_first_leads_half() -> None:
    found = assignment_of(200)
    assert all(sorted(replicas) == [1, 2, 3] for replicas in found.values())
    assert {replicas[0] for number, replicas in found.items() if number < 100} == {1}
    assert Counter(replicas[0] for replicas in found.values()) == {1: 100, 2: 50, 3: 50}


def test_the_leaders_of_the_first_half_move_to_both_others() -> None:
    """The first replica in sync becomes the leader."""
    following = Counter(replicas[1] for number, replicas in assignment_of(200).items() if number < 100)
    assert following == {2: 50, 3: 50}
