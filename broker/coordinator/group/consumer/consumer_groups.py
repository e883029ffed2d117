"""The consumer groups of one shard: replayed from their records, loaded, and kept up with the metadata.

A record with a value creates the group, or the member, that it names where that is missing; one without a value does
nothing where there is nothing to delete. So every log that compaction leaves can be replayed.
Source: GroupMetadataManager (replay, onLoaded, onNewMetadataImage).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    LEAVE_EPOCH,
    OWNS_NOTHING,
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
)
from barnabas.broker.coordinator.group.consumer.group_dependencies import GroupDependencies
from barnabas.broker.coordinator.group.consumer.subscriptions import ResolvedRegularExpression
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.protocol.messages import group_state as state

logger = logging.getLogger("barnabas.groups")

NO_EPOCH: Final = -1

_TopicPartitions = state.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


class ConsumerGroups:
    """Loads the consumer groups of one shard and follows the metadata for them."""

    def __init__(self, shared: GroupDependencies) -> None:
        self._groups = shared.groups
        self._shared = shared

    @property
    def rebalances(self) -> int:
        """How many epochs groups have begun in this shard."""
        return self._shared.updates.rebalances + self._shared.regexes.rebalances

    def on_loaded(self) -> None:
        """Schedules the sessions of the members that were loaded."""
        self._shared.regexes.newest_topics = self._shared.context.image().offset
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                self._start_timers(group)

    def _start_timers(self, group: ConsumerGroup) -> None:
        logger.info("group %s is loaded, with %d members", group.group_id, len(group.members))
        timeout_ms = self._shared.settings.session_timeout_ms(group.group_id)
        for member_id, member in group.members.items():
            asked_ms = 0 if member.classic is None else member.classic.session_timeout_ms
            # A member with a longer session may not send heartbeats sooner; Kafka removes it.
            self._shared.timers.session(group.group_id, member_id, max(timeout_ms, asked_ms))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._shared.timers.rebalance(group.group_id, member)

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Has groups that are subscribed to a changed topic check it with their next heartbeat."""
        if delta.created_topics:
            self._shared.regexes.newest_topics = image.offset
        changed = {*delta.created_topics, *delta.changed_topics}
        changed.update(topic.name for topic in delta.deleted_topics.values())
        if not changed:
            return
        for name in changed:
            self._shared.hashes.forget(name)
        for group in self._groups:
            if isinstance(group, ConsumerGroup) and not changed.isdisjoint(group.subscriptions.topics):
                group.request_refresh()


class ConsumerGroupReplay:
    """Applies the records of consumer groups."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def replayers(self) -> Mapping[int, Callable[[Any, Any], None]]:
        """The function that replays each key type: f(key, value or None)."""
        return {3: self._replay_group, **{kind: partial(self._replay, f) for kind, f in _REPLAYERS.items()}}

    def _replay_group(
        self, key: state.ConsumerGroupMetadataKey, value: state.ConsumerGroupMetadataValue | None
    ) -> None:
        group = self._groups.of_record(ConsumerGroup, key.group_id, value)
        if group is not None and value is not None:
            group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif group is not None:
            self._groups.remove(key.group_id)

    def _replay(self, replay: Callable[[ConsumerGroup, Any, Any], None], key: Any, value: Any) -> None:
        group = self._groups.of_record(ConsumerGroup, key.group_id, value)
        if group is not None:
            replay(group, key, value)


def _replay_partition_metadata(
    group: ConsumerGroup,
    key: state.ConsumerGroupPartitionMetadataKey,
    value: state.ConsumerGroupPartitionMetadataValue | None,
) -> None:
    """The topics in records of Kafka 4.0, which are deleted with the group's next epoch."""
    group.has_subscription_metadata_record = value is not None


def _replay_member_metadata(
    group: ConsumerGroup,
    key: state.ConsumerGroupMemberMetadataKey,
    value: state.ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    known = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
    group.update_member(
        known._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _replay_target_assignment_metadata(
    group: ConsumerGroup,
    key: state.ConsumerGroupTargetAssignmentMetadataKey,
    value: state.ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _replay_target_assignment_member(
    group: ConsumerGroup,
    key: state.ConsumerGroupTargetAssignmentMemberKey,
    value: state.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.remove_target(key.member_id)
    else:
        topics = value.topic_partitions
        group.set_target(key.member_id, {topic.topic_id: frozenset(topic.partitions) for topic in topics})


def _replay_current_assignment(
    group: ConsumerGroup,
    key: state.ConsumerGroupCurrentMemberAssignmentKey,
    value: state.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    known = group.members.get(key.member_id)
    if value is not None:
        known = known or ConsumerGroupMember(key.member_id)
        group.update_member(
            known._replace(
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=_owned(value.assigned_partitions, value.member_epoch),
                pending_revocation=_owned(value.partitions_pending_revocation, value.member_epoch),
            )
        )
    elif known is not None:
        group.update_member(
            known._replace(
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=OWNS_NOTHING,
                pending_revocation=OWNS_NOTHING,
            )
        )


def _replay_regular_expression(
    group: ConsumerGroup,
    key: state.ConsumerGroupRegularExpressionKey,
    value: state.ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedRegularExpression(frozenset(value.topics), value.version, value.timestamp)
    group.subscriptions.resolve(key.regular_expression, resolved)


_REPLAYERS: Final[Mapping[int, Callable[[ConsumerGroup, Any, Any], None]]] = {
    4: _replay_partition_metadata,
    5: _replay_member_metadata,
    6: _replay_target_assignment_metadata,
    7: _replay_target_assignment_member,
    8: _replay_current_assignment,
    16: _replay_regular_expression,
}
"""By key type."""


def _owned(topics: Iterable[_TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Records before Kafka 4.3 lack the epochs in which partitions were assigned: the member's epoch stands in."""
    return {topic.topic_id: _epochs(topic, max(member_epoch, 0)) for topic in topics}


def _epochs(topic: _TopicPartitions, default: int) -> dict[int, int]:
    epochs = topic.assignment_epochs
    if epochs is None or len(epochs) != len(topic.partitions):
        return dict.fromkeys(topic.partitions, default)
    return dict(zip(topic.partitions, epochs, strict=True))
