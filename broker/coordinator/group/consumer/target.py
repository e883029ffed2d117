"""What a group's members are to own: the target assignment, and the records of what differs from the last one.

Source: org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from barnabas.broker.coordinator.group.consumer import consumer_records
from barnabas.broker.coordinator.group.consumer.assignors.spec import Assign, GroupSpec, MemberSpec
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    NOTHING,
    ConsumerGroupMember,
    Partitions,
)
from barnabas.broker.coordinator.java_order import map_order, string_hash
from barnabas.broker.coordinator.record import CoordinatorRecord
from barnabas.broker.metadata.image import MetadataImage
from barnabas.protocol.wire import Uuid


class TargetAssignment(NamedTuple):
    """What everybody is assigned, and what has to be written of it."""

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

    A static member takes the place of its predecessor with the same instance id, and what that was assigned.
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
    """The members as they will be, in Kafka's order, and whose assignment `updated` goes on from."""
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
