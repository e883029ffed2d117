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


def test_the_first_member_has_everything(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", "nowhere")
    assert (member.epoch, member.owned) == (2, {"t": [0, 1, 2, 3]})
    assert harness.group().state_name == "Stable"
    written = harness.last(ConsumerGroupMemberMetadataValue)
    assert written.subscribed_topic_names == ["nowhere", "t"]
    assert (written.client_id, written.client_host) == ("client", "/192.0.2.7")


def test_a_member_is_told_what_it_has_when_that_has_changed_or_it_says_all(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    assert member.beat().assignment is None
    assert member.beat(subscribed_topic_names=["t"]).assignment is None
    again = member.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert again.assignment is not None
    assert again.heartbeat_interval_ms == 5_000


def test_nothing_is_written_when_nothing_has_changed(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    before = len(harness.shard_harness.log)
    member.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert len(harness.shard_harness.log) == before


def test_the_second_waits_until_the_first_has_given_up(harness: ConsumerHarness) -> None:
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


def test_who_does_not_say_what_it_owns_owns_it_still(harness: ConsumerHarness) -> None:
    first = harness.join("g", "a", "t")
    second = harness.join("g", "b", "t")
    first.beat()
    first.beat(topic_partitions=None)
    second.beat()
    assert second.owned == {}


def test_partitions_of_who_leaves_go_to_who_stays(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t"), harness.join("g", "b", "t")
    response = first.leave()
    assert (response.member_id, response.member_epoch) == ("a", -1)
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}
    second.leave()
    assert harness.group().state_name == "Empty"
    assert harness.group().subscriptions.topics == {}


def test_what_comes_to_what_a_member_has_stands_in_order(harness: ConsumerHarness) -> None:
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


def test_a_member_that_is_subscribed_to_less_gives_it_up_at_once(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", "u")
    member.beat(subscribed_topic_names=["u"])
    assert member.owned == {"u": [0, 1]}


def test_assignments_are_not_made_more_often_than_the_interval_says(harness: ConsumerHarness) -> None:
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


def test_a_clock_that_was_set_back_keeps_nobody_from_an_assignment(harness: ConsumerHarness) -> None:
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


def test_an_assignor_that_is_not_here_any_more_is_replaced_by_the_default(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t", server_assignor="somebodys-own")
    assert member.owned == {"t": [0, 1, 2, 3]}


@pytest.mark.parametrize(("epoch", "owned"), [(1, {"t": [0]}), (9, {}), (2, {"t": [0, 1, 2, 3]}), (-5, {})])
def test_an_epoch_that_is_not_the_members_is_fenced(
    harness: ConsumerHarness, epoch: int, owned: dict[str, list[int]]
) -> None:
    first, second = harness.join("g", "a", "t"), harness.join("g", "b", "t")
    first.beat()
    first.beat()
    second.beat()
    assert first.epoch == 3
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        first.beat(member_epoch=epoch, topic_partitions=first.partitions(owned))


def test_a_member_that_missed_an_answer_goes_on_in_the_epoch_before(harness: ConsumerHarness) -> None:
    first = harness.join("g", "a", "t")
    harness.join("g", "b", "t")
    first.beat()
    owned = first.owned
    first.beat()
    assert first.epoch == 3
    first.beat(member_epoch=2, topic_partitions=first.partitions(owned))
    assert first.epoch == 3


def test_who_joins_again_is_told_all(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    member.join("t")
    assert (member.epoch, member.owned) == (2, {"t": [0, 1, 2, 3]})


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_groups_and_members_that_are_not_there(harness: ConsumerHarness, epoch: int) -> None:
    stranger = Consumer(harness, "g", "x", "i" if epoch == -2 else None)
    stranger.epoch = epoch
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        stranger.beat()
    harness.join("g", "a", "t")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        stranger.beat()


def test_a_full_group_takes_nobody_new() -> None:
    harness = ConsumerHarness({"group.consumer.max.size": "1"}, t=1)
    first = harness.join("g", "a", "t")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        harness.join("g", "b", "t")
    assert first.beat().member_id == "a"


def test_old_clients_are_given_an_id(harness: ConsumerHarness) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    response = harness.heartbeat(request, version=0)
    assert response.member_id is not None
    assert len(response.member_id) == 22


# ---- time


def test_a_silent_member_is_taken_out(harness: ConsumerHarness) -> None:
    harness.join("g", "a", "t")
    second = harness.join("g", "b", "t")
    harness.advance(SESSION_MS - 1)
    second.beat()
    assert set(harness.group().members) == {"a", "b"}
    harness.advance(1)
    assert set(harness.group().members) == {"b"}
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}


def test_a_group_has_a_session_timeout_of_its_own(harness: ConsumerHarness) -> None:
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


def test_who_does_not_give_up_in_time_is_taken_out(harness: ConsumerHarness) -> None:
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


def test_who_has_given_up_is_left_alone(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t", rebalance_timeout_ms=20_000), harness.join("g", "b", "t")
    for _ in range(2):
        first.beat()
    harness.advance(30_000)
    second.beat()
    assert set(harness.group().members) == {"a", "b"}


def test_timers_go_on_after_loading(harness: ConsumerHarness) -> None:
    first, second = harness.join("g", "a", "t", rebalance_timeout_ms=20_000), harness.join("g", "b", "t")
    first.beat()
    harness.restart()
    harness.advance(20_000)
    assert set(harness.group().members) == {"b"}
    harness.advance(SESSION_MS - 20_000)
    assert harness.group().is_empty
    assert second.id == "b"


def test_what_cannot_be_written_has_not_happened(harness: ConsumerHarness) -> None:
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


def test_topics_that_come_grow_and_go(harness: ConsumerHarness) -> None:
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


def test_other_topics_do_not_matter(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", "t")
    harness.create("other", 1)
    harness.grow("u", 3)
    before = len(harness.shard_harness.log)
    member.beat()
    assert len(harness.shard_harness.log) == before
