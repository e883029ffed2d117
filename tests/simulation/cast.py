"""The clients of a simulation: the groups and the writers of each theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tests.simulation.classic_consumer import COOPERATIVE, ClassicConsumer
from tests.simulation.consumer import Consumer
from tests.simulation.modern_consumer import ModernConsumer
from tests.simulation.producers import (
    ClassicChain,
    IdempotentWriter,
    ModernChain,
    TransactionalWriter,
    TransientWriter,
    Writer,
)
from tests.simulation.world import World

THEMES: Final = ("eager", "cooperative", "modern", "mixed", "transactions", "classic chain", "modern chain")
"""The subject of a simulation."""

EAGER: Final = ("range", "roundrobin")
ASSIGNORS: Final = (None, "uniform", "range")

Make = Callable[[str, str | None], Consumer]
"""Makes a consumer with a name and, for a static member, an instance id."""


class Group:
    """A group of consumers and its topics; `make` creates one more member."""

    def __init__(self, name: str, topics: Sequence[str], make: Make) -> None:
        self.name = name
        self.topics = topics
        self.make = make
        self.made = 0
        self.members: list[Consumer] = []
        self.is_chain = False

    def random_member(self, rng: Random) -> Consumer | None:
        """A random member that is alive and not leaving; None without one."""
        alive = [one for one in self.members if one.alive and not one.leaving]
        return rng.choice(alive) if alive else None


class Cast:
    """All groups and writers. `transient` topics are deleted and created again; their contents are not checked."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.groups: list[Group] = []
        self.writers: list[Writer] = []
        self.transient: list[str] = []

    def set_up(self, theme: str) -> None:
        """Adds the clients of a theme."""
        name = theme.replace(" ", "-")
        topics = [self._topic(f"{name}-in")]
        if self.rng.random() < 0.3:
            topics.append(self._transient_topic(f"{name}-transient"))
        if theme == "transactions":
            version = self.rng.choice((1, 2))
            for number in range(self.rng.randint(1, 3)):
                self.write(TransactionalWriter(self.world, f"t{number}", topics, f"tx{number}", version))
            return
        self.write(IdempotentWriter(self.world, f"{name}-w", topics[:1]))
        group = Group(f"{name}-group", topics, self._maker(theme, name, topics))
        self.groups.append(group)
        if theme.endswith("chain"):
            group.is_chain = True
            self.world.commits.transactional.add(group.name)
            self._topic(f"{name}-out")
        for _ in range(self.rng.randint(1, 4)):
            self.join(group)

    def write(self, writer: Writer) -> None:
        self.writers.append(writer)
        self.world.add(writer)

    def join(self, group: Group, instance: str | None = None) -> Consumer:
        """Adds a member, the successor of another where it has an instance id."""
        group.made += 1
        if instance is None and self.rng.random() < 0.2:
            instance = f"{group.name}-i{group.made}"
        consumer = group.make(f"{group.name.removesuffix('-group')}-c{group.made}", instance)
        group.members.append(consumer)
        self.world.add(consumer)
        return consumer

    def _topic(self, name: str) -> str:
        self.world.create_topic(name, self.rng.randint(1, 4))
        self.world.run_until(self.world.clock.now + 0.5)
        self.world.audited_topics.append(name)
        return name

    def _transient_topic(self, name: str) -> str:
        self.world.create_topic(name, self.rng.randint(1, 3))
        self.world.run_until(self.world.clock.now + 0.5)
        self.transient.append(name)
        self.world.transient_topics.add(name)
        self.write(TransientWriter(self.world, f"{name}-w", [name]))
        return name

    def _maker(self, theme: str, name: str, topics: Sequence[str]) -> Make:
        world, rng, group, target = self.world, self.rng, f"{name}-group", f"{name}-out"
        assignors = [COOPERATIVE] if theme == "cooperative" else rng.choice((EAGER, EAGER[:1], EAGER[1:]))
        chain_assignors = rng.choice((assignors, [COOPERATIVE]))
        server_assignor, version = rng.choice(ASSIGNORS), rng.choice((1, 2))

        def classic(member: str, instance: str | None) -> Consumer:
            return ClassicConsumer(world, member, group, topics, assignors, instance_id=instance)

        def modern(member: str, instance: str | None) -> Consumer:
            consumer = ModernConsumer(
                world, member, group, topics, instance_id=instance, assignor=server_assignor
            )
            consumer.subscribes_by_pattern = consumer.knows_patterns and rng.random() < 0.2
            return consumer

        def mixed(member: str, instance: str | None) -> Consumer:
            return modern(member, instance) if rng.random() < 0.5 else classic(member, instance)

        def classic_chain(member: str, instance: str | None) -> Consumer:
            chain = ClassicChain(world, member, group, topics, chain_assignors, instance_id=instance)
            chain.set_up(target, version)
            return chain

        def modern_chain(member: str, instance: str | None) -> Consumer:
            chain = ModernChain(world, member, group, topics, instance_id=instance)
            chain.set_up(target, version)
            return chain

        makers = {
            "modern": modern,
            "mixed": mixed,
            "classic chain": classic_chain,
            "modern chain": modern_chain,
        }
        return makers.get(theme, classic)
