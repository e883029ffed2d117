"""Leaving: LeaveGroup and Heartbeat.

Source: GroupMetadataManager (classicGroupLeaveToClassicGroup, classicGroupHeartbeatToClassicGroup).
"""

from __future__ import annotations

import logging

from barnabas.broker.coordinator.group.classic.classic_group import NO_MEMBER_ID, ClassicGroup
from barnabas.broker.coordinator.group.classic.rebalancing import NOTHING, Rebalancing
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)

logger = logging.getLogger("barnabas.groups")

HeartbeatResult = CoordinatorResult[HeartbeatResponse]
LeaveResult = CoordinatorResult[LeaveGroupResponse]


class Leaving:
    """LeaveGroup and Heartbeat, for all classic groups of a shard."""

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        """Extends a member's session. Raises ApiError; REBALANCE_IN_PROGRESS is not raised but returned."""
        group = self._rebalancing.get(request.group_id)
        if group.state is State.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group.check_member(request.member_id, request.group_instance_id, "heartbeat")
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        # A member sends heartbeats from its JoinGroup response on, before it has an assignment.
        self._rebalancing.extend_session(group, group.members[request.member_id])
        rebalances = group.state is State.PREPARING_REBALANCE
        code = ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE
        return CoordinatorResult(HeartbeatResponse(error_code=code))

    def leave(self, request: LeaveGroupRequest) -> LeaveResult:
        """Removes the members that a LeaveGroup of version 3 or above names, each by itself. Raises ApiError."""
        group = self._rebalancing.get(request.group_id)
        if group.state is State.DEAD:
            return CoordinatorResult(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        responses = [self._leave_one(group, member) for member in request.members]
        left = [response.member_id for response in responses if response.error_code == ErrorCode.NONE]
        result = NOTHING
        if left:
            reason = f"explicit LeaveGroup of members {left}"
            if group.state in {State.STABLE, State.COMPLETING_REBALANCE}:
                result = self._rebalancing.prepare_or_complete_join(group, reason)
            elif group.state is State.PREPARING_REBALANCE:
                result = self._rebalancing.maybe_complete_join(group)
        return CoordinatorResult(
            LeaveGroupResponse(members=responses),
            result.records,
            on_committed=result.on_committed,
            replays=result.replays,
        )

    def _leave_one(
        self, group: ClassicGroup, member: LeaveGroupRequest.MemberIdentity
    ) -> LeaveGroupResponse.MemberResponse:
        response = LeaveGroupResponse.MemberResponse(
            member_id=member.member_id, group_instance_id=member.group_instance_id
        )
        try:
            self._remove(group, member)
        except ApiError as error:
            response.error_code = error.code
        return response

    def _remove(self, group: ClassicGroup, member: LeaveGroupRequest.MemberIdentity) -> None:
        member_id = member.member_id
        if member_id == NO_MEMBER_ID:  # an administrator removes a static member by its instance
            member_id = group.static_members.get(member.group_instance_id or "", NO_MEMBER_ID)
            if member.group_instance_id is None or member_id == NO_MEMBER_ID:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        elif member_id in group.pending_join:
            group.remove(member_id)
        else:
            group.check_member(member_id, member.group_instance_id, "leave-group")
        self._rebalancing.sessions.end(group.group_id, member_id)
        logger.info(
            "Group %s: member %s has left; client reason: %s.",
            group.group_id,
            member_id,
            member.reason if member.reason is not None else "not provided",
        )
        if member_id in group.members:
            self._rebalancing.dismiss(group, group.members[member_id])
