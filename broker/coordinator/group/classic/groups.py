"""ClassicGroups: the classic groups of one shard. Source: GroupMetadataManager (classicGroup... methods)."""

from __future__ import annotations

import logging
from typing import Any

from barnabas.broker.coordinator.group.classic.describing import describe_group, list_groups
from barnabas.broker.coordinator.group.classic.group import ClassicGroup
from barnabas.broker.coordinator.group.classic.joining import Joining, JoinResult
from barnabas.broker.coordinator.group.classic.leaving import HeartbeatResult, LeaveResult, Leaving
from barnabas.broker.coordinator.group.classic.rebalancing import Rebalancing, Result
from barnabas.broker.coordinator.group.classic.records import members_of, state_timestamp_of
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.classic.syncing import Syncing, SyncResult
from barnabas.broker.coordinator.group.groups import Groups
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.request import RequestContext
from barnabas.config.catalogue import groups as keys
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.groups import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

logger = logging.getLogger("barnabas.groups")


class ClassicGroups:
    """Operations on classic groups, and those on groups of any kind that came with them (list, delete)."""

    def __init__(self, context: ShardContext, groups: Groups, offsets: OffsetManager) -> None:
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._rebalancing = Rebalancing(context, groups)
        self._joining = Joining(context, groups, self._rebalancing)
        self._syncing = Syncing(self._rebalancing)
        self._leaving = Leaving(self._rebalancing)
        self._unfinished: set[str] = set()
        groups.make_classic = self._make

    @property
    def completed_rebalances(self) -> int:
        """How many rebalances came to an assignment."""
        return self._syncing.completed_rebalances

    # ---- operations

    def join(self, context: RequestContext, request: JoinGroupRequest) -> JoinResult:
        """JoinGroup; version 0's rebalance timeout has been filled in. Raises ApiError."""
        return self._joining.join(context, request)

    def sync(self, request: SyncGroupRequest) -> SyncResult:
        """SyncGroup. Raises ApiError."""
        return self._syncing.sync(self._with_members(request.group_id), request)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResult:
        """Heartbeat. Raises ApiError."""
        return self._leaving.heartbeat(self._with_members(request.group_id), request)

    def leave(self, request: LeaveGroupRequest) -> LeaveResult:
        """LeaveGroup in the form of version 3. Raises ApiError(UNKNOWN_MEMBER_ID) where there is no such group."""
        return self._leaving.leave(self._with_members(request.group_id), request)

    def _with_members(self, group_id: str) -> ClassicGroup:
        group = self._rebalancing.find(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    def listed(self, request: ListGroupsRequest) -> list[ListGroupsResponse.ListedGroup]:
        """The groups of all kinds that the filters let through."""
        return list_groups(self._groups, request.states_filter, request.types_filter)

    def describe(self, group_id: str, api_version: int) -> DescribeGroupsResponse.DescribedGroup:
        return describe_group(self._groups, group_id, api_version)

    def delete(self, group_id: str) -> CoordinatorResult[DeleteGroupsResponse.DeletableGroupResult]:
        """Deletes a group of any kind that has no members, with its offsets. Raises ApiError."""
        group = self._groups.get(group_id)
        group.check_delete()
        offsets = self._offsets.delete_all(group_id)
        logger.info("Group %s is deleted, with %d offsets.", group_id, len(offsets))
        deleted = DeleteGroupsResponse.DeletableGroupResult(group_id=group_id)
        return CoordinatorResult(deleted, [*offsets, *group.tombstones()])

    # ---- for groups that change their kind

    def new_group(self, group_id: str, **state: Any) -> ClassicGroup:
        """A classic group that is not in the registry yet; `state` as ClassicGroup takes it."""
        return ClassicGroup(
            group_id, now_ms=self._context.now_ms, sessions=self._rebalancing.sessions, **state
        )

    def adopt(self, group: ClassicGroup) -> None:
        """A group of another kind has become this one: its members' sessions begin."""
        self._groups.put(group)
        for member in group:
            self._rebalancing.extend_session(group, member)

    def prepare_rebalance(self, group: ClassicGroup, reason: str) -> Result:
        return self._rebalancing.prepare(group, reason)

    def _make(self, group_id: str) -> ClassicGroup:
        return self.new_group(group_id, state_timestamp_ms=self._context.now_ms())

    # ---- loading and unloading

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Takes in a GroupMetadata record (key type 2).

        One with members and without a leader was a consumer group, and was to be assigned anew (consumer/migration.py).
        """
        self._unfinished.discard(key.group)
        if value is None:
            if self._rebalancing.find(key.group) is not None:  # or it is of another kind by now
                self._groups.remove(key.group)
            return
        members = members_of(value)
        if members and value.leader is None:
            self._unfinished.add(key.group)
        group = self.new_group(
            key.group,
            state=State.STABLE if members else State.EMPTY,
            generation_id=value.generation,
            protocol_type=value.protocol_type or "",
            protocol_name=value.protocol,
            leader_id=value.leader,
            state_timestamp_ms=state_timestamp_of(value),
        )
        for member in members:
            group.add(member)
        group.learn_subscribed_topics()
        self._groups.put(group)

    def on_loaded(self) -> None:
        """Schedules the sessions of the members that were loaded."""
        for group in list(self._groups):
            if isinstance(group, ClassicGroup):
                self._on_loaded(group)

    def _on_loaded(self, group: ClassicGroup) -> None:
        for member in group:
            self._rebalancing.extend_session(group, member)
        limit = self._context.config[keys.GROUP_MAX_SIZE]
        if len(group.members) > limit:
            reason = f"{len(group.members)} members were loaded, and {limit} may be in a group"
            self._rebalancing.prepare(group, reason)
        elif group.group_id in self._unfinished:
            self._rebalancing.prepare(group, "it was a consumer group and has not rebalanced since")

    def on_unloaded(self) -> None:
        """Members who wait in a join or a sync are told NOT_COORDINATOR."""
        for group in list(self._groups):
            if isinstance(group, ClassicGroup):
                _dismiss_all(group)


def _dismiss_all(group: ClassicGroup) -> None:
    group.transition_to(State.DEAD)
    code = ErrorCode.NOT_COORDINATOR
    for member in group:
        group.complete_join(member, JoinGroupResponse(member_id=member.member_id, error_code=code))
        member.complete_sync(SyncGroupResponse(error_code=code))
