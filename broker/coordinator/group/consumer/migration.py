"""Migration of groups between the protocols while they have members (group.consumer.migration.policy).

Up: the first member of the consumer protocol that joins a classic group of consumers makes it a consumer group, whose
other members keep the classic protocol. Down: the last member of the consumer protocol that leaves makes it a
classic group again. Source: GroupMetadataManager (convertToConsumerGroup, convertToClassicGroup,
validateOnline...), ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.classic_groups import ClassicGroups
from barnabas.broker.coordinator.group.classic.classic_member import ClassicGroupMember
from barnabas.broker.coordinator.group.classic.group_record import group_record
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState
from barnabas.broker.coordinator.group.consumer import consumer_records, embedded
from barnabas.broker.coordinator.group.consumer.consumer_group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    NOTHING,
    ClassicMemberMetadata,
    ConsumerGroupMember,
    Partitions,
    owned_in,
)
from barnabas.broker.coordinator.group.consumer.member_timers import MemberTimers
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes
from barnabas.broker.coordinator.group.consumer.settings import GroupSettings
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import ConsumerGroupMemberMetadataValue, GroupMetadataValue

logger = logging.getLogger("barnabas.groups")

R = TypeVar("R")
_ClassicProtocol = ConsumerGroupMemberMetadataValue.ClassicProtocol


class Migration:
    """Converts groups of one kind into groups of the other."""

    def __init__(
        self,
        context: ShardContext,
        groups: Groups,
        *,
        classic: ClassicGroups,
        settings: GroupSettings,
        hashes: TopicHashes,
        timers: MemberTimers,
    ) -> None:
        self._context = context
        self._groups = groups
        self._classic = classic
        self._settings = settings
        self._hashes = hashes
        self._timers = timers

    # ---- up

    def upgrade(self, classic: ClassicGroup, out: list[CoordinatorRecord]) -> ConsumerGroup:
        """The consumer group that a classic one becomes; the caller fails what waits for the classic group.

        Raises ApiError(GROUP_ID_NOT_FOUND) where the upgrade is impossible or disabled.
        """
        self._check_upgrade(classic)
        group = self._consumer_group_of(classic)
        out += classic.tombstones()
        out += _records_of(group)
        for consumer in group.members.values():
            assert consumer.classic is not None
            self._timers.session(group.group_id, consumer.member_id, consumer.classic.session_timeout_ms)
        logger.info("group %s is a consumer group now", group.group_id)
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        if not self._settings.migration_policy.allows_upgrade:
            raise _cannot_upgrade(classic, "online upgrade is disabled.")
        if not classic.uses_consumer_protocol:
            raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._settings.max_size:
            raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size.")

    def _consumer_group_of(self, classic: ClassicGroup) -> ConsumerGroup:
        image = self._context.image()
        group = ConsumerGroup(classic.group_id)
        group.group_epoch = group.assignment_epoch = classic.generation_id
        for member in classic:
            try:
                partitions = self._assigned_to(classic, member)
                consumer = self._consumer_of(classic, member, partitions)
            except embedded.EmbeddedProtocolError as error:
                raise _cannot_upgrade(
                    classic,
                    "the embedded consumer protocol is malformed. "
                    f"The metadata of member {member.member_id} cannot be parsed: {error}.",
                ) from error
            group.set_target(consumer.member_id, partitions)
            group.update_member(consumer)
        group.metadata_hash = self._hashes.group_hash(group.subscriptions.topics, image)
        return group

    def _assigned_to(self, classic: ClassicGroup, member: ClassicGroupMember) -> Partitions:
        if not member.owned:
            return NOTHING
        assignment = embedded.read_assignment(member.owned)
        if assignment.user_data:
            raise _cannot_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            )
        return embedded.by_id(assignment.assigned_partitions, self._context.image())

    def _consumer_of(
        self, classic: ClassicGroup, member: ClassicGroupMember, partitions: Partitions
    ) -> ConsumerGroupMember:
        protocol = classic.protocol_name
        if protocol not in member.protocol_names:  # it joined after the last generation
            protocol = classic.select_protocol()
        subscription = embedded.read_subscription(member.metadata(protocol))
        return ConsumerGroupMember(
            member.member_id,
            member_epoch=classic.generation_id,
            previous_member_epoch=classic.generation_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=frozenset(subscription.topics),
            assigned=owned_in(classic.generation_id, partitions),
            classic=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=[
                    _ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in member.supported_protocols
                ],
            ),
        )

    # ---- down

    def may_downgrade(
        self, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember], *, replaced: bool = False
    ) -> bool:
        """Whether all members but `leaving` use the classic protocol, and may be a classic group.

        `replaced`: a classic member takes the place of the one that leaves.
        """
        left = len(group.members) - (0 if replaced else len(leaving))
        if left <= 0 or not group.all_others_are_classic(leaving):
            return False
        if not self._settings.migration_policy.allows_downgrade:
            logger.info("group %s stays a consumer group: online downgrade is disabled", group.group_id)
            return False
        if left > self._settings.classic_max_size:
            logger.info("group %s stays a consumer group: it is too large for a classic one", group.group_id)
            return False
        return True

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerGroupMember],
        joining: ConsumerGroupMember | None,
        out: list[CoordinatorRecord],
        *,
        response: R,
        rebalance_reason: str | None,
    ) -> CoordinatorResult[R]:
        """Makes a classic group of the remaining members, and of `joining`, which replaces the leaving one.

        The group changes at once and not by replay: records do not hold all of a classic member. With a
        `rebalance_reason` the group rebalances. Raises ApiError(GROUP_ID_NOT_FOUND) for metadata that cannot be parsed.
        """
        try:
            classic = self._classic_group_of(group, leaving, joining, rebalances=rebalance_reason is not None)
        except embedded.EmbeddedProtocolError as error:
            raise ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot downgrade the classic group {group.group_id}: {error}.",
            ) from error
        out += _tombstones(group, leaving, joining)
        out.append(_record_of(classic, rebalances=rebalance_reason is not None))
        for member_id in group.members:
            self._timers.cancel(group.group_id, member_id)
        self._classic.adopt(classic)
        if rebalance_reason is not None:
            out += self._classic.rebalancing.prepare(classic, rebalance_reason).records
        logger.info("group %s is a classic group now", group.group_id)
        return CoordinatorResult(
            response, out, on_committed=lambda error: self._undo(group, error), replays=False
        )

    def _undo(self, group: ConsumerGroup, error: ApiError | None) -> None:
        """Restores the consumer group where the records could not be written."""
        if error is None:
            return
        self._groups.put(group)
        for member_id, member in group.members.items():
            classic_ms = None if member.classic is None else member.classic.session_timeout_ms
            timeout_ms = classic_ms or self._settings.session_timeout_ms(group.group_id)
            self._timers.session(group.group_id, member_id, timeout_ms)

    def _classic_group_of(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerGroupMember],
        joining: ConsumerGroupMember | None,
        *,
        rebalances: bool,
    ) -> ClassicGroup:
        """Members get their target assignment, as in Kafka. Where the group rebalances at once they keep what they own
        until they have joined again: it may become a consumer group before, which must not assign that to others.
        """
        gone = {member.member_id for member in leaving}
        staying = [member for member_id, member in group.members.items() if member_id not in gone]
        classic = self._classic.new_group(
            group.group_id,
            state=ClassicGroupState.STABLE,
            generation_id=group.group_epoch,
            protocol_type=PROTOCOL_TYPE,
            state_timestamp_ms=self._context.now_ms(),
        )
        members = {member.member_id: member for member in [*staying, *([] if joining is None else [joining])]}
        for member in members.values():
            classic.add(_classic_member(member))
        classic.protocol_name = classic.select_protocol()
        classic.update_subscribed_topics()
        for added in classic:
            target = group.target_of(added.member_id, added.group_instance_id)
            metadata, image = added.metadata(classic.protocol_name), self._context.image()
            added.assignment = embedded.write_assignment(target, image, metadata)
            if rebalances:
                owned = _owned_by(members[added.member_id])
                added.still_owned = embedded.write_assignment(owned, image, metadata)
        return classic


def is_reconciling(group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember]) -> bool:
    """Whether a member other than `leaving` owns anything but its target assignment."""
    gone = {member.member_id for member in leaving}
    return any(
        _owned_by(member) != group.target_of(member_id)
        for member_id, member in group.members.items()
        if member_id not in gone
    )


def _owned_by(member: ConsumerGroupMember) -> Partitions:
    """The partitions that a member has or has yet to revoke."""
    owned = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.pending_revocation.items():
        owned[topic_id] = owned.get(topic_id, frozenset()) | frozenset(epochs)
    return owned


def _cannot_upgrade(classic: ClassicGroup, why: str) -> ApiError:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    logger.info("%s", message)
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _records_of(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """All records of a group that was a classic one."""
    name, members = group.group_id, group.members.values()
    return [
        *(consumer_records.member_subscription(name, member) for member in members),
        consumer_records.group_epoch(name, group.group_epoch, group.metadata_hash),
        *(
            consumer_records.target_assignment(name, member_id, group.target_of(member_id))
            for member_id in group.members
        ),
        consumer_records.target_assignment_epoch(name, group.assignment_epoch, group.assignment_timestamp_ms),
        *(consumer_records.current_assignment(name, member) for member in members),
    ]


def _tombstones(
    group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember], joining: ConsumerGroupMember | None
) -> list[CoordinatorRecord]:
    """The tombstones of the group; where `joining` has replaced the leaving member, the batch has deleted that one's
    records already and written the new one's."""
    ids = list(group.members)
    if joining is not None:
        gone = {member.member_id for member in leaving}
        ids = [joining.member_id if member_id in gone else member_id for member_id in ids]
    return consumer_records.group_tombstones(group.group_id, ids, group.subscriptions.resolved)


def _record_of(classic: ClassicGroup, *, rebalances: bool) -> CoordinatorRecord:
    """The record of the classic group, its members with what they own. Without a leader where it rebalances: else it
    would be stable after a crash, and the partitions of members that left would have no owner. Kafka makes the first
    member the leader, and writes the target assignment.
    """
    record = group_record(classic, {member.member_id: member.owned for member in classic})
    if rebalances:
        assert isinstance(record.value, GroupMetadataValue)
        record.value.leader = None
    return record


def _classic_member(member: ConsumerGroupMember) -> ClassicGroupMember:
    assert member.classic is not None, f"{member} does not use the classic protocol"
    return ClassicGroupMember(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        supported_protocols=tuple(
            (protocol.name, bytes(protocol.metadata)) for protocol in member.classic_protocols
        ),
    )
