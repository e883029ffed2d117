"""Starts, idle brokers, memory after the load, restarts with data, and kill -9 under load."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from bench import accounting
from bench.side_by_side.contestants import LIMIT_S, Contestant
from bench.side_by_side.crew import Crew
from bench.side_by_side.figures import Sample
from bench.side_by_side.job import Job

ROW: Final = "processes"
_SETTLE_S: Final = 3.0
_KILL_AFTER_S: Final = 1.5
_LOAD_S: Final = 4.0
_PARTITIONS: Final = 4
_Tell = Callable[[str], None]


class Lifecycle:
    """The figures of each broker's processes, by round."""

    def __init__(self, brokers: Sequence[Contestant], tell: _Tell) -> None:
        self._brokers, self._tell = brokers, tell
        self._notes: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)

    @property
    def samples(self) -> list[Sample]:
        """As of any other row."""
        return [Sample(ROW, broker, number, figures) for (broker, number), figures in self._notes.items()]

    def _note(self, broker: Contestant, number: int, **figures: float) -> None:
        self._notes[broker.name, number] |= figures
        said = ", ".join(f"{name} {value:,.3g}" for name, value in figures.items())
        self._tell(f"{ROW} {number} {broker.name}: {said}")

    def starts(self, count: int) -> None:
        """In new directories, turn by turn, after one that only brings files into the page cache; the last stays up."""
        for number in range(count + 1):
            for broker in self._brokers:
                if number:
                    broker.stop()
                started = broker.start()
                if number:
                    self._note(broker, number, start_s=started.seconds, start_cpu_s=started.cpu_s)

    def idle(self, seconds: float) -> None:
        """Memory and processor time of all brokers while they are idle."""
        time.sleep(_SETTLE_S)
        used = [accounting.cpu_s(broker.pid) for broker in self._brokers]
        began = time.monotonic()
        time.sleep(seconds)
        for broker, before in zip(self._brokers, used, strict=True):
            share = (accounting.cpu_s(broker.pid) - before) / (time.monotonic() - began)
            self._note(broker, 1, idle_mib=accounting.rss_mib(broker.pid), idle_cpu_percent=100 * share)

    def loaded(self) -> None:
        """Memory after all rows."""
        for broker in self._brokers:
            self._note(broker, 1, loaded_mib=accounting.rss_mib(broker.pid))

    def restarts(self, count: int, topics: Sequence[tuple[str, str, int]]) -> None:
        """Stops each broker cleanly and starts it with its data. `topics`: broker, topic, partitions of filled
        topics."""
        for number in range(1, count + 1):
            for broker in self._brokers:
                held = [(name, parts) for who, name, parts in topics if who == broker.name]
                before = [broker.offsets(name, parts)[1] for name, parts in held]
                stop_s = broker.stop()
                restart_s = broker.start(fresh=False).seconds
                after = [broker.offsets(name, parts)[1] for name, parts in held]
                missing = sum(map(sum, before)) - sum(map(sum, after))
                self._note(broker, number, stop_s=stop_s, restart_s=restart_s, missing=float(max(missing, 0)))

    def kills(self, count: int) -> None:
        """Kills the broker (kill -9) under a producer, which continues after the restart; no acknowledged record may be
        lost."""
        for number in range(1, count + 1):
            for broker in self._brokers:
                topic = f"killed-{number}"
                broker.create(topic, _PARTITIONS)
                job = Job("produce", broker.broker.bootstrap, topic, _PARTITIONS, count=10**9, cap_s=_LOAD_S)
                with Crew([job], 2 * LIMIT_S) as crew:
                    crew.go()
                    time.sleep(_KILL_AFTER_S)
                    broker.broker.kill()
                    crash_s = broker.start(fresh=False).seconds
                    (outcome,) = crew.outcomes()
                stored = sum(broker.offsets(topic, _PARTITIONS)[1])
                missing = max(outcome.done - stored, 0) + outcome.missing
                earlier = self._notes[broker.name, number].get("missing", 0.0)
                self._note(broker, number, crash_s=crash_s, missing=earlier + missing)
                broker.delete(topic)
