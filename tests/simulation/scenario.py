"""One simulation: what a seed makes of it, the troubles that come over it, and the peace at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from protocol.errors import ErrorCode
from tests.simulation.checks import ViolationError
from tests.simulation.classic_consumer import COOPERATIVE, ClassicConsumer
from tests.simulation.clock import Life, sleep
from tests.simulation.consumer import Consumer
from tests.simulation.equivalence import check_replay
from tests.simulation.modern_consumer import ModernConsumer
from tests.simulation.producers import (
    ClassicChain,
    IdempotentWriter,
    ModernChain,
    TransactionalWriter,
    Writer,
)
from tests.simulation.world import AUDIT_INTERVAL_S, World

THEMES: Final = ("eager", "cooperative", "modern", "mixed", "transactions", "classic chain", "modern chain")
"""What a simulation can be about."""

SETTLES_IN_S: Final = 90.0
"""How long, in virtual time, everything may take to come to rest once nothing disturbs it."""

MAX_PARTITIONS: Final = 5
EAGER: Final = ("range", "roundrobin")


class BugsLogged(logging.Handler):
    """What the broker logs as an error is one: nothing that is done to it here excuses any."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.found.append(text)


class Group:
    """A group of consumers and what it reads; `make` makes one more member."""

    def __init__(self, name: str, topics: Sequence[str], make: Callable[[str, str | None], Consumer]) -> None:
        self.name = name
        self.topics = topics
        self.make = make
        self.made = 0
        self.members: list[Consumer] = []
        self.is_chain = False


class Scenario:
    """A world, set up as the seed will have it."""

    def __init__(self, seed: int, themes: Sequence[str] = THEMES) -> None:
        self.seed = seed
        self.rng = rng = Random(f"{seed}/scenario")
        self.flushes = rng.random() < 0.3
        settings = {"group.coordinator.append.linger.ms": rng.choice(("0", "5", "-1"))}
        if self.flushes:
            settings["log.flush.interval.messages"] = "1"
        if rng.random() < 0.3:
            settings["offsets.topic.num.partitions"] = "3"
        self.world = World(seed, settings, pace_s=rng.choice((0.3, 0.6)))
        self.themes = rng.sample(list(themes), min(len(themes), rng.choice((1, 1, 2))))
        self.groups: list[Group] = []
        self.writers: list[Writer] = []
        self.inputs: list[str] = []
        self._replacements = 0
        self._troubled = True
        self.compared = 0

    # -- the whole of it --

    def run(self) -> None:
        """Lives it from beginning to end. Raises ViolationError, or whatever else is wrong."""
        bugs = BugsLogged()
        logger = logging.getLogger("barnabas")
        logger.addHandler(bugs)
        try:
            self._run()
        finally:
            logger.removeHandler(bugs)
        if bugs.found:
            raise ViolationError("the broker logged: " + "\n".join(bugs.found))

    def _run(self) -> None:
        world = self.world
        world.machine.start()
        for theme in self.themes:
            self._set_up(theme)
        world.weather.worsen()
        Life(world.clock, self._watch())
        troubles = Life(world.clock, self._troubles())
        world.run_until(world.clock.now + self.rng.uniform(10, 25))
        self._troubled = False
        troubles.end()
        self._make_peace()
        self._settle()
        self._judge()

    # -- setting up --

    def _topic(self, name: str) -> str:
        self.world.create_topic(name, self.rng.randint(1, 4))
        self.world.run_until(self.world.clock.now + 1.0)
        self.world.audited_topics.append(name)
        return name

    def _set_up(self, theme: str) -> None:
        name = theme.replace(" ", "-")
        topic = self._topic(f"{name}-in")
        if theme == "transactions":
            version = self.rng.choice((1, 2))
            for number in range(self.rng.randint(1, 3)):
                self._write(TransactionalWriter(self.world, f"t{number}", topic, f"tx{number}", version))
            return
        self._write(IdempotentWriter(self.world, f"{name}-w", topic))
        self.inputs.append(topic)
        group = Group(f"{name}-group", [topic], self._maker(theme, name, topic))
        if theme.endswith("chain"):
            group.is_chain = True
            self.world.commits.transactional.add(group.name)
            self._topic(f"{name}-out")
        self.groups.append(group)
        for _ in range(self.rng.randint(1, 4)):
            self._join(group)

    def _write(self, writer: Writer) -> None:
        self.writers.append(writer)
        self.world.add(writer)

    def _maker(self, theme: str, name: str, topic: str) -> Callable[[str, str | None], Consumer]:
        world, group = self.world, f"{name}-group"
        assignors = self.rng.choice((EAGER, EAGER[:1], EAGER[1:]))

        def classic(member: str, instance: str | None, assignors: Sequence[str] = assignors) -> Consumer:
            return ClassicConsumer(world, member, group, [topic], assignors, instance_id=instance)

        def modern(member: str, instance: str | None) -> Consumer:
            return ModernConsumer(world, member, group, [topic], instance_id=instance)

        def mixed(member: str, instance: str | None) -> Consumer:
            return modern(member, instance) if self.rng.random() < 0.5 else classic(member, instance)

        version = self.rng.choice((1, 2))
        chain_assignors = self.rng.choice((assignors, [COOPERATIVE]))

        def classic_chain(member: str, instance: str | None) -> Consumer:
            chain = ClassicChain(
                world,
                member,
                group,
                [topic],
                chain_assignors,
                instance_id=instance,
            )
            chain.set_up(f"{name}-out", version)
            return chain

        def modern_chain(member: str, instance: str | None) -> Consumer:
            chain = ModernChain(world, member, group, [topic], instance_id=instance)
            chain.set_up(f"{name}-out", version)
            return chain

        return {
            "eager": classic,
            "cooperative": lambda member, instance: classic(member, instance, [COOPERATIVE]),
            "modern": modern,
            "mixed": mixed,
            "classic chain": classic_chain,
            "modern chain": modern_chain,
        }[theme]

    def _join(self, group: Group, instance: str | None = None) -> Consumer:
        group.made += 1
        if instance is None and self.rng.random() < 0.2:
            instance = f"{group.name}-i{group.made}"
        consumer = group.make(f"{group.name[:-6]}-c{group.made}", instance)
        group.members.append(consumer)
        self.world.add(consumer)
        return consumer

    # -- troubles --

    async def _troubles(self) -> None:
        rng, world = self.rng, self.world
        gap = rng.choice((0.7, 1.5, 4.0))
        kinds = [kind for kind in self._kinds() if rng.random() < 0.6] or self._kinds()
        while True:
            await sleep(world.clock, rng.expovariate(1 / gap))
            trouble = rng.choice(kinds)
            world.trace("TROUBLE", trouble.__name__)
            trouble()

    def _kinds(self) -> list[Callable[[], None]]:
        found = [
            self._stop,
            self._kill,
            self._kill_in_an_operation,
            self._freeze,
            self._freeze,
            self._change_weather,
        ]
        if self.groups:
            found += [self._lose_member, self._leave, self._one_more, self._one_more, self._grow]
        if any(isinstance(writer, TransactionalWriter) for writer in self.writers):
            found += [self._replace_writer]
        if self.flushes:
            found += [self._cut_power]
        return found

    def _restart_later(self) -> None:
        self.world.clock.call_later(self.rng.uniform(0.1, 2.5), self._start)

    def _start(self) -> None:
        if self.world.machine.running is None:
            self.world.machine.start()
            if self.world.machine.running is None:
                self._restart_later()

    def _stop(self) -> None:
        self.world.machine.stop()
        self._restart_later()

    def _kill(self) -> None:
        self.world.machine.kill()
        self._restart_later()

    def _cut_power(self) -> None:
        self.world.machine.cut_power()
        self._restart_later()

    def _kill_in_an_operation(self) -> None:
        machine = self.world.machine
        machine.kill_at_operation(self.rng.randint(1, 60), power_cut=self.flushes and self.rng.random() < 0.5)
        self.world.clock.call_later(self.rng.uniform(3.0, 6.0), self._spare_and_start)

    def _spare_and_start(self) -> None:
        self.world.machine.disk.inject(None)
        self._start()

    def _freeze(self) -> None:
        node = self.rng.choice([node for node in self.world.nodes if node.alive])
        node.freeze(self.rng.choice((1.0, 4.0, 9.0, 15.0)))

    def _change_weather(self) -> None:
        self.world.weather.worsen()

    def _someone(self, group: Group) -> Consumer | None:
        alive = [one for one in group.members if one.alive and not one.leaving]
        return self.rng.choice(alive) if alive else None

    def _lose_member(self) -> None:
        group = self.rng.choice(self.groups)
        consumer = self._someone(group)
        if consumer is not None:
            consumer.die()
            if self.rng.random() < 0.6:
                self._join(group, consumer.instance_id)

    def _leave(self) -> None:
        group = self.rng.choice(self.groups)
        consumer = self._someone(group)
        if consumer is not None:
            consumer.leaving = True

    def _one_more(self) -> None:
        group = self.rng.choice(self.groups)
        if sum(one.alive for one in group.members) < 5:
            self._join(group)

    def _grow(self) -> None:
        topic = self.rng.choice(self.rng.choice(self.groups).topics)
        if self.world.machine.running is not None:
            count = self.world.partition_count(topic)
            if count < MAX_PARTITIONS:
                self.world.grow_topic(topic, count + 1)

    def _replace_writer(self) -> None:
        """A second producer with the id of a first, which is alive or not."""
        writers = [one for one in self.writers if isinstance(one, TransactionalWriter) and not one.stopping]
        if not writers:
            return
        old = self.rng.choice(writers)
        self._replacements += 1
        if self.rng.random() < 0.5:
            old.die()
            old.stopped = True
        else:
            self.world.clock.call_later(self.rng.uniform(0.5, 4.0), lambda: setattr(old, "stopping", True))
        self._write(
            TransactionalWriter(
                self.world,
                f"{old.transactional_id}r{self._replacements}",
                old.topic,
                old.transactional_id,
                old.transaction_version,
            )
        )

    # -- what is looked at now and then --

    async def _watch(self) -> None:
        while True:
            await sleep(self.world.clock, AUDIT_INTERVAL_S)
            self.world.audit()
            if self.rng.random() < 0.3:
                self.compared += check_replay(self.world.machine)
            self.world.check_transactions()

    # -- peace --

    def _make_peace(self) -> None:
        world = self.world
        world.trace("PEACE")
        world.weather.clear()
        world.machine.disk.inject(None)
        if world.machine.running is None:
            world.machine.start()
        for node in world.nodes:
            node.thaw()
        for writer in self.writers:
            writer.stopping = True
        for group in self.groups:
            if not any(one.alive and not one.leaving for one in group.members):
                self._join(group)

    def _settle(self) -> None:
        world = self.world
        deadline = world.clock.now + SETTLES_IN_S
        quiet = 0
        while quiet < 3:
            world.run_until(world.clock.now + 1.0)
            unrest = self._unrest()
            quiet = 0 if unrest else quiet + 1
            if world.clock.now > deadline:
                raise ViolationError(f"after {SETTLES_IN_S:.0f} s without any trouble: {unrest}")

    def _unrest(self) -> str | None:
        """What is not as it is to be in the end."""
        for writer in self.writers:
            if writer.alive and not writer.stopped:
                return f"{writer} has not come to its end"
        for group in self.groups:
            unrest = self._unrest_in(group)
            if unrest:
                return unrest
        for topic in self.world.audited_topics:
            for index in range(self.world.partition_count(topic)):
                data = self.world.read_at((topic, index), 0)
                if data is None or data.error_code != ErrorCode.NONE:
                    return f"{topic}-{index} cannot be read"
                if data.last_stable_offset != data.high_watermark:
                    return f"{topic}-{index} has an open transaction"
        return None

    def _unrest_in(self, group: Group) -> str | None:
        state = self.world.group_state(group.name)
        if state != "Stable":
            return f"group {group.name} is {state}"
        owners = self.world.ownership.owners(group.name)
        for topic in group.topics:
            for index in range(self.world.partition_count(topic)):
                found = owners.get((topic, index), [])
                if len(found) != 1:
                    return f"{topic}-{index} is owned by {[one.name for one in found]} of {group.name}"
                data = self.world.read_at((topic, index), 0)
                end = data.last_stable_offset if data is not None else -1
                if found[0].owned.get((topic, index)) != end:
                    return f"{found[0]} is at {found[0].owned.get((topic, index))} of {topic}-{index}, not at {end}"
                committed = self.world.committed_offset(group.name, (topic, index))
                if max(committed, 0) != end:
                    return f"{group.name} has committed {committed} in {topic}-{index}, not {end}"
        return None

    def _judge(self) -> None:
        """Everything is read once more from the beginning, by a broker that has been started anew."""
        world = self.world
        world.audit()
        self.compared += check_replay(world.machine)
        if self.rng.random() < 0.5:
            world.machine.stop()
        else:
            world.machine.kill()
        world.machine.start()
        world.run_until(world.clock.now + 1.5)
        world.audit()
        world.visibility.check_complete()
        self.compared += check_replay(world.machine)
        self._check_consumption()
        for group in self.groups:
            if group.is_chain:
                places = [
                    (topic, index) for topic in group.topics for index in range(world.partition_count(topic))
                ]
                world.visibility.check_chains(places)

    def _check_consumption(self) -> None:
        for group in self.groups:
            if group.is_chain:  # what a member has done it may not have lived to hear
                continue
            for topic in group.topics:
                for index in range(self.world.partition_count(topic)):
                    partition = (topic, index)
                    done = self.world.consumption.done.get((group.name, partition), set())
                    for value, offset in self.world.visibility.seen.get(partition, {}).items():
                        if offset not in done:
                            raise ViolationError(
                                f"nobody in {group.name} has read {value!r} at {offset} of {partition}"
                            )
