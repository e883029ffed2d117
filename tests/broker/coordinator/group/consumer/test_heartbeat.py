"""ConsumerGroupHeartbeat: members join, get partitions, and leave."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.group_state import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
)
from tests.broker.coordinator.group.consumer.consumer_harness import (
    SESSION_MS,
    Consumer,
    ConsumerHarness,
    id_of,
)


@pytest.fixture
def harness() -> ConsumerHarness:
    return ConsumerHarness(t=4, u=2)


def refused(code: ErrorCode) -> pytest.RaisesExc[ApiError]:
    return pytest.raises(ApiError, match=code.name)


def test_the_first_member_gets_all_partitions(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", "nowhere")
    assert (member.epoch, member.owned) == (2, {"t": [0, 1, 2, 3]})
    assert harness.group().state_name == "Stable"
    written = harness.last(ConsumerGroupMemberMetadataValue)
    assert written.subscribed_topic_names == ["nowhere", "t"]
    assert (written.client_id, written.client_host) == ("client", "/192.0.2.7")


def test_a_response_has_the_assignment_if_it_changed_or_the_request_is_full(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    assert member.beat().assignment is None
    assert member.beat(subscribed_topic_names=["t"]).assignment is None
    again = member.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert again.assignment is not None
    assert again.heartbeat_interval_ms == 5_000


def test_an_unchanged_group_is_not_written(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    before = len(harness.shard_harness.log)
    member.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert len(harness.shard_harness.log) == before


def test_the_second_member_waits_until_the_first_has_revoked(harness: ConsumerHarness) -> None:
    first = harness.join("g", "a", "t")
    second = harness.join("g", "b", "t")
    assert (second.owned, second.epoch) == ({}, 3)
    first.beat()
    assert (first.owned, first.epoch) == ({"t": [0, 1]}, 2)
    second.beat()
    assert second.owned == {}, "the first has not said yet that it gave anything up"
    assert harness.group().state_name == "Reconciling"
    first.beat()
    assert first.epoch == 3
    second.beat()
    assert second.owned == {"t": [2, 3]}
    assert harness.group().state_name == "Stable"


def test_a_heartbeat_without_owned_partitions_keeps_them(harness: ConsumerHarness) -> None:
    first = harness.join("g", "a", "t")
    second = harness.join("g", "b", "t")
    first.beat()
    first.beat(topic_partitions=None)
    second.beat()
    assert second.owned == {}


def test_partitions_of_a_leaving_member_go_to_the_others(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t"), harness.join("g", "b", "t")
    response = first.leave()
    assert (response.member_id, response.member_epoch) == ("a", -1)
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}
    second.leave()
    assert harness.group().state_name == "Empty"
    assert harness.group().subscriptions.topics == {}


def test_new_partitions_are_sorted_into_the_assignment(harness: ConsumerHarness) -> None:
    first = harness.join("g", "b", "t", server_assignor="range")
    second = harness.join("g", "a", "t", server_assignor="range")
    first.beat()
    first.beat()
    assert first.owned == {"t": [2, 3]}
    second.leave()
    told = first.beat().assignment
    assert told is not None
    (written,) = harness.last(ConsumerGroupCurrentMemberAssignmentValue).assigned_partitions
    assert told.topic_partitions[0].partitions == written.partitions == [0, 1, 2, 3]
    assert written.assignment_epochs == [4, 4, 2, 2]


def test_a_member_that_unsubscribes_loses_the_partitions_at_once(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", "u")
    member.beat(subscribed_topic_names=["u"])
    assert member.owned == {"u": [0, 1]}


def test_the_assignment_interval_is_respected(harness: ConsumerHarness) -> None:
    harness.configure("g", consumer_assignment_interval_ms=1_000)
    first = harness.join("g", "a", "t")
    second = harness.join("g", "b", "t")
    first.beat()
    assert first.owned == {"t": [0, 1, 2, 3]}
    assert harness.group().state_name == "Assigning"
    harness.advance(1_000)
    second.beat()
    first.beat()
    assert first.owned == {"t": [0, 1]}


def test_a_clock_that_was_set_back_does_not_block_assignments(harness: ConsumerHarness) -> None:
    harness.configure("g", consumer_assignment_interval_ms=1_000)
    first = harness.join("g", "a", "t")
    harness.shard_harness.clock.now -= 3_600
    second = harness.join("g", "b", "t")
    for member in (first, first, second):
        member.beat()
    assert (first.owned, second.owned) == ({"t": [0, 1]}, {"t": [2, 3]})


def test_members_choose_the_assignor(harness: ConsumerHarness) -> None:
    harness.join("g", "b", "t", "u", server_assignor="range")
    harness.join("g", "a", "t", "u", server_assignor="range")
    harness.join("g", "c", "t", "u", server_assignor="uniform")
    assert harness.describe().assignor_name == "range"
    target = {
        member.member_id: harness.named(member.target_assignment.topic_partitions)
        for member in harness.describe().members
    }
    assert target == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2], "u": [1]}, "c": {"t": [3]}}


def test_an_assignor_that_is_unknown_here_is_replaced_by_the_default(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", server_assignor="somebodys-own")
    assert member.owned == {"t": [0, 1, 2, 3]}


@pytest.mark.parametrize(("epoch", "owned"), [(1, {"t": [0]}), (9, {}), (2, {"t": [0, 1, 2, 3]}), (-5, {})])
def test_a_wrong_epoch_is_fenced(harness: ConsumerHarness, epoch: int, owned: dict[str, list[int]]) -> None:
    first, second = harness.join("g", "a", "t"), harness.join("g", "b", "t")
    first.beat()
    first.beat()
    second.beat()
    assert first.epoch == 3
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        first.beat(member_epoch=epoch, topic_partitions=first.partitions(owned))


def test_a_member_that_missed_a_response_continues_in_the_previous_epoch(harness: ConsumerHarness) -> None:
    first = harness.join("g", "a", "t")
    harness.join("g", "b", "t")
    first.beat()
    owned = first.owned
    first.beat()
    assert first.epoch == 3
    first.beat(member_epoch=2, topic_partitions=first.partitions(owned))
    assert first.epoch == 3


def test_a_rejoining_member_gets_a_full_response(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    member.join("t")
    assert (member.epoch, member.owned) == (2, {"t": [0, 1, 2, 3]})


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_unknown_groups_and_members(harness: ConsumerHarness, epoch: int) -> None:
    stranger = Consumer(harness, "g", "x", "i" if epoch == -2 else None)
    stranger.epoch = epoch
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        stranger.beat()
    harness.join("g", "a", "t")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        stranger.beat()


def test_a_full_group_rejects_new_members() -> None:
    harness = ConsumerHarness({"group.consumer.max.size": "1"}, t=1)
    first = harness.join("g", "a", "t")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        harness.join("g", "b", "t")
    assert first.beat().member_id == "a"


def test_old_clients_are_assigned_an_id(harness: ConsumerHarness) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    response = harness.heartbeat(request, version=0)
    assert response.member_id is not None
    assert len(response.member_id) == 22


# ---- time


def test_a_silent_member_is_removed(harness: ConsumerHarness) -> None:
    harness.join("g", "a", "t")
    second = harness.join("g", "b", "t")
    harness.advance(SESSION_MS - 1)
    second.beat()
    assert set(harness.group().members) == {"a", "b"}
    harness.advance(1)
    assert set(harness.group().members) == {"b"}
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}


def test_a_group_can_have_its_own_session_timeout(harness: ConsumerHarness) -> None:
    harness.configure("g", consumer_session_timeout_ms=50_000, consumer_heartbeat_interval_ms=7_000)
    member = harness.join("g", "a", "t")
    assert member.beat().heartbeat_interval_ms == 7_000
    harness.advance(49_999)
    assert set(harness.group().members) == {"a"}
    harness.advance(1)
    assert harness.group().is_empty


def test_settings_of_a_group_stay_within_the_brokers_bounds(harness: ConsumerHarness) -> None:
    harness.configure("g", consumer_session_timeout_ms=1, consumer_heartbeat_interval_ms=999_999)
    member = harness.join("g", "a", "t")
    assert member.beat().heartbeat_interval_ms == 15_000
    harness.advance(SESSION_MS - 1)
    assert set(harness.group().members) == {"a"}


def test_a_member_that_does_not_revoke_in_time_is_removed(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t", rebalance_timeout_ms=20_000), harness.join("g", "b", "t")
    first.beat()
    stubborn = first.partitions({"t": [0, 1, 2, 3]})
    harness.advance(19_999)
    first.beat(topic_partitions=stubborn)
    assert "a" in harness.group().members
    harness.advance(1)
    assert "a" not in harness.group().members
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}


def test_a_member_that_has_revoked_stays(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t", rebalance_timeout_ms=20_000), harness.join("g", "b", "t")
    for _ in range(2):
        first.beat()
    harness.advance(30_000)
    second.beat()
    assert set(harness.group().members) == {"a", "b"}


def test_timers_continue_after_loading(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t", rebalance_timeout_ms=20_000), harness.join("g", "b", "t")
    first.beat()
    harness.restart()
    harness.advance(20_000)
    assert set(harness.group().members) == {"b"}
    harness.advance(SESSION_MS - 20_000)
    assert harness.group().is_empty
    assert second.id == "b"


def test_a_failed_write_changes_nothing(harness: ConsumerHarness) -> None:
    first = harness.join("g", "a", "t")
    harness.shard_harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with refused(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        harness.join("g", "b", "t")
    harness.shard_harness.fails = None
    first.beat()
    assert first.owned == {"t": [0, 1, 2, 3]}
    second = harness.join("g", "b", "t")
    first.beat()
    first.beat()
    second.beat()
    assert second.owned == {"t": [2, 3]}


# ---- topics


def test_topics_that_are_created_extended_and_deleted(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", "late")
    harness.create("late", 1)
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3], "late": [0]}
    harness.grow("late", 2)
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3], "late": [0, 1]}
    harness.delete("late")
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3]}
    harness.create("late", 1)
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3], "late": [0]}
    assert harness.last(ConsumerGroupMetadataValue).epoch == 6
    written = harness.last(ConsumerGroupCurrentMemberAssignmentValue)
    assert {topic.topic_id for topic in written.assigned_partitions} == {id_of("t"), id_of("late", 1)}


def test_unsubscribed_topics_do_not_matter(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    harness.create("other", 1)
    harness.grow("u", 3)
    before = len(harness.shard_harness.log)
    member.beat()
    assert len(harness.shard_harness.log) == before
