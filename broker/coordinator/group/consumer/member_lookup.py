"""Finds the member of a request: a known one, a new one, or a static one that replaces its predecessor.

Source: GroupMetadataManager (getOrMaybeSubscribe...ConsumerGroupMember, throwIf...).
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.group.consumer import consumer_records
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import STATIC_LEAVE_EPOCH, ConsumerGroupMember
from barnabas.broker.coordinator.group.consumer.reconciliation import Owned
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from uuid import UUID

logger = logging.getLogger("barnabas.groups")


def new_member_id(new_uuid: Callable[[], UUID]) -> str:
    """An id in the form of Kafka's Uuid, without a leading dash, which command lines take for an option."""
    while True:
        text = urlsafe_b64encode(new_uuid().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def find_group(groups: Groups, group_id: str) -> ConsumerGroup:
    """Raises ApiError(GROUP_ID_NOT_FOUND)."""
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return group


def check_size(group: ConsumerGroup, member_id: str, limit: int) -> None:
    """Raises ApiError(GROUP_MAX_SIZE_REACHED) where a new member joins a group that has `limit` members."""
    if len(group.members) >= limit and member_id not in group.members:
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {limit} members, as many as it may.")


def dynamic_member(group: ConsumerGroup, member_id: str, *, may_join: bool) -> ConsumerGroupMember:
    """The member, or a new one. Raises ApiError(UNKNOWN_MEMBER_ID)."""
    known = group.members.get(member_id)
    if known is None and may_join:
        logger.info("group %s: member %s joins", group.group_id, member_id)
        return ConsumerGroupMember(member_id)
    return known or group.member(member_id)


def static_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    out: list[CoordinatorRecord],
    *,
    may_join: bool,
    is_classic: bool,
) -> ConsumerGroupMember:
    """The member with this instance id; a joining member replaces it, with records in `out`.

    Raises ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID where another member has the instance id by now,
    UNRELEASED_INSTANCE_ID where the member that has it has not left.
    """
    known = group.static_member(instance_id)
    if not may_join:
        known = known_instance(known, instance_id)
        check_not_fenced(known, member_id, instance_id)
        return known
    if known is None:
        logger.info("group %s: member %s of instance %s joins", group.group_id, member_id, instance_id)
        return dynamic_member(group, member_id, may_join=True)
    has_left = known.member_epoch == STATIC_LEAVE_EPOCH
    if not has_left and not is_classic and not known.uses_classic_protocol:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by a member. That is {known.member_id}.",
        )
    logger.info(
        "group %s: member %s of instance %s is replaced by %s",
        *(group.group_id, known.member_id, instance_id, member_id),
    )
    return _replaced(group, known, member_id, out)


def _replaced(
    group: ConsumerGroup, old: ConsumerGroupMember, member_id: str, out: list[CoordinatorRecord]
) -> ConsumerGroupMember:
    new = old._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    out += consumer_records.member_tombstones(group.group_id, old.member_id)
    out.append(consumer_records.member_subscription(group.group_id, new))
    out.append(consumer_records.target_assignment(group.group_id, member_id, group.target_of(old.member_id)))
    out.append(consumer_records.current_assignment(group.group_id, new))
    return new


def known_instance(member: ConsumerGroupMember | None, instance_id: str) -> ConsumerGroupMember:
    """Raises ApiError(UNKNOWN_MEMBER_ID)."""
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member


def check_not_fenced(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    """Raises ApiError(FENCED_INSTANCE_ID)."""
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )


def check_epoch(member: ConsumerGroupMember, epoch: int, owned: Owned | None) -> None:
    """Raises ApiError(FENCED_MEMBER_EPOCH) for an epoch that the member cannot be in.

    The previous epoch is valid where the member owns only assigned partitions: it missed a response.
    """
    if epoch in {0, member.member_epoch}:
        return
    if epoch == member.previous_member_epoch and epoch < member.member_epoch and _owns_only(owned, member):
        return
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.member_epoch else 'smaller'} member epoch "
        f"({epoch}) than the one known by the group coordinator ({member.member_epoch}). The member must abandon all "
        "its partitions and rejoin.",
    )


def _owns_only(owned: Owned | None, member: ConsumerGroupMember) -> bool:
    if owned is None:
        return False
    assigned = member.assigned
    return all(
        topic_id in assigned and partitions <= assigned[topic_id].keys()
        for topic_id, partitions in owned.items()
    )
