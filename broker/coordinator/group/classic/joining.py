"""Joining: JoinGroup. Source: GroupMetadataManager (classicGroupJoinToClassicGroup and what it calls)."""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.coordinator.group.classic.classic_group import NO_MEMBER_ID, ClassicGroup
from barnabas.broker.coordinator.group.classic.classic_member import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    ClassicGroupMember,
    SupportedProtocols,
)
from barnabas.broker.coordinator.group.classic.group_record import empty_group_record, group_record
from barnabas.broker.coordinator.group.classic.rebalancing import NOTHING, Rebalancing, Result
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.group import Group, Groups
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext
from barnabas.broker.waiting.host_lookup import java_address
from barnabas.config.catalogue import groups as keys
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse

logger = logging.getLogger("barnabas.groups")

KNOWN_MEMBER_ID_SINCE: Final = 4
"""From this version of JoinGroup on a member first gets its id, and then joins with it (KIP-394)."""

SKIP_ASSIGNMENT_SINCE: Final = 9
"""From this version of JoinGroup on a returning static leader may skip the assignment (KIP-814)."""

JoinResult = CoordinatorResult[JoinGroupResponse]


def client_host_of(host: str) -> str:
    """An address as Java formats an InetAddress without a name: "/127.0.0.1", "/0:0:0:0:0:0:0:1"."""
    return f"/{java_address(host)}"


def protocols_of(request: JoinGroupRequest) -> SupportedProtocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def reason_of(request: JoinGroupRequest) -> str:
    """The client's reason to join (KIP-800)."""
    return request.reason or "not provided"


class _Join:
    """One JoinGroup, with its sender and its pending response."""

    def __init__(self, context: RequestContext, request: JoinGroupRequest) -> None:
        self.context = context
        self.request = request
        self.protocols = protocols_of(request)
        self.waiting: Pending[JoinGroupResponse] = Pending()

    def reject(self, code: ErrorCode, member_id: str) -> Result:
        self.waiting.complete(JoinGroupResponse(member_id=member_id, error_code=code, protocol_name=None))
        return NOTHING

    def new_member_id(self, context: ShardContext) -> str:
        prefix = self.context.client_id or ""
        if self.request.group_instance_id is not None:
            prefix = self.request.group_instance_id
        return f"{prefix}-{context.new_uuid()}"


class Joining:
    """JoinGroup, for all classic groups of a shard."""

    def __init__(self, context: ShardContext, groups: Groups, rebalancing: Rebalancing) -> None:
        self._context = context
        self._groups = groups
        self._rebalancing = rebalancing

    def join(self, context: RequestContext, request: JoinGroupRequest) -> JoinResult:
        """Adds a member to a classic group, to a new one, or to an empty one of another kind."""
        join = _Join(context, request)
        is_unknown = request.member_id == NO_MEMBER_ID
        before = self._groups.find(request.group_id)
        group = before if isinstance(before, ClassicGroup) else None
        if group is None and not is_unknown:
            join.reject(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return CoordinatorResult(join.waiting)
        if group is None:
            return self._join_new_group(join, before)
        result = self._join_group(join, group)
        return CoordinatorResult(
            join.waiting, result.records, on_committed=result.on_committed, replays=result.replays
        )

    def _join_new_group(self, join: _Join, before: Group | None) -> JoinResult:
        """Writes a record of the new group at once, in place of `before`, an empty group of another kind (or None)."""
        records: list[CoordinatorRecord] = []
        group_id = join.request.group_id
        if before is not None:
            logger.info("Group %s: the empty %s group becomes a classic one.", group_id, before.type.value)
            records += before.tombstones()
            self._groups.remove(group_id)
        group = self._groups.get_or_make(group_id)
        assert isinstance(group, ClassicGroup)
        result = self._join_group(join, group)
        assert result is NOTHING, "a new group waits for more members first"

        def committed(error: ApiError | None) -> None:
            if error is not None and self._groups.find(group_id) is group:
                self._undo_new_group(group, before, error.code)

        records.append(empty_group_record(group))
        return CoordinatorResult(join.waiting, records, on_committed=committed, replays=False)

    def _undo_new_group(self, group: ClassicGroup, before: Group | None, code: ErrorCode) -> None:
        """Undoes the creation of a group whose record could not be written: pending JoinGroups fail."""
        self._groups.remove(group.group_id)
        if before is not None:
            self._groups.put(before)
        group.fail_waiting(code)

    def _join_group(self, join: _Join, group: ClassicGroup) -> Result:
        member_id = join.request.member_id
        if not self._accepts(group, member_id):
            group.remove(member_id)
            return join.reject(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
        if group.state is State.DEAD:
            return join.reject(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        if not group.supports(join.request.protocol_type, [name for name, _ in join.protocols]):
            return join.reject(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id == NO_MEMBER_ID:
            return self._join_new_member(join, group)
        if member_id in group.pending_join:
            return self._join_pending_member(join, group)
        return self._join_known_member(join, group)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether there is room (group.max.size).

        While members join, those that have joined count: where the limit was lowered, the last to join are rejected.
        """
        member = group.members.get(member_id)
        limit = self._context.config[keys.GROUP_MAX_SIZE]
        if group.state is State.PREPARING_REBALANCE:
            return (
                member is not None and member.awaiting_join is not None
            ) or group.awaiting_join_count < limit
        if group.state in {State.COMPLETING_REBALANCE, State.STABLE}:
            return member is not None or len(group.members) < limit
        return True

    # ---- new members

    def _join_new_member(self, join: _Join, group: ClassicGroup) -> Result:
        member_id = join.new_member_id(self._context)
        instance_id = join.request.group_instance_id
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is not None:
                return self._replace_static_member(join, group, old_id, member_id)
            return self._add(join, group, member_id)
        if join.context.api_version < KNOWN_MEMBER_ID_SINCE:
            return self._add(join, group, member_id)
        logger.info(
            "Group %s (%s): a new member gets the id %s.",
            group.group_id,
            group.state,
            member_id,
        )
        group.pending_join.add(member_id)
        self._rebalancing.sessions.extend(group.group_id, member_id, join.request.session_timeout_ms)
        return join.reject(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _join_pending_member(self, join: _Join, group: ClassicGroup) -> Result:
        if join.request.group_instance_id is not None:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "A pending member id does not belong to an instance."
            )
        return self._add(join, group, join.request.member_id)

    def _add(self, join: _Join, group: ClassicGroup, member_id: str) -> Result:
        request = join.request
        member = ClassicGroupMember(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=join.context.client_id or "",
            client_host=client_host_of(join.context.connection.client_host),
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            supported_protocols=join.protocols,
            is_new=True,
        )
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.new_member_added = True
        group.add(member, join.waiting)
        # Its client may have timed out and joined under another id; it sends no heartbeats that would tell.
        self._rebalancing.sessions.extend(group.group_id, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalancing.prepare_or_complete_join(
            group,
            f"member {member_id} with group.instance.id {request.group_instance_id} joins; "
            f"client reason: {reason_of(request)}",
        )

    # ---- members that are known

    def _join_known_member(self, join: _Join, group: ClassicGroup) -> Result:
        member_id = join.request.member_id
        try:
            group.check_member(member_id, join.request.group_instance_id, "join-group")
        except ApiError as error:
            return join.reject(error.code, member_id)
        member = group.members[member_id]
        if not self._needs_rebalance(join, group, member):
            join.waiting.complete(group.joined_response(member_id))  # it missed the response
            return NOTHING
        self._update(join, group, member)
        reason = f"member {member_id} joins again; client reason: {reason_of(join.request)}"
        return self._rebalancing.prepare_or_complete_join(group, reason)

    @staticmethod
    def _needs_rebalance(join: _Join, group: ClassicGroup, member: ClassicGroupMember) -> bool:
        """Whether the group has to rebalance for a member that joins again."""
        if group.state is State.PREPARING_REBALANCE or member.supported_protocols != join.protocols:
            return True
        # A leader joins again after changes that its metadata does not show, such as new partitions.
        return group.state is State.STABLE and group.is_leader(member.member_id)

    @staticmethod
    def _update(join: _Join, group: ClassicGroup, member: ClassicGroupMember) -> None:
        request = join.request
        group.update(
            member, join.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, join.waiting
        )

    # ---- static members that are back

    def _replace_static_member(self, join: _Join, group: ClassicGroup, old_id: str, new_id: str) -> Result:
        """A static member without its id was restarted: it takes its old place, if it can.

        | group               | what happens                                                                    |
        | ------------------- | ------------------------------------------------------------------------------ |
        | Stable              | nothing, if the protocol stays the same: a record with the new id; or rebalance |
        | CompletingRebalance | rebalance: the leader may be assigning to the old id                            |
        | PreparingRebalance  | the member has joined                                                           |
        """
        request = join.request
        assert request.group_instance_id is not None
        logger.info(
            "Group %s (%s): static member %s returns as %s, in place of %s.",
            group.group_id,
            group.state,
            request.group_instance_id,
            new_id,
            old_id,
        )
        leader_before = group.leader_id
        member = group.replace_static_member(request.group_instance_id, old_id, new_id)
        self._rebalancing.extend_session(group, member)
        before = member.supported_protocols, member.rebalance_timeout_ms, member.session_timeout_ms
        self._update(join, group, member)
        reason = f"static member {request.group_instance_id} is back; client reason: {reason_of(request)}"
        if group.state is State.COMPLETING_REBALANCE:
            return self._rebalancing.prepare(group, reason)
        if group.state is not State.STABLE:
            return self._rebalancing.maybe_complete_join(group)
        if group.select_protocol() != group.protocol_name:
            return self._rebalancing.prepare_or_complete_join(group, f"{reason}; it changes the protocol")

        def committed(error: ApiError | None) -> None:
            if error is None:
                self._answer_replaced(join, group, member, leader_before)
            else:
                self._undo_replacement(join, group, member, old_id, before)

        assignments = {each.member_id: each.assignment for each in group}
        return CoordinatorResult(
            None, [group_record(group, assignments)], on_committed=committed, replays=False
        )

    @staticmethod
    def _answer_replaced(
        join: _Join, group: ClassicGroup, member: ClassicGroupMember, leader_before: str | None
    ) -> None:
        if group.state is not State.STABLE:
            return  # a rebalance has begun meanwhile, which sends the response
        new_id = member.member_id
        leads = group.is_leader(new_id)
        if join.context.api_version >= SKIP_ASSIGNMENT_SINCE:
            group.complete_join(member, group.joined_response(new_id, skip_assignment=leads))
            return
        # As the leader it would assign partitions again; so the response names the leader before.
        response = group.joined_response(new_id)
        response.leader = leader_before or NO_MEMBER_ID
        response.members = []
        group.complete_join(member, response)

    def _undo_replacement(
        self,
        join: _Join,
        group: ClassicGroup,
        member: ClassicGroupMember,
        old_id: str,
        before: tuple[SupportedProtocols, int, int],
    ) -> None:
        """Undoes the replacement, whose record could not be written."""
        instance_id = join.request.group_instance_id
        assert instance_id is not None
        if group.members.get(member.member_id) is not member:
            return
        group.update(member, *before, None)
        old = group.replace_static_member(instance_id, member.member_id, old_id)
        self._rebalancing.extend_session(group, old)
