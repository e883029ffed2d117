"""ClassicGroupMember: one member of a classic group; and Sessions, the timers of members.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroupMember, GroupMetadataManager
(rescheduleClassicGroupMemberHeartbeat, classicGroupHeartbeatKey).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.broker.coordinator.shard import CoordinatorResult, CoordinatorTimer
from barnabas.broker.pending import Pending
from barnabas.protocol.messages.groups import DescribeGroupsResponse, JoinGroupResponse, SyncGroupResponse

EMPTY_ASSIGNMENT: Final = b""
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long the first JoinGroup of a member may wait: by then its client has given up and asked again under a new id."""

SupportedProtocols = tuple[tuple[str, bytes], ...]
"""What a member can do: the protocols' names, the dearest first, each with what the member has to say in it."""


@dataclass(slots=True, eq=False, repr=False)
class ClassicGroupMember:
    """A member: who it is, what it can do, what it was given, and whether it waits for an answer.

    `is_new` is set while its first JoinGroup waits: nothing is heard of it meanwhile, and its session counts all the
    same. `still_owned` is what it has before it learns of `assignment`, and None where it has that: the group was a
    consumer group in which the member was on its way to its assignment.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    supported_protocols: SupportedProtocols
    assignment: bytes = EMPTY_ASSIGNMENT
    is_new: bool = False
    still_owned: bytes | None = None
    awaiting_join: Pending[JoinGroupResponse] | None = None
    awaiting_sync: Pending[SyncGroupResponse] | None = None

    def __repr__(self) -> str:
        return f"ClassicGroupMember({self.member_id!r}, instance {self.group_instance_id!r})"

    def replaced_by(self, member_id: str) -> ClassicGroupMember:
        """The same static member under the id that it got when it joined again (KIP-345)."""
        return replace(self, member_id=member_id, is_new=False, awaiting_join=None, awaiting_sync=None)

    @property
    def owned(self) -> bytes:
        """What others must not be given before the member has joined again."""
        return self.assignment if self.still_owned is None else self.still_owned

    def assign(self, assignment: bytes) -> None:
        """Gives it what the leader of a new generation has chosen for it."""
        self.assignment = assignment
        self.still_owned = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def protocol_names(self) -> list[str]:
        return [name for name, _ in self.supported_protocols]

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member says in a protocol; asking for one that it has not is a bug of ours (AssertionError)."""
        for name, metadata in self.supported_protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self} does not support {protocol_name!r}")

    def vote(self, candidates: Container[str]) -> str:
        """The member's dearest among protocols that all members have."""
        return next(name for name in self.protocol_names if name in candidates)

    def has_satisfied_heartbeat(self) -> bool:
        """Whether its session goes on although nothing was heard: it waits for an answer of ours."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def complete_sync(self, response: SyncGroupResponse) -> bool:
        """Answers the SyncGroup that waits; False where none does."""
        waiting, self.awaiting_sync = self.awaiting_sync, None
        if waiting is None:
            return False
        waiting.complete(response)
        return True

    def describe(self, protocol_name: str | None) -> DescribeGroupsResponse.DescribedGroupMember:
        """For DescribeGroups; None: in a state in which what members say is not shown."""
        return DescribeGroupsResponse.DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol_name is None else self.metadata(protocol_name),
            member_assignment=self.assignment,
        )


def for_leader(
    members: Sequence[ClassicGroupMember], protocol_name: str | None
) -> list[JoinGroupResponse.JoinGroupResponseMember]:
    """What a leader is told of the members that it assigns to."""
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in members
    ]


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
