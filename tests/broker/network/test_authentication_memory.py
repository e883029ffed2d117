"""The budget of clients that have not logged in."""

from __future__ import annotations

import random

from barnabas.broker.network.authentication_memory import AuthenticationMemory, Holder


class Peer:
    """A connection that ends when it has to."""

    def __init__(self, memory: AuthenticationMemory) -> None:
        self.holder: Holder = memory.holder(self.give_up)
        self.ended = False

    def give_up(self) -> None:
        self.ended = True
        self.holder.hold(0)


def test_shares_are_counted() -> None:
    memory = AuthenticationMemory(1000)
    one, two = Peer(memory), Peer(memory)
    one.holder.hold(300)
    two.holder.hold(400)
    one.holder.hold(100)
    assert (memory.used_bytes, one.holder.held_bytes) == (500, 100)
    one.holder.hold(0)
    two.holder.hold(0)
    assert memory.used_bytes == 0
    assert (one.ended, two.ended) == (False, False)


def test_who_holds_the_most_loses() -> None:
    memory = AuthenticationMemory(1000)
    peers = [Peer(memory) for _ in range(5)]
    for peer, size in zip(peers, (100, 300, 50, 400, 200), strict=True):
        peer.holder.hold(size)
    assert [peer.ended for peer in peers] == [False, False, False, True, False]
    assert memory.used_bytes == 650


def test_one_that_takes_more_than_all_loses_by_itself() -> None:
    memory = AuthenticationMemory(1000)
    small, large = Peer(memory), Peer(memory)
    small.holder.hold(10)
    large.holder.hold(5000)
    assert (small.ended, large.ended, memory.used_bytes) == (False, True, 10)


def test_one_that_does_not_let_go_counts_no_more() -> None:
    memory = AuthenticationMemory(1000)
    stubborn = memory.holder(lambda: None)
    stubborn.hold(2000)
    assert (memory.used_bytes, stubborn.held_bytes) == (0, 0)
    stubborn.hold(5)
    assert memory.used_bytes == 5


def test_many_small_ones_are_bounded_too() -> None:
    memory = AuthenticationMemory(10_000)
    peers = [Peer(memory) for _ in range(3000)]
    for peer in peers:
        peer.holder.hold(10)
    assert memory.used_bytes <= memory.limit_bytes
    assert sum(peer.holder.held_bytes for peer in peers) == memory.used_bytes


def test_random_shares_are_summed_right() -> None:
    chance = random.Random(7)
    memory = AuthenticationMemory(5000)
    peers = [Peer(memory) for _ in range(40)]
    for _ in range(2000):
        chance.choice(peers).holder.hold(chance.choice((0, 10, 500)))
        assert memory.used_bytes == sum(peer.holder.held_bytes for peer in peers) <= memory.limit_bytes
