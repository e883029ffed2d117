"""A log on a real disk in a child process that is killed (kill -9) repeatedly.

The child is a fork that runs the steps of `tests.storage.log_harness`. Before each operation that may change a file it
reports the state of its model of the log and the step in progress (`StateReport`) to its parent. So the parent and the
next child know after any kill which records must be present, which may be, and which must not.
"""

import gc
import os
import pickle
import signal
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from barnabas.config.log_config import LogConfig
from barnabas.storage.env import Buffer, RealEnv, RealFile
from tests.storage.faulted_log_harness import FaultedLogHarness, Step
from tests.storage.log_harness import LogHarness
from tests.storage.log_model import LogModel, ModelBatch

FRAME = struct.Struct(">I")


class KillingFile(RealFile):
    """Counts operations with its Env."""

    __slots__ = ("env",)

    def __init__(self, fd: int, env: "KillingEnv") -> None:
        super().__init__(fd)
        self.env = env

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        self.env.operation()
        return super().pwritev(buffers, position)

    def truncate(self, size: int) -> None:
        self.env.operation()
        super().truncate(size)

    def sync(self) -> None:
        self.env.operation()
        super().sync()


class KillingEnv(RealEnv):
    """A real file system with a manual clock; kills the process at one of the operations that change files."""

    __slots__ = ("kill_at", "maps", "operations", "random", "time_ms")

    def __init__(self, seed: int, time_ms: int) -> None:
        self.time_ms = time_ms
        self.maps = 0
        self.random = Random(seed)
        self.operations = 0
        self.kill_at = -1

    def operation(self) -> None:
        if self.operations == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.operations += 1

    def now_ms(self) -> int:
        return self.time_ms

    def random_bytes(self, length: int) -> bytes:
        return self.random.randbytes(length)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> KillingFile:
        if create:
            self.operation()
        file = super().open(path, create=create, write=write)
        fd, file.fd = file.fd, -1
        return KillingFile(fd, self)

    def mkdir(self, path: str) -> None:
        self.operation()
        super().mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self.operation()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.operation()
        super().remove(path)

    def rmdir(self, path: str) -> None:
        self.operation()
        super().rmdir(path)

    def sync_dir(self, path: str) -> None:
        self.operation()
        super().sync_dir(path)


class StateReport(NamedTuple):
    """The state of a child before its next operation."""

    model: LogModel
    pending: list[ModelBatch]
    truncating_to: int | None
    truncates_all: bool
    step_in_progress: str
    config: LogConfig
    epoch: int
    counter: int
    time_ms: int


class RealLogHarness(FaultedLogHarness):
    """A log in a real directory, new or continued from the report of a killed child."""

    env: KillingEnv
    ends_within_steps = False

    def __init__(
        self, log_dir: str, seed: int, report_to: int | None, report: StateReport | None = None
    ) -> None:
        self.report_to = report_to
        env = KillingEnv(seed, report.time_ms if report else 1_700_000_000_000)
        if report is None:
            super().__init__(seed, env, log_dir)
            return
        self.env, self.log_dir = env, log_dir
        self.model, self.pending = report.model, report.pending
        self.truncating_to, self.truncates_all = report.truncating_to, report.truncates_all
        self.step_in_progress = getattr(LogHarness, report.step_in_progress, None)
        self.config, self.epoch, self.counter = report.config, report.epoch, report.counter

    def report_state(self) -> None:
        if self.report_to is not None:
            name = self.step_in_progress.__name__ if self.step_in_progress else ""
            state = (self.model, self.pending, self.truncating_to, self.truncates_all, name)
            data = pickle.dumps(StateReport(*state, self.config, self.epoch, self.counter, self.env.time_ms))
            data = FRAME.pack(len(data)) + data
            while data:
                data = data[os.write(self.report_to, data) :]

    def end_faults(self) -> None:
        """Kills are the only faults here."""

    def end_process(self) -> None:
        """The process was killed before this point."""

    def apply_start(self) -> None:
        if self.model.start < self.log.log_start_offset <= max(self.model.high_watermark, self.model.start):
            self.model.move_start(self.log.log_start_offset)

    def run_step(self, step: Step, rng: Random) -> None:
        """Reports the state, then runs one step."""
        self.step_in_progress = step
        self.report_state()
        step(self, rng)
        self.check()
        self.step_in_progress = None
        self.pending, self.truncating_to, self.truncates_all = [], None, False
        self.report_state()


def fork(what: Callable[[int], None]) -> tuple[int, int]:
    """Forks a child that runs `what` with a pipe to its parent; returns its process id and the read end.

    The child does not collect its parent's garbage: clients of earlier tests among it would wait there for threads that
    it does not have.
    """
    reading, writing = os.pipe()
    gc.disable()
    try:
        pid = os.fork()
        if not pid:
            gc.freeze()
    finally:
        gc.enable()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        what(writing)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


class Listener:
    """Reads the reports of a child; `last` is the last complete one."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.buffer = bytearray()
        self.last: bytes | None = None
        self.frames = 0

    def read(self) -> bool:
        """Reads what is available; False at the end."""
        data = os.read(self.pipe, 1 << 20)
        self.buffer += data
        while len(self.buffer) >= FRAME.size:
            (size,) = FRAME.unpack_from(self.buffer)
            if len(self.buffer) < FRAME.size + size:
                break
            self.last = bytes(self.buffer[FRAME.size : FRAME.size + size])
            del self.buffer[: FRAME.size + size]
            self.frames += 1
        return bool(data)

    def read_to_end(self) -> None:
        while self.read():
            pass
        os.close(self.pipe)


def unpack(report: bytes) -> StateReport:
    """Decodes a report, each time into a new object: a child that takes the log over changes it."""
    found: StateReport = pickle.loads(report)
    return found
