"""LeaveGroup and Heartbeat."""

from __future__ import annotations

from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import LeaveGroupRequest
from tests.broker.coordinator.group.classic.classic_harness import AT_ONCE, SESSION_MS, ClassicHarness

named = LeaveGroupRequest.MemberIdentity


def test_who_leaves_makes_the_others_join_again() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    (left,) = leader.leave().said.members
    assert (left.member_id, left.error_code) == (leader.id, ErrorCode.NONE)
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert follower.joined().leader == follower.id


def test_the_last_who_leaves_leaves_an_empty_group() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    assert member.leave().code is ErrorCode.NONE
    assert harness.group().is_empty
    assert harness.reloaded().group().is_empty
    assert member.leave().said.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_while_it_waits_hears_that_it_is_unknown() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    leader.leave()
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    follower.joined()


def test_who_leaves_last_of_those_that_were_waited_for_ends_the_wait() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    follower.leave()
    assert len(waiting.said.members) == 1


def test_nobody_ends_an_initial_rebalance_by_leaving() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "3000"})
    first, second = harness.member("a"), harness.member("b")
    waiting = first.join()
    second.join()
    second.leave()
    assert waiting.waits
    harness.advance(6_000)
    assert len(waiting.said.members) == 1


def test_many_leave_at_once_each_by_itself() -> None:
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


def test_whom_nobody_knows_changes_nothing_by_leaving() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    member.leave_all(named(member_id="nobody"))
    assert harness.group().state is State.STABLE


def test_of_a_group_that_is_not_there_everybody_is_unknown() -> None:
    harness = ClassicHarness()
    member = harness.member()
    member.id = "m"
    assert member.leave().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_taken_from_the_join_on_and_answered_by_state() -> None:
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


def test_after_leaving_no_session_is_left() -> None:
    harness = ClassicHarness(AT_ONCE)
    members = harness.stable("a", "b")
    for member in members:
        member.leave()
    for member in members:
        assert not harness.shard_harness.timers.is_scheduled(("classic-session", "g", member.id))


def test_who_leaves_while_it_waits_for_its_assignment_hears_that_it_is_unknown() -> None:
    """A consumer that closes sends LeaveGroup behind the SyncGroup that waits: answers leave in order, so without the
    first it would not hear of the second either."""
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    follower.joined()
    leader.take(waiting)
    sync = follower.sync()
    assert sync.waits
    assert follower.leave().code is ErrorCode.NONE
    assert sync.code is ErrorCode.UNKNOWN_MEMBER_ID
