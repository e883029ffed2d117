"""The areas of random requests: logs, transactions, groups of each protocol, and administration.

An area has `DRAWS`, functions that make a request from a World, each with a weight, and `learn(world, step, answer)`,
which updates the World from a response. Most steps of a sequence come from one area.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.schema import Message
from tests.conformance.differential.areas import administration, consumer_groups, groups, logs, transactions
from tests.conformance.differential.steps import PREFIX, Step
from tests.conformance.differential.world import Versions, World, make_step

Draw = Callable[[World], Message]


class Area(NamedTuple):
    """One area of requests."""

    name: str
    draws: Sequence[tuple[int, Draw]]
    learn: Callable[[World, Step, Any], None]


AREAS: Final = tuple(
    Area(module.__name__.rpartition(".")[2], module.DRAWS, module.learn)
    for module in (logs, transactions, groups, consumer_groups, administration)
)
OWN_AREA_SHARE: Final = 0.75
"""The share of a sequence's steps that come from its own area."""


class Script:
    """The random steps of one sequence."""

    def __init__(self, seed: int, number: int, versions: Versions) -> None:
        self.dice = Random(f"{seed}/{number}")
        self.world = World(self.dice, versions)
        self.area = self.dice.choice(AREAS)
        self.length = self.dice.randint(30, 90)
        self._next = 0

    def step(self) -> Step | None:
        """The next step; None at the end."""
        if self._next == self.length:
            return None
        request = self._first_topics() if self._next == 0 else self._draw()
        version = 7 if self._next == 0 else None
        self._next += 1
        return make_step(self.world, self._next - 1, request, version)

    def learn(self, step: Step, answer: Any) -> None:
        """Updates the world from a response; ignores a text in place of one."""
        if isinstance(answer, dict):
            for area in AREAS:
                area.learn(self.world, step, answer)

    def _draw(self) -> Message:
        area = self.area if self.world.chance(OWN_AREA_SHARE) else self.dice.choice(AREAS)
        weights = [weight for weight, _ in area.draws]
        ((_, draw),) = self.dice.choices(area.draws, weights)
        return draw(self.world)

    def _first_topics(self) -> Message:
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=f"{PREFIX}-t{number}",
                num_partitions=self.dice.randint(1, 3),
                replication_factor=1,
                configs=administration.topic_configs(self.world, wrong=0),
            )
            for number in range(self.dice.randint(1, 3))
        ]
        return CreateTopicsRequest(topics=topics, timeout_ms=30_000)
