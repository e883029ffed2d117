"""The steps that a heartbeat and a join share: check the topics, assign partitions, reconcile the member.

Source: GroupMetadataManager (updateSubscriptionMetadata, maybeUpdateTargetAssignment, maybeReconcile),
org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from barnabas.broker.coordinator.group.consumer import consumer_records
from barnabas.broker.coordinator.group.consumer.assignors import ASSIGNORS
from barnabas.broker.coordinator.group.consumer.assignors.preference import preferred_with_change
from barnabas.broker.coordinator.group.consumer.assignors.spec import Assign, GroupSpec, MemberSpec
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    NOTHING,
    ConsumerGroupMember,
    MemberState,
    Partitions,
)
from barnabas.broker.coordinator.group.consumer.member_timers import MemberTimers
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes
from barnabas.broker.coordinator.group.consumer.reconciliation import Owned, Reconciliation
from barnabas.broker.coordinator.group.consumer.settings import REFRESH_INTERVAL_MS, GroupSettings
from barnabas.broker.coordinator.java_order import map_order, string_hash
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import ShardContext
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.request import RequestContext
from barnabas.protocol.wire import Uuid

logger = logging.getLogger("barnabas.groups")


class MemberChange(NamedTuple):
    """A member before and after its request; `out` collects the records of the change. `context` is the request's."""

    group: ConsumerGroup
    old: ConsumerGroupMember
    new: ConsumerGroupMember
    out: list[CoordinatorRecord]
    context: RequestContext

    def write_subscription(self) -> bool:
        """Records a change of the member; returns whether it names other topics than before."""
        if self.new == self.old:
            return False
        self.out.append(consumer_records.member_subscription(self.group.group_id, self.new))
        return self.new.subscribed_topic_names != self.old.subscribed_topic_names


class Epoch(NamedTuple):
    """The group's epoch, and whether all of its members are subscribed to the same topics."""

    number: int
    is_homogeneous: bool


class Target(NamedTuple):
    """The target assignment of a member, and its epoch."""

    epoch: int
    partitions: Partitions


class GroupUpdates:
    """The steps, in their order. `rebalances` counts the epochs that have begun."""

    def __init__(
        self, context: ShardContext, settings: GroupSettings, hashes: TopicHashes, timers: MemberTimers
    ) -> None:
        self._context = context
        self._settings = settings
        self._hashes = hashes
        self._timers = timers
        self.rebalances = 0

    def next_epoch(self, change: MemberChange, *, is_due: bool) -> Epoch:
        """Begins a new epoch if `is_due`, or the topics have changed."""
        group, now_ms = change.group, self._context.now_ms()
        if is_due or group.must_refresh(now_ms):
            return self._check_topics(change, is_due=is_due)
        return Epoch(group.group_epoch, group.subscriptions.is_homogeneous(len(group.members)))

    def _check_topics(self, change: MemberChange, *, is_due: bool) -> Epoch:
        group = change.group
        after = group.subscriptions.after([(change.old, change.new)])
        metadata_hash = self._hashes.group_hash(after.topics, self._context.image())
        epoch = group.group_epoch
        if is_due or metadata_hash != group.metadata_hash:
            epoch += 1
            change.out.append(consumer_records.group_epoch(group.group_id, epoch, metadata_hash))
            self.rebalances += 1
            logger.info("group %s: epoch %d", group.group_id, epoch)
        group.refreshed(self._context.now_ms() + REFRESH_INTERVAL_MS, epoch)
        if group.has_subscription_metadata_record:
            change.out.append(consumer_records.partition_metadata_tombstone(group.group_id))
        return Epoch(epoch, after.is_homogeneous(_size_after(change)))

    def waits_for_a_join(self, group: ConsumerGroup) -> bool:
        """Whether a classic member has to join so that the topics are checked and partitions are assigned.

        Heartbeats of the consumer protocol do both. A group of classic members alone that has not become a classic
        group has only joins for that. Kafka waits for the next join, which it asks no member for.
        """
        if group.classic_member_count < len(group.members):
            return False
        if group.group_epoch > group.assignment_epoch:
            return self._may_assign(group)
        now_ms = self._context.now_ms()
        if not group.must_refresh(now_ms):
            return False
        metadata_hash = self._hashes.group_hash(group.subscriptions.topics, self._context.image())
        if metadata_hash != group.metadata_hash:
            return self._may_assign(group)
        group.refreshed(now_ms + REFRESH_INTERVAL_MS, group.group_epoch)
        return False

    def assign(self, change: MemberChange, epoch: Epoch) -> Target:
        """Assigns partitions where the epoch has no assignment yet and the last one is long enough ago."""
        group, new = change.group, change.new
        if group.assignment_epoch >= epoch.number or not self._may_assign(group):
            return Target(group.assignment_epoch, group.target_of(new.member_id, new.instance_id))
        name = self._assignor(
            preferred_with_change(group.assignor_counts, change.old.server_assignor, new.server_assignor)
        )
        target = compute_target(
            group,
            new,
            epoch=epoch.number,
            assign=ASSIGNORS[name],
            is_homogeneous=epoch.is_homogeneous,
            image=self._context.image(),
            now_ms=self._context.now_ms(),
        )
        logger.info("group %s: assigned by %s in epoch %d", group.group_id, name, epoch.number)
        change.out.extend(target.records)
        return Target(epoch.number, target.of(new.member_id))

    def _may_assign(self, group: ConsumerGroup) -> bool:
        last_ms = group.assignment_timestamp_ms
        interval_ms = self._settings.assignment_interval_ms(group.group_id)
        # A last time in the future is one of a clock that was set back since.
        return not last_ms or not last_ms <= self._context.now_ms() < last_ms + interval_ms

    def _assignor(self, preferred: str | None) -> str:
        """A name that is supported: the records may have that of a plugin of Kafka."""
        if preferred is None or preferred not in ASSIGNORS:
            return self._settings.default_assignor
        return preferred

    def reconcile(
        self, change: MemberChange, target: Target, *, has_subscription_changed: bool, owned: Owned | None
    ) -> ConsumerGroupMember:
        """The member after its next step to `target`; raises ApiError(FENCED_MEMBER_EPOCH)."""
        group, member = change.group, change.new
        if not has_subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        topics = self._context.image().topics
        names = group.subscriptions.topics_of(member)
        after = Reconciliation(
            target_epoch=target.epoch,
            target=target.partitions,
            subscribed=frozenset(topics[name].topic_id for name in names if name in topics),
            has_subscription_changed=has_subscription_changed,
            is_owned=lambda topic_id, partition: group.owner(topic_id, partition) is not None,
            owned=owned,
        ).apply(member)
        if after != member:
            change.out.append(consumer_records.current_assignment(group.group_id, after))
            self._watch_revocation(group.group_id, after)
        return after

    def _watch_revocation(self, group_id: str, member: ConsumerGroupMember) -> None:
        if member.uses_classic_protocol:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._timers.rebalance(group_id, member)
        else:
            self._timers.rebalanced(group_id, member.member_id)


def _size_after(change: MemberChange) -> int:
    """How many members the group will have: a static one may take another's place."""
    group, new = change.group, change.new
    is_known = new.member_id in group.members or (
        new.instance_id is not None and new.instance_id in group.static_members
    )
    return len(group.members) + (not is_known)


# ---- the target assignment


class TargetAssignment(NamedTuple):
    """The assignments of all members, and the records of what has changed."""

    members: Mapping[str, Partitions]
    records: list[CoordinatorRecord]

    def of(self, member_id: str) -> Partitions:
        return self.members.get(member_id, NOTHING)


def compute_target(
    group: ConsumerGroup,
    updated: ConsumerGroupMember,
    *,
    epoch: int,
    assign: Assign,
    is_homogeneous: bool,
    image: MetadataImage,
    now_ms: int,
) -> TargetAssignment:
    """The assignment of `epoch`, with the member `updated` in place of what the group knows of it.

    A static member replaces its predecessor with the same instance id, with that one's assignment.
    """
    members, predecessor = _members_with(group, updated)
    before = {**group.target, updated.member_id: group.target.get(predecessor, NOTHING)}
    spec = _spec(group, members, before, is_homogeneous=is_homogeneous, image=image)
    assigned = assign(spec)
    changed = [
        consumer_records.target_assignment(group.group_id, member_id, assigned.get(member_id, NOTHING))
        for member_id in spec.members
        if group.target.get(member_id) != assigned.get(member_id, NOTHING)
    ]
    changed.append(consumer_records.target_assignment_epoch(group.group_id, epoch, now_ms))
    return TargetAssignment(assigned, changed)


def _members_with(
    group: ConsumerGroup, updated: ConsumerGroupMember
) -> tuple[dict[str, ConsumerGroupMember], str]:
    """The members after the update, in Kafka's order, and the member whose assignment `updated` continues."""
    members = {**group.members, updated.member_id: updated}
    predecessor = updated.member_id
    if updated.instance_id is not None:
        predecessor = group.static_members.get(updated.instance_id, predecessor)
    if predecessor != updated.member_id:
        members.pop(predecessor, None)
    ordered = {member_id: members[member_id] for member_id in map_order(members, string_hash)}
    return ordered, predecessor


def _spec(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerGroupMember],
    before: Mapping[str, Partitions],
    *,
    is_homogeneous: bool,
    image: MetadataImage,
) -> GroupSpec:
    @cache  # most members are subscribed to the same topics
    def existing(names: frozenset[str]) -> frozenset[Uuid]:
        return frozenset(image.topics[name].topic_id for name in names if name in image.topics)

    specs = {
        member_id: MemberSpec(
            existing(group.subscriptions.topics_of(member)),
            before.get(member_id, NOTHING),
            member.instance_id,
        )
        for member_id, member in members.items()
    }
    ids = frozenset[Uuid]().union(*{spec.topics for spec in specs.values()})
    counts = {topic_id: len(image.topics[image.topic_names[topic_id]].partitions) for topic_id in ids}
    return GroupSpec(specs, counts, is_homogeneous, group.assigned_to)
