"""Timeouts of rebalances: members that do not join, do not sync, or whose session expires."""

from __future__ import annotations

from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataValue
from tests.broker.coordinator.group.classic.classic_harness import (
    AT_ONCE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicHarness,
    Member,
)


def keeps_alive(harness: ClassicHarness, ms: int, *members: Member) -> None:
    """Time passes while members send heartbeats."""
    for _ in range(ms // 5_000):
        for member in members:
            member.heartbeat()
        harness.advance(5_000)


def test_dynamic_members_that_have_not_joined_in_time_are_out() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, slow, third = harness.stable("a", "b", "c")
    heard = leader.join()
    third_heard = third.join()
    keeps_alive(harness, REBALANCE_MS - 5_000, slow)
    assert heard.waits
    slow.heartbeat()
    harness.advance(5_000)
    assert {member.member_id for member in heard.said.members} == {leader.id, third.id}
    assert third_heard.said.generation_id == heard.said.generation_id
    assert slow.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_as_long_as_the_slowest_asks_for() -> None:
    harness = ClassicHarness(AT_ONCE)
    fast, slow = harness.member("a", rebalance_ms=10_000), harness.member("b", rebalance_ms=20_000)
    fast.joined()
    harness.assign(fast)
    waiting = slow.join()
    fast.joined()
    slow.take(waiting)
    harness.assign(fast, slow)
    heard = fast.join()
    keeps_alive(harness, 15_000, slow)
    assert heard.waits
    keeps_alive(harness, 5_000, slow)
    assert not heard.waits


def test_where_the_leader_has_not_joined_another_leads() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable_static("a", "b")
    follower.protocols = (("range", b"new"),)
    heard = follower.join()
    keeps_alive(harness, REBALANCE_MS, leader)
    assert heard.said.leader == follower.id
    assert len(heard.said.members) == 2, "static members stay"
    assert harness.group().state is State.COMPLETING_REBALANCE


def test_static_members_that_do_not_join_hold_the_group_until_their_sessions_are_over() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower, third = harness.stable_static("a", "b", "c")
    leader.join()
    leader.leave()
    for _ in range(3):
        keeps_alive(harness, REBALANCE_MS, follower, third)
        assert harness.group().state is State.PREPARING_REBALANCE
    harness.advance(SESSION_MS)
    assert harness.group().is_empty
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_ask_for_its_assignment_in_time_is_out() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    heard = leader.join()
    follower.joined()
    leader.take(heard)
    leader.sync({leader.id: b"1", follower.id: b"2"})
    keeps_alive(harness, REBALANCE_MS - 5_000, leader, follower)
    assert follower.heartbeat() is ErrorCode.NONE
    leader.heartbeat()
    harness.advance(5_000)
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(leader.joined().members) == 1


def test_a_leader_that_does_not_assign_is_out_and_whoever_waits_joins_again() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    heard = leader.join()
    follower.joined()
    leader.take(heard)
    waiting = follower.sync()
    keeps_alive(harness, REBALANCE_MS, leader)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert follower.joined().leader == follower.id


def test_who_has_asked_in_time_has_no_more_time_to_fear() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    keeps_alive(harness, 2 * REBALANCE_MS, member)
    assert member.heartbeat() is ErrorCode.NONE


def test_a_session_that_is_over_makes_a_rebalance() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    harness.advance(SESSION_MS - 1)
    assert leader.heartbeat() is ErrorCode.NONE
    harness.advance(1)
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group().leader_id == leader.id


def test_a_session_does_not_end_while_a_member_waits_and_begins_anew_after() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    waiting = leader.join()
    keeps_alive(harness, 2 * SESSION_MS, follower)
    follower.joined()
    leader.take(waiting)
    waiting_sync = follower.sync()
    keeps_alive(harness, 2 * SESSION_MS, leader)
    leader.sync({follower.id: b"2"})
    assert waiting_sync.said.assignment == b"2"
    harness.advance(SESSION_MS - 1)
    assert follower.heartbeat() is ErrorCode.NONE


def test_the_last_session_leaves_an_empty_group_in_the_log() -> None:
    harness = ClassicHarness(AT_ONCE)
    harness.stable("a", "b")
    harness.advance(SESSION_MS)
    assert harness.group().is_empty
    record = harness.shard_harness.records[-1]
    assert isinstance(record.value, GroupMetadataValue)
    value = record.value
    assert (value.generation, value.members, value.leader, value.protocol) == (3, [], None, None)
    assert record.value.protocol_type == "consumer"
    assert harness.reloaded().group().is_empty


def test_an_empty_group_that_could_not_be_written_is_empty_all_the_same() -> None:
    harness = ClassicHarness(AT_ONCE)
    harness.stable("a")
    harness.shard_harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.advance(SESSION_MS)
    assert harness.group().is_empty
    assert not harness.reloaded().group().is_empty


def test_an_id_that_was_given_out_is_waited_for_until_its_session_is_over() -> None:
    harness = ClassicHarness(AT_ONCE)
    (leader,) = harness.stable("a")
    harness.member("b").join_once()
    heard = leader.join()
    harness.advance(SESSION_MS - 1)
    assert heard.waits
    harness.advance(1)
    assert not heard.waits


def test_times_of_a_group_that_is_gone_come_to_nothing() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    heard = leader.join()
    follower.joined()
    leader.take(heard)
    leader.join()
    harness.shard.groups.remove("g")
    written = len(harness.shard_harness.records)
    harness.advance(2 * REBALANCE_MS)
    assert len(harness.shard_harness.records) == written
