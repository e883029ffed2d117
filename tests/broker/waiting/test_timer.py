"""DeadlineQueue: many deadlines on one timer, each of which expires as with its own timer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.waiting.timer import MIN_DEADLINES, DeadlineQueue
from tests.broker.fakes import ManualTimer


class Item:
    """An item that records when it expires, unless it is completed."""

    def __init__(self, number: int, expired: Callable[[int], object]) -> None:
        self.number = number
        self.is_completed = False
        self._expired = expired

    def expire(self) -> None:
        assert not self.is_completed
        self.is_completed = True
        self._expired(self.number)


class Waits:
    """A DeadlineQueue, and its expired items, with the time in milliseconds."""

    def __init__(self) -> None:
        self.timer = ManualTimer(0.0)
        self.queue = DeadlineQueue(self.timer)
        self.expired: list[tuple[int, int]] = []
        self.items: list[Item] = []

    def add(self, delay_ms: int) -> Item:
        item = Item(
            len(self.items), lambda number: self.expired.append((round(self.timer.now * 1000), number))
        )
        self.items.append(item)
        self.queue.add(delay_ms, item)
        return item


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 30)),
        st.tuples(st.just("complete"), st.integers(0, 200)),
        st.tuples(st.just("advance"), st.integers(0, 20)),
    ),
    max_size=200,
)


@given(STEPS)
def test_each_item_expires_as_with_its_own_timer(steps: list[tuple[str, int]]) -> None:
    waits = Waits()
    now_ms = 0
    slack_s = 0.0  # a little later each time than the one before, despite rounding of floats
    waiting: dict[int, int] = {}
    expected: list[tuple[int, int]] = []

    def advance(ms: int) -> None:
        nonlocal now_ms, slack_s
        now_ms += ms
        slack_s += 1e-7
        waits.timer.advance(now_ms / 1000 + slack_s - waits.timer.now)
        due = sorted((when, number) for number, when in waiting.items() if when <= now_ms)
        expected.extend(due)
        for _, number in due:
            del waiting[number]

    for step, number in steps:
        if step == "add":
            waiting[len(waits.items)] = now_ms + number
            waits.add(number)
        elif step == "complete" and number in waiting:
            waits.items[number].is_completed = True
            del waiting[number]
        elif step == "advance":
            advance(number)
        assert waits.expired == expected
        assert waits.timer.scheduled <= 1
    advance(1000)
    assert waits.expired == expected
    assert (len(waits.queue), waits.timer.scheduled) == (0, 0)


def test_completed_items_are_released_soon() -> None:
    waits = Waits()
    waiting = waits.add(500)
    for _ in range(10 * MIN_DEADLINES):
        waits.add(500).is_completed = True
    assert len(waits.queue) <= MIN_DEADLINES + 1
    waits.timer.advance(0.5)
    assert waits.expired == [(500, waiting.number)]


def test_waiting_items_are_kept() -> None:
    waits = Waits()
    for _ in range(3 * MIN_DEADLINES):
        waits.add(500)
    waits.timer.advance(0.5)
    assert [number for _, number in waits.expired] == list(range(3 * MIN_DEADLINES))


def test_an_item_that_raises_does_not_block_the_others() -> None:
    waits = Waits()

    def fail(number: int) -> None:
        raise ValueError(number)

    waits.queue.add(5, Item(0, fail))
    waits.add(5)
    with pytest.raises(ValueError, match="0"):
        waits.timer.advance(0.005)
    waits.timer.advance(0)
    assert waits.expired == [(5, 0)]


def test_an_expiration_may_add_a_deadline() -> None:
    waits = Waits()
    waits.queue.add(5, Item(0, lambda _: waits.queue.add(0, Item(1, lambda _: waits.add(7)))))
    waits.timer.advance(0.012)
    assert waits.expired == [(12, 0)]


def test_a_clock_that_goes_in_milliseconds_does_not_have_it_set_the_timer_again_for_a_rounding_error() -> (
    None
):
    waits = Waits()
    waits.timer.now = 0.1
    waits.add(200)  # 0.1 + 0.2 is a little more than 0.3
    waits.queue._set(0.3)
    waits.timer.advance(0.2)
    assert (waits.expired, waits.timer.scheduled) == ([(300, 0)], 0)


def test_clear_removes_all_items() -> None:
    waits = Waits()
    waits.add(5)
    waits.queue.clear()
    assert (len(waits.queue), waits.timer.scheduled) == (0, 0)
    waits.queue.clear()
    waits.timer.advance(1)
    waits.add(5)
    waits.timer.advance(0.005)
    assert waits.expired == [(1005, 1)]
