"""ConsumerGroup: a group of the consumer protocol (KIP-848), replayed from its records.

    Empty ---> Assigning ---> Reconciling ---> Stable

Empty: it has no members. Assigning: its epoch is ahead of the target assignment. Reconciling: members do not own their
target assignment yet. Source: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup and ModernGroup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.broker.coordinator.group.consumer import consumer_records
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    NOTHING,
    ConsumerGroupMember,
    MemberState,
    Partitions,
)
from barnabas.broker.coordinator.group.consumer.subscriptions import Subscriptions, count
from barnabas.broker.coordinator.group.group import GroupType, PartitionCheck
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import Uuid

PROTOCOL_TYPE: Final = "consumer"
FIRST_EPOCH: Final = 1
"""The epoch of a group, and of its assignment, without a record of it."""

_COMMIT_SINCE: Final = 9
"""The first version of OffsetCommit with STALE_MEMBER_EPOCH."""


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroup:
    """A group's epochs, members, assignments, and the owners of partitions.

    `target` has the target assignment of each member, of the group's `assignment_epoch`; `assigned_to` is the same by
    partition. `metadata_hash` is that of the subscribed topics at the time of the last epoch.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = 0
    metadata_hash: int = 0
    has_subscription_metadata_record: bool = False
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    assigned_to: dict[Uuid, dict[int, str]] = field(default_factory=dict)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    assignor_counts: dict[str, int] = field(default_factory=dict)
    classic_member_count: int = 0
    classic_protocol_counts: dict[str, int] = field(default_factory=dict)
    _owners: dict[tuple[Uuid, int], str] = field(default_factory=dict)
    # Not in any record: when the topics were checked last, and in which epoch.
    refresh_deadline_ms: int = 0
    refresh_epoch: int = 0

    # ---- the methods of Group

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions.topics

    def offset_committed_by(self, member_id: str) -> None:
        """A commit does not count as a heartbeat here."""

    def offset_expires_from(self, commit_timestamp_ms: int, now_ms: int) -> int | None:
        return commit_timestamp_ms

    def check_offset_commit(self, commit: OffsetCommit, *, is_transactional: bool) -> PartitionCheck | None:
        if commit.epoch < 0 and self.is_empty:
            return None  # an administrator, or a consumer that assigns partitions to itself
        if is_transactional and commit.names_no_member:
            return None
        member = self.member(commit.member_id)
        if not is_transactional and not member.uses_classic_protocol and commit.api_version < _COMMIT_SINCE:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Members of the consumer protocol commit with version {_COMMIT_SINCE} of OffsetCommit or above.",
            )
        if commit.epoch == member.member_epoch:
            return None
        if commit.epoch > member.member_epoch:
            raise _stale(
                member, f"The epoch {commit.epoch} is newer than the member's, {member.member_epoch}."
            )
        return _older_epoch_check(member, commit.epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _stale(member, f"The epoch {member_epoch} is not the member's, {member.member_epoch}.")

    def check_offset_delete(self) -> None:
        """Always allowed: offsets of subscribed topics are not deleted."""

    def check_delete(self) -> None:
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[CoordinatorRecord]:
        return consumer_records.group_tombstones(self.group_id, self.members, self.subscriptions.resolved)

    # ---- members

    def member(self, member_id: str) -> ConsumerGroupMember:
        """Raises ApiError(UNKNOWN_MEMBER_ID)."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """The member that has this instance id now."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def update_member(self, member: ConsumerGroupMember) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(old, member)
        self._disown(old)
        self._own(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._count(old, None)
        self._disown(old)
        if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
            del self.static_members[old.instance_id]

    def _count(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        self.subscriptions.update(old, new)
        for member, by in ((old, -1), (new, 1)):
            if member is None:
                continue
            if member.server_assignor is not None:
                count(self.assignor_counts, member.server_assignor, by)
            if member.classic is not None:
                self.classic_member_count += by
                for protocol in member.classic_protocols:
                    count(self.classic_protocol_counts, protocol.name, by)

    # ---- owners: a partition has one owner at most, until that has revoked it

    def owner(self, topic_id: Uuid, partition: int) -> str | None:
        """The id of the member that owns a partition, or has yet to revoke it."""
        return self._owners.get((topic_id, partition))

    def _own(self, member: ConsumerGroupMember) -> None:
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, epochs in owned.items():
                for partition in epochs:
                    self._owners[topic_id, partition] = member.member_id

    def _disown(self, member: ConsumerGroupMember | None) -> None:
        if member is None:
            return
        owners = self._owners
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, epochs in owned.items():
                for partition in epochs:
                    if owners.get((topic_id, partition)) == member.member_id:
                        del owners[topic_id, partition]

    def waits_for_others(self, member: ConsumerGroupMember) -> bool:
        """Whether a partition of the member's target assignment is still owned by another one."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            (topic_id, partition) in self._owners
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
            if partition not in member.assigned.get(topic_id, {})
        )

    # ---- the target assignment

    def target_of(self, member_id: str, instance_id: str | None = None) -> Partitions:
        """The target assignment of a member; a static one has that of the member with its instance id."""
        if instance_id is not None:
            return self.target.get(self.static_members.get(instance_id, ""), NOTHING)
        return self.target.get(member_id, NOTHING)

    def set_target(self, member_id: str, partitions: Partitions) -> None:
        """Sets the target assignment of a member."""
        self._unassign(member_id, self.target.get(member_id, NOTHING), partitions)
        self.target[member_id] = partitions
        for topic_id, indexes in partitions.items():
            self.assigned_to.setdefault(topic_id, {}).update(dict.fromkeys(indexes, member_id))

    def remove_target(self, member_id: str) -> None:
        self._unassign(member_id, self.target.pop(member_id, NOTHING), NOTHING)

    def _unassign(self, member_id: str, old: Partitions, new: Partitions) -> None:
        """Removes partitions of `old` that are not in `new`, unless they were assigned to another member since."""
        for topic_id, partitions in old.items():
            by_partition = self.assigned_to.get(topic_id, {})
            for partition in partitions - new.get(topic_id, frozenset()):
                if by_partition.get(partition) == member_id:
                    del by_partition[partition]
            if not by_partition:
                self.assigned_to.pop(topic_id, None)

    # ---- when to check the topics again

    def must_refresh(self, now_ms: int) -> bool:
        """Whether the topics may have changed since the last check."""
        return now_ms >= self.refresh_deadline_ms or self.group_epoch < self.refresh_epoch

    def refreshed(self, deadline_ms: int, epoch: int) -> None:
        """Notes a check of the topics; `epoch` is the group's epoch after it, unless that could not be written."""
        self.refresh_deadline_ms = deadline_ms
        self.refresh_epoch = epoch

    def request_refresh(self) -> None:
        self.refreshed(0, 0)

    # ---- members of the classic protocol

    def supports_classic_protocols(self, protocol_type: str, names: Mapping[str, object]) -> bool:
        """Whether a classic member with these protocols may join: all classic members have one of them."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        if self.is_empty:
            return bool(names)
        known = self.classic_protocol_counts
        return any(known.get(name, 0) == self.classic_member_count for name in names)

    def all_others_are_classic(self, members: Sequence[ConsumerGroupMember]) -> bool:
        """Whether all members but `members` use the classic protocol."""
        classic = sum(member.uses_classic_protocol for member in members)
        return self.classic_member_count - classic == len(self.members) - len(members)


def _stale(member: ConsumerGroupMember, message: str) -> ApiError:
    code = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(code, message)


def _older_epoch_check(member: ConsumerGroupMember, epoch: int) -> PartitionCheck:
    """A member that does not know its newest epoch may commit for partitions that it already had (KIP-1251)."""

    def check(topic: str, topic_id: Uuid, partition: int) -> None:
        assigned_in = member.assignment_epoch(topic_id, partition)
        if assigned_in is None:
            raise _stale(member, f"{topic}-{partition} is not assigned to the member.")
        if epoch < assigned_in:
            raise _stale(
                member,
                f"{topic}-{partition} is assigned to the member since epoch {assigned_in}; it commits in {epoch}.",
            )

    return check
