"""LeaveGroup and Heartbeat."""

from __future__ import annotations

from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import LeaveGroupRequest
from tests.broker.coordinator.group.classic.classic_harness import AT_ONCE, SESSION_MS, ClassicHarness

named = LeaveGroupRequest.MemberIdentity


def test_a_leave_starts_a_rebalance_of_the_others() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    (left,) = leader.leave().said.members
    assert (left.member_id, left.error_code) == (leader.id, ErrorCode.NONE)
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert follower.joined().leader == follower.id


def test_the_leave_of_the_last_member_makes_the_group_empty() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    assert member.leave().code is ErrorCode.NONE
    assert harness.group().is_empty
    assert harness.reloaded().group().is_empty
    assert member.leave().said.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leave_completes_the_pending_join_of_the_member_as_unknown() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    leader.leave()
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    follower.joined()


def test_the_leave_of_the_last_awaited_member_ends_the_wait() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    follower.leave()
    assert len(waiting.said.members) == 1


def test_a_leave_does_not_end_the_initial_rebalance() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "3000"})
    first, second = harness.member("a"), harness.member("b")
    waiting = first.join()
    second.join()
    second.leave()
    assert waiting.waits
    harness.advance(6_000)
    assert len(waiting.said.members) == 1


def test_each_of_many_leaves_has_its_own_result() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable_static("a", "b")
    pending = harness.member("c").join_once().said.member_id
    said = leader.leave_all(
        named(member_id="nobody"),
        named(member_id="", group_instance_id=None),
        named(member_id="", group_instance_id="nothing"),
        named(member_id=leader.id, group_instance_id="b"),
        named(member_id=pending),
        named(member_id="", group_instance_id="a"),
    ).said
    assert [member.error_code for member in said.members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert list(harness.group().members) == [follower.id]
    assert not harness.group().pending_join
    assert harness.group().state is State.PREPARING_REBALANCE


def test_the_leave_of_an_unknown_member_changes_nothing() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    member.leave_all(named(member_id="nobody"))
    assert harness.group().state is State.STABLE


def test_all_members_of_an_unknown_group_are_unknown() -> None:
    harness = ClassicHarness()
    member = harness.member()
    member.id = "m"
    assert member.leave().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_accepted_after_the_join_and_answered_by_state() -> None:
    harness = ClassicHarness(AT_ONCE)
    member = harness.member("a")
    member.joined()
    assert member.heartbeat() is ErrorCode.NONE
    harness.assign(member)
    for _ in range(3):
        harness.advance(SESSION_MS - 1)
        assert member.heartbeat() is ErrorCode.NONE
    member.generation += 1
    assert member.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    member.instance = "i"
    assert member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leave_cancels_the_session() -> None:
    harness = ClassicHarness(AT_ONCE)
    members = harness.stable("a", "b")
    for member in members:
        member.leave()
    for member in members:
        assert not harness.shard_harness.timers.is_scheduled(("classic-session", "g", member.id))


def test_a_leave_completes_the_pending_sync_of_the_member_as_unknown() -> None:
    """A consumer that closes sends LeaveGroup behind the pending SyncGroup: responses are sent in order, so without
    the first it would not receive the second either."""
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    follower.joined()
    leader.take(waiting)
    sync = follower.sync()
    assert sync.waits
    assert follower.leave().code is ErrorCode.NONE
    assert sync.code is ErrorCode.UNKNOWN_MEMBER_ID
