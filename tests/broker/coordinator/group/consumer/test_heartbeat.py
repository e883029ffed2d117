"""Members join, share, and leave."""

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
    ConsumerBench,
    id_of,
)


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench(t=4, u=2)


def refused(code: ErrorCode) -> pytest.RaisesExc[ApiError]:
    return pytest.raises(ApiError, match=code.name)


def test_the_first_member_has_everything(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t", "nowhere")
    assert (member.epoch, member.owned) == (2, {"t": [0, 1, 2, 3]})
    assert bench.group().state_name == "Stable"
    written = bench.last(ConsumerGroupMemberMetadataValue)
    assert written.subscribed_topic_names == ["nowhere", "t"]
    assert (written.client_id, written.client_host) == ("client", "/192.0.2.7")


def test_a_member_is_told_what_it_has_when_that_has_changed_or_it_says_all(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t")
    assert member.beat().assignment is None
    assert member.beat(subscribed_topic_names=["t"]).assignment is None
    again = member.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert again.assignment is not None
    assert again.heartbeat_interval_ms == 5_000


def test_nothing_is_written_when_nothing_has_changed(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t")
    before = len(bench.shard_bench.log)
    member.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert len(bench.shard_bench.log) == before


def test_the_second_waits_until_the_first_has_given_up(bench: ConsumerBench) -> None:
    first = bench.join("g", "a", "t")
    second = bench.join("g", "b", "t")
    assert (second.owned, second.epoch) == ({}, 3)
    first.beat()
    assert (first.owned, first.epoch) == ({"t": [0, 1]}, 2)
    second.beat()
    assert second.owned == {}, "the first has not said yet that it gave anything up"
    assert bench.group().state_name == "Reconciling"
    first.beat()
    assert first.epoch == 3
    second.beat()
    assert second.owned == {"t": [2, 3]}
    assert bench.group().state_name == "Stable"


def test_who_does_not_say_what_it_owns_owns_it_still(bench: ConsumerBench) -> None:
    first = bench.join("g", "a", "t")
    second = bench.join("g", "b", "t")
    first.beat()
    first.beat(topic_partitions=None)
    second.beat()
    assert second.owned == {}


def test_partitions_of_who_leaves_go_to_who_stays(bench: ConsumerBench) -> None:
    first, second = bench.join("g", "a", "t"), bench.join("g", "b", "t")
    response = first.leave()
    assert (response.member_id, response.member_epoch) == ("a", -1)
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}
    second.leave()
    assert bench.group().state_name == "Empty"
    assert bench.group().subscriptions.topics == {}


def test_what_comes_to_what_a_member_has_stands_in_order(bench: ConsumerBench) -> None:
    first = bench.join("g", "b", "t", server_assignor="range")
    second = bench.join("g", "a", "t", server_assignor="range")
    first.beat()
    first.beat()
    assert first.owned == {"t": [2, 3]}
    second.leave()
    told = first.beat().assignment
    assert told is not None
    (written,) = bench.last(ConsumerGroupCurrentMemberAssignmentValue).assigned_partitions
    assert told.topic_partitions[0].partitions == written.partitions == [0, 1, 2, 3]
    assert written.assignment_epochs == [4, 4, 2, 2]


def test_a_member_that_is_subscribed_to_less_gives_it_up_at_once(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t", "u")
    member.beat(subscribed_topic_names=["u"])
    assert member.owned == {"u": [0, 1]}


def test_assignments_are_not_made_more_often_than_the_interval_says(bench: ConsumerBench) -> None:
    bench.configure("g", consumer_assignment_interval_ms=1_000)
    first = bench.join("g", "a", "t")
    second = bench.join("g", "b", "t")
    first.beat()
    assert first.owned == {"t": [0, 1, 2, 3]}
    assert bench.group().state_name == "Assigning"
    bench.advance(1_000)
    second.beat()
    first.beat()
    assert first.owned == {"t": [0, 1]}


def test_a_clock_that_was_set_back_keeps_nobody_from_an_assignment(bench: ConsumerBench) -> None:
    bench.configure("g", consumer_assignment_interval_ms=1_000)
    first = bench.join("g", "a", "t")
    bench.shard_bench.clock.now -= 3_600
    second = bench.join("g", "b", "t")
    for member in (first, first, second):
        member.beat()
    assert (first.owned, second.owned) == ({"t": [0, 1]}, {"t": [2, 3]})


def test_members_choose_the_assignor(bench: ConsumerBench) -> None:
    bench.join("g", "b", "t", "u", server_assignor="range")
    bench.join("g", "a", "t", "u", server_assignor="range")
    bench.join("g", "c", "t", "u", server_assignor="uniform")
    assert bench.describe().assignor_name == "range"
    target = {
        member.member_id: bench.named(member.target_assignment.topic_partitions)
        for member in bench.describe().members
    }
    assert target == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2], "u": [1]}, "c": {"t": [3]}}


def test_an_assignor_that_is_not_here_any_more_is_replaced_by_the_default(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t", server_assignor="somebodys-own")
    assert member.owned == {"t": [0, 1, 2, 3]}


@pytest.mark.parametrize(("epoch", "owned"), [(1, {"t": [0]}), (9, {}), (2, {"t": [0, 1, 2, 3]}), (-5, {})])
def test_an_epoch_that_is_not_the_members_is_fenced(
    bench: ConsumerBench, epoch: int, owned: dict[str, list[int]]
) -> None:
    first, second = bench.join("g", "a", "t"), bench.join("g", "b", "t")
    first.beat()
    first.beat()
    second.beat()
    assert first.epoch == 3
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        first.beat(member_epoch=epoch, topic_partitions=first.partitions(owned))


def test_a_member_that_missed_an_answer_goes_on_in_the_epoch_before(bench: ConsumerBench) -> None:
    first = bench.join("g", "a", "t")
    bench.join("g", "b", "t")
    first.beat()
    owned = first.owned
    first.beat()
    assert first.epoch == 3
    first.beat(member_epoch=2, topic_partitions=first.partitions(owned))
    assert first.epoch == 3


def test_who_joins_again_is_told_all(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t")
    member.join("t")
    assert (member.epoch, member.owned) == (2, {"t": [0, 1, 2, 3]})


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_groups_and_members_that_are_not_there(bench: ConsumerBench, epoch: int) -> None:
    stranger = Consumer(bench, "g", "x", "i" if epoch == -2 else None)
    stranger.epoch = epoch
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        stranger.beat()
    bench.join("g", "a", "t")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        stranger.beat()


def test_a_full_group_takes_nobody_new() -> None:
    bench = ConsumerBench({"group.consumer.max.size": "1"}, t=1)
    first = bench.join("g", "a", "t")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        bench.join("g", "b", "t")
    assert first.beat().member_id == "a"


def test_old_clients_are_given_an_id(bench: ConsumerBench) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    response = bench.heartbeat(request, version=0)
    assert response.member_id is not None
    assert len(response.member_id) == 22


# ---- time


def test_a_silent_member_is_taken_out(bench: ConsumerBench) -> None:
    bench.join("g", "a", "t")
    second = bench.join("g", "b", "t")
    bench.advance(SESSION_MS - 1)
    second.beat()
    assert set(bench.group().members) == {"a", "b"}
    bench.advance(1)
    assert set(bench.group().members) == {"b"}
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}


def test_a_group_has_a_session_timeout_of_its_own(bench: ConsumerBench) -> None:
    bench.configure("g", consumer_session_timeout_ms=50_000, consumer_heartbeat_interval_ms=7_000)
    member = bench.join("g", "a", "t")
    assert member.beat().heartbeat_interval_ms == 7_000
    bench.advance(49_999)
    assert set(bench.group().members) == {"a"}
    bench.advance(1)
    assert bench.group().is_empty


def test_settings_of_a_group_stay_within_the_brokers_bounds(bench: ConsumerBench) -> None:
    bench.configure("g", consumer_session_timeout_ms=1, consumer_heartbeat_interval_ms=999_999)
    member = bench.join("g", "a", "t")
    assert member.beat().heartbeat_interval_ms == 15_000
    bench.advance(SESSION_MS - 1)
    assert set(bench.group().members) == {"a"}


def test_who_does_not_give_up_in_time_is_taken_out(bench: ConsumerBench) -> None:
    first, second = bench.join("g", "a", "t", rebalance_timeout_ms=20_000), bench.join("g", "b", "t")
    first.beat()
    stubborn = first.partitions({"t": [0, 1, 2, 3]})
    bench.advance(19_999)
    first.beat(topic_partitions=stubborn)
    assert "a" in bench.group().members
    bench.advance(1)
    assert "a" not in bench.group().members
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}


def test_who_has_given_up_is_left_alone(bench: ConsumerBench) -> None:
    first, second = bench.join("g", "a", "t", rebalance_timeout_ms=20_000), bench.join("g", "b", "t")
    for _ in range(2):
        first.beat()
    bench.advance(30_000)
    second.beat()
    assert set(bench.group().members) == {"a", "b"}


def test_timers_go_on_after_loading(bench: ConsumerBench) -> None:
    first, second = bench.join("g", "a", "t", rebalance_timeout_ms=20_000), bench.join("g", "b", "t")
    first.beat()
    bench.restart()
    bench.advance(20_000)
    assert set(bench.group().members) == {"b"}
    bench.advance(SESSION_MS - 20_000)
    assert bench.group().is_empty
    assert second.id == "b"


def test_what_cannot_be_written_has_not_happened(bench: ConsumerBench) -> None:
    first = bench.join("g", "a", "t")
    bench.shard_bench.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with refused(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        bench.join("g", "b", "t")
    bench.shard_bench.fails = None
    first.beat()
    assert first.owned == {"t": [0, 1, 2, 3]}
    second = bench.join("g", "b", "t")
    first.beat()
    first.beat()
    second.beat()
    assert second.owned == {"t": [2, 3]}


# ---- topics


def test_topics_that_come_grow_and_go(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t", "late")
    bench.create("late", 1)
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3], "late": [0]}
    bench.grow("late", 2)
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3], "late": [0, 1]}
    bench.delete("late")
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3]}
    bench.create("late", 1)
    member.beat()
    assert member.owned == {"t": [0, 1, 2, 3], "late": [0]}
    assert bench.last(ConsumerGroupMetadataValue).epoch == 6
    written = bench.last(ConsumerGroupCurrentMemberAssignmentValue)
    assert {topic.topic_id for topic in written.assigned_partitions} == {id_of("t"), id_of("late", 1)}


def test_other_topics_do_not_matter(bench: ConsumerBench) -> None:
    member = bench.join("g", "a", "t")
    bench.create("other", 1)
    bench.grow("u", 3)
    before = len(bench.shard_bench.log)
    member.beat()
    assert len(bench.shard_bench.log) == before
