"""Migration of groups between the protocols, and classic members of consumer groups."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.consumer.embedded import read_assignment
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import ConsumerGroupMetadataValue, GroupMetadataValue
from barnabas.protocol.messages.groups import JoinGroupRequest, LeaveGroupRequest
from tests.broker.coordinator.group.consumer.consumer_harness import (
    SESSION_MS,
    ClassicConsumer,
    ConsumerHarness,
    Owned,
    assignment,
    context,
    subscription,
)

MUST_JOIN = ErrorCode.REBALANCE_IN_PROGRESS
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture
def harness() -> ConsumerHarness:
    return ConsumerHarness(SETTINGS, t=4)


def stable_classic(harness: ConsumerHarness, instance_id: str | None = None) -> ClassicConsumer:
    """The only member of a classic group, which has all partitions."""
    member = ClassicConsumer(harness, "g", "t", instance_id=instance_id)
    bench_join(harness, member)
    member.owned = {"t": [0, 1, 2, 3]}
    member.sync({member.id: assignment(member.owned)})
    return member


def bench_join(harness: ConsumerHarness, member: ClassicConsumer) -> None:
    """A join whose response waits for the initial rebalance to end."""
    first = member.ask_to_join() if member.instance_id is None else None
    if first is not None:
        member.id = first.member_id
    request = JoinGroupRequest(
        group_id="g",
        member_id=member.id,
        group_instance_id=member.instance_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )
    response: Any = harness.shard_harness.run(lambda shard: shard.joining.join(context(9), request))
    harness.advance(0)
    if isinstance(response, Pending):
        answers: list[Any] = []
        response.add_done_callback(answers.append)
        (response,) = answers
    member.id, member.generation = response.member_id, response.generation_id


def joins_again(member: ClassicConsumer) -> None:
    """JoinGroup and SyncGroup; the member owns its assignment."""
    member.join()
    member.owned = partitions_in(member.sync().assignment)


def partitions_in(assignment: bytes) -> Owned:
    """The partitions in an assignment, by topic."""
    topics = read_assignment(assignment).assigned_partitions
    return {topic.topic: sorted(topic.partitions) for topic in topics}


def test_a_consumer_converts_a_classic_group_to_a_consumer_group(harness: ConsumerHarness) -> None:
    old = stable_classic(harness)
    new = harness.join("g", "new", "t")
    assert new.owned == {}
    group = harness.group()
    assert (group.classic_member_count, len(group.members), group.group_epoch) == (1, 2, 2)
    assert old.heartbeat() == MUST_JOIN
    joins_again(old)
    assert old.owned == {"t": [0, 1]}
    assert old.heartbeat() == MUST_JOIN, "it has to say that it gave up the others"
    joins_again(old)
    assert old.heartbeat() == ErrorCode.NONE
    new.beat()
    assert new.owned == {"t": [2, 3]}
    assert {member.member_type for member in harness.describe().members} == {0, 1}


def test_partitions_that_a_topic_created_again_lacks_are_not_converted(harness: ConsumerHarness) -> None:
    """The classic member's assignment has the topic's name. The second member makes the subscriptions differ."""
    stable_classic(harness)
    harness.delete("t")
    harness.create("t", 2)
    harness.create("other", 1)
    harness.join("g", "new", "t", "other")
    targets = [member.target_assignment.topic_partitions for member in harness.describe().members]
    found = sorted(
        (topic.topic_name, tuple(sorted(topic.partitions))) for member in targets for topic in member
    )
    assert found == [("other", (0,)), ("t", (0, 1))]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_mixed_group_is_the_same_after_loading(harness: ConsumerHarness, compacted: bool) -> None:
    old = stable_classic(harness)
    new = harness.join("g", "new", "t")
    before = harness.describe()
    harness.restart(compacted=compacted)
    assert harness.describe() == before
    assert old.heartbeat() == MUST_JOIN
    new.beat()


def test_a_classic_member_keeps_its_session_timeout_when_the_group_is_loaded(
    harness: ConsumerHarness,
) -> None:
    new = harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    old.join(session_timeout_ms=300_000)
    harness.restart()
    harness.advance(SESSION_MS - 1)
    new.beat()
    harness.advance(SESSION_MS - 1)
    new.beat()
    old.heartbeat()
    assert harness.group().member_count == 2


def test_the_group_is_classic_again_when_the_last_consumer_leaves(harness: ConsumerHarness) -> None:
    old = stable_classic(harness)
    new = harness.join("g", "new", "t")
    for _ in range(2):
        joins_again(old)
    new.beat()
    new.leave()
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "PreparingRebalance"
    assert list(group.members) == [old.id]
    written = harness.last(GroupMetadataValue)
    assert (written.generation, written.protocol, len(written.members)) == (2, "range", 1)
    harness.restart()
    assert isinstance(harness.shard_harness.shard.groups.get("g"), ClassicGroup)


def test_a_group_just_converted_to_classic_has_its_target_assignment(harness: ConsumerHarness) -> None:
    new = harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    old.join()
    new.leave()
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    (member,) = group
    assert partitions_in(member.describe(None).member_assignment) == {"t": [2, 3]}
    assert partitions_in(member.owned) == {}
    written = harness.last(GroupMetadataValue)
    assert partitions_in(written.members[0].assignment) == {}, "what it is loaded with"


@pytest.mark.parametrize("compacted", [False, True])
def test_a_crash_after_the_last_consumer_left_does_not_withhold_its_partitions(
    harness: ConsumerHarness, compacted: bool
) -> None:
    """Found by the simulation: the group was loaded as a stable one, and nobody owned the consumer's partitions."""
    new = harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    joins_again(old)
    new.leave()
    harness.restart(compacted=compacted)
    assert old.heartbeat() == MUST_JOIN
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "PreparingRebalance"
    assert group.is_leader(old.id)


def all_classic(settings: dict[str, str]) -> tuple[ConsumerHarness, ClassicConsumer]:
    """A consumer group that may not become a classic one, whose only member is of that protocol, and had
    half of the partitions when the last member of the consumer protocol left."""
    harness = ConsumerHarness({**SETTINGS, "group.consumer.migration.policy": "upgrade", **settings}, t=4)
    old = stable_classic(harness)
    new = harness.join("g", "new", "t")
    harness.advance(1_000)
    for _ in range(2):
        new.beat()
        joins_again(old)
    assert old.owned == {"t": [0, 1]}
    new.leave()
    assert harness.group().member_count == 1
    return harness, old


@pytest.mark.parametrize("restarts", [False, True])
def test_classic_members_get_the_partitions_of_the_last_consumer_if_the_group_stays_a_consumer_group(
    restarts: bool,
) -> None:
    harness, old = all_classic({})
    if restarts:
        harness.restart()
    assert old.heartbeat() == MUST_JOIN
    joins_again(old)
    assert old.owned == {"t": [0, 1, 2, 3]}
    assert old.heartbeat() == ErrorCode.NONE
    harness.grow("t", 6)
    assert old.heartbeat() == MUST_JOIN
    joins_again(old)
    assert old.owned == {"t": [0, 1, 2, 3, 4, 5]}
    harness.create("u", 1)
    assert old.heartbeat() == ErrorCode.NONE


def test_classic_members_rebalance_once_a_new_assignment_may_be_computed() -> None:
    harness, old = all_classic({"group.consumer.assignment.interval.ms": "5000"})
    assert old.heartbeat() == ErrorCode.NONE
    harness.advance(4_000)
    assert old.heartbeat() == MUST_JOIN
    joins_again(old)
    assert old.owned == {"t": [0, 1, 2, 3]}


def test_partitions_a_classic_member_still_owns_are_not_reassigned_after_two_conversions(
    harness: ConsumerHarness,
) -> None:
    old = stable_classic(harness)
    harness.join("g", "new", "t").leave()
    assert isinstance(harness.shard_harness.shard.groups.get("g"), ClassicGroup)
    newer = harness.join("g", "newer", "t")
    assert newer.owned == {}, "the old member has not heard of any of it"
    for _ in range(2):
        joins_again(old)
    newer.beat()
    assert (old.owned, newer.owned) == ({"t": [0, 1]}, {"t": [2, 3]})


def test_a_conversion_that_cannot_be_written_leaves_a_consumer_group(harness: ConsumerHarness) -> None:
    old = stable_classic(harness)
    new = harness.join("g", "new", "t")
    harness.shard_harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(ApiError):
        new.leave()
    harness.shard_harness.fails = None
    assert set(harness.group().members) == {old.id, "new"}
    assert old.heartbeat() == MUST_JOIN


def test_a_classic_member_joins_a_consumer_group(harness: ConsumerHarness) -> None:
    new = harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    joins_again(old)
    assert old.owned == {}
    assert old.heartbeat() == ErrorCode.NONE, "others have to give up first"
    new.beat()
    new.beat()
    assert old.heartbeat() == MUST_JOIN
    joins_again(old)
    assert old.owned == {"t": [2, 3]}
    old.leave()
    new.beat()
    assert new.owned == {"t": [0, 1, 2, 3]}


def test_pending_joins_stay_pending_when_a_consumer_is_rejected() -> None:
    harness = ConsumerHarness(
        {"group.initial.rebalance.delay.ms": "3000", "group.consumer.max.size": "1"}, t=4
    )
    request = JoinGroupRequest(
        group_id="g",
        group_instance_id="i",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )
    waiting = harness.shard_harness.run(lambda shard: shard.joining.join(context(9), request))
    assert isinstance(waiting, Pending)
    with pytest.raises(ApiError, match="GROUP_MAX_SIZE_REACHED"):
        harness.join("g", "new", "t")
    answers: list[Any] = []
    waiting.add_done_callback(answers.append)
    assert answers == []
    harness.advance(3_000)
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE]


def test_a_static_member_changes_protocols_and_back(harness: ConsumerHarness) -> None:
    old = stable_classic(harness, "i")
    new = harness.join("g", "new", "t", instance_id="i")
    assert new.owned == {"t": [0, 1, 2, 3]}
    with pytest.raises(ApiError, match="FENCED_INSTANCE_ID"):
        old.heartbeat()
    again = ClassicConsumer(harness, "g", "t", instance_id="i")
    again.join()
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "Stable"
    assert read_assignment(group.members[again.id].assignment).assigned_partitions[0].partitions == [
        0,
        1,
        2,
        3,
    ]
    harness.restart(compacted=True)
    assert isinstance(harness.shard_harness.shard.groups.get("g"), ClassicGroup)


@pytest.mark.parametrize("restarts", [False, True])
def test_members_that_await_partitions_rebalance_when_the_last_consumer_becomes_classic(
    harness: ConsumerHarness, restarts: bool
) -> None:
    harness.join("g", "new", "t", instance_id="i")
    old = ClassicConsumer(harness, "g", "t")
    joins_again(old)
    assert old.owned == {}, "the other one still owns everything"
    again = ClassicConsumer(harness, "g", "t", instance_id="i")
    again.join()
    if restarts:
        harness.restart()
    assert old.heartbeat() == MUST_JOIN
    assert again.heartbeat() == MUST_JOIN


def test_partitions_a_classic_member_still_owns_are_not_given_to_the_last_consumer_that_becomes_classic(
    harness: ConsumerHarness,
) -> None:
    stable_classic(harness)
    assert harness.join("g", "new", "t", instance_id="i").owned == {}
    again = ClassicConsumer(harness, "g", "t", instance_id="i")
    again.join()
    with pytest.raises(ApiError, match="REBALANCE_IN_PROGRESS"):
        again.sync()
    newer = harness.join("g", "newer", "t")
    assert newer.owned == {}, "the old member has not heard of any of it"


def test_a_rebalance_ended_by_a_conversion_removes_no_member(harness: ConsumerHarness) -> None:
    """The classic group waits for its old member, for half a minute at most."""
    old = stable_classic(harness)
    harness.join("g", "new", "t").leave()
    static = harness.join("g", "static", "t", instance_id="i")
    for _ in range(2):
        joins_again(old)
        static.beat()
    back = ClassicConsumer(harness, "g", "t", instance_id="i")
    back.join()
    for _ in range(10):
        assert [old.heartbeat(), back.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]
        harness.advance(5_000)
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.member_count) == ("Stable", 2)


@pytest.mark.parametrize(
    ("policy", "may_go_up", "may_come_down"),
    [("upgrade", True, False), ("downgrade", False, True), ("DISABLED", False, False)],
)
def test_the_migration_policy_is_enforced(policy: str, may_go_up: bool, may_come_down: bool) -> None:
    harness = ConsumerHarness({**SETTINGS, "group.consumer.migration.policy": policy}, t=4)
    stable_classic(harness)
    if not may_go_up:
        with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
            harness.join("g", "new", "t")
    new = harness.join("h", "new", "t")
    old = ClassicConsumer(harness, "h", "t")
    if policy == "DISABLED":
        with pytest.raises(ApiError, match="INCONSISTENT_GROUP_PROTOCOL"):
            old.join()
        return
    old.join()
    new.leave()
    assert isinstance(harness.shard_harness.shard.groups.get("h"), ClassicGroup) == may_come_down


def test_a_group_with_a_custom_assignor_stays_classic(harness: ConsumerHarness) -> None:
    old = stable_classic(harness)
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    group.members[old.id].assignment = assignment({"t": [0]}, user_data=b"mine")
    with pytest.raises(ApiError, match="an unsupported custom assignor is in use"):
        harness.join("g", "new", "t")


# ---- time


def test_a_classic_member_that_does_not_rejoin_is_removed(harness: ConsumerHarness) -> None:
    old = stable_classic(harness)
    new = harness.join("g", "new", "t")
    assert old.heartbeat() == MUST_JOIN
    for _ in range(3):
        harness.advance(9_000)
        old.heartbeat()
        new.beat()
    harness.advance(3_000)
    assert set(harness.group().members) == {"new"}


def test_a_classic_member_that_does_not_sync_is_removed(harness: ConsumerHarness) -> None:
    new = harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    old.join()
    for _ in range(3):
        harness.advance(9_999)
        old.heartbeat()
        new.beat()
    harness.advance(3)
    assert set(harness.group().members) == {"new"}


def test_a_classic_member_has_the_session_timeout_that_it_requested(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    joins_again(old)
    harness.advance(10_000)
    assert set(harness.group().members) == {"new"}
    harness.advance(SESSION_MS - 10_000)
    assert harness.group().is_empty


# ---- rejected requests


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation_id": 9}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_invalid_syncs_are_rejected(
    harness: ConsumerHarness, fields: dict[str, Any], code: ErrorCode
) -> None:
    harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    old.join()
    with pytest.raises(ApiError, match=code.name):
        old.sync(**fields)


def test_a_sync_in_an_old_epoch_is_told_to_rejoin(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    old.join()
    harness.join("g", "newer", "t")
    with pytest.raises(ApiError, match="REBALANCE_IN_PROGRESS"):
        old.sync()


def test_classic_heartbeats_of_consumer_members_are_rejected(harness: ConsumerHarness) -> None:
    new = harness.join("g", "new", "t")
    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID"):
        ClassicConsumer(harness, "g", "t").heartbeat(member_id="new", generation_id=new.epoch)


def test_an_undecodable_subscription_is_rejected(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t")
    old.id = "known"
    wrong = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0")
    with pytest.raises(ApiError, match="UNKNOWN_SERVER_ERROR"):
        old.ask_to_join(protocols=[wrong])


def test_a_group_without_consumers_keeps_its_epoch_when_it_is_converted(harness: ConsumerHarness) -> None:
    stable_classic(harness)
    harness.join("g", "new", "t")
    epochs = [
        record.value.epoch
        for record in harness.shard_harness.records
        if isinstance(record.value, ConsumerGroupMetadataValue)
    ]
    assert epochs == [1, 2]


def code_of(refused: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return refused.value.code


def test_each_of_many_leaves_has_its_own_result(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    harness.join("g", "static", "t", instance_id="i")
    identities = [("new", None), ("nobody", None), ("", "i"), ("new", "i"), ("", "nowhere"), ("new", None)]
    request = LeaveGroupRequest(
        group_id="g",
        members=[
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in identities
        ],
    )
    response: Any = harness.shard_harness.run(lambda shard: shard.classic_members.leave(request))
    assert [answer.error_code for answer in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert harness.group().is_empty


def test_leaves_of_unknown_members_begin_no_epoch(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    epoch = harness.group().group_epoch
    stranger = ClassicConsumer(harness, "g", "t")
    stranger.id = "nobody"
    stranger.leave()
    assert harness.group().group_epoch == epoch


def test_a_full_group_rejects_a_classic_member() -> None:
    harness = ConsumerHarness({"group.consumer.max.size": "1"}, t=1)
    harness.join("g", "new", "t")
    with pytest.raises(ApiError, match="GROUP_MAX_SIZE_REACHED"):
        ClassicConsumer(harness, "g", "t").ask_to_join()


def test_a_member_without_a_common_protocol_is_rejected(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    ClassicConsumer(harness, "g", "t").join()
    other = JoinGroupRequest.JoinGroupRequestProtocol(name="sticky", metadata=subscription("t"))
    for fields in ({"protocols": [other]}, {"protocol_type": "connect"}):
        with pytest.raises(ApiError, match="INCONSISTENT_GROUP_PROTOCOL"):
            ClassicConsumer(harness, "g", "t").ask_to_join(**fields)


def test_an_old_client_joins_without_an_id(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("t", version=0))
        ],
    )
    response: Any = harness.shard_harness.run(lambda shard: shard.classic_members.join(context(3), request))
    assert response.error_code == ErrorCode.NONE
    assert len(response.member_id) == 22


def test_a_static_member_with_its_old_id_is_the_same_member(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    old = ClassicConsumer(harness, "g", "t", instance_id="i")
    old.join()
    first = old.id
    old.join()
    assert old.id == first
    old.id = "somebody"
    with pytest.raises(ApiError, match="FENCED_INSTANCE_ID"):
        old.join()


def test_a_member_without_the_last_generations_protocol_does_not_keep_a_group_classic(
    harness: ConsumerHarness,
) -> None:
    """Others have joined since, and the group prepares to choose another protocol."""
    old = stable_classic(harness)
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    group.protocol_name = "one that nobody else has"
    harness.join("g", "new", "t")
    assert harness.group().members[old.id].subscribed_topic_names == {"t"}


def test_a_static_classic_member_that_rejoins_does_not_convert_the_group(harness: ConsumerHarness) -> None:
    harness.join("g", "new", "t")
    static = ClassicConsumer(harness, "g", "t", instance_id="i")
    static.join()
    changed = ClassicConsumer(harness, "g", "t")
    changed.id = "new"
    changed.join()
    epoch = harness.group().group_epoch
    static.topics = ("u",)
    assert static.join().generation_id == harness.group().group_epoch == epoch + 1
    assert {member.uses_classic_protocol for member in harness.group().members.values()} == {True}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
        ({"assignment": b"\0\3\0"}, "malformed"),
        ({"assignment": b"\xff\xff"}, "malformed"),
        ({"subscription": b""}, "malformed"),
    ],
)
def test_classic_groups_that_cannot_be_converted(
    harness: ConsumerHarness, broken: dict[str, Any], said: str
) -> None:
    old = stable_classic(harness)
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    group.protocol_type = broken.get("protocol_type", group.protocol_type)
    member = group.members[old.id]
    member.assignment = broken.get("assignment", member.assignment)
    if "subscription" in broken:
        member.supported_protocols = (("range", broken["subscription"]),)
    with pytest.raises(ApiError, match=said) as refused:
        harness.join("g", "new", "t")
    assert code_of(refused) is ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(harness.shard_harness.shard.groups.get("g"), ClassicGroup)


def test_a_classic_group_that_is_too_large_stays_classic() -> None:
    harness = ConsumerHarness({**SETTINGS, "group.consumer.max.size": "1"}, t=4)
    stable_classic(harness)
    group = harness.shard_harness.shard.groups.get("g")
    assert isinstance(group, ClassicGroup)
    group.members["second"] = next(iter(group.members.values()))
    with pytest.raises(ApiError, match="exceeds the consumer group maximum size"):
        harness.join("g", "new", "t")


def test_a_group_too_large_for_a_classic_one_stays_a_consumer_group() -> None:
    harness = ConsumerHarness({**SETTINGS, "group.max.size": "1"}, t=4)
    new = harness.join("g", "new", "t")
    for _ in range(2):
        ClassicConsumer(harness, "g", "t").join()
    new.leave()
    assert len(harness.group().members) == 2


def test_an_empty_classic_group_becomes_a_consumer_group_at_once(harness: ConsumerHarness) -> None:
    shard = harness.shard_harness.shard
    shard.groups.get_or_make("g")
    member = harness.join("g", "new", "t")
    assert member.owned == {"t": [0, 1, 2, 3]}
