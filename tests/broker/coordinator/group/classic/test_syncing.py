"""SyncGroup: all members get the leader's assignment once it is committed."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataValue
from barnabas.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse
from tests.broker.coordinator.group.classic.classic_harness import AT_ONCE, ClassicHarness, Heard, Member

REFUSED = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def two_that_wait(harness: ClassicHarness) -> tuple[Member, Member]:
    """Members of a generation whose leader (the first) is to assign."""
    leader, follower = harness.stable("a", "b")
    heard = leader.join()
    follower.joined()
    leader.take(heard)
    return leader, follower


def test_followers_wait_for_the_leader() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = two_that_wait(harness)
    waiting = follower.sync()
    assert waiting.waits
    heard = leader.sync({leader.id: b"1", follower.id: b"2"})
    assert (heard.said.assignment, waiting.said.assignment) == (b"1", b"2")
    assert (heard.said.protocol_type, heard.said.protocol_name) == ("consumer", "range")
    assert harness.group().state is State.STABLE
    assert harness.shard.syncing.completed_rebalances == 3
    assert follower.sync().said.assignment == b"2"


def test_a_member_without_an_assignment_gets_an_empty_one() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = two_that_wait(harness)
    waiting = follower.sync()
    leader.sync({leader.id: b"1", "nobody": b"2"})
    assert (waiting.code, waiting.said.assignment) == (ErrorCode.NONE, b"")
    value = harness.shard_harness.records[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert {member.member_id: member.assignment for member in value.members} == {
        leader.id: b"1",
        follower.id: b"",
    }


def test_the_whole_group_is_written() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    value = harness.shard_harness.records[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert value == GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member.id,
        current_state_timestamp=harness.shard_harness.now_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.id,
                group_instance_id=None,
                client_id="a",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=member.protocols[0][1],
                assignment=b"a",
            )
        ],
    )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
    ],
)
def test_rejected_syncs(changes: dict[str, Any], code: ErrorCode) -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    assert member.sync(**changes).code is code


def test_a_group_that_rebalances_has_no_assignment() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    leader.join()
    assert follower.sync().code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_completes_pending_syncs() -> None:
    harness = ClassicHarness(AT_ONCE)
    _, follower = two_that_wait(harness)
    waiting = follower.sync()
    harness.member("c").join()
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_sent_twice_is_answered_twice() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = two_that_wait(harness)
    once, twice = follower.sync(), follower.sync()
    leader.sync({follower.id: b"2"})
    assert once.said.assignment == twice.said.assignment == b"2"


def test_an_assignment_that_cannot_be_written_starts_a_rebalance() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = two_that_wait(harness)
    waiting = follower.sync()
    harness.shard_harness.fails = REFUSED
    assert leader.sync({leader.id: b"1"}).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.group().state is State.PREPARING_REBALANCE


def uncommitted(harness: ClassicHarness, leader: Member) -> CoordinatorResult[SyncGroupResponse]:
    """The result of the leader's SyncGroup whose record is not committed yet."""
    request = SyncGroupRequest(group_id="g", generation_id=leader.generation, member_id=leader.id)
    return harness.shard.syncing.sync(request)


@pytest.mark.parametrize("error", [None, REFUSED])
def test_an_assignment_committed_after_a_rebalance_began_is_dropped(
    error: ApiError | None,
) -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = two_that_wait(harness)
    result = uncommitted(harness, leader)
    waiting = Heard(result.response)
    new = harness.member("c").join()
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert result.on_committed is not None
    result.on_committed(error)
    assert harness.group().state is State.PREPARING_REBALANCE
    follower.join()
    leader.join()
    result.on_committed(error)
    assert harness.group().state is State.COMPLETING_REBALANCE
    assert new.code is ErrorCode.NONE


def test_all_syncs_wait_until_the_assignment_is_committed() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = two_that_wait(harness)
    result = uncommitted(harness, leader)
    leads, follows = Heard(result.response), follower.sync()
    assert leads.waits
    assert follows.waits
    assert result.on_committed is not None
    result.on_committed(None)
    assert (leads.code, follows.code) == (ErrorCode.NONE, ErrorCode.NONE)
