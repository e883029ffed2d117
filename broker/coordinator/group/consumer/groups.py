"""ConsumerGroups: the consumer groups of one shard. Source: GroupMetadataManager (consumerGroup... methods)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.broker.coordinator.group.classic.groups import ClassicGroups
from barnabas.broker.coordinator.group.consumer.classic_members import ClassicMembers
from barnabas.broker.coordinator.group.consumer.describing import describe_group
from barnabas.broker.coordinator.group.consumer.group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.heartbeat import Heartbeats
from barnabas.broker.coordinator.group.consumer.member import MemberState
from barnabas.broker.coordinator.group.consumer.parts import Parts
from barnabas.broker.coordinator.group.consumer.replay import ConsumerGroupReplay
from barnabas.broker.coordinator.group.groups import Groups
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.request import RequestContext
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

logger = logging.getLogger("barnabas.groups")


class ConsumerGroups:
    """Operations on consumer groups: each returns what is to be written and answered, or raises ApiError."""

    def __init__(
        self, context: ShardContext, groups: Groups, offsets: OffsetManager, classic: ClassicGroups
    ) -> None:
        self._context = context
        self._groups = groups
        self._parts = parts = Parts(context, groups, classic)
        self._heartbeats = Heartbeats(parts)
        self._classic_members = ClassicMembers(parts)

    @property
    def rebalances(self) -> int:
        """How many epochs groups have begun here."""
        return self._parts.updates.rebalances + self._parts.regexes.rebalances

    # ---- the consumer protocol

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """A member joins, goes on or leaves."""
        return self._heartbeats.heartbeat(context, request)

    def describe(self, group_id: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
        """Raises ApiError(GROUP_ID_NOT_FOUND)."""
        return describe_group(
            self._group(group_id), self._parts.settings.default_assignor, self._context.image()
        )

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    # ---- members that speak the classic protocol; the group is a consumer group with members

    def classic_join(
        self, context: RequestContext, request: JoinGroupRequest
    ) -> CoordinatorResult[JoinGroupResponse]:
        return self._classic_members.join(self._group(request.group_id), context, request)

    def classic_sync(
        self, context: RequestContext, request: SyncGroupRequest
    ) -> CoordinatorResult[SyncGroupResponse]:
        return self._classic_members.sync(self._group(request.group_id), request)

    def classic_heartbeat(
        self, context: RequestContext, request: HeartbeatRequest
    ) -> CoordinatorResult[HeartbeatResponse]:
        return self._classic_members.heartbeat(self._group(request.group_id), request)

    def classic_leave(
        self, context: RequestContext, request: LeaveGroupRequest
    ) -> CoordinatorResult[LeaveGroupResponse]:
        return self._classic_members.leave(self._group(request.group_id), request)

    # ---- loading, and following the metadata

    def replayers(self) -> Mapping[int, Callable[[Any, Any], None]]:
        """Who takes in which key type: f(key, value or None)."""
        return ConsumerGroupReplay(self._groups).replayers()

    def on_loaded(self) -> None:
        """Schedules the sessions of the members that were loaded."""
        self._parts.regexes.newest_topics = self._context.image().offset
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                self._watch(group)

    def _watch(self, group: ConsumerGroup) -> None:
        logger.info("group %s is loaded, with %d members", group.group_id, len(group.members))
        timeout_ms = self._parts.settings.session_timeout_ms(group.group_id)
        for member_id, member in group.members.items():
            asked_ms = 0 if member.classic is None else member.classic.session_timeout_ms
            # Who asked for a longer session may not be heard of sooner; Kafka takes it out.
            self._parts.timers.session(group.group_id, member_id, max(timeout_ms, asked_ms))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._parts.timers.rebalance(group.group_id, member)

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Groups that are subscribed to a topic that changed look at it again with their next heartbeat."""
        if delta.created_topics:
            self._parts.regexes.newest_topics = image.offset
        changed = {*delta.created_topics, *delta.changed_topics}
        changed.update(topic.name for topic in delta.deleted_topics.values())
        if not changed:
            return
        for name in changed:
            self._parts.hashes.forget(name)
        for group in self._groups:
            if isinstance(group, ConsumerGroup) and not changed.isdisjoint(group.subscriptions.topics):
                group.request_refresh()
