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
"""How long the first JoinGroup of a member may wait: its client has timed out and retried with a new id by then."""

SupportedProtocols = tuple[tuple[str, bytes], ...]
"""The protocols of a member by name, the preferred one first, each with the member's metadata."""


@dataclass(slots=True, eq=False, repr=False)
class ClassicGroupMember:
    """A member: its identity, protocols and assignment, and the responses that it waits for.

    `is_new` is set while its first JoinGroup waits: its session runs meanwhile, though it sends no heartbeats.
    `still_owned` is what it owns until it knows `assignment`, and None once it does: the group was a consumer group in
    which the member was being reconciled.
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
        """The same static member under the id of its new JoinGroup (KIP-345)."""
        return replace(self, member_id=member_id, is_new=False, awaiting_join=None, awaiting_sync=None)

    @property
    def owned(self) -> bytes:
        """The assignment that other members must not get before this one has joined again."""
        return self.assignment if self.still_owned is None else self.still_owned

    def assign(self, assignment: bytes) -> None:
        """Sets the assignment of a new generation."""
        self.assignment = assignment
        self.still_owned = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def protocol_names(self) -> list[str]:
        return [name for name, _ in self.supported_protocols]

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata in a protocol. Raises AssertionError for a protocol that it does not have."""
        for name, metadata in self.supported_protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"{self} does not support {protocol_name!r}")

    def vote(self, candidates: Container[str]) -> str:
        """The member's preferred protocol of `candidates`, which all members have."""
        return next(name for name in self.protocol_names if name in candidates)

    def has_satisfied_heartbeat(self) -> bool:
        """Whether its session continues without a heartbeat: it waits for a response of the coordinator."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def complete_sync(self, response: SyncGroupResponse) -> bool:
        """Completes the pending SyncGroup; False where there is none."""
        waiting, self.awaiting_sync = self.awaiting_sync, None
        if waiting is None:
            return False
        waiting.complete(response)
        return True

    def describe(self, protocol_name: str | None) -> DescribeGroupsResponse.DescribedGroupMember:
        """The member in DescribeGroups; `protocol_name` None: in a state in which metadata is not shown."""
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
    """The members in the JoinGroup response of the leader."""
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(protocol_name),
        )
        for member in members
    ]


Expired = Callable[[str, str], CoordinatorResult[None]]
"""Called with the ids of a group and a member whose session has expired."""


class Sessions:
    """One session timer for each member of the classic groups of a shard, and for each id that has not joined yet."""

    def __init__(self, timer: CoordinatorTimer, expired: Expired) -> None:
        self._timer = timer
        self._expired = expired

    def extend(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Restarts the session of a member with `timeout_ms`."""
        expired = self._expired
        self._timer.schedule(
            ("classic-session", group_id, member_id),
            max(timeout_ms, 0),
            lambda: expired(group_id, member_id),
            retry=False,
        )

    def end(self, group_id: str, member_id: str) -> None:
        """Cancels the session of a member that has left."""
        self._timer.cancel(("classic-session", group_id, member_id))
