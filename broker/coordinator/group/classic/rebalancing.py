"""Rebalancing: the steps of a classic group from one generation to the next, and its timeouts.

    prepare: members have to join again; pending SyncGroups fail with REBALANCE_IN_PROGRESS
       │  all have joined, or the timeout expires: members that have not joined are removed (static ones stay)
    complete_join: the next generation; completes the JoinGroup of each member, the leader's with all members
       │  the leader's SyncGroup brings the assignment (syncing.py)
    stable

The first members of an empty group wait for others: group.initial.rebalance.delay.ms, and again as long as further ones
come, up to the rebalance timeout.

Source: GroupMetadataManager (prepareRebalance, completeClassicGroupJoin, tryCompleteInitialRebalanceElseSchedule,
expireClassicGroupMemberHeartbeat, expirePendingSync).
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.coordinator.group.classic.classic_group import NO_MEMBER_ID, ClassicGroup
from barnabas.broker.coordinator.group.classic.classic_member import (
    EMPTY_ASSIGNMENT,
    ClassicGroupMember,
    Sessions,
)
from barnabas.broker.coordinator.group.classic.group_record import group_record
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.shard import (
    CoordinatorResult,
    ShardContext,
    TimedOperation,
)
from barnabas.config.catalogue import groups as keys
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

logger = logging.getLogger("barnabas.groups")

Result = CoordinatorResult[None]
"""The result of a step beside its changes to the group: perhaps a record."""

NOTHING: Final[Result] = CoordinatorResult(None)


class Rebalancing:
    """The steps of a rebalance, for all classic groups of a shard."""

    def __init__(self, context: ShardContext, groups: Groups) -> None:
        self._context = context
        self._groups = groups
        self.sessions = Sessions(context.timer, self._expire_session)

    # ---- beginning

    def prepare_or_complete_join(self, group: ClassicGroup, reason: str) -> Result:
        """Begins a rebalance after a change of members, or continues the one that runs."""
        if group.can_rebalance():
            return self.prepare(group, reason)
        return self.maybe_complete_join(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Result:
        """Begins a rebalance; pending SyncGroups fail with REBALANCE_IN_PROGRESS."""
        if group.state is State.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.cancel_sync(group)
        is_initial = group.state is State.EMPTY
        group.transition_to(State.PREPARING_REBALANCE)
        logger.info(
            "Group %s: preparing a rebalance of generation %d: %s.",
            group.group_id,
            group.generation_id,
            reason,
        )
        if is_initial:
            delay_ms = self._context.config[keys.GROUP_INITIAL_REBALANCE_DELAY_MS]
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms() - delay_ms, 0))
            return NOTHING
        if group.has_all_members_joined():
            return self.complete_join(group)
        self._schedule_completion(group)
        return NOTHING

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        group_id = group.group_id
        self._schedule_join(
            group, delay_ms, lambda: self._end_initial_delay(group_id, delay_ms, remaining_ms)
        )

    def _end_initial_delay(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result:
        group = self._find_joining(group_id)
        if group is None:
            return NOTHING
        if not (group.new_member_added and remaining_ms):
            return self.complete_join(group)
        group.new_member_added = False
        next_ms = min(self._context.config[keys.GROUP_INITIAL_REBALANCE_DELAY_MS], remaining_ms)
        self._wait_for_more(group, next_ms, max(remaining_ms - delay_ms, 0))
        return NOTHING

    # ---- the next generation

    def maybe_complete_join(self, group: ClassicGroup) -> Result:
        """Completes the joining if all members have joined; the initial rebalance ends by its timeout alone."""
        is_initial = group.previous_state is State.EMPTY
        if group.state is not State.PREPARING_REBALANCE or is_initial or not group.has_all_members_joined():
            return NOTHING
        return self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> Result:
        """Begins the next generation with the members that have joined and the static ones."""
        self._context.timer.cancel(("classic-join", group.group_id))
        self._remove_missing_members(group)
        if group.state is State.DEAD:
            return NOTHING
        if not group.elect_joined_leader() and group.members:
            # Only static members are left and none has joined: their sessions show which of them are alive.
            logger.error("Group %s: no member has joined again; it keeps waiting.", group.group_id)
            self._schedule_completion(group)
            return NOTHING
        group.init_next_generation()
        if group.state is State.EMPTY:
            return self._empty_group_result(group)
        self._announce_generation(group)
        return NOTHING

    def _remove_missing_members(self, group: ClassicGroup) -> None:
        failed = [m.member_id for m in group if m.awaiting_join is None and not m.is_static]
        for member_id in failed:
            group.remove(member_id)
            self.sessions.end(group.group_id, member_id)
        if failed:
            logger.info("Group %s: removed members that have not joined: %s.", group.group_id, failed)

    def _empty_group_result(self, group: ClassicGroup) -> Result:
        logger.info("Group %s: generation %d is empty.", group.group_id, group.generation_id)

        def committed(error: ApiError | None) -> None:
            if error is not None:
                # After a crash the generation before it would be current; the sessions of its members expire then.
                logger.warning(
                    "Group %s: its record without members could not be written: %s", group.group_id, error
                )

        return CoordinatorResult(None, [group_record(group, {})], on_committed=committed, replays=False)

    def _announce_generation(self, group: ClassicGroup) -> None:
        logger.info(
            "Group %s: generation %d has %d members.", group.group_id, group.generation_id, len(group.members)
        )
        for member in group:
            group.complete_join(member, group.joined_response(member.member_id))
            self.extend_session(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        group_id, generation_id = group.group_id, group.generation_id
        self._context.timer.schedule(
            ("classic-sync", group_id),
            max(group.rebalance_timeout_ms(), 0),
            lambda: self._expire_sync(group_id, generation_id),
            retry=False,
        )

    # ---- assignments

    def reset_assignments(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Clears all assignments; pending SyncGroups fail with `error`."""
        for member in group:
            member.assign(EMPTY_ASSIGNMENT)
        self.propagate_assignments(group, error)

    def propagate_assignments(self, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
        """Completes all pending SyncGroups."""
        fine = error is ErrorCode.NONE
        for member in group:
            response = SyncGroupResponse(
                error_code=error,
                protocol_type=(group.protocol_type or None) if fine else None,
                protocol_name=group.protocol_name if fine else None,
                assignment=member.assignment,
            )
            if member.complete_sync(response):
                # Its session timer may have run out while it waited.
                self.extend_session(group, member)

    def cancel_sync(self, group: ClassicGroup) -> None:
        """Cancels the timeout for members that have not sent SyncGroup."""
        self._context.timer.cancel(("classic-sync", group.group_id))

    def _expire_sync(self, group_id: str, generation_id: int) -> Result:
        group = self.find(group_id)
        if group is None or generation_id != group.generation_id:
            return NOTHING
        if group.state not in {State.COMPLETING_REBALANCE, State.STABLE} or not group.pending_sync:
            return NOTHING
        silent = sorted(group.pending_sync)
        for member_id in silent:
            group.remove(member_id)
            self.sessions.end(group_id, member_id)
        return self.prepare(group, f"members {silent} have not sent SyncGroup in time")

    # ---- sessions

    def extend_session(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Restarts the session of a member."""
        self.sessions.extend(group.group_id, member.member_id, member.session_timeout_ms)

    def _expire_session(self, group_id: str, member_id: str) -> Result:
        group = self.find(group_id)
        if group is None or group.state is State.DEAD:
            return NOTHING
        if member_id in group.pending_join:
            logger.info("Group %s: member %s got its id and has not joined.", group_id, member_id)
            group.remove(member_id)
            return self._complete_if_all_joined(group)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat():
            return NOTHING
        logger.info("Group %s: removing member %s, whose session has expired.", group_id, member_id)
        return self._remove(group, member, f"the session of member {member_id} has expired")

    def _remove(self, group: ClassicGroup, member: ClassicGroupMember, reason: str) -> Result:
        self.dismiss(group, member)
        if group.state in {State.STABLE, State.COMPLETING_REBALANCE}:
            return self.prepare_or_complete_join(group, reason)
        return self._complete_if_all_joined(group)

    def _complete_if_all_joined(self, group: ClassicGroup) -> Result:
        if group.state is State.PREPARING_REBALANCE and group.has_all_members_joined():
            return self.complete_join(group)
        return NOTHING

    @staticmethod
    def dismiss(group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Removes a member; its pending responses fail with UNKNOWN_MEMBER_ID, so that a live client joins again.

        Kafka never completes a pending SyncGroup; here later requests of the connection would wait behind it.
        """
        code = ErrorCode.UNKNOWN_MEMBER_ID
        group.complete_join(member, JoinGroupResponse(member_id=NO_MEMBER_ID, error_code=code))
        member.complete_sync(SyncGroupResponse(error_code=code))
        group.remove(member.member_id)

    # ---- timers

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group, unless it was deleted or is of another kind by now."""
        group = self._groups.find(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def get(self, group_id: str) -> ClassicGroup:
        """The group. Raises ApiError(UNKNOWN_MEMBER_ID) where it is missing, and so its members unknown."""
        group = self.find(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    def _find_joining(self, group_id: str) -> ClassicGroup | None:
        """The group, where it still waits for members to join.

        It may have been a consumer group meanwhile and be a classic one again, which must not lose the members that had
        no reason to join.
        """
        group = self.find(group_id)
        return group if group is not None and group.state is State.PREPARING_REBALANCE else None

    def _schedule_completion(self, group: ClassicGroup) -> None:
        group_id = group.group_id

        def complete() -> Result:
            found = self._find_joining(group_id)
            return NOTHING if found is None else self.complete_join(found)

        self._schedule_join(group, group.rebalance_timeout_ms(), complete)

    def _schedule_join(self, group: ClassicGroup, delay_ms: int, operation: TimedOperation) -> None:
        self._context.timer.schedule(
            ("classic-join", group.group_id), max(delay_ms, 0), operation, retry=False
        )
