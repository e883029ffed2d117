"""ShardTimers: keys, times, and the scheduled calls that they cost."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.coordinator.shard import CoordinatorResult, TimedOperation
from barnabas.broker.coordinator.timers import ShardTimers
from tests.broker.fakes import ManualTimer


class Bell:
    """The expired timers, as (key, result of the operation, retry, time)."""

    def __init__(self) -> None:
        self.clock = ManualTimer(0.0)
        self.timers = ShardTimers(self.clock, self._due)
        self.rung: list[tuple[Hashable, object, bool]] = []

    def _due(self, key: Hashable, operation: TimedOperation, retry: bool) -> None:
        self.rung.append((key, operation().response, retry))


def says(word: object) -> TimedOperation:
    return lambda: CoordinatorResult(word)


def test_a_timer_expires_once() -> None:
    bell = Bell()
    bell.timers.schedule("a", 1000, says(1))
    bell.timers.schedule("b", 500, says(2), retry=False)
    assert bell.timers.is_scheduled("a")
    bell.clock.advance(2)
    assert bell.rung == [("b", 2, False), ("a", 1, True)]
    assert (bell.timers.is_scheduled("a"), len(bell.timers)) == (False, 0)


def test_scheduling_again_replaces_the_timer() -> None:
    bell = Bell()
    bell.timers.schedule("a", 1000, says("first"))
    bell.timers.schedule("a", 500, says("sooner"))
    bell.clock.advance(0.5)
    assert bell.rung == [("a", "sooner", True)]
    bell.timers.schedule("a", 1000, says("second"))
    bell.timers.schedule("a", 3000, says("later"), retry=False)
    bell.clock.advance(2.9)
    assert len(bell.rung) == 1
    bell.clock.advance(0.2)
    assert bell.rung[1:] == [("a", "later", False)]


def test_postponing_schedules_no_extra_call() -> None:
    bell = Bell()
    for _ in range(100):
        bell.timers.schedule("session", 45_000, says("expired"))
        bell.clock.advance(3)
        assert bell.clock.scheduled == 1
    bell.clock.advance(45)
    assert bell.rung == [("session", "expired", True)]


def test_a_cancelled_timer_does_not_expire() -> None:
    bell = Bell()
    bell.timers.schedule("a", 1000, says(1))
    bell.timers.schedule("b", 1000, says(2))
    bell.timers.cancel("a")
    bell.timers.cancel("no such key")
    bell.clock.advance(0.1)
    bell.timers.close()
    bell.timers.schedule("c", 1000, says(3))
    bell.clock.advance(2)
    assert (bell.rung, bell.clock.scheduled) == ([], 0)


# Eighths of a second: their sums are exact as floats, so that clock and model agree on expiry.
SPANS_MS = st.integers(0, 50).map(lambda eighths: eighths * 125)


@given(
    st.lists(
        st.tuples(st.sampled_from(["schedule", "cancel", "pass"]), st.sampled_from("ab"), SPANS_MS),
        max_size=30,
    )
)
def test_timers_expire_as_in_a_model(steps: list[tuple[str, str, int]]) -> None:
    bell = Bell()
    now_ms = 0
    due: dict[str, int] = {}
    expected: list[tuple[int, str]] = []
    for step, key, ms in steps:
        if step == "schedule":
            bell.timers.schedule(key, ms, says(None))
            due[key] = now_ms + ms
        elif step == "cancel":
            bell.timers.cancel(key)
            due.pop(key, None)
        else:
            bell.clock.advance(ms / 1000)
            now_ms += ms
            late = sorted((at, other) for other, at in due.items() if at <= now_ms)
            expected += late
            for _, other in late:
                del due[other]
        assert sorted(str(key) for key, _, _ in bell.rung) == sorted(str(key) for _, key in expected)
        assert {each for each in "ab" if bell.timers.is_scheduled(each)} == set(due)
