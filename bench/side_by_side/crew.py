"""The clients of one measurement, each in its own process: started together, with the resources used meanwhile."""

from __future__ import annotations

import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from bench import accounting, machine
from bench.side_by_side.job import Job, Outcome

_ROOT: Final = Path(__file__).parents[2]
_SETTLE_S: Final = 0.2


@dataclass(frozen=True)
class Measured:
    """The results of the clients, and the resources used."""

    outcomes: list[Outcome]
    broker_cpu_s: float
    others: float
    """The share of the machine that was used neither by the broker nor by its clients."""
    peak_mib: float

    @property
    def client_cpu_s(self) -> float:
        """The processor time of all clients."""
        return sum(outcome.cpu_s for outcome in self.outcomes)


class WorkerError(Exception):
    """A worker failed, or was silent for too long; the text is its output."""


class Crew:
    """Worker processes; `with Crew(...)` prepares them, and ends them."""

    def __init__(self, jobs: Sequence[Job], limit_s: float) -> None:
        self._limit_s = limit_s
        self._processes = [_spawned(job) for job in jobs]

    def _wait_until_ready(self) -> None:
        for process in self._processes:
            if (line := self._line(process)) != "ready\n":
                raise WorkerError(Outcome.parse(line).error)

    def go(self) -> None:
        """Signals the workers to start."""
        for process in self._processes:
            _pipe(process.stdin).write("go\n")
            _pipe(process.stdin).flush()

    def outcomes(self) -> list[Outcome]:
        """The outcomes, once all workers have ended."""
        found = [Outcome.parse(self._line(process)) for process in self._processes]
        for outcome in found:
            if outcome.error:
                raise WorkerError(outcome.error)
        return found

    def _line(self, process: subprocess.Popen[str]) -> str:
        with selectors.DefaultSelector() as selector:
            selector.register(_pipe(process.stdout), selectors.EVENT_READ)
            if not selector.select(self._limit_s):
                raise WorkerError(f"a worker said nothing for {self._limit_s:g} s")
        line = _pipe(process.stdout).readline()
        if not line:
            raise WorkerError(f"a worker ended with status {process.wait()}")
        return line

    def __enter__(self) -> Crew:
        try:
            self._wait_until_ready()
        except BaseException:
            self._end(0.1)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(5.0 if kind is None else 0.1)

    def _end(self, patience_s: float) -> None:
        for process in self._processes:
            _pipe(process.stdin).close()
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _pipe(process.stdout).close()


def _spawned(job: Job) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.side_by_side.workers"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _pipe(process.stdin).write(job.line())
    _pipe(process.stdin).flush()
    return process


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def measure(jobs: Sequence[Job], pid: int, limit_s: float) -> Measured:
    """Runs the workers against the broker with this process id."""
    with Crew(jobs, limit_s) as crew:
        accounting.reset_peaks(pid)
        busy, used, began = accounting.machine_busy_s(), accounting.cpu_s(pid), time.monotonic()
        crew.go()
        outcomes = crew.outcomes()
        time.sleep(_SETTLE_S)  # the broker's remaining work for the last request counts
        busy = accounting.machine_busy_s() - busy
        used = accounting.cpu_s(pid) - used
        elapsed = time.monotonic() - began
    clients = sum(outcome.cpu_s for outcome in outcomes)
    others = max(busy - used - clients, 0.0) / (elapsed * machine.cores())
    return Measured(outcomes, used, others, accounting.peak_mib(pid))
