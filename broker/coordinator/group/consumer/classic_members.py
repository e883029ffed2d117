"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The group behaves like a classic group with a cooperative assignor and without a leader: a heartbeat response asks a
member to join again, each join takes one step of its reconciliation, and SyncGroup returns its assignment.
Source: GroupMetadataManager (classicGroup...ToConsumerGroup).
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.coordinator.group.classic.joining import client_host_of
from barnabas.broker.coordinator.group.consumer import embedded, member_lookup
from barnabas.broker.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    ClassicMemberMetadata,
    ConsumerGroupMember,
    MemberState,
)
from barnabas.broker.coordinator.group.consumer.group_dependencies import GroupDependencies
from barnabas.broker.coordinator.group.consumer.migration import is_reconciling
from barnabas.broker.coordinator.group.consumer.regexes import RegexChange
from barnabas.broker.coordinator.group.consumer.settings import MigrationPolicy
from barnabas.broker.coordinator.group.consumer.updates import MemberChange, Target
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.request import RequestContext
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.messages.group_state import ConsumerGroupMemberMetadataValue
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

_ClassicProtocol = ConsumerGroupMemberMetadataValue.ClassicProtocol
_KNOWN_ID_SINCE: Final = 4
"""From this version of JoinGroup on a member joins with an id that it got before (KIP-394)."""


class ClassicMembers:
    """The requests of classic members of the consumer groups of a shard. Every method raises ApiError."""

    def __init__(self, shared: GroupDependencies) -> None:
        self._shared = shared

    # ---- joining

    def join(
        self, context: RequestContext, request: JoinGroupRequest
    ) -> CoordinatorResult[JoinGroupResponse]:
        """JoinGroup to a consumer group that has members."""
        group = member_lookup.find_group(self._shared.groups, request.group_id)
        self._check_may_join(group, request)
        member_id = request.member_id or member_lookup.new_member_id(self._shared.context.new_uuid)
        if _needs_known_id(context, request):
            return CoordinatorResult(
                JoinGroupResponse(
                    member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED, protocol_name=""
                )
            )
        out: list[CoordinatorRecord] = []
        replaced = group.static_member(request.group_instance_id)
        member = self._member(group, request, member_id, out)
        subscription = _subscription(request)
        change = MemberChange(group, member, _updated(member, context, request, subscription), out, context)
        if replaced is None or replaced.uses_classic_protocol:
            return self._join(change, request, subscription)
        if not self._shared.migration.may_downgrade(group, [replaced], replaced=True):
            return self._join(change, request, subscription)
        return self._join_and_downgrade(change, subscription, replaced)

    def _check_may_join(self, group: ConsumerGroup, request: JoinGroupRequest) -> None:
        if self._shared.settings.migration_policy is MigrationPolicy.DISABLED:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Group {group.group_id} is a consumer group, and migration is disabled.",
            )
        member_lookup.check_size(group, request.member_id, self._shared.settings.max_size)
        names = dict.fromkeys(protocol.name for protocol in request.protocols)
        if not group.supports_classic_protocols(request.protocol_type, names):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {request.member_id} has no protocol in common with the others.",
            )

    def _member(
        self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, out: list[CoordinatorRecord]
    ) -> ConsumerGroupMember:
        if request.group_instance_id is None:
            return member_lookup.dynamic_member(group, member_id, may_join=True)
        return member_lookup.static_member(
            group,
            member_id,
            request.group_instance_id,
            out,
            may_join=not request.member_id,
            is_classic=True,
        )

    def _record_subscription(self, change: MemberChange) -> bool:
        """Records the member's subscription; whether a new epoch is due."""
        names_other_topics = change.write_subscription()
        regex = self._shared.regexes.update(change.group, change.old, change.new, change.out, change.context)
        return names_other_topics or regex is not RegexChange.NONE

    def _join(
        self, change: MemberChange, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription
    ) -> CoordinatorResult[JoinGroupResponse]:
        has_changed = self._record_subscription(change)
        epoch = self._shared.updates.next_epoch(change, is_due=has_changed)
        target = self._shared.updates.assign(change, epoch)
        after = self._reconcile(change, target, subscription, has_changed=has_changed)
        group_id = change.group.group_id

        def committed(error: ApiError | None) -> None:
            if error is not None:
                return
            self._shared.timers.joined(group_id, after.member_id)
            self._shared.timers.session(group_id, after.member_id, request.session_timeout_ms)
            self._shared.timers.sync(group_id, after.member_id, request.rebalance_timeout_ms)

        return CoordinatorResult(_joined(after), change.out, on_committed=committed)

    def _join_and_downgrade(
        self, change: MemberChange, subscription: ConsumerProtocolSubscription, replaced: ConsumerGroupMember
    ) -> CoordinatorResult[JoinGroupResponse]:
        """The last member of the consumer protocol returns with the classic one (a rolling downgrade).

        Where a member does not own its target assignment yet, the group rebalances: in a stable one SyncGroup returned
        partitions that others still own, and members that wait for some would not learn of them. Kafka's is stable.
        """
        group, after = change.group, change.new
        has_changed = self._record_subscription(change)
        epoch = self._shared.updates.next_epoch(change, is_due=has_changed)
        is_classic = f"Group {group.group_id} is a classic group again"
        reason = None
        if group.assignment_epoch < epoch.number:
            reason = f"{is_classic}, and its assignment is of an older epoch."
        else:
            last = Target(group.assignment_epoch, group.target_of(after.member_id, after.instance_id))
            after = self._reconcile(change, last, subscription, has_changed=has_changed)
            if is_reconciling(group, [replaced]):
                reason = f"{is_classic}, and members do not own their assignment yet."
        return self._shared.migration.downgrade(
            group, [replaced], after, change.out, response=_joined(after), rebalance_reason=reason
        )

    def _reconcile(
        self,
        change: MemberChange,
        target: Target,
        subscription: ConsumerProtocolSubscription,
        *,
        has_changed: bool,
    ) -> ConsumerGroupMember:
        owned = embedded.by_id(subscription.owned_partitions, self._shared.context.image())
        return self._shared.updates.reconcile(
            change, target, has_subscription_changed=has_changed, owned=owned
        )

    # ---- syncing, and staying alive

    def sync(self, request: SyncGroupRequest) -> CoordinatorResult[SyncGroupResponse]:
        """SyncGroup: returns the partitions that the member owns from now on."""
        group = member_lookup.find_group(self._shared.groups, request.group_id)
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(member, request)
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._shared.timers.join(group.group_id, member)
            raise ApiError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"Member {member.member_id} of group {group.group_id} has to join again.",
            )
        metadata = bytes(member.classic_protocols[0].metadata)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=embedded.write_assignment(member.assigned, self._shared.context.image(), metadata),
        )

        def committed(error: ApiError | None) -> None:
            if error is None:
                self._shared.timers.synced(group.group_id, member.member_id)
                self._extend_session(group, member)

        return CoordinatorResult(response, on_committed=committed)

    def heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Heartbeat: extends the member's session; the response may ask it to join again."""
        group = member_lookup.find_group(self._shared.groups, request.group_id)
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._extend_session(group, member)
        if not _must_join(group, member) and not self._shared.updates.waits_for_a_join(group):
            return CoordinatorResult(HeartbeatResponse())
        self._shared.timers.join(group.group_id, member)
        return CoordinatorResult(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def _extend_session(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        assert member.classic is not None
        self._shared.timers.session(group.group_id, member.member_id, member.classic.session_timeout_ms)

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ConsumerGroupMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = member_lookup.known_instance(group.static_member(instance_id), instance_id)
            member_lookup.check_not_fenced(member, member_id, instance_id)
        if not member.uses_classic_protocol:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
            )
        return member

    # ---- leaving

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """LeaveGroup in the form of version 3: removes members of either protocol."""
        group = member_lookup.find_group(self._shared.groups, request.group_id)
        answers: list[LeaveGroupResponse.MemberResponse] = []
        leaving: dict[str, ConsumerGroupMember] = {}
        for identity in request.members:
            answer = LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            answers.append(answer)
            try:
                member = _leaving(group, identity)
            except ApiError as error:
                answer.error_code = error.code
                continue
            leaving[member.member_id] = member
            reason = identity.reason or "no reason given"
            logger.info("group %s: member %s leaves: %s", group.group_id, member.member_id, reason)
        return self._shared.fencing.fence(group, list(leaving.values()), LeaveGroupResponse(members=answers))


def _leaving(group: ConsumerGroup, identity: LeaveGroupRequest.MemberIdentity) -> ConsumerGroupMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member = member_lookup.known_instance(group.static_member(instance_id), instance_id)
    if identity.member_id:
        member_lookup.check_not_fenced(member, identity.member_id, instance_id)
    return member


def _needs_known_id(context: RequestContext, request: JoinGroupRequest) -> bool:
    is_new = not request.member_id and request.group_instance_id is None
    return is_new and context.api_version >= _KNOWN_ID_SINCE


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """The subscription in the member's first protocol; as in Kafka a malformed one is UNKNOWN_SERVER_ERROR."""
    try:
        return embedded.read_subscription(bytes(request.protocols[0].metadata))
    except embedded.EmbeddedProtocolError as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The member's subscription is malformed: {error}."
        ) from error


def _updated(
    member: ConsumerGroupMember,
    context: RequestContext,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerGroupMember:
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=context.client_id or "",
        client_host=client_host_of(context.connection.client_host),
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                _ClassicProtocol(name=protocol.name, metadata=bytes(protocol.metadata))
                for protocol in request.protocols
            ],
        ),
    )


def _joined(member: ConsumerGroupMember) -> JoinGroupResponse:
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic_protocols[0].name,
    )


def _check_generation(member: ConsumerGroupMember, generation_id: int) -> None:
    if member.member_epoch != generation_id:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"Member {member.member_id} is in epoch {member.member_epoch}, not in generation {generation_id}.",
        )


def _check_protocol(member: ConsumerGroupMember, request: SyncGroupRequest) -> None:
    name = member.classic_protocols[0].name
    if request.protocol_type not in {None, PROTOCOL_TYPE} or request.protocol_name not in {None, name}:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The group's protocol is {PROTOCOL_TYPE} with {name}."
        )


def _must_join(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether a step is due: a new assignment, partitions to revoke, or partitions that are free by now."""
    if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
