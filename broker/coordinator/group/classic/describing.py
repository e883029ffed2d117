"""What ListGroups and DescribeGroups say. Source: GroupMetadataManager (listGroups, describeGroups)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from barnabas.broker.coordinator.group.classic.group import ClassicGroup
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.groups import Groups
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import DescribeGroupsResponse, ListGroupsResponse

NOT_FOUND_SINCE: Final = 6
"""From this version of DescribeGroups on a group that is not there is an error, and not one that is dead (KIP-1043)."""

Described = DescribeGroupsResponse.DescribedGroup


def list_groups(
    groups: Groups, states: Sequence[str], types: Sequence[str]
) -> list[ListGroupsResponse.ListedGroup]:
    """The groups of one shard in any of `states` and of any of `types`, whatever their case; none named: all."""
    wanted_states = {state.lower().strip() for state in states}
    wanted_types = {name.lower() for name in types}
    return [
        ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type.value,
        )
        for group in groups
        if _is_wanted(group.state_name, wanted_states) and _is_wanted(group.type.value, wanted_types)
    ]


def _is_wanted(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in wanted


def describe_group(groups: Groups, group_id: str, api_version: int) -> Described:
    """One group, as DescribeGroups of a version puts it; groups of other kinds have an API of their own."""
    group = groups.find(group_id)
    if not isinstance(group, ClassicGroup):
        return _not_found(group_id, group is not None, api_version)
    shown = group.protocol_name if group.state is State.STABLE else None
    return Described(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=shown or "",
        members=[member.describe(shown) for member in group],
    )


def _not_found(group_id: str, is_another_kind: bool, api_version: int) -> Described:
    if api_version < NOT_FOUND_SINCE:
        return Described(group_id=group_id, group_state=State.DEAD.value)
    why = "is not a classic group" if is_another_kind else "not found"
    return Described(
        group_id=group_id,
        group_state=State.DEAD.value,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {why}.",
    )
