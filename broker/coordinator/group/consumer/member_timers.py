"""The timers of members: a member that sends no heartbeats, or makes no progress, is removed from the group.

    session     no heartbeat: group.consumer.session.timeout.ms, or the session timeout of a classic member
    rebalance   it does not revoke partitions within its rebalance timeout
    join        a classic member was asked to join again and has not
    sync        a classic member has joined and has not sent SyncGroup

Source: GroupMetadataManager (scheduleConsumerGroup...Timeout).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.coordinator.group.consumer.consumer_member import ConsumerGroupMember
from barnabas.broker.coordinator.shard import CoordinatorResult, CoordinatorTimer

Fence = Callable[[str, str, str, int | None], CoordinatorResult[None]]
"""Removes a member: group, member, reason, and the epoch that it has to be in for that (None: any)."""

_SESSION: Final = "consumer-session"
_REBALANCE: Final = "consumer-rebalance"
_JOIN: Final = "consumer-join"
_SYNC: Final = "consumer-sync"


class MemberTimers:
    """Schedules them on the shard's timer; each calls `fence` when it expires."""

    def __init__(self, timer: CoordinatorTimer, fence: Fence) -> None:
        self._timer = timer
        self._fence = fence

    def session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._schedule(_SESSION, group_id, member_id, timeout_ms, "its session has expired")

    def rebalance(self, group_id: str, member: ConsumerGroupMember) -> None:
        """The member has to revoke partitions; it has done so once its epoch changes."""
        timeout_ms = member.rebalance_timeout_ms
        reason = f"it stayed in epoch {member.member_epoch} for {timeout_ms} ms"
        self._schedule(
            _REBALANCE, group_id, member.member_id, timeout_ms, reason, only_in_epoch=member.member_epoch
        )

    def rebalanced(self, group_id: str, member_id: str) -> None:
        self._timer.cancel((_REBALANCE, group_id, member_id))

    def join(self, group_id: str, member: ConsumerGroupMember) -> None:
        """A classic member has to join again; only the first call schedules."""
        if not self._timer.is_scheduled((_JOIN, group_id, member.member_id)):
            reason = "it did not join again within its rebalance timeout"
            self._schedule(_JOIN, group_id, member.member_id, member.rebalance_timeout_ms, reason)

    def joined(self, group_id: str, member_id: str) -> None:
        self._timer.cancel((_JOIN, group_id, member_id))

    def sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """A classic member has joined."""
        self._schedule(_SYNC, group_id, member_id, timeout_ms, "it joined and did not send SyncGroup in time")

    def synced(self, group_id: str, member_id: str) -> None:
        self._timer.cancel((_SYNC, group_id, member_id))

    def cancel(self, group_id: str, member_id: str) -> None:
        """The member is gone."""
        for kind in (_SESSION, _REBALANCE, _JOIN, _SYNC):
            self._timer.cancel((kind, group_id, member_id))

    def _schedule(
        self,
        kind: str,
        group_id: str,
        member_id: str,
        timeout_ms: int,
        reason: str,
        *,
        only_in_epoch: int | None = None,
    ) -> None:
        self._timer.schedule(
            (kind, group_id, member_id),
            timeout_ms,
            lambda: self._fence(group_id, member_id, reason, only_in_epoch),
        )
