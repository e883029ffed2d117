"""Sessions: when members of classic groups were last heard of.

Source: GroupMetadataManager (rescheduleClassicGroupMemberHeartbeat, classicGroupHeartbeatKey).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.coordinator.shard import CoordinatorResult, CoordinatorTimer

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long the first JoinGroup of a member may wait: by then its client has given up and asked again under a new id."""

Expired = Callable[[str, str], CoordinatorResult[None]]
"""What happens to a member of a group (their ids) whose session is over."""


class Sessions:
    """One timer for each member of the classic groups of a shard, and for each id that waits for its member."""

    __slots__ = ("_expired", "_timer")

    def __init__(self, timer: CoordinatorTimer, expired: Expired) -> None:
        self._timer = timer
        self._expired = expired

    def extend(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """The member was heard of: `timeout_ms` begin anew."""
        expired = self._expired
        self._timer.schedule(
            ("classic-session", group_id, member_id),
            max(timeout_ms, 0),
            lambda: expired(group_id, member_id),
            retry=False,
        )

    def end(self, group_id: str, member_id: str) -> None:
        """The member has left."""
        self._timer.cancel(("classic-session", group_id, member_id))
