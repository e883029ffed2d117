"""Syncing: SyncGroup. Source: GroupMetadataManager (classicGroupSyncToClassicGroup)."""

from __future__ import annotations

import logging

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.classic_member import EMPTY_ASSIGNMENT
from barnabas.broker.coordinator.group.classic.group_record import group_record
from barnabas.broker.coordinator.group.classic.rebalancing import Rebalancing
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger("barnabas.groups")

SyncResult = CoordinatorResult[SyncGroupResponse]


class Syncing:
    """SyncGroup, for all classic groups of a shard. `completed_rebalances` counts the assignments, for metrics."""

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing
        self.completed_rebalances = 0

    def sync(self, request: SyncGroupRequest) -> SyncResult:
        """Gives a member its assignment; the leader's request brings those of all members. Raises ApiError."""
        group = self._rebalancing.get(request.group_id)
        self._check(group, request)
        if group.state is State.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        if group.state is State.STABLE:
            return self._sync_stable(group, request)
        assert group.state is State.COMPLETING_REBALANCE, f"{group} has members"
        return self._sync_completing(group, request)

    @staticmethod
    def _check(group: ClassicGroup, request: SyncGroupRequest) -> None:
        if group.state is State.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group.check_member(request.member_id, request.group_instance_id, "sync-group")
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if _contradicts(request.protocol_type, group.protocol_type or None) or _contradicts(
            request.protocol_name, group.protocol_name
        ):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _sync_stable(self, group: ClassicGroup, request: SyncGroupRequest) -> SyncResult:
        self._mark_synced(group, request.member_id)
        response = SyncGroupResponse(
            protocol_type=group.protocol_type or None,
            protocol_name=group.protocol_name,
            assignment=group.members[request.member_id].assignment,
        )
        return CoordinatorResult(response)

    def _sync_completing(self, group: ClassicGroup, request: SyncGroupRequest) -> SyncResult:
        """Completed when the record of the leader's assignment is committed."""
        member = group.members[request.member_id]
        waiting = member.awaiting_sync or Pending()  # one for both requests of a client that retries
        member.awaiting_sync = waiting
        self._mark_synced(group, request.member_id)
        if not group.is_leader(request.member_id):
            return CoordinatorResult(waiting)
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        return self._store(group, given, waiting)

    def _store(
        self, group: ClassicGroup, given: dict[str, bytes], waiting: Pending[SyncGroupResponse]
    ) -> SyncResult:
        """Writes the assignment; when it is committed the group is stable and all SyncGroups are completed."""
        without = [member.member_id for member in group if member.member_id not in given]
        logger.info(
            "Group %s: the leader has assigned generation %d to %d members, %d of them static.",
            group.group_id,
            group.generation_id,
            len(group.members),
            len(group.static_members),
        )
        if without:
            logger.warning(
                "Group %s: the leader has assigned nothing to members %s.", group.group_id, without
            )
        generation_id = group.generation_id

        def committed(error: ApiError | None) -> None:
            if group.state is not State.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return  # a rebalance has begun meanwhile
            if error is not None:
                self._rebalancing.reset_assignments(group, error.code)
                self._rebalancing.prepare_or_complete_join(group, "the assignment could not be written")
                return
            for member in group:
                member.assign(given.get(member.member_id, EMPTY_ASSIGNMENT))
            self._rebalancing.propagate_assignments(group)
            group.transition_to(State.STABLE)
            self.completed_rebalances += 1

        return CoordinatorResult(waiting, [group_record(group, given)], on_committed=committed, replays=False)

    def _mark_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._rebalancing.cancel_sync(group)


def _contradicts(requested: str | None, known: str | None) -> bool:
    return requested is not None and known is not None and requested != known
