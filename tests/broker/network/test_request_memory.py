"""The memory limit holds, every connection gets a turn, and none waits for ever."""

from __future__ import annotations

import random

from barnabas.broker.network.request_memory import READ_BYTES, SCARCE_READ_BYTES, RequestMemory
from tests.support.chance import explores, seed_or


class Waiter:
    def __init__(self) -> None:
        self.turns = 0

    def memory_available(self) -> None:
        self.turns += 1


def test_memory_is_granted_up_to_the_limit() -> None:
    memory = RequestMemory(100)
    memory.charge(99)
    assert memory.may_read(Waiter())
    assert not memory.exhausted
    memory.charge(1)
    assert memory.exhausted


def test_reads_get_smaller_towards_the_limit() -> None:
    memory = RequestMemory(100)
    assert len(memory.window) == READ_BYTES
    memory.charge(100)
    assert len(memory.window) == SCARCE_READ_BYTES
    memory.release(1)
    assert len(memory.window) == READ_BYTES


def test_one_connection_may_exceed_the_limit_and_passes_that_on_when_it_ends() -> None:
    memory = RequestMemory(100)
    memory.charge(100)
    first, second, third = Waiter(), Waiter(), Waiter()
    assert memory.may_read(first)
    assert not memory.may_read(second)
    assert not memory.may_read(third)
    assert memory.may_read(first)
    memory.leave(first)
    assert (second.turns, third.turns) == (1, 0)
    memory.leave(second)
    assert third.turns == 1


def test_waiting_connections_are_woken_in_order_as_far_as_memory_allows() -> None:
    memory = RequestMemory(10 * READ_BYTES)
    memory.charge(10 * READ_BYTES)
    assert memory.may_read(Waiter())
    waiters = [Waiter() for _ in range(5)]
    for waiter in waiters:
        memory.may_read(waiter)
    memory.release(2 * READ_BYTES)
    assert [waiter.turns for waiter in waiters] == [1, 1, 0, 0, 0]
    memory.wake()
    assert [waiter.turns for waiter in waiters] == [1, 1, 1, 1, 0]
    assert memory.waiting == 1


def test_a_connection_closed_while_waiting_is_not_called() -> None:
    memory = RequestMemory(100)
    memory.charge(100)
    memory.may_read(Waiter())
    waiter = Waiter()
    memory.may_read(waiter)
    memory.leave(waiter)
    memory.release(100)
    assert waiter.turns == 0


def test_a_connection_that_asks_twice_waits_once() -> None:
    memory = RequestMemory(100)
    memory.charge(100)
    memory.may_read(Waiter())
    waiter = Waiter()
    assert not memory.may_read(waiter)
    assert not memory.may_read(waiter)
    memory.release(100)
    assert waiter.turns == 1


@explores
def test_some_connection_can_always_continue() -> None:
    """At any time: while connections wait, one may read beyond the limit, or there is memory."""
    rng = random.Random(seed_or(3))
    memory = RequestMemory(10 * READ_BYTES)
    held: dict[Waiter, int] = {Waiter(): 0 for _ in range(40)}
    numbers = {waiter: number for number, waiter in enumerate(held)}
    reading = set(held)
    for _ in range(5000):
        if not reading:
            raise AssertionError("everybody waits for everybody")
        waiter = rng.choice(sorted(reading, key=numbers.__getitem__))
        if rng.random() < 0.3 and held[waiter]:  # its request is complete
            memory.release(held[waiter])
            held[waiter] = 0
            memory.leave(waiter)
        else:
            size = rng.randint(1, len(memory.window))
            held[waiter] += size
            memory.charge(size)
            if not memory.may_read(waiter):
                reading.discard(waiter)
        for other in held:
            if other.turns:
                other.turns = 0
                reading.add(other)
        assert memory.used_bytes == sum(held.values())
