"""Placement of replicas: spread over the brokers, or by a manual assignment."""

from __future__ import annotations

import pytest

from barnabas.broker.controller.topic_placement import (
    Brokers,
    check_assignment,
    check_can_begin,
    new_partition,
    placed,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import ZERO_UUID

ALONE = Brokers([1])
WITH_ONE_AWAY = Brokers([1], [1, 2])
THREE = Brokers([1, 2, 3])


def refusal(check: object) -> ErrorCode:
    assert callable(check)
    with pytest.raises(ApiError) as caught:
        check()
    assert caught.value.message
    return caught.value.code


def test_leaders_rotate_over_the_brokers() -> None:
    assert placed(0, 4, 2, THREE) == [(1, 2), (2, 3), (3, 1), (1, 2)]


def test_later_partitions_continue_the_rotation() -> None:
    assert placed(2, 2, 1, THREE) == [(3,), (1,)]


def test_a_fenced_broker_gets_replicas_but_no_leadership() -> None:
    assert placed(0, 2, 2, WITH_ONE_AWAY) == [(1, 2), (1, 2)]
    assert placed(0, 2, 1, WITH_ONE_AWAY) == [(1,), (1,)]


def test_no_more_replicas_than_brokers() -> None:
    assert refusal(lambda: placed(0, 1, 2, ALONE)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refusal(lambda: placed(0, 1, 4, THREE)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refusal(lambda: placed(0, 1, 1, Brokers([], [2]))) is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("replicas", [[], [1, 1], [2], [-1], [1, 9]])
def test_each_replica_needs_a_broker_of_its_own(replicas: list[int]) -> None:
    assert refusal(lambda: check_assignment(replicas, ALONE)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_new_partition_needs_an_online_replica() -> None:
    check_assignment([2], WITH_ONE_AWAY)
    assert refusal(lambda: check_can_begin(0, [2], WITH_ONE_AWAY)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    check_can_begin(0, [2, 1], WITH_ONE_AWAY)


def test_all_partitions_have_the_same_number_of_replicas() -> None:
    check_assignment([3, 1], THREE, 2)
    with pytest.raises(ApiError, match=r"with 1 replica\(s\), .* which have 2 replica"):
        check_assignment([1], THREE, 2)


@pytest.mark.parametrize(
    ("replicas", "phrase"),
    [
        ([], "includes an empty replica list"),
        ([1, 1], "includes the broker 1 more than once"),
        ([9, 9], "includes broker 9, but no such broker is registered"),
        ([9, 1, 1], "includes the broker 1 more than once"),
    ],
)
def test_of_several_errors_that_of_the_lowest_broker_id_is_returned(replicas: list[int], phrase: str) -> None:
    with pytest.raises(ApiError, match=phrase):
        check_assignment(replicas, ALONE, 1)


def test_the_first_isr_of_a_partition_is_its_online_replicas() -> None:
    partition = new_partition(3, [2, 1], WITH_ONE_AWAY)
    assert (partition.partition, partition.replicas, partition.isr, partition.leader) == (3, (2, 1), (1,), 1)
    assert partition.directories == (ZERO_UUID, ZERO_UUID)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
