"""The classic groups of a shard: loaded, unloaded, listed, described, deleted."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.group.classic.classic_service import describe_group, list_groups
from barnabas.broker.coordinator.group.classic.group_record import group_record
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.group import GroupType
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.share_group_state import ShareGroupMetadataKey, ShareGroupMetadataValue
from tests.broker.coordinator.group.classic.classic_harness import (
    AT_ONCE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicHarness,
    Member,
)
from tests.broker.coordinator.shard_harness import Logged, ShardHarness

KEY = GroupMetadataKey(group="g")


def value_of(version: int) -> GroupMetadataValue:
    """A group as a broker wrote it in that version."""
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        current_state_timestamp=1_000 if version >= 2 else -1,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id="m",
                group_instance_id="i" if version >= 3 else None,
                client_id="c",
                client_host="/10.0.0.1",
                rebalance_timeout=30_000 if version >= 1 else -1,
                session_timeout=SESSION_MS,
                subscription=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff",
                assignment=b"all",
            )
        ],
    )


def loaded(*records: CoordinatorRecord, **settings: str) -> ClassicHarness:
    return ClassicHarness(
        shard_harness=ShardHarness(
            GroupCoordinatorShard, AT_ONCE | settings, log=[Logged(record) for record in records]
        )
    )


def at_home(harness: ClassicHarness, generation: int = 7) -> Member:
    member = harness.member("c")
    member.id, member.generation = "m", generation
    return member


@pytest.mark.parametrize("version", range(5))
def test_a_group_of_any_record_version_is_loaded_and_continues(version: int) -> None:
    harness = loaded(CoordinatorRecord(KEY, value_of(version), version))
    group = harness.group()
    member = group.members["m"]
    assert (group.state, group.generation_id, group.leader_id) == (State.STABLE, 7, "m")
    assert group.state_timestamp_ms == (1_000 if version >= 2 else None)
    assert member.rebalance_timeout_ms == (30_000 if version >= 1 else SESSION_MS)
    assert group.static_members == ({"i": "m"} if version >= 3 else {})
    assert group.subscribed_topics == frozenset("t")
    at = at_home(harness)
    assert at.heartbeat() is ErrorCode.NONE
    assert at.sync().said.assignment == b"all"
    record = group_record(group, {"m": b"all"})
    assert record.version == 3
    if version:
        assert record.value == value_of(version)


def test_sessions_begin_when_a_group_is_loaded() -> None:
    harness = loaded(CoordinatorRecord(KEY, value_of(3), 3))
    harness.advance(SESSION_MS - 1)
    assert at_home(harness).heartbeat() is ErrorCode.NONE
    harness.advance(SESSION_MS)
    assert harness.group().is_empty
    assert harness.group().generation_id == 8


def test_the_last_record_of_a_group_is_loaded() -> None:
    record = CoordinatorRecord(KEY, value_of(3), 3)
    gone = CoordinatorRecord(KEY, None)
    assert loaded(record, gone).shard.groups.find("g") is None
    share = CoordinatorRecord(ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=1))
    assert loaded(record, share, gone).shard.groups.get("g").type is GroupType.SHARE
    empty = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=1
    )
    group = loaded(record, CoordinatorRecord(KEY, empty, 3)).group()
    assert (group.state, group.protocol_type, group.protocol_name) == (State.EMPTY, "", None)


def test_a_loaded_group_equals_the_written_one() -> None:
    harness = ClassicHarness(AT_ONCE)
    members = harness.stable("a", "b") + harness.stable_static("c", "d", group="static")
    again = harness.reloaded()
    compacted = ClassicHarness(shard_harness=harness.shard_harness.compacted())
    for other in (again, compacted):
        for group_id in ("g", "static"):
            before, after = harness.group(group_id), other.group(group_id)
            assert group_record(after, assignments(other, group_id)) == group_record(
                before, assignments(harness, group_id)
            )
        for member in members:
            member.harness = other
            assert member.heartbeat() is ErrorCode.NONE
            assert member.sync().said.assignment == member.name.encode()


def assignments(harness: ClassicHarness, group_id: str) -> dict[str, bytes]:
    return {member.member_id: member.assignment for member in harness.group(group_id)}


def test_pending_responses_of_unloaded_groups_are_not_coordinator() -> None:
    harness = ClassicHarness(AT_ONCE)
    leader, follower = harness.stable("a", "b")
    joins = leader.join()
    third, fourth = harness.stable("d", "e", group="third")
    third_join = third.join()
    fourth.joined()
    third.take(third_join)
    waiting = fourth.sync()
    first_join = harness.member("c", group="second").join()
    harness.shard.on_unloaded()
    assert joins.code is waiting.code is first_join.code is ErrorCode.NOT_COORDINATOR
    assert follower.heartbeat() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert follower.sync().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert follower.leave().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert follower.join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.member().join().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    written = len(harness.shard_harness.records)
    harness.advance(2 * REBALANCE_MS)
    assert len(harness.shard_harness.records) == written


def test_groups_are_listed_by_state_and_type_case_insensitively() -> None:
    harness = ClassicHarness(AT_ONCE)
    harness.stable("a")
    harness.stable("b", group="second")[0].leave()
    groups = harness.shard.groups

    def names(states: list[str], types: list[str]) -> list[str]:
        return [each.group_id for each in list_groups(groups, states, types)]

    assert names([], []) == ["g", "second"]
    assert names([" sTable "], []) == ["g"]
    assert names(["Empty", "Stable"], ["Classic"]) == ["g", "second"]
    assert names([], ["consumer"]) == names(["nothing"], []) == names([], ["nothing"]) == []
    first = list_groups(groups, [], [])[0]
    assert (first.protocol_type, first.group_state, first.group_type) == ("consumer", "Stable", "classic")


def test_member_metadata_is_described_for_stable_groups_only() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    shown = describe_group(harness.shard.groups, "g", 6)
    assert (shown.group_state, shown.protocol_data, shown.protocol_type) == ("Stable", "range", "consumer")
    assert shown.members[0].member_metadata == member.protocols[0][1]
    assert (shown.members[0].client_id, shown.members[0].client_host) == ("a", "/127.0.0.1")
    harness.member("b").join()
    shown = describe_group(harness.shard.groups, "g", 6)
    assert (shown.group_state, shown.protocol_data) == ("PreparingRebalance", "")
    assert {member.member_metadata for member in shown.members} == {b""}


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_an_unknown_group_is_dead_and_from_version_6_on_an_error(version: int, code: ErrorCode) -> None:
    shown = describe_group(ClassicHarness().shard.groups, "g", version)
    assert (shown.group_state, shown.error_code) == ("Dead", code)
    assert (shown.error_message is not None) == (code is not ErrorCode.NONE)


def test_only_an_empty_group_is_deleted_with_a_record() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        harness.shard.delete_group("g")
    member.leave()
    harness.shard_harness.run(lambda shard: shard.delete_group("g"))
    assert harness.shard.groups.find("g") is None
    assert harness.shard_harness.records[-1] == CoordinatorRecord(KEY, None)
    with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
        harness.shard.delete_group("g")


def test_a_group_converted_from_another_kind_has_session_timers() -> None:
    harness = ClassicHarness(AT_ONCE)
    (member,) = harness.stable("a")
    before = harness.group()
    group = harness.shard.classic.new_group("g", state=State.STABLE, generation_id=3)
    for each in before:
        group.add(each)
    harness.shard.groups.remove("g")
    harness.shard.classic.adopt(group)
    assert group.type is GroupType.CLASSIC
    member.generation = 3
    assert member.heartbeat() is ErrorCode.NONE
    harness.shard.classic.rebalancing.prepare(group, "it is new")
    assert member.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    harness.advance(SESSION_MS)
    assert group.is_empty
