"""Operations complete exactly once: when their condition holds, or when they expire."""

from __future__ import annotations

import random

import pytest

from barnabas.broker.waiting.purgatory import DelayedOperation, DelayedOperationPurgatory, Watcher
from tests.broker.fakes import ManualTimer
from tests.support.chance import explores, seed_or


class Waits(DelayedOperation):
    """An operation whose condition is `met`; records its calls."""

    def __init__(self, delay_ms: int = 500, met: bool = False) -> None:
        super().__init__(delay_ms)
        self.met = met
        self.looks = 0
        self.story: list[str] = []

    def try_complete(self) -> bool:
        self.looks += 1
        return self.met and self.force_complete()

    def on_expiration(self) -> None:
        self.story.append("expired")

    def on_complete(self) -> None:
        self.story.append("completed")


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def purgatory(timer: ManualTimer) -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory("Fetch", timer, purge_interval=10)


def test_an_operation_whose_condition_holds_does_not_wait(
    purgatory: DelayedOperationPurgatory, timer: ManualTimer
) -> None:
    operation = Waits(met=True)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.story == ["completed"]
    assert (purgatory.watched, purgatory.num_delayed, timer.scheduled) == (0, 0, 0)


def test_a_changed_key_completes_an_operation_and_removes_it_from_all_keys(
    purgatory: DelayedOperationPurgatory, timer: ManualTimer
) -> None:
    operation = Waits()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    assert (purgatory.watched, purgatory.num_delayed) == (3, 1)
    operation.met = True
    assert purgatory.check_and_complete("b") == 1
    assert operation.story == ["completed"]
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)
    assert purgatory.check_and_complete("a") == 0
    timer.advance(0.5)
    assert (operation.story, timer.scheduled) == (["completed"], 0)


def test_a_check_without_effect_leaves_it_waiting(purgatory: DelayedOperationPurgatory) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, ["a"])
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("unknown") == 0
    assert (operation.looks, operation.story) == (2, [])
    assert purgatory.num_delayed == 1


def test_an_expiration_is_reported_before_the_completion(
    purgatory: DelayedOperationPurgatory, timer: ManualTimer
) -> None:
    operation = Waits(delay_ms=500)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    timer.advance(0.499)
    assert operation.story == []
    timer.advance(0.001)
    assert operation.story == ["expired", "completed"]
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_an_operation_completes_once(purgatory: DelayedOperationPurgatory, timer: ManualTimer) -> None:
    operation = Waits()
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete()
    assert not operation.force_complete()
    operation.expire()
    timer.advance(10)
    assert operation.story == ["completed"]


def test_operations_under_a_key_are_checked_in_order(
    purgatory: DelayedOperationPurgatory,
) -> None:
    order: list[int] = []

    class Numbered(Waits):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def on_complete(self) -> None:
            order.append(self.number)

    operations = [Numbered(number) for number in range(5)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.met = True
    assert purgatory.check_and_complete("a") == 5
    assert order == [0, 1, 2, 3, 4]


def test_a_completion_may_check_the_same_key_again(purgatory: DelayedOperationPurgatory) -> None:
    class Chain(Waits):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.check_and_complete("a")

    operations = [Chain() for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.met = True
    purgatory.check_and_complete("a")
    assert [operation.story for operation in operations] == [["completed"]] * 3


def test_a_completion_may_add_an_operation_under_the_same_key(purgatory: DelayedOperationPurgatory) -> None:
    class Again(Waits):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.try_complete_else_watch(Waits(), ["a"])

    operation = Again()
    purgatory.try_complete_else_watch(operation, ["a"])
    operation.met = True
    assert purgatory.check_and_complete("a") == 1
    assert purgatory.num_delayed == 1


def test_expire_all_ends_every_operation(purgatory: DelayedOperationPurgatory, timer: ManualTimer) -> None:
    operations = [Waits() for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.expire_all()
    assert [operation.story for operation in operations] == [["expired", "completed"]] * 3
    assert (purgatory.num_delayed, timer.scheduled) == (0, 0)


def test_keys_without_operations_are_removed(purgatory: DelayedOperationPurgatory) -> None:
    for number in range(25):
        operation = Waits()
        purgatory.try_complete_else_watch(operation, [("topic", number), "common"])
        operation.force_complete()
    assert len(purgatory._watchers) <= 12


def test_a_delay_of_zero_expires_in_the_next_turn_of_the_timer(
    purgatory: DelayedOperationPurgatory, timer: ManualTimer
) -> None:
    operation = Waits(delay_ms=0)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.story == []
    timer.advance(0)
    assert operation.story == ["expired", "completed"]


@explores
def test_random_operations_against_a_model(purgatory: DelayedOperationPurgatory, timer: ManualTimer) -> None:
    """Whatever the order of events, each operation completes once, and the counts are those of waiting ones."""
    rng = random.Random(seed_or(7))
    alive: dict[Waits, list[int]] = {}
    everyone: list[Waits] = []
    for _ in range(3000):
        event = rng.random()
        if event < 0.4:
            keys = rng.sample(range(20), rng.randint(1, 8))
            operation = Waits(delay_ms=rng.randint(1, 50))
            everyone.append(operation)
            purgatory.try_complete_else_watch(operation, keys)
            alive[operation] = keys
        elif event < 0.8:
            key = rng.randrange(20)
            for operation, keys in alive.items():
                operation.met = key in keys and rng.random() < 0.5
            met = sum(operation.met for operation in alive)
            assert purgatory.check_and_complete(key) == met
        else:
            timer.advance(0.005)
        alive = {operation: keys for operation, keys in alive.items() if not operation.story}
        assert purgatory.num_delayed == len(alive)
        assert bool(alive) <= timer.scheduled <= 1
        assert purgatory.watched == sum(map(len, alive.values()))
    timer.advance(1)
    assert all(operation.story.count("completed") == 1 for operation in everyone)
    assert timer.scheduled == 0


class Notes:
    """A watcher that records its calls; it waits for nothing."""

    is_waiting = False

    def __init__(self, heard: list[str] | None = None) -> None:
        self.looks = 0
        self.heard = [] if heard is None else heard

    def wake(self) -> None:
        self.heard.append("wake")

    def look(self) -> int:
        self.heard.append("look")
        self.looks += 1
        return 0


def test_a_watcher_is_called_until_it_removes_itself(purgatory: DelayedOperationPurgatory) -> None:
    notes, operation = Notes(), Waits()
    place = purgatory.watch("a", notes)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)  # a watcher is no delayed request
    operation.met = True
    assert purgatory.check_and_complete("a") == 1
    assert purgatory.check_and_complete("a") == 0
    del place[notes]
    purgatory.check_and_complete("a")
    assert notes.looks == 2


def test_all_watchers_are_woken_before_operations_are_checked(
    purgatory: DelayedOperationPurgatory,
) -> None:
    heard: list[str] = []
    for key in "abc":
        purgatory.watch(key, Notes(heard))
    assert purgatory.check_and_complete_all(["a", "b", "nowhere"]) == 0
    assert heard == ["wake", "wake", "look", "look"]


def test_a_completed_operation_leaves_the_given_set(purgatory: DelayedOperationPurgatory) -> None:
    operation, mine = Waits(), dict[Watcher, None]()
    purgatory.try_complete_else_watch(operation, (), mine)
    assert list(mine) == [operation]
    operation.force_complete()
    assert not mine
