"""Compaction in a simulation: the cleaner of one run of the broker, and workers that use the simulation's clock."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.compaction.scheduler import LogCleaner
from barnabas.storage.worker import perform
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.compaction.cleaner_harness import LITTLE_MEMORY

if TYPE_CHECKING:
    from tests.simulation.machine import Process, SimulatedDisk

SEGMENT_BYTES: Final = ("4096", "12288")
"""segment.bytes of the coordinators' topics. One of their batches has to fit in a segment."""


class CompactionSettings(NamedTuple):
    """Settings with which the coordinators' topics are compacted continuously."""

    broker: dict[str, str]
    """Settings of the broker."""
    topics: dict[str, str]
    """Settings of the coordinators' topics, smaller than clients may set them."""


def draw_settings(rng: Random) -> CompactionSettings:
    """Draws random settings."""
    return CompactionSettings(
        broker={"log.cleaner.backoff.ms": rng.choice(("100", "800")), **LITTLE_MEMORY},
        topics={
            "cleanup.policy": "compact",
            "internal.segment.bytes": rng.choice(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": rng.choice(("0", "1500", "86400000")),
        },
    )


def started_cleaner(
    broker: InProcessBroker, process: Process, disk: SimulatedDisk, rng: Random
) -> LogCleaner:
    """Adds a cleaner to a broker that has none."""
    cleaner = LogCleaner(
        broker.config,
        broker.env,
        broker.log_manager,
        runner=process,
        timer=process,
        workers=SimulatedWorkers(process, disk, rng),
        log_dir_failed=broker.replica_manager.log_dir_failed,
    )
    broker.log_manager.cleaner = cleaner.manager
    cleaner.start()
    return cleaner


def stop_cleaner(cleaner: LogCleaner) -> None:
    """Stops it, as a broker does in a clean stop."""
    stopping: Coroutine[Any, Any, None] = cleaner.stop()
    try:
        stopping.send(None)
    except StopIteration:
        return
    raise AssertionError("a simulated cleaner has nothing to wait for")


class SimulatedWorker:
    """A worker process with a job, which it does at once after a delay; the result arrives after another."""

    def __init__(self, on_done: Callable[[Done | Failed], None]) -> None:
        self._on_done = on_done
        self._is_killed = False

    def kill(self) -> None:
        """Kills it, either before it begins or after it wrote everything and before it reports."""
        self._is_killed = True

    def run(self, workers: SimulatedWorkers, job: Job, on_progress: Callable[[float], None]) -> None:
        answer: Done | Failed = Failed(FailureKind.ENDED, "killed before it began", "")
        if not self._is_killed:
            answer = perform(workers.disk, job, on_progress)
            workers.done += 1
        workers.later(0.3, lambda: self._answer(answer))

    def _answer(self, answer: Done | Failed) -> None:
        self._on_done(Failed(FailureKind.ENDED, "killed", "") if self._is_killed else answer)


class SimulatedWorkers:
    """Workers on the disk of the simulation, which end with their broker."""

    def __init__(self, process: Process, disk: SimulatedDisk, rng: Random) -> None:
        self._process = process
        self._rng = rng
        self.disk = disk
        self.done = 0

    def start(
        self, job: Job, on_progress: Callable[[float], None], on_done: Callable[[Done | Failed], None]
    ) -> SimulatedWorker:
        """Schedules the start of a worker within a second."""
        worker = SimulatedWorker(on_done)
        self.later(1.0, lambda: worker.run(self, job, on_progress))
        return worker

    def later(self, within_s: float, callback: Callable[[], object]) -> None:
        """Schedules an action within so many seconds."""
        self._process.call_later(self._rng.random() * within_s, callback)

    async def close(self) -> None:
        """Ends all workers with the broker."""
