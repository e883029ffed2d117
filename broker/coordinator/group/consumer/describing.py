"""ConsumerGroupDescribe: a group as it stands. Source: ConsumerGroup.asDescribedGroup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.broker.coordinator.group.consumer.assignors.preference import preferred
from barnabas.broker.coordinator.group.consumer.group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.member import NOTHING, ConsumerGroupMember, Partitions
from barnabas.broker.metadata.image import MetadataImage
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse as Response
from barnabas.protocol.wire import Uuid

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""Which protocol a member speaks (member_type)."""


def describe_group(
    group: ConsumerGroup, default_assignor: str, image: MetadataImage
) -> Response.DescribedGroup:
    """The group with its members, what they own and what they are to own; topics that are gone are left out."""
    return Response.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred(group.assignor_counts) or default_assignor,
        members=[
            _member(member, group.target.get(member_id, NOTHING), image)
            for member_id, member in group.members.items()
        ],
    )


def _member(member: ConsumerGroupMember, target: Partitions, image: MetadataImage) -> Response.Member:
    owned: dict[Uuid, list[int]] = {}
    for epochs_of in (member.assigned, member.pending_revocation):
        for topic_id, epochs in epochs_of.items():
            owned.setdefault(topic_id, []).extend(epochs)
    return Response.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(owned.items(), image),
        target_assignment=_assignment(target.items(), image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(topics: Iterable[tuple[Uuid, Iterable[int]]], image: MetadataImage) -> Response.Assignment:
    return Response.Assignment(
        topic_partitions=[
            Response.TopicPartitions(
                topic_id=topic_id, topic_name=image.topic_names[topic_id], partitions=sorted(partitions)
            )
            for topic_id, partitions in topics
            if topic_id in image.topic_names
        ]
    )
