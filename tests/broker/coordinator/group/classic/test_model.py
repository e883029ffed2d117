"""A classic group under random members: they join, sync, stop, leave and return; records are late or lost.

After every step: the group is consistent; no two members that may commit hold the same partition; a replay of the
committed records gives the same group. Once faults end, all live members are in one generation, and hold all partitions
between them, and there is no other member.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataValue
from barnabas.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from tests.broker.coordinator.group.classic.classic_harness import SUBSCRIBED, ClassicHarness, Heard, Member
from tests.broker.coordinator.shard_harness import Logged, ShardHarness

HISTORIES: Final = int(os.environ.get("BARNABAS_CLASSIC_HISTORIES", "40"))
PARTITIONS: Final = range(6)
SESSION_MS: Final = 10_000
LOST: Final = ApiError(ErrorCode.NOT_COORDINATOR)
WITHOUT_GROUP: Final = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


class LateHarness(ShardHarness[GroupCoordinatorShard]):
    """A shard whose records are committed on demand, and whose responses come with the commit."""

    def __init__(self, *args: Any, **kinds: Any) -> None:
        self.late: list[tuple[CoordinatorResult[Any], Pending[Any]]] = []
        self.committed = 0
        super().__init__(*args, **kinds)
        self.committed = len(self.log)

    def run(self, operation: Any, **_: Any) -> Any:
        answer: Pending[Any] = Pending()
        self._submit(operation(self.shard), answer)
        return answer

    def _write(self, result: CoordinatorResult[Any], *_: Any) -> None:
        self._submit(result, Pending())

    def _submit(self, result: CoordinatorResult[Any], answer: Pending[Any]) -> None:
        for record in result.records:
            self._append(Logged(record), replays=result.replays)
        self.late.append((result, answer))
        if not result.records and len(self.late) == 1:
            self.commit()

    def commit(self) -> None:
        """Commits what was written, and completes the pending responses."""
        late, self.late = self.late, []
        self.committed = len(self.log)
        for result, answer in late:
            if result.on_committed is not None:
                result.on_committed(None)
            if isinstance(result.response, Pending):
                result.response.add_done_callback(answer.complete)
            else:
                answer.complete(result.response)

    def lose(self) -> list[Pending[Any]]:
        """Loses what was not committed, and unloads the shard. The runtime fails the pending responses."""
        late, self.late = self.late, []
        del self.log[self.committed :]
        self.timers.close()
        for result, _ in late:
            if result.on_committed is not None:
                result.on_committed(LOST)
        self.shard.on_unloaded()
        return [answer for _, answer in late]


class Client:
    """A consumer: joins, syncs, sends heartbeats, and follows the responses."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.joining: Heard[JoinGroupResponse] | None = None
        self.syncing: Heard[SyncGroupResponse] | None = None
        self.heard: JoinGroupResponse | None = None
        self.owned: set[int] | None = None
        self.is_alive = True

    @property
    def waits(self) -> bool:
        return any(heard is not None and heard.waits for heard in (self.joining, self.syncing))

    def act(self) -> None:
        """Processes responses, and takes a client's next step."""
        if self.waits:
            return
        if self.joining is not None:
            self._joined(self.joining)
        elif self.syncing is not None:
            self._synced(self.syncing)
        elif self.owned is not None:
            self._said(self.member.heartbeat())
        elif self.heard is not None:
            self.syncing = self.member.sync(self._assignments())
        else:
            self.joining = self.member.join_once()

    def _joined(self, heard: Heard[JoinGroupResponse]) -> None:
        self.joining = None
        if heard.code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
            self.member.id = heard.said.member_id
        if heard.code is ErrorCode.NONE:
            self.heard = heard.said
            self.member.generation = heard.said.generation_id
        self._said(heard.code)

    def _synced(self, heard: Heard[SyncGroupResponse]) -> None:
        self.syncing = None
        if heard.code is ErrorCode.NONE:
            self.owned = set(heard.said.assignment)
        self._said(heard.code)

    def _said(self, code: ErrorCode) -> None:
        if code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
            return
        self.heard = self.owned = None
        if code in WITHOUT_GROUP:
            self.member.id, self.member.generation = "", -1
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.is_alive = False

    def _assignments(self) -> dict[str, bytes]:
        assert self.heard is not None
        if self.heard.leader != self.member.id or self.heard.skip_assignment:
            return {}
        ids = sorted(member.member_id for member in self.heard.members)
        return {member_id: bytes(PARTITIONS[at :: len(ids)]) for at, member_id in enumerate(ids)}

    def told(self, code: ErrorCode) -> None:
        """The coordinator has moved: pending responses do not come."""
        self.joining = self.syncing = None
        self._said(code)


class ClassicMachine(RuleBasedStateMachine):
    """`clients` are those that run or that the group remembers; others are removed."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = {"group.initial.rebalance.delay.ms": "100", "group.max.size": "5"}
        self.harness = ClassicHarness(shard_harness=LateHarness(GroupCoordinatorShard, self.settings))
        self.clients: list[Client] = []
        self.generation = 0
        self.names = 0

    @property
    def shard_harness(self) -> LateHarness:
        assert isinstance(self.harness.shard_harness, LateHarness)
        return self.harness.shard_harness

    @property
    def group(self) -> ClassicGroup | None:
        group = self.harness.shard.groups.find("g")
        return group if isinstance(group, ClassicGroup) else None

    # ---- steps

    @precondition(lambda self: len(self.clients) < 5)
    @rule(is_static=st.booleans(), version=st.sampled_from([3, 4, 8, 9]), old=st.booleans())
    def comes(self, is_static: bool, version: int, old: bool) -> None:
        self.names += 1
        name = f"m{self.names}"
        protocols = (("roundrobin", SUBSCRIBED), ("range", SUBSCRIBED))
        member = self.harness.member(
            name,
            instance=f"i{self.names % 3}" if is_static and version >= 5 else None,
            version=version,
            protocols=protocols[::-1] if old else protocols,
            rebalance_ms=20_000,
        )
        client = Client(member)
        self.clients.append(client)
        client.act()

    @precondition(lambda self: self.clients)
    @rule(at=st.integers(0, 4), times=st.integers(1, 3))
    def acts(self, at: int, times: int) -> None:
        client = self.clients[at % len(self.clients)]
        for _ in range(times):
            if client.is_alive:
                client.act()

    @rule(rounds=st.integers(1, 3))
    def all_act(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.clients:
                if client.is_alive:
                    client.act()

    @precondition(lambda self: self.clients)
    @rule(at=st.integers(0, 4))
    def dies(self, at: int) -> None:
        self.clients.pop(at % len(self.clients))

    @precondition(lambda self: self.clients)
    @rule(at=st.integers(0, 4))
    def leaves(self, at: int) -> None:
        client = self.clients.pop(at % len(self.clients))
        if client.member.id:
            client.member.leave()

    @rule(ms=st.sampled_from([50, 100, 3_000, 9_999, 20_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule()
    def commits(self) -> None:
        self.shard_harness.commit()

    @rule()
    def records_are_lost(self) -> None:
        shard_harness = self.shard_harness
        told = shard_harness.lose()
        again = LateHarness(
            GroupCoordinatorShard, self.settings, log=shard_harness.log, now_ms=shard_harness.now_ms
        )
        again.uuids = shard_harness.uuids  # no two loads give out the same member id
        self.harness.shard_harness = again
        for client in self.clients:
            if client.waits:
                client.told(ErrorCode.NOT_COORDINATOR)
        assert all(not answer.done for answer in told)
        self.generation = self.group.generation_id if self.group is not None else 0

    # ---- invariants

    @invariant()
    def the_group_is_in_order(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members
        waiting = [member for member in members.values() if member.awaiting_join is not None]
        assert group.awaiting_join_count == len(waiting)
        assert group.leader_id in members if members else group.leader_id is None
        assert set(group.static_members.values()) == {m.member_id for m in members.values() if m.is_static}
        assert group.pending_sync <= set(members)
        assert not group.pending_join & set(members)
        assert len(waiting) <= 5
        if group.state is State.EMPTY:
            assert not members
        if group.state in {State.STABLE, State.COMPLETING_REBALANCE}:
            assert members
            assert group.protocol_name is not None
            assert all(group.protocol_name in member.protocol_names for member in members.values())
        assert all(member.awaiting_sync is None for member in members.values()) or (
            group.state is State.COMPLETING_REBALANCE
        )
        for member_id in (*members, *group.pending_join):
            waits = member_id in members and members[member_id].has_satisfied_heartbeat()
            assert waits or self.shard_harness.timers.is_scheduled(("classic-session", "g", member_id))

    @invariant()
    def generations_only_grow(self) -> None:
        if self.group is not None:
            assert self.group.generation_id >= self.generation
            self.generation = self.group.generation_id

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        taken: list[int] = []
        for client in self.clients:
            if client.owned and self._may_commit(client):
                taken += client.owned
        assert len(taken) == len(set(taken))

    def _may_commit(self, client: Client) -> bool:
        if self.group is None:
            return False
        member = client.member
        try:
            commit = OffsetCommit("g", member.id, member.instance, member.generation, 9, ())
            self.group.check_offset_commit(commit, is_transactional=False)
        except ApiError:
            return False
        return True

    @invariant()
    def a_stable_group_is_what_its_record_says(self) -> None:
        group = self.group
        if group is None or group.state is not State.STABLE or self.shard_harness.late:
            return
        value = next(iter(reversed(self.shard_harness.records))).value
        assert isinstance(value, GroupMetadataValue)
        assert value.generation == group.generation_id
        written = {member.member_id: member.assignment for member in value.members}
        assert written == {member.member_id: member.assignment for member in group}

    def teardown(self) -> None:
        """Without further faults the group settles."""
        for _ in range(60):
            self.shard_harness.commit()
            for client in self.clients:
                if client.is_alive:
                    client.act()
            self.shard_harness.commit()
            self.harness.advance(1_000)
            self.nobody_shares_a_partition()
        self.shard_harness.commit()
        alive = [client for client in self.clients if client.is_alive]
        if not alive:
            return
        assert self.group is not None
        assert set(self.group.members) == {client.member.id for client in alive}
        assert self.group.state is State.STABLE
        assert sorted(at for client in alive for at in client.owned or ()) == list(PARTITIONS)


TestClassicGroups = ClassicMachine.TestCase
TestClassicGroups.settings = settings(max_examples=HISTORIES, stateful_step_count=40, deadline=None)
