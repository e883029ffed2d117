"""Static members: they return and keep their assignment (KIP-345)."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ApiError, ErrorCode
from tests.broker.coordinator.group.consumer.consumer_harness import SESSION_MS, Consumer, ConsumerHarness


@pytest.fixture
def harness() -> ConsumerHarness:
    return ConsumerHarness(t=4)


@pytest.fixture
def pair(harness: ConsumerHarness) -> tuple[Consumer, Consumer]:
    """Two members of a stable group; the first has the instance id i."""
    first = harness.join("g", "a", "t", instance_id="i")
    second = harness.join("g", "b", "t")
    for member in (first, first, second):
        member.beat()
    assert harness.group().state_name == "Stable"
    return first, second


def refused(code: ErrorCode) -> pytest.RaisesExc[ApiError]:
    return pytest.raises(ApiError, match=code.name)


def test_a_returning_member_keeps_its_assignment(
    harness: ConsumerHarness, pair: tuple[Consumer, Consumer]
) -> None:
    first, second = pair
    had = first.owned
    response = first.leave(-2)
    assert (response.member_id, response.member_epoch) == ("a", -2)
    harness.restart()
    epoch = harness.group().group_epoch
    again = harness.join("g", "c", "t", instance_id="i")
    assert again.owned == had
    assert harness.group().group_epoch == epoch
    second.beat()
    assert second.owned == {"t": [2, 3]}


def test_a_return_with_another_subscription_starts_a_new_assignment(
    harness: ConsumerHarness, pair: tuple[Consumer, Consumer]
) -> None:
    pair[0].leave(-2)
    again = harness.join("g", "c", "nowhere", instance_id="i")
    assert again.owned == {}
    pair[1].beat()
    assert pair[1].owned == {"t": [0, 1, 2, 3]}


def test_the_assignment_of_a_leaving_static_member_is_kept_for_its_session(
    harness: ConsumerHarness, pair: tuple[Consumer, Consumer]
) -> None:
    first, second = pair
    first.leave(-2)
    harness.advance(SESSION_MS - 1)
    second.beat()
    assert second.owned == {"t": [2, 3]}
    harness.advance(1)
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}


def test_an_instance_id_belongs_to_one_member_at_a_time(
    harness: ConsumerHarness, pair: tuple[Consumer, Consumer]
) -> None:
    first, _ = pair
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        harness.join("g", "c", "t", instance_id="i")
    intruder = Consumer(harness, "g", "c", "i")
    intruder.epoch = first.epoch
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        intruder.beat()
    for epoch in (-1, -2):
        with refused(ErrorCode.FENCED_INSTANCE_ID):
            intruder.leave(epoch)


def test_a_replaced_member_is_fenced(harness: ConsumerHarness, pair: tuple[Consumer, Consumer]) -> None:
    first, _ = pair
    first.leave(-2)
    harness.join("g", "c", "t", instance_id="i")
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        first.beat()


def test_a_member_that_leaves_for_good_is_removed(
    harness: ConsumerHarness, pair: tuple[Consumer, Consumer]
) -> None:
    first, second = pair
    first.leave()
    second.beat()
    assert second.owned == {"t": [0, 1, 2, 3]}
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        first.beat()
    assert harness.group().static_members == {}
