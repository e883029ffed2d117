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
    """Advances the time while members send heartbeats."""
    for _ in range(ms // 5_000):
        for member in members:
            member.heartbeat()
        harness.advance(5_000)


def test_dynamic_members_that_do_not_rejoin_in_time_are_removed() -> None:
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


def test_a_rebalance_lasts_up_to_the_longest_rebalance_timeout() -> None:
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


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable_static("a", "b")
    follower.protocols = (("range", b"new"),)
    heard = follower.join()
    keeps_alive(harness, REBALANCE_MS, leader)
    assert heard.said.leader == follower.id
    assert len(heard.said.members) == 2, "static members stay"
    assert harness.group().state is State.COMPLETING_REBALANCE


def test_static_members_that_do_not_rejoin_hold_the_group_until_their_sessions_expire() -> None:
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


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
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


def test_a_leader_that_does_not_assign_is_removed_and_pending_syncs_rejoin() -> None:
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


def test_a_member_that_synced_in_time_is_not_removed() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    keeps_alive(harness, 2 * REBALANCE_MS, member)
    assert member.heartbeat() is ErrorCode.NONE


def test_an_expired_session_starts_a_rebalance() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    harness.advance(SESSION_MS - 1)
    assert leader.heartbeat() is ErrorCode.NONE
    harness.advance(1)
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group().leader_id == leader.id


def test_a_session_is_suspended_while_a_member_waits_and_restarts_after() -> None:
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


def test_the_last_expired_session_writes_an_empty_group() -> None:
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


def test_a_group_is_empty_even_if_its_record_could_not_be_written() -> None:
    harness = ClassicHarness(AT_ONCE)
    harness.stable("a")
    harness.shard_harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.advance(SESSION_MS)
    assert harness.group().is_empty
    assert not harness.reloaded().group().is_empty


def test_a_rebalance_awaits_a_pending_member_id_until_its_session_expires() -> None:
    harness = ClassicHarness(AT_ONCE)
    (leader,) = harness.stable("a")
    harness.member("b").join_once()
    heard = leader.join()
    harness.advance(SESSION_MS - 1)
    assert heard.waits
    harness.advance(1)
    assert not heard.waits


def test_timers_of_a_removed_group_have_no_effect() -> None:
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
