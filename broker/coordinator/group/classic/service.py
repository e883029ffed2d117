"""ClassicGroupService: JoinGroup and its kin, brought to the shard of their group; ListGroups to all of them.

A classic member may be in a consumer group that is on its way from one protocol to the other: what it asks then is for
ConsumerGroups to answer. Source: GroupCoordinatorService, GroupMetadataManager (classicGroupJoin, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.coordinator.group.group import GroupType
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.pending import Pending, all_of
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

R = TypeVar("R")
Deleted = DeleteGroupsResponse.DeletableGroupResult
Described = DescribeGroupsResponse.DescribedGroup
Listed = list[ListGroupsResponse.ListedGroup]


class ClassicGroupService:
    """What handlers ask about classic groups, and about groups of all kinds: lists and deletions."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self._runtime = runtime
        self._config = config

    def join(self, context: RequestContext, request: JoinGroupRequest) -> Pending[JoinGroupResponse]:
        """JoinGroup; version 0's rebalance timeout has been filled in."""

        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[JoinGroupResponse]:
            return _join(shard, context, request)

        refused = self._refuse_join(request)
        if refused is not None:
            return _done(JoinGroupResponse(member_id=request.member_id, error_code=refused))
        return self._runtime.write(
            request.group_id, operation, lambda error: JoinGroupResponse(error_code=error.code)
        )

    def _refuse_join(self, request: JoinGroupRequest) -> ErrorCode | None:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low = self._config[keys.GROUP_MIN_SESSION_TIMEOUT_MS]
        high = self._config[keys.GROUP_MAX_SESSION_TIMEOUT_MS]
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return None

    def sync(self, context: RequestContext, request: SyncGroupRequest) -> Pending[SyncGroupResponse]:
        """SyncGroup."""

        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[SyncGroupResponse]:
            group = shard.groups.find(request.group_id)
            if group is not None and group.is_empty:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if _is_consumer_group(shard, request.group_id):
                return shard.consumers.classic_sync(context, request)
            return shard.classic.sync(request)

        if not request.group_id:
            return _done(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._runtime.write(
            request.group_id, operation, lambda error: SyncGroupResponse(error_code=error.code)
        )

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Pending[HeartbeatResponse]:
        """Heartbeat."""

        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[HeartbeatResponse]:
            if _is_consumer_group(shard, request.group_id):
                return shard.consumers.classic_heartbeat(context, request)
            return shard.classic.heartbeat(request)

        def failed(error: ApiError) -> HeartbeatResponse:
            # While the group is loaded its sessions do not run; so there is no need to alarm its members.
            is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)

        if not request.group_id:
            return _done(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._runtime.write(request.group_id, operation, failed)

    def leave(self, context: RequestContext, request: LeaveGroupRequest) -> Pending[LeaveGroupResponse]:
        """LeaveGroup, in the form of version 3."""

        def operation(shard: GroupCoordinatorShard) -> CoordinatorResult[LeaveGroupResponse]:
            if _is_consumer_group(shard, request.group_id):
                return shard.consumers.classic_leave(context, request)
            return shard.classic.leave(request)

        def failed(error: ApiError) -> LeaveGroupResponse:
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:  # there is no such group
                return LeaveGroupResponse(members=[_unknown(member) for member in request.members])
            return LeaveGroupResponse(error_code=error.code)

        if not request.group_id:
            return _done(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._runtime.write(request.group_id, operation, failed)

    # ---- groups of all kinds

    def listed(self, request: ListGroupsRequest) -> Pending[ListGroupsResponse]:
        """ListGroups: all that this broker coordinates; an error where a part of them is being loaded."""

        def failed(error: ApiError) -> Listed | ErrorCode:
            return [] if error.code is ErrorCode.NOT_COORDINATOR else error.code

        def listed(shard: GroupCoordinatorShard) -> Listed | ErrorCode:
            return shard.classic.listed(request)

        return all_of(self._runtime.read_all(listed, failed)).then(_all_listed)

    def describe(self, group_ids: Sequence[str], api_version: int) -> Pending[list[Described]]:
        """DescribeGroups: each group by itself. The id may be empty here, as in Kafka."""
        return all_of([self._describe(group_id, api_version) for group_id in group_ids])

    def _describe(self, group_id: str, api_version: int) -> Pending[Described]:
        return self._runtime.read(
            group_id,
            lambda shard: shard.classic.describe(group_id, api_version),
            lambda error: Described(group_id=group_id, error_code=error.code),
        )

    def delete(self, group_ids: Sequence[str]) -> Pending[list[Deleted]]:
        """DeleteGroups: each group by itself, once. The id may be empty here, as in Kafka."""
        return all_of([self._delete(group_id) for group_id in dict.fromkeys(group_ids)])

    def _delete(self, group_id: str) -> Pending[Deleted]:
        return self._runtime.write(
            group_id,
            lambda shard: shard.classic.delete(group_id),
            lambda error: Deleted(group_id=group_id, error_code=error.code),
        )


def _join(
    shard: GroupCoordinatorShard, context: RequestContext, request: JoinGroupRequest
) -> CoordinatorResult[JoinGroupResponse]:
    """A group with members goes on in its own protocol; an empty one becomes a classic group (but a share group)."""
    group = shard.groups.find(request.group_id)
    if group is None or group.type is GroupType.CLASSIC:
        return shard.classic.join(context, request)
    if group.type is GroupType.CONSUMER and not group.is_empty:
        return shard.consumers.classic_join(context, request)
    if group.type is GroupType.SHARE or not group.is_empty:
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return CoordinatorResult(JoinGroupResponse(error_code=code))
    return shard.classic.join(context, request)


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


def _done(response: R) -> Pending[R]:
    pending: Pending[R] = Pending()
    pending.complete(response)
    return pending
