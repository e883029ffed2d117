"""New partitions, leaders and moves of replicas, as Kafka's controller decides them, with brokers that are offline."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.broker.controller.partition_admin import (
    cancel_reassignment,
    elect_leader,
    is_reassigning,
    new_partitions,
    reassign,
    reassignments,
)
from barnabas.broker.controller.partition_change import Election, Target, partition_change
from barnabas.broker.controller.topic_placement import Brokers
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import NO_LEADER, RECOVERING, PartitionImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, TopicRecord
from barnabas.protocol.wire import Uuid

T: Uuid = b"t" * 16
ALONE = Brokers([1])
WITH_ONE_AWAY = Brokers([1], [1, 2])
ALL_THERE = Brokers([1, 2, 3])


def partition(
    replicas: Sequence[int] = (1,),
    isr: Sequence[int] | None = None,
    leader: int = 1,
    *,
    index: int = 0,
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    elr: Sequence[int] = (),
    last_known_elr: Sequence[int] = (),
) -> PartitionImage:
    return PartitionImage(
        index,
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=leader,
        leader_epoch=5,
        partition_epoch=7,
        directories=[bytes([node]) * 16 for node in replicas],
        adding_replicas=adding,
        removing_replicas=removing,
        elr=elr,
        last_known_elr=last_known_elr,
    )


def having(*partitions: PartitionImage) -> MetadataImage:
    records = [TopicRecord(name="t", topic_id=T), *(it.record(T) for it in partitions)]
    return replayed(MetadataImage.empty(), records)[0]


def after(image: MetadataImage, record: PartitionChangeRecord | None) -> PartitionImage:
    assert record is not None
    return replayed(image, [record])[0].topics["t"].partitions[record.partition_id]


def usable(*nodes: int) -> object:
    return lambda _name, _partition, node: node in nodes


def refusal(call: object, *arguments: object, **named: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(ApiError) as caught:
        call(*arguments, **named)
    assert caught.value.message
    return caught.value.code


# ---- more partitions


def test_new_partitions_follow_the_last() -> None:
    records = new_partitions(having(partition()), "t", 3, None, ALONE)
    assert [(it.partition_id, it.replicas, it.isr, it.leader) for it in records] == [
        (1, [1], [1], 1),
        (2, [1], [1], 1),
    ]
    assert {it.topic_id for it in records} == {T}


def test_new_partitions_get_as_many_replicas_as_the_others() -> None:
    (record,) = new_partitions(having(partition([1, 2], [1])), "t", 2, None, WITH_ONE_AWAY)
    assert (record.replicas, record.isr) == ([1, 2], [1])
    image = having(partition([1, 2], [1]))
    assert refusal(new_partitions, image, "t", 2, None, ALONE) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_new_partitions_can_be_assigned_manually() -> None:
    image = having(partition([1, 2]))
    (record,) = new_partitions(image, "t", 2, [[2, 1]], WITH_ONE_AWAY)
    assert (record.replicas, record.isr, record.leader) == ([2, 1], [1], 1)
    for wrong in ([], [[1]], [[2, 1], [1, 2]], [[2, 2]], [[1, 3]]):
        assert (
            refusal(new_partitions, image, "t", 2, wrong, WITH_ONE_AWAY)
            is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        )


@pytest.mark.parametrize("count", [1, 0, -1])
def test_the_partition_count_cannot_be_lowered(count: int) -> None:
    assert (
        refusal(new_partitions, having(partition()), "t", count, None, ALONE) is ErrorCode.INVALID_PARTITIONS
    )


def test_an_unknown_topic_gets_no_partitions() -> None:
    code = refusal(new_partitions, having(), "u", 2, None, ALONE)
    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- leaders


def test_the_preferred_replica_is_elected() -> None:
    image = having(partition([2, 1], leader=1))
    found = after(image, elect_leader(image, "t", 0, Election.PREFERRED, usable(1, 2)))  # type: ignore[arg-type]
    assert (found.leader, found.leader_epoch, found.isr) == (2, 6, (2, 1))


@pytest.mark.parametrize(
    ("image", "election", "nodes", "code"),
    [
        (partition(), Election.PREFERRED, [1], ErrorCode.ELECTION_NOT_NEEDED),
        (partition(), Election.UNCLEAN, [1], ErrorCode.ELECTION_NOT_NEEDED),
        (partition(), Election.PREFERRED, [], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (partition(), Election.UNCLEAN, [], ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (partition([2, 1], leader=1), Election.PREFERRED, [1], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (partition([2, 1], [1]), Election.PREFERRED, [1, 2], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (partition([2], leader=NO_LEADER), Election.UNCLEAN, [1], ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_elections_without_effect_or_candidate(
    image: PartitionImage, election: Election, nodes: list[int], code: ErrorCode
) -> None:
    assert refusal(elect_leader, having(image), "t", 0, election, usable(*nodes)) is code


def test_an_unclean_leader_is_the_whole_isr_and_has_to_recover() -> None:
    image = having(partition([2, 1], [2], leader=NO_LEADER))
    found = after(image, elect_leader(image, "t", 0, Election.UNCLEAN, usable(1)))  # type: ignore[arg-type]
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, (1,), RECOVERING)


def test_an_eligible_replica_is_a_clean_leader() -> None:
    image = having(partition([2, 1], [], leader=NO_LEADER, elr=[1], last_known_elr=[2]))
    found = after(image, elect_leader(image, "t", 0, Election.UNCLEAN, usable(1)))  # type: ignore[arg-type]
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (1, (1,), (), ())
    assert found.leader_recovery_state != RECOVERING


def test_an_unknown_partition_elects_no_leader() -> None:
    for name, index in (("u", 0), ("t", 1)):
        code = refusal(elect_leader, having(partition()), name, index, Election.PREFERRED, usable(1))
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- moves


def move(
    image: MetadataImage,
    replicas: Sequence[int],
    brokers: Brokers,
    *nodes: int,
    may_change_count: bool = True,
) -> PartitionChangeRecord | None:
    return reassign(
        image,
        "t",
        0,
        replicas,
        brokers=brokers,
        is_usable=usable(*nodes),  # type: ignore[arg-type]
        may_change_count=may_change_count,
    )


def test_a_move_to_the_same_replicas_changes_nothing() -> None:
    assert move(having(partition()), [1], ALONE, 1) is None


def test_a_move_to_an_offline_broker_stays_open_and_can_be_cancelled() -> None:
    image = having(partition())
    moving, _ = replayed(image, [move(image, [2], WITH_ONE_AWAY, 1) or PartitionChangeRecord()])
    found = moving.topics["t"].partitions[0]
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((2, 1), (2,), (1,))
    assert (found.leader, found.isr, found.leader_epoch) == (1, (1,), 5)
    assert found.directory_of(1) == bytes([1]) * 16
    assert [(name, [it.partition for it in those]) for name, those in reassignments(moving, None)] == [
        ("t", [0])
    ]

    record = cancel_reassignment(moving, "t", 0, usable(1), may_lose=False)  # type: ignore[arg-type]
    back = after(moving, record)
    assert (back.replicas, back.isr, back.leader) == ((1,), (1,), 1)
    assert not is_reassigning(back)
    assert back.directory_of(1) == bytes([1]) * 16


def test_a_move_completes_at_once_if_all_remaining_replicas_are_in_sync() -> None:
    image = having(partition([1, 2, 3]))
    found = after(image, move(image, [3, 1], ALL_THERE, 1, 2, 3))
    assert (found.replicas, set(found.isr)) == ((3, 1), {1, 3})
    assert (found.leader, found.leader_epoch) == (1, 6)
    assert not is_reassigning(found)


def test_a_removed_replica_stops_being_the_leader() -> None:
    image = having(partition([1, 2]))
    found = after(image, move(image, [2], ALL_THERE, 1, 2, 3))
    assert (found.replicas, found.isr, found.leader) == ((2,), (2,), 2)


def test_the_order_of_replicas_can_be_changed() -> None:
    image = having(partition([1, 2]))
    found = after(image, move(image, [2, 1], ALL_THERE, 1, 2))
    assert (found.replicas, found.leader, found.leader_epoch) == ((2, 1), 1, 5)
    assert (found.directory_of(1), found.directory_of(2)) == (bytes([1]) * 16, bytes([2]) * 16)


@pytest.mark.parametrize("replicas", [[], [1, 1], [3], [-1]])
def test_moves_to_invalid_replicas_are_rejected(replicas: list[int]) -> None:
    code = refusal(move, having(partition()), replicas, WITH_ONE_AWAY, 1)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_changes_of_the_replication_factor_can_be_forbidden() -> None:
    image = having(partition())
    code = refusal(move, image, [1, 2], WITH_ONE_AWAY, 1, may_change_count=False)
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(image, [2], WITH_ONE_AWAY, 1, may_change_count=False) is not None
    moving = having(partition([2, 1], [1], adding=[2], removing=[1]))  # during a move from one replica to one
    assert move(moving, [1], WITH_ONE_AWAY, 1, may_change_count=False) is not None


def test_without_a_move_nothing_can_be_cancelled() -> None:
    code = refusal(cancel_reassignment, having(partition()), "t", 0, usable(1), may_lose=False)
    assert code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_cancellation_that_would_lose_records_is_rejected() -> None:
    image = having(partition([2, 1], [2], leader=2, adding=[2], removing=[1]))
    code = refusal(cancel_reassignment, image, "t", 0, usable(1, 2), may_lose=False)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    found = after(image, cancel_reassignment(image, "t", 0, usable(1, 2), may_lose=True))  # type: ignore[arg-type]
    assert (found.replicas, found.isr, found.leader) == ((1,), (1,), 1)


def test_only_requested_moves_are_listed() -> None:
    image = having(partition(), partition([2, 1], [1], index=1, adding=[2], removing=[1]))
    assert [name for name, _ in reassignments(image, [("t", [0]), ("u", [0]), ("t", [7, -1])])] == []
    ((name, (found,)),) = reassignments(image, [("t", [0, 1])])
    assert (name, found.partition) == ("t", 1)
    assert list(reassignments(image, [])) == []


# ---- changes


def test_an_unchanged_partition_needs_no_record() -> None:
    it = partition([1, 2])
    assert partition_change(T, it, Target.of(it), lambda _: True) is None


def test_an_offline_leader_is_replaced_by_one_in_sync() -> None:
    it = partition([1, 2, 3], [1, 3])
    record = partition_change(T, it, Target.of(it), lambda node: node != 1)
    assert record is not None
    assert (record.leader, record.isr) == (3, None)


def test_without_an_online_isr_there_is_no_leader() -> None:
    it = partition([1, 2], [1])
    record = partition_change(T, it, Target.of(it), lambda node: node == 2)
    assert record is not None
    assert (record.leader, record.isr) == (NO_LEADER, None)
