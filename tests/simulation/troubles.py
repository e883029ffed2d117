"""The faults of a simulation: crashes of the broker, paused clients, members that join and leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tests.simulation.cast import Cast
from tests.simulation.clock import sleep
from tests.simulation.producers import TransactionalWriter
from tests.storage.fault_env import DISK_BLOCK_BYTES

MAX_PARTITIONS: Final = 5
MAX_MEMBERS: Final = 5


class Troubles:
    """Causes one trouble after the other. `allowed` are their names; by default all that are possible."""

    def __init__(self, cast: Cast, rng: Random, *, flushes: bool, allowed: Sequence[str] | None) -> None:
        self._cast = cast
        self._world = cast.world
        self._rng = rng
        self._flushes = flushes
        self._allowed = allowed
        self._replacements = 0

    async def run(self) -> None:
        """Causes faults until the task ends."""
        rng, world = self._rng, self._world
        gap_s = rng.choice((0.7, 1.5, 4.0))
        possible = self._possible()
        kinds = [kind for kind in possible if rng.random() < 0.6] or possible
        if self._allowed is not None:
            kinds = [kind for kind in possible if kind.__name__ in self._allowed]
        while True:
            await sleep(world.clock, rng.expovariate(1 / gap_s))
            trouble = rng.choice(kinds)
            world.trace("TROUBLE", trouble.__name__)
            trouble()

    def _possible(self) -> list[Callable[[], None]]:
        found = [
            self.freeze,
            self.stop,
            self.kill,
            self.kill_in_an_operation,
            self.freeze,
            self.freeze,
            self.change_weather,
            self.fill_disk,
        ]
        if self._cast.groups or self._cast.transient:
            found += [self.run_out_of_inodes]
        if self._cast.groups:
            found += [
                self.lose_member,
                self.leave,
                self.add_member,
                self.add_member,
                self.add_partition,
                self.resubscribe,
            ]
        if any(isinstance(writer, TransactionalWriter) for writer in self._cast.writers):
            found += [self.replace_writer]
        if self._cast.transient:
            found += [self.delete_or_make_topic, self.delete_or_make_topic]
        if self._flushes:
            found += [self.cut_power]
        return found

    # -- the broker --

    def _start_later(self) -> None:
        self._world.clock.call_later(self._rng.uniform(0.1, 2.5), self._start)

    def _start(self) -> None:
        if self._world.machine.running is None:
            self._world.machine.start()
            if self._world.machine.running is None:
                self._start_later()

    def stop(self) -> None:
        """A clean stop."""
        self._world.machine.stop()
        self._start_later()

    def kill(self) -> None:
        """A stop as by kill -9."""
        self._world.machine.kill()
        self._start_later()

    def cut_power(self) -> None:
        """A crash that may lose what was not flushed."""
        self._world.machine.cut_power()
        self._start_later()

    def kill_in_an_operation(self) -> None:
        """A crash soon, in the middle of an operation."""
        power_cut = self._flushes and self._rng.random() < 0.5
        self._world.machine.kill_at_operation(self._rng.randint(1, 60), power_cut=power_cut)
        self._world.clock.call_later(self._rng.uniform(3.0, 6.0), self._spare_and_start)

    def _spare_and_start(self) -> None:
        self._world.machine.disk.inject(None)
        self._start()

    def fill_disk(self) -> None:
        """Fills the disk, or nearly, for a while."""
        machine = self._world.machine
        machine.fill_disk(self._rng.choice((0, 1, 4, 16)) * DISK_BLOCK_BYTES)
        self._world.clock.call_later(self._rng.uniform(0.2, 6.0), machine.empty_disk)

    def run_out_of_inodes(self) -> None:
        """For a while files can be written, but none created, which new partitions would need."""
        machine = self._world.machine
        machine.run_out_of_inodes()
        self._world.clock.call_later(self._rng.uniform(0.2, 6.0), machine.empty_disk)
        if self._cast.groups:
            self.add_partition()
        if self._cast.transient:
            self.delete_or_make_topic()

    # -- clients --

    def freeze(self) -> None:
        """Pauses a process."""
        node = self._rng.choice([node for node in self._world.nodes if node.alive])
        node.freeze(self._rng.choice((1.0, 4.0, 9.0, 13.0, 18.0)))

    def change_weather(self) -> None:
        """Changes the weather of the network."""
        self._world.weather.worsen()

    def lose_member(self) -> None:
        """Ends a member; another may replace it."""
        group = self._rng.choice(self._cast.groups)
        consumer = group.random_member(self._rng)
        if consumer is not None:
            consumer.die()
            if self._rng.random() < 0.6:
                self._cast.join(group, consumer.instance_id)

    def leave(self) -> None:
        """A member leaves cleanly."""
        consumer = self._rng.choice(self._cast.groups).random_member(self._rng)
        if consumer is not None:
            consumer.leaving = True

    def add_member(self) -> None:
        """A member joins."""
        group = self._rng.choice(self._cast.groups)
        if sum(one.alive for one in group.members) < MAX_MEMBERS:
            self._cast.join(group)

    def resubscribe(self) -> None:
        """A member changes its subscription."""
        group = self._rng.choice(self._cast.groups)
        consumer = group.random_member(self._rng)
        if consumer is not None and not group.is_chain:
            some = [topic for topic in group.topics if self._rng.random() < 0.6]
            consumer.subscribe(some or group.topics)

    def replace_writer(self) -> None:
        """Starts a second producer with the id of a first, which is alive or not."""
        rng, world = self._rng, self._world
        writers = [
            one for one in self._cast.writers if isinstance(one, TransactionalWriter) and not one.stopping
        ]
        if not writers:
            return
        old = rng.choice(writers)
        self._replacements += 1
        if rng.random() < 0.5:
            old.die()
            old.stopped = True
        else:
            world.clock.call_later(rng.uniform(0.5, 4.0), lambda: setattr(old, "stopping", True))
        name = f"{old.transactional_id}r{self._replacements}"
        self._cast.write(
            TransactionalWriter(world, name, old.topic_names, old.transactional_id, old.transaction_version)
        )

    # -- topics --

    def add_partition(self) -> None:
        """Adds a partition to a topic."""
        topic = self._rng.choice(self._rng.choice(self._cast.groups).topics)
        count = self._world.partition_count(topic)
        if 0 < count < MAX_PARTITIONS:
            self._world.add_partitions(topic, count + 1)

    def delete_or_make_topic(self) -> None:
        """Deletes a topic, or creates it again under the same name."""
        topic = self._rng.choice(self._cast.transient)
        if self._world.partition_count(topic):
            self._world.delete_topic(topic)
        else:
            self._world.create_topic(topic, self._rng.randint(1, 3))
