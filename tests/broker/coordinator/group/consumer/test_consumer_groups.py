"""Replay of consumer groups: current records, those of other versions of Kafka, and compacted logs."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import MemberState
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages import group_state as state
from barnabas.protocol.schema import Message
from tests.broker.coordinator.group.consumer.consumer_harness import Consumer, ConsumerHarness, id_of
from tests.broker.coordinator.shard_harness import Logged, ShardHarness
from tests.support.chance import seeds

Current = state.ConsumerGroupCurrentMemberAssignmentValue
MEMBER = {"group_id": "g", "member_id": "a"}


def loaded(*records: CoordinatorRecord, topics: ConsumerHarness | None = None) -> ConsumerHarness:
    """A harness whose log holds these records."""
    harness = topics or ConsumerHarness(t=2)
    harness.shard_harness = ShardHarness(
        GroupCoordinatorShard,
        harness.shard_harness.settings,
        image=harness.shard_harness.image,
        log=[Logged(record) for record in records],
    )
    return harness


def of_kafka_40(regex: str | None = None) -> list[CoordinatorRecord]:
    """A group of one member, as Kafka 4.0 writes it: no hash, no epochs of partitions, its topics in full."""
    key = state.ConsumerGroupMemberMetadataKey(**MEMBER)  # type: ignore[arg-type]
    topics = state.ConsumerGroupPartitionMetadataValue.TopicMetadata(
        topic_id=id_of("t"), topic_name="t", num_partitions=2
    )
    owned = Current.TopicPartitions(topic_id=id_of("t"), partitions=[0, 1])
    target = state.ConsumerGroupTargetAssignmentMemberValue.TopicPartition(
        topic_id=id_of("t"), partitions=[0, 1]
    )
    return [
        CoordinatorRecord(
            key,
            state.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="client",
                client_host="/192.0.2.7",
                subscribed_topic_names=["t"],
                subscribed_topic_regex=regex,
                rebalance_timeout_ms=60_000,
                server_assignor=None,
            ),
        ),
        CoordinatorRecord(
            state.ConsumerGroupPartitionMetadataKey(group_id="g"),
            state.ConsumerGroupPartitionMetadataValue(topics=[topics]),
        ),
        CoordinatorRecord(
            state.ConsumerGroupMetadataKey(group_id="g"), state.ConsumerGroupMetadataValue(epoch=2)
        ),
        CoordinatorRecord(
            state.ConsumerGroupTargetAssignmentMemberKey(**MEMBER),  # type: ignore[arg-type]
            state.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[target]),
        ),
        CoordinatorRecord(
            state.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            state.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2),
        ),
        CoordinatorRecord(
            state.ConsumerGroupCurrentMemberAssignmentKey(**MEMBER),  # type: ignore[arg-type]
            Current(
                member_epoch=2,
                previous_member_epoch=0,
                state=0,
                assigned_partitions=[owned],
                partitions_pending_revocation=[],
            ),
        ),
    ]


def test_a_group_of_kafka_40_continues_with_one_new_epoch() -> None:
    """It has no hash yet; its subscription metadata is deleted. No member loses a partition."""
    harness = loaded(*of_kafka_40())
    group = harness.group()
    assert group.has_subscription_metadata_record
    assert group.members["a"].assigned == {id_of("t"): {0: 2, 1: 2}}
    member = Consumer(harness, "g", "a")
    member.epoch, member.owned = 2, {"t": [0, 1]}
    member.beat()
    assert (member.epoch, member.owned) == (3, {"t": [0, 1]})
    assert not harness.group().has_subscription_metadata_record
    before = len(harness.shard_harness.log)
    member.beat()
    assert len(harness.shard_harness.log) == before


def test_a_member_without_a_pattern() -> None:
    harness = loaded(*of_kafka_40(regex=None))
    assert harness.group().subscriptions.regexes == {}
    assert harness.describe().members[0].subscribed_topic_regex is None


def test_a_member_in_an_unknown_state_is_fenced() -> None:
    *others, current = of_kafka_40()
    assert isinstance(current.value, Current)
    current.value.state = 42
    harness = loaded(*others, current)
    assert harness.group().members["a"].state is MemberState.UNKNOWN
    member = Consumer(harness, "g", "a")
    member.epoch, member.owned = 2, {"t": [0]}
    with pytest.raises(ApiError) as refused:
        member.beat()
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    member.join("t")
    assert member.owned == {"t": [0, 1]}


def test_mismatched_epochs_of_partitions_are_ignored() -> None:
    *others, current = of_kafka_40()
    assert isinstance(current.value, Current)
    current.value.assigned_partitions[0].assignment_epochs = [1]
    assert loaded(*others, current).group().members["a"].assigned == {id_of("t"): {0: 2, 1: 2}}


def every_key() -> list[Message]:
    regex = state.ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="x")
    return [*(record.key for record in of_kafka_40()), regex]


@pytest.mark.parametrize("key", every_key(), ids=lambda key: type(key).__name__)
def test_tombstones_of_unknown_groups_create_none(key: Message) -> None:
    harness = loaded(tombstone(key))
    assert harness.shard_harness.shard.groups.find("g") is None


@pytest.mark.parametrize("at", range(6))
def test_each_record_may_be_the_first_or_the_only_one(at: int) -> None:
    """Compaction may move the others behind it."""
    only = of_kafka_40()[at]
    assert isinstance(loaded(only).shard_harness.shard.groups.get("g"), ConsumerGroup)
    first, *rest = [only, *(record for record in of_kafka_40() if record is not only)]
    assert loaded(first, *rest).describe() == loaded(*of_kafka_40()).describe()


def test_tombstones_delete_everything() -> None:
    harness = ConsumerHarness(t=2, u=1)
    member = harness.join("g", "a", "t", subscribed_topic_regex="u.*")
    harness.advance(0)
    member.beat()
    tombstones = harness.group().tombstones()
    for record in tombstones:
        harness.shard_harness.shard.replay(0, -1, -1, record)
    assert harness.shard_harness.shard.groups.find("g") is None
    keys = {repr(record.key) for record in tombstones}
    assert {repr(record.key) for record in harness.shard_harness.records} <= keys


@pytest.mark.parametrize("seed", seeds(8))
def test_a_compacted_log_gives_the_same_group(seed: int) -> None:
    """Compacts any prefix of the log."""
    chance = Random(seed)
    harness = ConsumerHarness(t=6, u=3)
    members = [Consumer(harness, "g", f"m{at}", f"i{at}" if at < 2 else None) for at in range(5)]
    for _ in range(60):
        member = chance.choice(members)
        is_there = (
            member.id in harness.group().members if harness.shard_harness.shard.groups.find("g") else False
        )
        if not is_there:
            member.join("t", *(["u"] if chance.random() < 0.5 else []), subscribed_topic_regex="u.*")
        elif chance.random() < 0.15:
            member.leave()
        else:
            member.beat()
        harness.advance(chance.choice([0, 10, 3_000]))
    log = [logged for logged in harness.shard_harness.log if logged.record is not None]
    cut = chance.randint(0, len(log))
    last = {repr(logged.record.key): at for at, logged in enumerate(log[:cut]) if logged.record}
    kept = [log[at] for at in sorted(last.values())] + log[cut:]
    again = loaded(*(logged.record for logged in kept if logged.record), topics=ConsumerHarness(t=6, u=3))
    assert described(again) == described(harness)
    assert owners(again) == owners(harness)


def described(harness: ConsumerHarness) -> object:
    found = harness.describe()
    for member in found.members:
        member.subscribed_topic_names.sort()
        member.assignment.topic_partitions.sort(key=lambda topic: topic.topic_id)
        member.target_assignment.topic_partitions.sort(key=lambda topic: topic.topic_id)
    found.members.sort(key=lambda member: member.member_id)
    return found


def owners(harness: ConsumerHarness) -> object:
    return {
        (topic, partition): harness.group().owner(id_of(topic), partition)
        for topic in "tu"
        for partition in range(6)
    }
