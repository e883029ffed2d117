"""JoinGroup on a shard without a broker: admission, the delay of responses, static members."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.coordinator.group.classic.classic_member import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.broker.coordinator.group.classic.joining import client_host_of
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.groups import JoinGroupResponse
from tests.broker.coordinator.group.classic.classic_harness import (
    AT_ONCE,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    SUBSCRIBED,
    ClassicHarness,
    Heard,
    Member,
)

CHANGED = (("range", SUBSCRIBED + b"\0"),)
ROUND_ROBIN = (("roundrobin", b""),)
BOTH = (*RANGE, *ROUND_ROBIN)
REFUSED = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_a_new_member_gets_its_id_first_and_the_group_is_written() -> None:
    harness = ClassicHarness()
    member = harness.member("client")
    heard = member.join_once()
    assert heard.code is ErrorCode.MEMBER_ID_REQUIRED
    assert heard.said.member_id == "client-00000000-0000-0000-0000-000000000001"
    (record,) = harness.shard_harness.records
    assert record.key == GroupMetadataKey(group="g")
    empty = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=harness.shard_harness.now_ms,
    )
    assert (record.value, record.version) == (empty, 3)
    assert harness.group().is_empty
    assert harness.group().pending_join == {heard.said.member_id}


@pytest.mark.parametrize("version", [0, 3])
def test_before_version_4_a_member_joins_without_an_id(version: int) -> None:
    harness = ClassicHarness(AT_ONCE)
    heard = harness.member("old", version=version).join_once()
    harness.advance(0)
    assert heard.code is ErrorCode.NONE
    assert heard.said.member_id.startswith("old-")


def test_a_static_member_joins_at_once_with_an_id_from_its_instance_id() -> None:
    harness = ClassicHarness(AT_ONCE)
    heard = harness.member(instance="i").join_once()
    harness.advance(0)
    assert heard.said.member_id.startswith("i-")
    assert harness.group().static_members == {"i": heard.said.member_id}


def test_a_pending_member_id_expires_with_its_session() -> None:
    harness = ClassicHarness()
    member = harness.member()
    member.id = member.join_once().said.member_id
    harness.advance(SESSION_MS - 1)
    assert harness.group().pending_join == {member.id}
    harness.advance(1)
    assert not harness.group().pending_join
    assert member.join_once().code is ErrorCode.UNKNOWN_MEMBER_ID


# ---- the initial rebalance


def test_the_initial_rebalance_is_extended_while_members_join() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "3000"})
    first, second, third = harness.member("a"), harness.member("b"), harness.member("c")
    heard = [first.join()]
    harness.advance(2_000)
    heard.append(second.join())  # 3 s more from the end of the first 3
    harness.advance(3_999)
    assert heard[0].waits
    heard.append(third.join())
    harness.advance(3_000)
    assert heard[0].waits
    harness.advance(1)
    assert [each.code for each in heard] == [ErrorCode.NONE] * 3
    assert [len(each.said.members) for each in heard] == [3, 0, 0]
    assert {each.said.generation_id for each in heard} == {1}


def test_the_initial_rebalance_is_no_longer_than_the_rebalance_timeout() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "3000"})
    first = harness.member("a", rebalance_ms=7_000)
    heard = first.join()
    for at in range(6):
        harness.member(f"m{at}", rebalance_ms=7_000).join()
        harness.advance(1_000)
    assert heard.waits
    harness.advance(999)
    assert heard.waits
    harness.advance(1)
    assert heard.code is ErrorCode.NONE


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    harness = ClassicHarness(AT_ONCE)
    member = harness.member()
    answer = member.joined()
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, member.id, "range")
    assert answer.protocol_type == "consumer"
    assert harness.group().state is State.COMPLETING_REBALANCE


def test_a_delayed_join_of_a_deleted_group_has_no_effect() -> None:
    harness = ClassicHarness()
    heard = harness.member().join()
    harness.shard.groups.remove("g")
    harness.advance(REBALANCE_MS)
    assert heard.waits


# ---- admission


def test_a_member_without_a_common_protocol_is_rejected() -> None:
    harness = ClassicHarness(AT_ONCE)
    harness.stable("a")
    for kind, protocols in (("consumer", ROUND_ROBIN), ("consumer", ()), ("connect", RANGE)):
        heard = harness.member("b", kind=kind, protocols=protocols).join()
        assert heard.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("kind", "protocols"), [("", RANGE), ("consumer", ())])
def test_an_empty_group_rejects_members_without_a_protocol_but_is_created(
    kind: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    harness = ClassicHarness()
    heard = harness.member(kind=kind, protocols=protocols).join()
    assert heard.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.group().is_empty
    assert len(harness.shard_harness.records) == 1


def test_member_ids_that_were_never_assigned_are_unknown() -> None:
    harness = ClassicHarness(AT_ONCE)
    stranger = harness.member()
    stranger.id = "stranger"
    assert stranger.join_once().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.shard.groups.find("g") is None
    harness.stable("a")
    assert stranger.join_once().code is ErrorCode.UNKNOWN_MEMBER_ID
    stranger.instance = "i"
    assert stranger.join_once().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_former_member_of_an_empty_group_has_to_join_as_new() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    member.leave()
    assert member.join_once().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_id_has_no_instance_id() -> None:
    harness = ClassicHarness(AT_ONCE)
    member = harness.member()
    member.id = member.join_once().said.member_id
    member.instance = "i"
    assert member.join_once().code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_has_at_most_the_maximum_of_members() -> None:
    harness = ClassicHarness(AT_ONCE | {"group.max.size": "2"})
    first, second = harness.stable("a", "b")
    third = harness.member("c")
    heard = third.join()
    assert (heard.code, heard.said.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert len(harness.group().members) == 2
    first.join()
    second.protocols = CHANGED
    second.join()
    assert third.join_once().code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_after_the_limit_was_lowered_the_last_members_to_rejoin_are_removed() -> None:
    harness = ClassicHarness(AT_ONCE)
    members = harness.stable("a", "b", "c")
    harness.shard_harness.settings["group.max.size"] = "2"
    again = harness.reloaded()
    assert again.group().state is State.PREPARING_REBALANCE
    heard: list[Heard[JoinGroupResponse]] = []
    for member in members:
        member.harness = again
        heard.append(member.join_once())
    assert [each.waits or each.code for each in heard[2:]] == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    again.advance(REBALANCE_MS)
    assert [each.code for each in heard[:2]] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(again.group().members) == 2


# ---- joining again


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    heard = follower.join()
    assert (heard.said.generation_id, heard.said.members, heard.said.leader) == (
        follower.generation,
        [],
        leader.id,
    )
    assert harness.group().state is State.STABLE


def test_a_rejoin_of_the_leader_or_with_changes_starts_a_rebalance() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    heard = leader.join()
    assert heard.waits
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    follower.joined()
    leader.take(heard)
    harness.assign(leader, follower)
    follower.protocols = CHANGED
    changed = follower.join()
    assert changed.waits
    leader.joined()
    follower.take(changed)


def test_a_member_that_missed_the_generation_gets_it_again_while_the_leader_assigns() -> None:
    harness = ClassicHarness(AT_ONCE)
    member = harness.member("a")
    member.joined()
    heard = member.join()
    assert (heard.said.generation_id, len(heard.said.members)) == (1, 1)
    member.protocols = CHANGED
    assert member.joined().generation_id == 2


def test_a_join_repeated_many_times_does_not_exceed_the_stack() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    asked = [leader.join_once() for _ in range(3_000)]
    follower.joined()
    assert {heard.code for heard in asked} == {ErrorCode.NONE}


def test_a_join_sent_twice_is_answered_twice() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    once, twice = leader.join(), leader.join()
    assert harness.group().awaiting_join_count == 1
    follower.joined()
    assert once.said == twice.said


def test_a_new_member_without_requests_is_removed_after_its_timeout() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader = harness.stable("a", rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)[0]
    lost = harness.member("b", version=0, rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS).join()
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        assert lost.waits
        assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        harness.advance(5_000)
    assert lost.code is ErrorCode.UNKNOWN_MEMBER_ID


# ---- static members that return


def test_a_returning_static_member_keeps_its_assignment() -> None:
    harness = ClassicHarness(AT_ONCE)
    first = harness.member("a", instance="i")
    first.joined()
    harness.assign(first)
    written = len(harness.shard_harness.records)
    again = harness.member("a", instance="i")
    answer = again.joined()
    assert (answer.generation_id, answer.skip_assignment, answer.leader) == (1, True, again.id)
    assert [member.member_id for member in answer.members] == [again.id]
    assert harness.group().state is State.STABLE
    assert again.sync().said.assignment == b"a"
    assert first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert first.sync().code is ErrorCode.FENCED_INSTANCE_ID
    assert first.join().code is ErrorCode.FENCED_INSTANCE_ID
    (record,) = harness.shard_harness.records[written:]
    assert isinstance(record.value, GroupMetadataValue)
    assert [(member.member_id, member.assignment) for member in record.value.members] == [(again.id, b"a")]


def test_before_version_9_a_returning_leader_is_not_named_leader() -> None:
    harness = ClassicHarness(AT_ONCE)
    first = harness.member("a", instance="i")
    first.joined()
    harness.assign(first)
    answer = harness.member("a", instance="i", version=8).joined()
    assert (answer.leader, answer.members, answer.skip_assignment) == (first.id, [], False)


def test_a_returning_static_follower_gets_the_leader() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable_static("a", "b")
    answer = harness.member("b", instance="b").joined()
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader.id, [], False)
    assert follower.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_returns_with_another_protocol_starts_a_rebalance() -> None:
    harness = ClassicHarness(AT_ONCE)
    first = harness.member("a", instance="i", protocols=BOTH)
    first.joined()
    harness.assign(first)
    again = harness.member("a", instance="i", protocols=ROUND_ROBIN)
    heard = again.join_once()
    assert heard.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL or heard.said.generation_id == 2


def test_a_static_member_that_returns_while_the_leader_assigns_starts_a_rebalance() -> None:
    harness = ClassicHarness(AT_ONCE)
    first = harness.member("a", instance="i")
    first.joined()
    again = harness.member("a", instance="i")
    assert again.joined().generation_id == 2
    assert first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_returns_during_its_join_fences_the_pending_one() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable_static("a", "b")
    waiting = leader.join()
    again = harness.member("a", instance="a")
    heard = again.join()
    assert (waiting.code, waiting.said.member_id) == (ErrorCode.FENCED_INSTANCE_ID, leader.id)
    assert heard.waits
    follower.joined()
    assert again.take(heard).leader == again.id


def test_the_old_member_id_remains_if_the_new_one_cannot_be_written() -> None:
    harness = ClassicHarness(AT_ONCE)
    first = harness.member("a", instance="i")
    first.joined()
    harness.assign(first)
    harness.shard_harness.fails = REFUSED
    again = harness.member("a", instance="i", protocols=CHANGED, session_ms=7_000)
    assert again.join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.shard_harness.fails = None
    assert first.heartbeat() is ErrorCode.NONE
    assert harness.group().static_members == {"i": first.id}
    member = harness.group().members[first.id]
    assert (member.session_timeout_ms, member.supported_protocols) == (SESSION_MS, RANGE)
    harness.advance(SESSION_MS)
    assert not harness.group().members


def test_a_rebalance_before_the_new_id_is_committed_completes_the_join() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable_static("a", "b")
    again = harness.member("b", instance="b")
    result = uncommitted(harness, again)
    waiting = Heard[JoinGroupResponse](result.response)
    lead = leader.join()
    assert result.on_committed is not None
    result.on_committed(None)
    assert waiting.said.generation_id == lead.said.generation_id == follower.generation + 1


def uncommitted(harness: ClassicHarness, member: Member) -> CoordinatorResult[JoinGroupResponse]:
    """The result of a JoinGroup whose records are not committed yet."""
    return harness.shard.joining.join(member.context, member.join_request())


# ---- groups that cannot be written, and groups of another kind


def test_a_group_that_cannot_be_written_is_removed_and_its_joins_fail() -> None:
    harness = ClassicHarness(AT_ONCE)
    result = uncommitted(harness, harness.member("a", version=0))
    second = harness.member("b", version=0).join()
    assert result.on_committed is not None
    result.on_committed(REFUSED)
    assert harness.shard.groups.find("g") is None
    assert second.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.advance(REBALANCE_MS)
    assert len(harness.shard_harness.records) == 0


def test_reasons_of_clients_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    harness = ClassicHarness(AT_ONCE)
    with caplog.at_level(logging.INFO, "barnabas.groups"):
        harness.stable("a")
    assert "client reason: not provided" in caplog.text


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "/10.0.0.1"),
        ("somewhere", "/somewhere"),
    ],
)
def test_hosts_are_written_in_the_form_of_java(host: str, shown: str) -> None:
    assert client_host_of(host) == shown
