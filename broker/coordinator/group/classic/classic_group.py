"""ClassicGroup: the state of one classic group. Source: org.apache.kafka.coordinator.group.classic.ClassicGroup.

It knows its members and its transitions, and neither timers nor records: joining.py, syncing.py, leaving.py and
rebalancing.py decide on those.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from barnabas.broker.coordinator.group.classic.classic_member import (
    ClassicGroupMember,
    Sessions,
    SupportedProtocols,
    for_leader,
)
from barnabas.broker.coordinator.group.classic.protocols import (
    CONSUMER_PROTOCOL_TYPE,
    ProtocolCounts,
    select_protocol,
    subscribed_topics,
)
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.group import GroupType
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataKey
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

logger = logging.getLogger("barnabas.groups")

NO_MEMBER_ID: Final = ""
"""The id in requests of a member that has none yet."""

_IN_USE: Final = frozenset({State.STABLE, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE})


@dataclass(slots=True, eq=False, repr=False)
class ClassicGroup:
    """A classic group.

    `members` by id; `pending_join` are ids that were assigned and have not joined yet (KIP-394), `pending_sync` those
    of members that know the generation and have not asked for their assignment. `protocol_type` is "" and
    `protocol_name`, `leader_id` None where there is none. `new_member_added` extends the initial rebalance;
    `awaiting_join_count` members wait in JoinGroup.
    `subscribed_topics` is None where they are not known (or the group is not one of consumers).
    """

    type: ClassVar[GroupType] = GroupType.CLASSIC

    group_id: str
    now_ms: Callable[[], int]
    sessions: Sessions
    state: State = State.EMPTY
    generation_id: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    state_timestamp_ms: int | None = None
    previous_state: State = State.DEAD
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_join: set[str] = field(default_factory=set)
    pending_sync: set[str] = field(default_factory=set)
    new_member_added: bool = False
    subscribed_topics: frozenset[str] | None = None
    awaiting_join_count: int = 0
    _counts: ProtocolCounts = field(default_factory=ProtocolCounts)

    def __repr__(self) -> str:
        return f"ClassicGroup({self.group_id!r}, {self.state}, generation {self.generation_id})"

    # ---- state

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def can_rebalance(self) -> bool:
        return State.PREPARING_REBALANCE.may_follow(self.state)

    def transition_to(self, state: State) -> None:
        assert state.may_follow(self.state), f"{self} cannot become {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = self.now_ms()

    # ---- members

    def __iter__(self) -> Iterator[ClassicGroupMember]:
        """A copy of the members, which may be removed meanwhile."""
        return iter(list(self.members.values()))

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_join

    def rebalance_timeout_ms(self) -> int:
        """How long members may take to join again: the longest rebalance timeout of a member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: ClassicGroupMember, awaiting: Pending[JoinGroupResponse] | None = None) -> None:
        """Adds a member that shares a protocol with the others; the first one sets the type and leads."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, f"{self}: {member} is there already"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, f"{self}: {member} is of another type"
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._counts.add(member)
        self.pending_join.discard(member.member_id)
        self._await_join(member, awaiting)

    def update(
        self,
        member: ClassicGroupMember,
        protocols: SupportedProtocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        awaiting: Pending[JoinGroupResponse] | None,
    ) -> None:
        """Updates a member that joins again, and the response that it waits for."""
        self._counts.remove(member)
        member.supported_protocols = protocols
        self._counts.add(member)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._await_join(member, awaiting)

    def _await_join(self, member: ClassicGroupMember, awaiting: Pending[JoinGroupResponse] | None) -> None:
        before = member.awaiting_join
        if awaiting is not None and before is not None:
            before.add_done_callback(awaiting.complete)  # the request was sent twice, or a thousand times
            return
        self.awaiting_join_count += (awaiting is not None) - (before is not None)
        member.awaiting_join = awaiting

    def remove(self, member_id: str) -> None:
        """Removes a member, or an id that was assigned; another member leads in place of a removed leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._counts.remove(member)
            self._await_join(member, None)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static_member(self, instance_id: str, old_id: str, new_id: str) -> ClassicGroupMember:
        """Gives a static member a new id and its old place; the old id is fenced (KIP-345)."""
        old = self.members.pop(old_id)
        code = ErrorCode.FENCED_INSTANCE_ID
        self.complete_join(old, JoinGroupResponse(member_id=old_id, error_code=code, protocol_name=None))
        old.complete_sync(SyncGroupResponse(error_code=code))
        new = self.members[new_id] = old.replaced_by(new_id)
        if self.is_leader(old_id):
            self.leader_id = new_id
        self.static_members[instance_id] = new_id
        if old_id in self.pending_sync:
            # Kafka keeps waiting for the old id here, and rebalances in the end because that never syncs.
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        return new

    def elect_joined_leader(self) -> bool:
        """Makes a member leader that has joined; False where no member has."""
        if self.leader_id is None:
            return False
        leader = self.members[self.leader_id]
        if leader.awaiting_join is not None:
            return True
        joined = next((member for member in self if member.awaiting_join is not None), None)
        if joined is None:
            logger.info("Group %s: neither the leader nor another member has joined again.", self.group_id)
            return False
        logger.info(
            "Group %s: %s becomes leader, since %s has not joined again.", self.group_id, joined, leader
        )
        self.leader_id = joined.member_id
        return True

    def check_member(self, member_id: str, group_instance_id: str | None, operation: str) -> None:
        """Raises ApiError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where the instance has another id by now."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                logger.info(
                    "Group %s: %s of member %s of instance %s is fenced: the instance is member %s now.",
                    self.group_id,
                    operation,
                    member_id,
                    group_instance_id,
                    current,
                )
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    # ---- protocols

    def supports(self, protocol_type: str, protocol_names: list[str]) -> bool:
        """Whether a member with these protocols may join."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocol_names)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._counts.has_all(name, size) for name in protocol_names
        )

    def select_protocol(self) -> str:
        return select_protocol(list(self.members.values()), self._counts)

    def update_subscribed_topics(self) -> None:
        """Updates `subscribed_topics` from the metadata of members in the chosen protocol."""
        if not self.uses_consumer_protocol:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is None:
            self.subscribed_topics = None
        else:
            self.subscribed_topics = subscribed_topics(self.members.values(), self.protocol_name)
            if self.subscribed_topics is None:
                logger.warning(
                    "Group %s: the metadata of members in protocol %s cannot be parsed; the topics that they are "
                    "subscribed to are not known.",
                    self.group_id,
                    self.protocol_name,
                )

    # ---- generations and answers

    def init_next_generation(self) -> None:
        """Begins the next generation with the current members; without any the group becomes empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.transition_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY)
        self.pending_sync.clear()

    def complete_join(self, member: ClassicGroupMember, response: JoinGroupResponse) -> bool:
        """Completes the member's pending JoinGroup; False where there is none."""
        waiting = member.awaiting_join
        if waiting is None:
            return False
        self._await_join(member, None)
        waiting.complete(response)
        return True

    def fail_waiting(self, code: ErrorCode) -> None:
        """Completes all pending JoinGroups and SyncGroups with an error."""
        for member in self:
            self.complete_join(member, JoinGroupResponse(member_id=member.member_id, error_code=code))
            member.complete_sync(SyncGroupResponse(error_code=code))

    def joined_response(self, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """The JoinGroup response of a member of the current generation; the leader gets the metadata of all."""
        leads = self.is_leader(member_id)
        return JoinGroupResponse(
            members=for_leader(list(self.members.values()), self.protocol_name) if leads else [],
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            protocol_type=self.protocol_type or None,
            leader=self.leader_id or NO_MEMBER_ID,
            skip_assignment=skip_assignment,
        )

    # ---- the methods of Group

    def check_offset_commit(self, commit: OffsetCommit, *, is_transactional: bool) -> None:
        if self.state is State.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if commit.epoch < 0 and self.state is State.EMPTY:
            return  # from an administrator, or a consumer that assigns partitions to itself
        if commit.epoch >= 0 or commit.member_id or commit.group_instance_id is not None:
            operation = "txn-offset-commit" if is_transactional else "offset-commit"
            self.check_member(commit.member_id, commit.group_instance_id, operation)
            if commit.epoch != self.generation_id:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and self.state is not State.EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.state is State.COMPLETING_REBALANCE:
            # The member knows the generation, but not yet whether it owns the partitions that it commits for.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def offset_committed_by(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in {State.STABLE, State.PREPARING_REBALANCE}:
            self.sessions.extend(self.group_id, member_id, member.session_timeout_ms)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._check_not_dead()

    def check_offset_delete(self) -> None:
        self._check_not_dead()
        if self.state in _IN_USE and not self.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        self._check_not_dead()
        if self.state in _IN_USE:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def _check_not_dead(self) -> None:
        if self.state is State.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def offset_expires_from(self, commit_timestamp_ms: int, now_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        knows_topics = self.uses_consumer_protocol and self.subscribed_topics is not None
        return commit_timestamp_ms if knows_topics and self.state is State.STABLE else None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [tombstone(GroupMetadataKey(group=self.group_id))]
