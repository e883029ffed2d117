"""The machine that the broker runs on: its disk, its threads, and the starts, stops and crashes of the broker."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from random import Random

from barnabas.broker.compaction.scheduler import LogCleaner
from barnabas.broker.startup.housekeeping import Housekeeping
from barnabas.broker.waiting.blocking import Done, InlineRunner, Work
from barnabas.storage.errors import NoLogDirError
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.fakes import ManualHandle, ManualTimer
from tests.simulation import compaction
from tests.simulation.clock import Clock
from tests.storage.fault_env import DISK_BLOCK_BYTES, UNLIMITED, Directory, FaultEnv, PowerCut

DISK = "/disk"
IDS_A_RUN = 1_000_000
LOG_RETRIED_IN_S = 13.0
"""How long a disk counts as full after a write failed for lack of space (`DiskSpace`), until it is measured again."""


class SimulatedDisk(FaultEnv):
    """The in-memory disk, with the simulation's time."""

    def __init__(self, clock: Clock, seed: int) -> None:
        super().__init__(seed=seed)
        self._clock = clock
        self.has_inodes = True

    @property
    def ms(self) -> int:
        return self._clock.now_ms

    @ms.setter
    def ms(self, ms: int) -> None:
        raise AssertionError("the simulation advances the clock")

    def now_ms(self) -> int:
        return self._clock.now_ms

    def mkdir(self, path: str) -> None:
        if not self.has_inodes and not self.exists(path):
            raise OSError(errno.ENOSPC, "the disk of the test has no inodes left", path)
        super().mkdir(path)


class Process(ManualTimer):
    """One run of the broker: its timers and threads end with it."""

    def __init__(self, clock: Clock, rng: Random, guard: Callable[[Callable[[], object]], None]) -> None:
        super().__init__(clock.now)
        self._clock = clock
        self._rng = rng
        self._guard = guard
        self._numbers = count()
        self._steps: dict[int, Callable[[], None]] = {}
        """Of each job that is not over, by the number of the job."""
        self.alive = True

    def time(self) -> float:
        return self._clock.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualHandle:
        return self._clock.call_at(when, lambda: self.run(callback))

    def call_later(self, delay: float, callback: Callable[[], object]) -> ManualHandle:
        return self.call_at(self._clock.now + delay, callback)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.call_later(0, callback)

    def run(self, callback: Callable[[], object]) -> None:
        """Runs some of the process's code, which may kill it."""
        if self.alive:
            self._guard(callback)

    def submit(self, work: Work, done: Done) -> None:
        """As BlockingRunner: the work is done some time later, and its completion is reported later still."""
        rng, number = self._rng, next(self._numbers)

        def over(error: BaseException | None) -> None:
            self._steps[number] = lambda: done(error)
            self.call_later(rng.random() * 0.002, lambda: self._step(number))

        self._steps[number] = lambda: InlineRunner().submit(work, over)
        self.call_later(rng.random() * (0.2 if rng.random() < 0.05 else 0.003), lambda: self._step(number))

    def _step(self, number: int) -> None:
        """What a job does next, if that is not done yet: its work, or the report of its completion."""
        step = self._steps.pop(number, None)
        if step is not None:
            step()

    def close(self) -> None:
        """As ThreadRunner.close: all that was submitted is done and reported, and what that leads to."""
        while self._steps:
            self._step(next(iter(self._steps)))


@lru_cache(maxsize=1)
def _formatted_disk() -> Directory:
    """A disk on which a broker was started once and stopped cleanly."""
    clock = Clock()
    disk = SimulatedDisk(clock, 0)
    disk.mkdir(DISK)
    disk.sync_dir("/")
    InProcessBroker(Path(DISK), env=disk).stop()
    return disk.root


class Machine:
    """Starts, stops and kills the broker. `running` is None while it is down; `compacts`: it has a cleaner."""

    def __init__(
        self, clock: Clock, seed: int, settings: Mapping[str, str], *, compacts: bool = False
    ) -> None:
        self._clock = clock
        self._rng = Random(seed)
        self._settings = settings
        self._cleaner_rng = Random(f"{seed}/cleaner") if compacts else None
        self._cleaner: LogCleaner | None = None
        self._housekeeping: Housekeeping | None = None
        self.disk = SimulatedDisk(clock, seed)
        self.disk.root = _formatted_disk().after_kill({})
        self.process: Process | None = None
        self.running: InProcessBroker | None = None
        self.lost_power = False
        self.restarts = 0
        self._has_room_since = clock.now
        self.space_noticed_ms = 0
        """The time at which the broker has noticed, at the latest, that a full disk has space again."""
        self.on_end: Callable[[], None] = lambda: None
        self.on_start: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Starts the broker; it stays down if it is killed meanwhile or finds the disk full."""
        assert self.running is None
        self.process = Process(self._clock, self._rng, self.guard)
        try:
            self.guard(self._boot)
        except (NoLogDirError, OSError):
            if not self.is_disk_full:
                raise
            self._end(self.disk.kill)

    def _boot(self) -> None:
        process = self.process
        assert process is not None
        self.restarts += 1
        self._has_room_since = self._clock.now
        self.running = InProcessBroker(
            Path(DISK),
            self._settings,
            runner=process,
            env=self.disk,
            timer=process,
            first_id=self.restarts * IDS_A_RUN,
        )
        broker = self.running
        self._housekeeping = Housekeeping(
            broker.config, broker.log_manager, broker.replica_manager, process, process
        )
        self._housekeeping.start()
        if self._cleaner_rng is not None:
            self._cleaner = compaction.started_cleaner(self.running, process, self.disk, self._cleaner_rng)
        self.on_start()

    def stop(self) -> None:
        """Stops the broker cleanly; pending requests get no response."""
        if self.running is None:
            return
        self.guard(self._stop_in_order)
        self._end(self.disk.kill)

    def _stop_in_order(self) -> None:
        assert self.running is not None
        assert self.process is not None
        assert self._housekeeping is not None
        self._housekeeping.stop()
        if self._cleaner is not None:
            compaction.stop_cleaner(self._cleaner)
        self.running.stop(self.process.close)

    def kill(self) -> None:
        """Kills the broker as kill -9 does: completed writes are on the disk."""
        self._end(self.disk.kill)

    def cut_power(self) -> None:
        """Crashes the machine: writes that were not synced may be lost."""
        self._end(lambda: self.disk.crash(self._rng))

    def kill_at_operation(self, number: int, *, power_cut: bool) -> None:
        """Crashes the broker, or the machine, at the disk's n-th operation from now on, before its effect."""
        self.lost_power = power_cut

        def plan(count: int, _kind: str, _path: str) -> None:
            if count == number:
                raise PowerCut

        self.disk.inject(plan)

    def fill_disk(self, left_bytes: int) -> None:
        """Leaves the disk with so many bytes of space, in whole blocks, until `empty_disk`."""
        self.disk.disk_bytes = self.disk.used_bytes() + left_bytes // DISK_BLOCK_BYTES * DISK_BLOCK_BYTES

    def run_out_of_inodes(self) -> None:
        """No directory can be created any more, until `empty_disk`; existing files can be written."""
        self.disk.has_inodes = False

    def empty_disk(self) -> None:
        """Restores all kinds of space."""
        self.disk.disk_bytes = UNLIMITED
        self.disk.has_inodes = True
        self._has_room_since = self._clock.now
        self.space_noticed_ms = round((self._clock.now + LOG_RETRIED_IN_S) * 1000)

    @property
    def is_disk_full(self) -> bool:
        """Whether the disk may be full."""
        return self.disk.disk_bytes < UNLIMITED or not self.disk.has_inodes

    @property
    def lacks_logs(self) -> bool:
        """Whether a partition has no log."""
        return self.running is not None and self.running.replica_manager.has_offline_partitions

    @property
    def lacks_logs_despite_space(self) -> bool:
        """Whether a partition has no log though the broker had space and time to create it."""
        return (
            self.lacks_logs
            and not self.is_disk_full
            and self._clock.now > self._has_room_since + LOG_RETRIED_IN_S
        )

    @contextmanager
    def spared(self) -> Iterator[None]:
        """Suspends kills and the count of disk operations: the simulation itself reads."""
        disk = self.disk
        plan, operations, disk.plan = disk.plan, disk.operations, None
        try:
            yield
        finally:
            disk.plan, disk.operations = plan, operations

    def guard(self, callback: Callable[[], object]) -> None:
        """Runs the broker's code. If it is killed meanwhile, ends the process."""
        try:
            callback()
        except PowerCut:
            if self.lost_power:
                self.cut_power()
            else:
                self.kill()

    def _end(self, leave_disk: Callable[[], None]) -> None:
        if self.process is not None:
            self.process.alive = False
        self.running = self._cleaner = None
        leave_disk()
        self.on_end()
