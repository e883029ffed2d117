"""ClassicGroupState: the states of a classic group.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroupState.

What a request does in which state (a member's own errors come first: unknown, fenced, of another generation):

| state               | JoinGroup                             | SyncGroup             | Heartbeat             |
| ------------------- | ------------------------------------- | --------------------- | --------------------- |
| Empty               | begins the initial rebalance          | UNKNOWN_MEMBER_ID     | UNKNOWN_MEMBER_ID     |
| PreparingRebalance  | waits for the others                  | REBALANCE_IN_PROGRESS | REBALANCE_IN_PROGRESS |
| CompletingRebalance | new, changed: rebalance; or the same  | waits for the leader  | accepted              |
| Stable              | new, changed, leader: rebalance       | answered              | accepted              |
| Dead                | COORDINATOR_NOT_AVAILABLE, whatever it is                                             |

Offset commits are accepted in all states but CompletingRebalance (REBALANCE_IN_PROGRESS).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ClassicGroupState(StrEnum):
    """The values are those of ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    """No members; perhaps offsets. Leaves for PreparingRebalance with the first member."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members join (again). Leaves for CompletingRebalance when all have, or the timeout expires; for Empty when no
    member is left."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; its leader is to assign. Leaves for Stable when it has, for PreparingRebalance when a
    member joins, leaves or fails."""

    STABLE = "Stable"
    """All members have an assignment. Leaves for PreparingRebalance."""

    DEAD = "Dead"
    """Another broker coordinates the group."""

    def may_follow(self, before: ClassicGroupState) -> bool:
        """Whether a group in state `before` may enter this one."""
        return before in _PREVIOUS[self]


_S = ClassicGroupState
_PREVIOUS: Final = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
