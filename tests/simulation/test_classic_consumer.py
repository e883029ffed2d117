"""The simulated consumer of the classic protocol releases its partitions when real consumers do."""

from __future__ import annotations

import pytest

from tests.simulation.classic_consumer import COOPERATIVE, ClassicConsumer
from tests.simulation.producers import IdempotentWriter
from tests.simulation.world import World

PARTITIONS = [("t", index) for index in range(4)]
FOREVER_S = 1000.0
REBALANCE_S = 5.0
AWAY_S = 1.5 * REBALANCE_S
"""Longer than JoinGroup waits for members, but too short for the removal of a member that does not sync."""

RARELY_S = 25.0
"""The first times out after all others."""


def member(world: World, name: str, instance_id: str | None = None) -> ClassicConsumer:
    """A member that commits only when it must, and, if static, rarely sends heartbeats."""
    member = ClassicConsumer(world, name, "g", ["t"], [COOPERATIVE], instance_id=instance_id)
    member.session_timeout_s = member.commit_interval_s = FOREVER_S
    member.rebalance_timeout_s = REBALANCE_S
    member.heartbeat_interval_s = 1.0 if instance_id is None else RARELY_S
    world.add(member)
    return member


def run(world: World, seconds: float) -> None:
    world.run_until(world.clock.now + seconds)


@pytest.mark.parametrize("reads", [False, True])
def test_a_static_member_that_missed_a_generation_loses_its_partitions_before_it_joins_the_next(
    reads: bool,
) -> None:
    world = World(0, {})
    world.machine.start()
    world.create_topic("t", len(PARTITIONS))
    absent = member(world, "a", "i")
    run(world, 5.0)
    if reads:  # and has records to commit then
        world.add(IdempotentWriter(world, "w", ["t"]))
        run(world, 3.0)
    assert sorted(absent.owned) == PARTITIONS
    absent.freeze(AWAY_S)
    other = member(world, "b")
    run(world, AWAY_S - 1)
    assert other.owned  # its leader knows the absent member's subscription of the join, which owned nothing

    absent.rejoin = True
    run(world, 2 * RARELY_S)
    assert sorted([*absent.owned, *other.owned]) == PARTITIONS
    assert absent.owned
    assert other.owned
    trace = [line[2:] for line in world.lines if line[1] == "a"]
    assert ("loses", PARTITIONS) in trace
    assert (("is fenced:", "ILLEGAL_GENERATION") in trace) == reads
