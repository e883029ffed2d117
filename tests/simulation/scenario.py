"""One simulation: its set-up from a seed, and the quiet phase at the end, in which all clients have to finish."""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from random import Random
from typing import Final

from barnabas.protocol.errors import ErrorCode
from tests.simulation import compaction
from tests.simulation.cast import THEMES, Cast, Group
from tests.simulation.checks import ViolationError
from tests.simulation.classic_consumer import ClassicConsumer
from tests.simulation.clock import Task, sleep
from tests.simulation.equivalence import check_replay
from tests.simulation.machine import DISK
from tests.simulation.troubles import Troubles
from tests.simulation.world import AUDIT_INTERVAL_S, World

SETTLES_IN_S: Final = 90.0
"""The virtual time within which all clients have to finish once there are no more faults."""

REJOINED_AFTER_S: Final = 40.0
"""The part of it after which classic members that may lead without knowing it join again."""


LONG: Final = (10, 25)
TROUBLED_S: Final = ((2, 6), (2, 6), LONG)
"""How long the troubles last, in seconds from and to: many short simulations see more starts than few long ones."""

COMPACTING: Final = 0.5
"""The share of brokers that compact the coordinators' topics."""

EXCUSED: Final = (
    f"log directory {DISK} is full: ",
    f"[Errno {errno.ENOSPC}]",
    "could not be opened",  # a partition whose log could not be created without space
    "no member has joined again",  # static members may all be gone
)
"""Log lines that a broker may write under the faults of a simulation."""


class ErrorLines(logging.Handler):
    """Collects the broker's log lines of level ERROR, but for EXCUSED ones."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if any(excuse in text for excuse in EXCUSED):
            return
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self.found.append(text)


class Scenario:
    """A world, set up from its seed."""

    def __init__(
        self,
        seed: int,
        themes: Sequence[str] = THEMES,
        troubles: Sequence[str] | None = None,
        troubled_s: tuple[int, int] | None = None,
    ) -> None:
        """`troubles` are the names of the allowed ones, by default all; `troubled_s` as in TROUBLED_S."""
        self.seed = seed
        self._troubled_s = troubled_s
        self._rng = rng = Random(f"{seed}/scenario")
        flushes = rng.random() < 0.3
        settings = {"group.coordinator.append.linger.ms": rng.choice(("0", "5", "-1"))}
        if flushes:
            settings["log.flush.interval.messages"] = "1"
        if rng.random() < 0.3:
            settings["offsets.topic.num.partitions"] = "3"
        if rng.random() < 0.5:
            settings["barnabas.log.dir.min.free.bytes"] = "0"
        if rng.random() < 0.3:
            settings["log.flush.interval.ms"] = "1500"
        compaction_settings = None
        compacting = Random(f"{seed}/compaction")
        if compacting.random() < COMPACTING:
            compaction_settings = compaction.draw_settings(compacting)
        self.world = World(seed, settings, pace_s=rng.choice((0.3, 0.6)), compaction=compaction_settings)
        self.themes = rng.sample(list(themes), min(len(themes), rng.choice((1, 1, 2))))
        self.cast = Cast(self.world, rng)
        self._troubles = Troubles(self.cast, rng, flushes=flushes, allowed=troubles)
        self.compared = 0

    def run(self) -> None:
        """Runs it from beginning to end. Raises ViolationError, or any other failure."""
        error_lines = ErrorLines()
        logger = logging.getLogger("barnabas")
        logger.addHandler(error_lines)
        try:
            self._run()
        finally:
            logger.removeHandler(error_lines)
        if error_lines.found:
            raise ViolationError("the broker logged: " + "\n".join(error_lines.found))

    def _run(self) -> None:
        world = self.world
        world.machine.start()
        world.create_internal_topics()
        for theme in self.themes:
            self.cast.set_up(theme)
        world.weather.worsen()
        Task(world.clock, self._check_periodically())
        troubles = Task(world.clock, self._troubles.run())
        world.run_until(
            world.clock.now + self._rng.uniform(*(self._troubled_s or self._rng.choice(TROUBLED_S)))
        )
        troubles.end()
        self._end_faults()
        self._settle()
        self._check_end_state()

    # -- periodic checks --

    async def _check_periodically(self) -> None:
        while True:
            await sleep(self.world.clock, AUDIT_INTERVAL_S)
            self.world.audit()
            if self._rng.random() < 0.3:
                self.compared += check_replay(self.world.machine)
            self.world.check_transactions()
            if self.world.machine.lacks_logs_despite_space:
                raise ViolationError("a partition has no log, though there is space for it")

    # -- the quiet phase --

    def _end_faults(self) -> None:
        world = self.world
        world.trace("NO MORE FAULTS")
        world.weather.clear()
        world.machine.disk.inject(None)
        world.machine.empty_disk()
        if world.machine.running is None:
            world.machine.start()
        for node in world.nodes:
            node.thaw()
        for writer in self.cast.writers:
            writer.stopping = True
        for group in self.cast.groups:
            for consumer in group.members:
                if consumer.alive and not consumer.leaving:
                    consumer.subscribe(group.topics)
            if group.random_member(self._rng) is None:
                self.cast.join(group)

    def _settle(self) -> None:
        world = self.world
        begun = world.clock.now
        deadline = begun + SETTLES_IN_S
        quiet = 0
        while quiet < 3:
            world.run_until(world.clock.now + 1.0)
            unmet = self._unmet_condition()
            quiet = 0 if unmet else quiet + 1
            if begun + REJOINED_AFTER_S <= world.clock.now < begun + REJOINED_AFTER_S + 1:
                self._rejoin_possible_leaders()
            if world.clock.now > deadline:
                raise ViolationError(f"after {SETTLES_IN_S:.0f} s without faults: {unmet}")

    def _rejoin_possible_leaders(self) -> None:
        """Where a leader does not know that it leads, a group misses new partitions, on Kafka too."""
        for group in self.cast.groups:
            for consumer in group.members:
                if consumer.alive and isinstance(consumer, ClassicConsumer):
                    consumer.rejoin_as_possible_leader()

    def _unmet_condition(self) -> str | None:
        """The first condition of the end that is not met yet; None once all are."""
        if self.world.machine.lacks_logs:
            return "a partition has no log"
        for writer in self.cast.writers:
            if writer.alive and not writer.stopped:
                return f"{writer} has not finished"
        for group in self.cast.groups:
            unmet = self._unmet_in(group)
            if unmet:
                return unmet
        for topic in self.world.audited_topics:
            for index in range(self.world.partition_count(topic)):
                data = self.world.read_at((topic, index), 0)
                if data is None or data.error_code != ErrorCode.NONE:
                    return f"{topic}-{index} cannot be read"
                if data.last_stable_offset != data.high_watermark:
                    return f"{topic}-{index} has an open transaction"
        return None

    def _unmet_in(self, group: Group) -> str | None:
        state = self.world.group_state(group.name)
        if state != "Stable":
            return f"group {group.name} is {state}"
        owners = self.world.ownership.owners(group.name)
        for topic in self.world.lasting(group.topics):
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

    def _check_end_state(self) -> None:
        """Reads everything again from the beginning, from a restarted broker."""
        world = self.world
        world.audit()
        self.compared += check_replay(world.machine)
        if self._rng.random() < 0.5:
            world.machine.stop()
        else:
            world.machine.kill()
        world.machine.start()
        world.run_until(world.clock.now + 1.5)
        world.audit()
        world.visibility.check_complete()
        self.compared += check_replay(world.machine)
        self._check_consumption()
        for group in self.cast.groups:
            if group.is_chain:
                places = [
                    (topic, index)
                    for topic in self.world.lasting(group.topics)
                    for index in range(world.partition_count(topic))
                ]
                world.visibility.check_chains(places)

    def _check_consumption(self) -> None:
        for group in self.cast.groups:
            if group.is_chain:  # a member may have died before it learned of its commit
                continue
            for topic in self.world.lasting(group.topics):
                for index in range(self.world.partition_count(topic)):
                    partition = (topic, index)
                    done = self.world.consumption.done.get((group.name, partition), set())
                    for value, offset in self.world.visibility.seen.get(partition, {}).items():
                        if offset not in done:
                            raise ViolationError(
                                f"no member of {group.name} has read {value!r} at {offset} of {partition}"
                            )
