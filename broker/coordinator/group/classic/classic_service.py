"""ClassicGroupService: passes JoinGroup, SyncGroup and so on to the shard of their group, ListGroups to all shards.

Classic members may be in a consumer group that migrates between the protocols: ClassicMembers answers them then.
Source: GroupCoordinatorService, GroupMetadataManager (classicGroupJoin, ...).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.group import Groups, GroupType
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.request import RequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import groups as keys
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.groups import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard

Deleted = DeleteGroupsResponse.DeletableGroupResult
Described = DescribeGroupsResponse.DescribedGroup
Listed = list[ListGroupsResponse.ListedGroup]

NOT_FOUND_SINCE: Final = 6
"""From this version of DescribeGroups on a missing group is an error instead of a dead group (KIP-1043)."""


class ClassicGroupService:
    """Requests about classic groups, and lists and deletions of groups of all kinds."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self._runtime = runtime
        self._config = config

    def join(self, context: RequestContext, request: JoinGroupRequest) -> Pending[JoinGroupResponse]:
        """JoinGroup; version 0's rebalance timeout has been filled in."""

        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[JoinGroupResponse]:
            return _join(shard, context, request)

        error = self._join_error(request)
        if error is not None:
            return completed(JoinGroupResponse(member_id=request.member_id, error_code=error))
        return self._runtime.write(
            request.group_id, operation, lambda error: JoinGroupResponse(error_code=error.code)
        )

    def _join_error(self, request: JoinGroupRequest) -> ErrorCode | None:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low = self._config[keys.GROUP_MIN_SESSION_TIMEOUT_MS]
        high = self._config[keys.GROUP_MAX_SESSION_TIMEOUT_MS]
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return None

    def sync(self, request: SyncGroupRequest) -> Pending[SyncGroupResponse]:
        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[SyncGroupResponse]:
            group = shard.groups.find(request.group_id)
            if group is not None and group.is_empty:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if _is_consumer_group(shard, request.group_id):
                return shard.classic_members.sync(request)
            return shard.syncing.sync(request)

        if not request.group_id:
            return completed(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._runtime.write(
            request.group_id, operation, lambda error: SyncGroupResponse(error_code=error.code)
        )

    def heartbeat(self, request: HeartbeatRequest) -> Pending[HeartbeatResponse]:
        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[HeartbeatResponse]:
            if _is_consumer_group(shard, request.group_id):
                return shard.classic_members.heartbeat(request)
            return shard.leaving.heartbeat(request)

        def failed(error: ApiError) -> HeartbeatResponse:
            # Sessions do not run while the group is loaded, so that its members need not find the coordinator again.
            is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)

        if not request.group_id:
            return completed(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._runtime.write(request.group_id, operation, failed)

    def leave(self, request: LeaveGroupRequest) -> Pending[LeaveGroupResponse]:
        """LeaveGroup, in the form of version 3."""

        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[LeaveGroupResponse]:
            if _is_consumer_group(shard, request.group_id):
                return shard.classic_members.leave(request)
            return shard.leaving.leave(request)

        def failed(error: ApiError) -> LeaveGroupResponse:
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:  # there is no such group
                return LeaveGroupResponse(members=[_unknown(member) for member in request.members])
            return LeaveGroupResponse(error_code=error.code)

        if not request.group_id:
            return completed(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._runtime.write(request.group_id, operation, failed)

    # ---- groups of all kinds

    def listed(self, request: ListGroupsRequest) -> Pending[ListGroupsResponse]:
        """ListGroups: the groups that this broker coordinates; an error where a partition is being loaded."""

        def failed(error: ApiError) -> Listed | ErrorCode:
            return [] if error.code is ErrorCode.NOT_COORDINATOR else error.code

        def listed(shard: GroupCoordinatorShard) -> Listed | ErrorCode:
            return list_groups(shard.groups, request.states_filter, request.types_filter)

        return all_of(self._runtime.read_all(listed, failed)).then(_all_listed)

    def describe(self, group_ids: Sequence[str], api_version: int) -> Pending[list[Described]]:
        """DescribeGroups: each group by itself. The id may be empty here, as in Kafka."""
        return all_of([self._describe(group_id, api_version) for group_id in group_ids])

    def _describe(self, group_id: str, api_version: int) -> Pending[Described]:
        return self._runtime.read(
            group_id,
            lambda shard: describe_group(shard.groups, group_id, api_version),
            lambda error: Described(group_id=group_id, error_code=error.code),
        )

    def delete(self, group_ids: Sequence[str]) -> Pending[list[Deleted]]:
        """DeleteGroups: each group by itself, once. The id may be empty here, as in Kafka."""
        return all_of([self._delete(group_id) for group_id in dict.fromkeys(group_ids)])

    def _delete(self, group_id: str) -> Pending[Deleted]:
        return self._runtime.write(
            group_id,
            lambda shard: shard.delete_group(group_id),
            lambda error: Deleted(group_id=group_id, error_code=error.code),
        )


def _join(
    shard: GroupCoordinatorShard, context: RequestContext, request: JoinGroupRequest
) -> CoordinatorResult[JoinGroupResponse]:
    """A group with members keeps its protocol; an empty one becomes a classic group, except a share group."""
    group = shard.groups.find(request.group_id)
    if group is None or group.type is GroupType.CLASSIC:
        return shard.joining.join(context, request)
    if group.type is GroupType.CONSUMER and not group.is_empty:
        return shard.classic_members.join(context, request)
    if group.type is GroupType.SHARE or not group.is_empty:
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return CoordinatorResult(JoinGroupResponse(error_code=code))
    return shard.joining.join(context, request)


def _is_consumer_group(shard: GroupCoordinatorShard, group_id: str) -> bool:
    group = shard.groups.find(group_id)
    return group is not None and group.type is GroupType.CONSUMER


def _unknown(member: LeaveGroupRequest.MemberIdentity) -> LeaveGroupResponse.MemberResponse:
    return LeaveGroupResponse.MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


def _all_listed(parts: Sequence[Listed | ErrorCode]) -> ListGroupsResponse:
    failed = next((part for part in parts if isinstance(part, ErrorCode)), None)
    if failed is not None:
        return ListGroupsResponse(error_code=failed)
    return ListGroupsResponse(
        groups=[group for part in parts if not isinstance(part, ErrorCode) for group in part]
    )


def list_groups(groups: Groups, states: Sequence[str], types: Sequence[str]) -> Listed:
    """The groups of one shard in any of `states` and of any of `types`, in any case; none stands for all."""
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
    """One group as in DescribeGroups of a version; groups of other kinds have an API of their own."""
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
