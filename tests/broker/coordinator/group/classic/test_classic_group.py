"""ClassicGroup: checks of commits, fetches and deletions, and the expiration of offsets."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataKey
from tests.broker.coordinator.group.classic.classic_harness import (
    AT_ONCE,
    RANGE,
    SESSION_MS,
    ClassicHarness,
    Member,
)

NONE = ErrorCode.NONE


def code_of_commit(
    group: ClassicGroup,
    member_id: str = "",
    instance: str | None = None,
    generation: int = -1,
    *,
    transactional: bool = False,
) -> ErrorCode:
    try:
        commit = OffsetCommit("g", member_id, instance, generation, 9, ())
        group.check_offset_commit(commit, is_transactional=transactional)
    except ApiError as error:
        return error.code
    return NONE


def in_state(state: State) -> tuple[ClassicHarness, Member]:
    """A group in that state, and its leader (or the one it had)."""
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    if state is State.EMPTY:
        leader.leave()
        follower.leave()
    if state is State.PREPARING_REBALANCE:
        leader.join()
    if state is State.COMPLETING_REBALANCE:
        heard = leader.join()
        follower.joined()
        leader.take(heard)
    if state is State.DEAD:
        harness.shard.classic.on_unloaded()
    return harness, leader


@pytest.mark.parametrize(
    ("state", "of_nobody", "of_nobody_in_transaction", "of_a_member"),
    [
        (State.EMPTY, NONE, NONE, ErrorCode.UNKNOWN_MEMBER_ID),
        (State.PREPARING_REBALANCE, ErrorCode.UNKNOWN_MEMBER_ID, NONE, NONE),
        (State.COMPLETING_REBALANCE, ErrorCode.UNKNOWN_MEMBER_ID, NONE, ErrorCode.REBALANCE_IN_PROGRESS),
        (State.STABLE, ErrorCode.UNKNOWN_MEMBER_ID, NONE, NONE),
        (State.DEAD, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3),
    ],
)
def test_commits_allowed_in_each_state(
    state: State, of_nobody: ErrorCode, of_nobody_in_transaction: ErrorCode, of_a_member: ErrorCode
) -> None:
    harness, leader = in_state(state)
    group = harness.group()
    assert group.state is state
    assert code_of_commit(group) is of_nobody
    assert code_of_commit(group, transactional=True) is of_nobody_in_transaction
    assert code_of_commit(group, leader.id, None, leader.generation) is of_a_member
    if state is State.COMPLETING_REBALANCE:
        assert code_of_commit(group, leader.id, None, leader.generation, transactional=True) is NONE


def test_members_commit_in_their_generation_and_under_their_own_id() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable_static("i")
    group = harness.group()
    for transactional in (False, True):
        assert code_of_commit(group, member.id, "i", member.generation, transactional=transactional) is NONE
        assert (
            code_of_commit(group, member.id, "i", 7, transactional=transactional)
            is ErrorCode.ILLEGAL_GENERATION
        )
        assert (
            code_of_commit(group, "other", "i", 1, transactional=transactional)
            is ErrorCode.FENCED_INSTANCE_ID
        )
        assert (
            code_of_commit(group, "other", None, 1, transactional=transactional)
            is ErrorCode.UNKNOWN_MEMBER_ID
        )
        assert code_of_commit(group, "", "i", transactional=transactional) is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("state", [State.STABLE, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE])
def test_a_commit_counts_as_a_heartbeat_unless_the_member_awaits_its_assignment(state: State) -> None:
    harness, leader = in_state(state)
    follower = next(member for member in harness.group() if member.member_id != leader.id)
    harness.advance(SESSION_MS - 1)
    harness.group().offset_committed_by(follower.member_id)
    harness.group().offset_committed_by("nobody")
    harness.advance(1)
    assert (follower.member_id in harness.group().members) == (state is not State.COMPLETING_REBALANCE)


@pytest.mark.parametrize("state", list(State))
def test_groups_that_may_be_deleted(state: State) -> None:
    group = in_state(state)[0].group()
    of_dead = ErrorCode.GROUP_ID_NOT_FOUND if state is State.DEAD else NONE
    of_members = of_dead if state in {State.DEAD, State.EMPTY} else ErrorCode.NON_EMPTY_GROUP

    def code_of_deletion() -> ErrorCode:
        try:
            group.check_delete()
        except ApiError as error:
            return error.code
        return NONE

    def code_of_offsets() -> ErrorCode:
        try:
            group.check_offset_delete()
        except ApiError as error:
            return error.code
        return NONE

    assert code_of_deletion() is of_members
    assert code_of_offsets() is of_dead
    group.protocol_type = "connect"
    assert code_of_offsets() is of_members
    if state is State.DEAD:
        with pytest.raises(ApiError, match="dead"):
            group.check_offset_fetch(None, -1)
    else:
        group.check_offset_fetch(None, -1)


def test_offsets_expire_after_the_commit_or_after_the_group_became_empty() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    group = harness.group()
    assert group.offset_expires_from(5, 100) == 5, "stable, and what it reads is known"
    group.subscribed_topics = None
    assert group.offset_expires_from(5, 100) is None
    harness.advance(1_000)
    member.leave()
    assert group.offset_expires_from(5, 100) == harness.shard_harness.now_ms
    group.state_timestamp_ms = None
    assert group.offset_expires_from(5, 100) == 5
    group.protocol_type = ""
    assert group.offset_expires_from(6, 100) == 6
    assert in_state(State.PREPARING_REBALANCE)[0].group().offset_expires_from(5, 100) is None


def test_subscribed_topics_are_known_if_the_metadata_can_be_decoded() -> None:
    harness = ClassicHarness(AT_ONCE)
    assert ClassicHarness(AT_ONCE).shard.classic.new_group("g").is_subscribed_to("t") is False
    (member,) = harness.stable("a")
    assert harness.group().is_subscribed_to("t")
    assert not harness.group().is_subscribed_to("u")
    member.protocols = (("range", b"\0"),)
    member.joined()
    assert harness.group().subscribed_topics is None
    assert harness.group().is_subscribed_to("u")
    member.leave()
    assert not harness.group().is_subscribed_to("t")
    (worker,) = harness.stable("w", group="connect", kind="connect", protocols=(("compatible", b""),))
    assert worker.id in harness.group("connect").members
    assert not harness.group("connect").is_subscribed_to("t")


def test_a_group_is_deleted_by_one_record() -> None:
    harness = ClassicHarness(AT_ONCE)
    harness.stable("a")
    (record,) = harness.group().tombstones()
    assert (record.key, record.value) == (GroupMetadataKey(group="g"), None)


def test_a_member_appears_once_and_has_the_protocol_type_of_the_group() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable_static("a")
    group = harness.group()
    there = group.members[member.id]
    with pytest.raises(AssertionError, match="there already"):
        group.add(there.replaced_by("new"))
    new = there.replaced_by("new")
    new.group_instance_id, new.protocol_type = None, "connect"
    with pytest.raises(AssertionError, match="another type"):
        group.add(new)
    with pytest.raises(AssertionError, match="cannot become"):
        group.transition_to(State.EMPTY)
    with pytest.raises(AssertionError, match="does not support"):
        there.metadata("other")
    assert there.supported_protocols == RANGE
