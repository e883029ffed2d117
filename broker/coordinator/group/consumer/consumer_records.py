"""The records of consumer groups.

Source: GroupCoordinatorRecordHelpers (newConsumerGroup...).
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.coordinator.group.consumer.consumer_member import (
    ConsumerGroupMember,
    PartitionEpochs,
    Partitions,
)
from barnabas.broker.coordinator.group.consumer.subscriptions import ResolvedRegularExpression
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.protocol.messages import group_state as state

_Current = state.ConsumerGroupCurrentMemberAssignmentValue
_Target = state.ConsumerGroupTargetAssignmentMemberValue


def member_subscription(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = state.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    key = state.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group's epoch; `metadata_hash` is an int64."""
    value = state.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(state.ConsumerGroupMetadataKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    topics = [
        _Target.TopicPartition(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
    ]
    key = state.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, _Target(topic_partitions=topics))


def target_assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The epoch and the time of the target assignment."""
    value = state.ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return CoordinatorRecord(state.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = _Current(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topics(member.assigned),
        partitions_pending_revocation=_topics(member.pending_revocation),
    )
    key = state.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def _topics(owned: PartitionEpochs) -> list[_Current.TopicPartitions]:
    return [
        _Current.TopicPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in owned.items()
    ]


def regular_expression(group_id: str, regex: str, resolved: ResolvedRegularExpression) -> CoordinatorRecord:
    """The topics that a pattern stands for."""
    value = state.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return CoordinatorRecord(_regex_key(group_id, regex), value)


def _regex_key(group_id: str, regex: str) -> state.ConsumerGroupRegularExpressionKey:
    return state.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


# ---- tombstones


def regular_expression_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return tombstone(_regex_key(group_id, regex))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Deletes the topics of a group in the form of Kafka 4.0, before the hash of topics."""
    return tombstone(state.ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The tombstones of a member; its assignments come first, as Kafka's replay demands."""
    return [
        tombstone(state.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(state.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(state.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(
    group_id: str, member_ids: Iterable[str], regexes: Iterable[str]
) -> list[CoordinatorRecord]:
    """The tombstones of a group with its members, in the order that Kafka demands."""
    by_member = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in by_member),
        *(target for _, target, _ in by_member),
        tombstone(state.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(member for _, _, member in by_member),
        *(regular_expression_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        tombstone(state.ConsumerGroupMetadataKey(group_id=group_id)),
    ]
