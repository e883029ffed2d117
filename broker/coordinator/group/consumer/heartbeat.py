"""ConsumerGroupHeartbeat: a member joins, continues, or leaves.

Source: GroupMetadataManager (consumerGroupHeartbeat, consumerGroupLeave, getOrMaybeCreateConsumerGroup).
"""

from __future__ import annotations

import logging

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.joining import client_host_of
from barnabas.broker.coordinator.group.consumer import consumer_records, member_lookup
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    OWNS_NOTHING,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    PartitionEpochs,
)
from barnabas.broker.coordinator.group.consumer.group_dependencies import GroupDependencies
from barnabas.broker.coordinator.group.consumer.reconciliation import Owned
from barnabas.broker.coordinator.group.consumer.regexes import RegexChange
from barnabas.broker.coordinator.group.consumer.updates import MemberChange
from barnabas.broker.coordinator.group.group import Group
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.request import RequestContext
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest as Request
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse as Response
from barnabas.protocol.wire import Uuid

logger = logging.getLogger("barnabas.groups")

_UNCHANGED = -1
Result = CoordinatorResult[Response]


class Heartbeats:
    """Handles the heartbeats of members of the consumer protocol."""

    def __init__(self, shared: GroupDependencies) -> None:
        self._shared = shared

    def heartbeat(self, context: RequestContext, request: Request) -> Result:
        """Raises ApiError."""
        if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
            return self._leave(request)
        out: list[CoordinatorRecord] = []
        before = self._shared.groups.find(request.group_id)
        group = self._group(request, before, out)
        member_lookup.check_size(group, request.member_id, self._shared.settings.max_size)
        owned = _owned(request)
        member = self._member(group, request, owned, out)
        change = MemberChange(group, member, _updated(member, context, request), out, context)
        after = self._advance(change, owned)
        self._shared.timers.session(
            group.group_id, after.member_id, self._shared.settings.session_timeout_ms(group.group_id)
        )
        if isinstance(before, ClassicGroup):
            # Its members join the consumer group then.
            before.fail_waiting(ErrorCode.REBALANCE_IN_PROGRESS)
        return CoordinatorResult(self._response(request, member, after), out)

    # ---- the group and the member

    def _group(self, request: Request, group: Group | None, out: list[CoordinatorRecord]) -> ConsumerGroup:
        """The group; a joining member may create or upgrade it. Raises ApiError(GROUP_ID_NOT_FOUND)."""
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch == JOIN_EPOCH:
            if group is None:
                return ConsumerGroup(request.group_id)
            if isinstance(group, ClassicGroup) and group.is_empty:
                out += group.tombstones()
                return ConsumerGroup(request.group_id)
            if isinstance(group, ClassicGroup):
                return self._shared.migration.upgrade(group, out)
        what = "not found" if group is None else "is not a consumer group"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")

    def _member(
        self, group: ConsumerGroup, request: Request, owned: Owned | None, out: list[CoordinatorRecord]
    ) -> ConsumerGroupMember:
        member_id = request.member_id or member_lookup.new_member_id(self._shared.context.new_uuid)
        joins = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = member_lookup.dynamic_member(group, member_id, may_join=joins)
        else:
            member = member_lookup.static_member(
                group, member_id, request.instance_id, out, may_join=joins, is_classic=False
            )
        member_lookup.check_epoch(member, request.member_epoch, owned)
        return member

    # ---- the response

    def _advance(self, change: MemberChange, owned: Owned | None) -> ConsumerGroupMember:
        names_other_topics = change.write_subscription()
        regex = self._shared.regexes.update(change.group, change.old, change.new, change.out, change.context)
        is_due = names_other_topics or regex is RegexChange.RESOLVED
        epoch = self._shared.updates.next_epoch(change, is_due=is_due)
        target = self._shared.updates.assign(change, epoch)
        has_changed = names_other_topics or regex is not RegexChange.NONE
        return self._shared.updates.reconcile(
            change, target, has_subscription_changed=has_changed, owned=owned
        )

    def _response(
        self, request: Request, before: ConsumerGroupMember, after: ConsumerGroupMember
    ) -> Response:
        """With the member's assignment where that has changed, or the request describes the member completely."""
        is_complete = (
            request.rebalance_timeout_ms != _UNCHANGED
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        has_assignment = (
            request.member_epoch == JOIN_EPOCH or is_complete or before.assigned != after.assigned
        )
        return Response(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._shared.settings.heartbeat_interval_ms(request.group_id),
            assignment=_assignment(after.assigned) if has_assignment else None,
        )

    # ---- leaving

    def _leave(self, request: Request) -> Result:
        group = member_lookup.find_group(self._shared.groups, request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = member_lookup.known_instance(
                group.static_member(request.instance_id), request.instance_id
            )
            member_lookup.check_not_fenced(member, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return _leave_temporarily(group, member)
        logger.info("group %s: member %s leaves", group.group_id, member.member_id)
        response = Response(member_id=request.member_id, member_epoch=request.member_epoch)
        return self._shared.fencing.fence(group, [member], response)


def _leave_temporarily(group: ConsumerGroup, member: ConsumerGroupMember) -> Result:
    """It keeps its partitions for a member with its instance id, until its session expires."""
    logger.info("group %s: static member %s leaves temporarily", group.group_id, member.member_id)
    away = member._replace(
        member_epoch=STATIC_LEAVE_EPOCH,
        pending_revocation=OWNS_NOTHING,
        assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
    )
    response = Response(member_id=member.member_id, member_epoch=STATIC_LEAVE_EPOCH)
    return CoordinatorResult(response, [consumer_records.current_assignment(group.group_id, away)])


def _owned(request: Request) -> Owned | None:
    """The partitions that the member reports as owned."""
    if request.topic_partitions is None:
        return None
    owned: dict[Uuid, set[int]] = {}
    for topic in request.topic_partitions:
        owned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return owned


def _updated(member: ConsumerGroupMember, context: RequestContext, request: Request) -> ConsumerGroupMember:
    """The member with the fields of the request; a missing field has not changed."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNCHANGED else timeout_ms,
        server_assignor=member.server_assignor
        if request.server_assignor is None
        else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=context.client_id or "",
        client_host=client_host_of(context.connection.client_host),
        classic=None,
    )


def _assignment(owned: PartitionEpochs) -> Response.Assignment:
    return Response.Assignment(
        topic_partitions=[
            Response.TopicPartitions(topic_id=topic_id, partitions=list(epochs))
            for topic_id, epochs in owned.items()
        ]
    )
