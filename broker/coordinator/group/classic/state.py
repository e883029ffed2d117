"""ClassicGroupState: where a classic group stands.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroupState.

What a request does in which state (a member's own errors come first: unknown, fenced, of another generation):

| state               | JoinGroup                             | SyncGroup             | Heartbeat             |
| ------------------- | ------------------------------------- | --------------------- | --------------------- |
| Empty               | begins the initial rebalance          | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     |
| PreparingRebalance  | waits for the others                  | REBALANCE_IN_PROGRESS | REBALANCE_IN_PROGRESS |
| CompletingRebalance | new, changed: rebalance; or the same  | waits for the leader  | taken                 |
| Stable              | new, changed, leader: rebalance       | answered              | taken                 |
| Dead                | COORDINATOR_NOT_AVAILABLE, whatever it is                                             |

Offsets are taken in each of them but CompletingRebalance (REBALANCE_IN_PROGRESS).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ClassicGroupState(StrEnum):
    """The value is what ListGroups and DescribeGroups say."""

    EMPTY = "Empty"
    """No members; perhaps offsets. Leaves for PreparingRebalance with the first member."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are to join (again). Leaves for CompletingRebalance when all have, or the time is over; for Empty when
    nobody is left."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; its leader is to assign. Leaves for Stable when it has, for PreparingRebalance when a
    member joins, leaves or fails."""

    STABLE = "Stable"
    """Everybody has an assignment. Leaves for PreparingRebalance."""

    DEAD = "Dead"
    """Another broker coordinates the group."""

    def may_follow(self, before: ClassicGroupState) -> bool:
        """Whether a group in state `before` may come to this one."""
        return before in _PREVIOUS[self]


_S = ClassicGroupState
_PREVIOUS: Final = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
