"""Reconciliation of a member with its target assignment, one step for each heartbeat.

    STABLE -------- a new assignment ------> UNREVOKED_PARTITIONS   it has to revoke partitions: it gets the rest only
    UNREVOKED ----- it has revoked them ---> UNRELEASED_PARTITIONS  it waits for partitions that others still own
    UNRELEASED ---- others have revoked ---> STABLE                 it owns its target assignment
    UNKNOWN ------- it owns nothing -------> any of the above       else it is fenced

It moves to the epoch of the assignment when it has revoked what it must, and no sooner: so a member in an epoch owns
nothing that was assigned to another one in it. Source: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from barnabas.broker.coordinator.group.consumer.consumer_member import (
    OWNS_NOTHING,
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
    Partitions,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import Uuid

Owned = Mapping[Uuid, Set[int]]
"""The partitions that a member reports as owned."""


class Reconciliation(NamedTuple):
    """The inputs of a step: the target assignment and its epoch, the member's topics, and the owners of partitions.

    `owned` are the partitions that the member reports, None where it does not. `is_owned` returns whether a topic's
    partition has an owner now.
    """

    target_epoch: int
    target: Partitions
    subscribed: Set[Uuid]
    has_subscription_changed: bool
    is_owned: Callable[[Uuid, int], bool]
    owned: Owned | None

    def apply(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """The member after one step, or unchanged where none is due. Raises ApiError(FENCED_MEMBER_EPOCH)."""
        if member.state is MemberState.STABLE:
            if member.member_epoch != self.target_epoch:
                return self._advance(member, member.member_epoch)
            return self._without_unsubscribed(member) if self.has_subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._owns_any(member.pending_revocation):
            return self._without_unsubscribed(member) if self.has_subscription_changed else member
        if member.state is MemberState.UNKNOWN:
            if self.owned is None or self.owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The state of the member is not known here; it must revoke its partitions and join again.",
                )
            return self._advance(member, self.target_epoch)
        return self._advance(member, member.member_epoch)

    def _advance(self, member: ConsumerGroupMember, epoch: int) -> ConsumerGroupMember:
        """The step towards the assignment; the member stays in `epoch` where it has to revoke partitions first."""
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoked: dict[Uuid, Mapping[int, int]] = {}
        for topic_id, epochs in member.assigned.items():
            target = self._target_of(topic_id)
            if kept_here := {p: at for p, at in epochs.items() if p in target}:
                kept[topic_id] = kept_here
            if len(kept_here) < len(epochs):
                revoked[topic_id] = {p: at for p, at in epochs.items() if p not in target}
        if revoked and self._owns_any(revoked):
            return member.moved_to(epoch)._replace(
                state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked
            )
        assigned, waits = self._with_released(member, kept)
        return member.moved_to(self.target_epoch)._replace(
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            assigned=assigned,
            pending_revocation=OWNS_NOTHING,
        )

    def _with_released(
        self, member: ConsumerGroupMember, kept: PartitionEpochs
    ) -> tuple[PartitionEpochs, bool]:
        """`kept` with assigned partitions that are free, and whether others still own some of the assignment."""
        assigned = dict(kept)
        waits = False
        for topic_id in self.target:
            here = kept.get(topic_id, {})
            own = member.pending_revocation.get(topic_id, {})
            missing = self._target_of(topic_id) - here.keys()
            free = {p for p in missing if p in own or not self.is_owned(topic_id, p)}
            waits = waits or len(free) < len(missing)
            if free:
                assigned[topic_id] = {p: here.get(p, self.target_epoch) for p in sorted(here.keys() | free)}
        return assigned, waits

    def _without_unsubscribed(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Revokes topics that a member is no longer subscribed to, without a new assignment."""
        gone = [topic_id for topic_id in member.assigned if topic_id not in self.subscribed]
        if not gone:
            return member
        kept = {
            topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in self.subscribed
        }
        revoked = dict(member.pending_revocation)
        for topic_id in gone:
            revoked[topic_id] = {**revoked.get(topic_id, {}), **member.assigned[topic_id]}
        moved = member.moved_to(member.member_epoch)._replace(assigned=kept)
        if not self._owns_any(revoked):
            return moved
        return moved._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=revoked)

    def _target_of(self, topic_id: Uuid) -> frozenset[int]:
        return self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()

    def _owns_any(self, partitions: PartitionEpochs) -> bool:
        """Whether the member owns any of these; assumed where it does not report."""
        if self.owned is None:
            return True
        return any(
            not self.owned[topic_id].isdisjoint(partitions.get(topic_id, ())) for topic_id in self.owned
        )
