"""The record of a classic group, GroupMetadata (key type 2), encoded and decoded.

Source: GroupCoordinatorRecordHelpers (newGroupMetadataRecord...), GroupMetadataManager.replay(GroupMetadataKey, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.group.classic.classic_member import EMPTY_ASSIGNMENT, ClassicGroupMember
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.protocol.messages.group_state import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup

VALUE_VERSION: Final = 3
"""The version that Kafka has written since 2.3; no release writes version 4 yet."""

_NO_TIMESTAMP: Final = -1


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The record of a group with `assignments` by member id (missing ones are empty)."""
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignments.get(member.member_id, EMPTY_ASSIGNMENT),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=_timestamp(group),
        members=members,
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def empty_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """The record of a new group without members."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_timestamp(group),
        members=[],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def _timestamp(group: ClassicGroup) -> int:
    return _NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms


def state_timestamp_of(value: GroupMetadataValue) -> int | None:
    """When the group entered its state (ms); None in records of versions 0 and 1."""
    return None if value.current_state_timestamp == _NO_TIMESTAMP else value.current_state_timestamp


def members_of(value: GroupMetadataValue) -> list[ClassicGroupMember]:
    """The members of a record, each with the chosen protocol alone."""
    return [
        ClassicGroupMember(
            member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=(
                member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
            ),
            session_timeout_ms=member.session_timeout,
            protocol_type=value.protocol_type,
            supported_protocols=((value.protocol or "", member.subscription),),
            assignment=member.assignment,
        )
        for member in value.members
    ]
