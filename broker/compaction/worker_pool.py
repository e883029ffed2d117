"""Worker processes (storage.worker), each behind a thread that blocks on its pipes in place of the event loop.

A process is started when a job needs one, takes further jobs, and is closed when it has been idle for a while.
multiprocessing would start a tracker process beside every broker that compacts, import the broker's command line into
each worker, and lose what a dying worker prints.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from barnabas.broker.waiting.timer import TimerHandle
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job, Progress

IDLE_S: Final = 30.0
KEPT_STDERR_LINES: Final = 40

OnProgress = Callable[[float], None]
OnDone = Callable[[Done | Failed], None]


class WorkerProcess:
    """One worker. `on_end` is called when it has ended, for whatever reason, after `on_done` of its job."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[WorkerProcess], None]) -> None:
        self._loop = loop
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._on_progress: OnProgress | None = None
        self._on_done: OnDone | None = None
        self.is_killed = False
        self.has_ended = False
        self.idle_timer: TimerHandle | None = None
        try:
            threading.Thread(target=self._run, name="barnabas-worker", daemon=True).start()
        except RuntimeError as error:  # the system has no thread to give
            loop.call_soon(self._ended, _not_started(error))

    @property
    def pid(self) -> int | None:
        """None before the process was started."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, job: Job, on_progress: OnProgress, on_done: OnDone) -> None:
        """Gives a job to a worker that has none."""
        assert self._on_done is None, "it has a job"
        self._on_progress, self._on_done = on_progress, on_done
        self._jobs.put(job)

    def kill(self) -> None:
        """Ends the process at once: it takes not one more step of its job after this."""
        self.is_killed = True
        if self._process is not None:
            self._process.kill()
        self.close()

    def close(self) -> None:
        """Ends the process after its job."""
        self._jobs.put(None)

    # ---- in its thread

    def _run(self) -> None:
        from barnabas.storage.worker import spawn

        try:
            process = self._process = spawn()
        except OSError as error:
            end = _not_started(error)
        else:
            if self.is_killed:
                process.kill()
            end = self._serve(process)
        self._loop.call_soon_threadsafe(self._ended, end)

    def _serve(self, process: subprocess.Popen[bytes]) -> str:
        """Passes jobs to the process until it ends or is to end; returns how it ended."""
        assert process.stdin is not None
        assert process.stderr is not None
        lines: deque[bytes] = deque(maxlen=KEPT_STDERR_LINES)
        stderr = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
        with process:
            try:
                stderr.start()
                while (job := self._jobs.get()) is not None:
                    self._do(process, job)
            except Exception:  # the process has ended, or ends with its input
                pass
            with suppress(OSError):  # the process may have ended before it had read everything
                process.stdin.close()
            stderr.join()
        code = process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        printed = b"".join(lines).decode(errors="replace").strip()
        return f"worker process {process.pid} {how}" + (f", saying: {printed}" if printed else "")

    def _do(self, process: subprocess.Popen[bytes], job: Job) -> None:
        import pickle  # a broker that never compacts does without

        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(job, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        while isinstance(message := pickle.load(process.stdout), Progress):
            self._loop.call_soon_threadsafe(self._progressed, message)
        self._loop.call_soon_threadsafe(self._answered, message)

    # ---- on the event loop

    def _progressed(self, progress: Progress) -> None:
        if self._on_progress is not None and not self.is_killed:
            self._on_progress(progress.fraction)

    def _answered(self, answer: Done | Failed) -> None:
        if not self.is_killed:  # else it fails when the process is dead, whatever it answered before
            self._complete(answer)

    def _ended(self, how: str) -> None:
        self.has_ended = True
        self._complete(Failed(FailureKind.ENDED, how, ""))
        self._on_end(self)

    def _complete(self, answer: Done | Failed) -> None:
        on_done, self._on_done, self._on_progress = self._on_done, None, None
        if on_done is not None:
            on_done(answer)


def _not_started(error: Exception) -> str:
    return f"no worker process could be started: {error}"


class WorkerPool:
    """As many workers as there are jobs at a time, and idle ones for a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._all_ended: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [worker.pid for worker in self._all if worker.pid is not None]

    def start(self, job: Job, on_progress: OnProgress, on_done: OnDone) -> WorkerProcess:
        """Has a worker do a job. `on_done` is called once in any case, on the loop; after a kill, when it is dead."""
        worker = self._take_idle() or self._new()

        def done(answer: Done | Failed) -> None:
            if not (worker.has_ended or worker.is_killed):
                self._keep(worker)
            on_done(answer)

        worker.start(job, on_progress, done)
        return worker

    def _take_idle(self) -> WorkerProcess | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.idle_timer is not None:
                worker.idle_timer.cancel()
            if worker.is_running:
                return worker
            worker.close()
        return None

    def _new(self) -> WorkerProcess:
        worker = WorkerProcess(self._loop, self._forget)
        self._all.add(worker)
        return worker

    def _keep(self, worker: WorkerProcess) -> None:
        self._idle.append(worker)
        worker.idle_timer = self._loop.call_later(IDLE_S, self._close, worker)

    def _close(self, worker: WorkerProcess) -> None:
        self._idle.remove(worker)
        worker.close()

    def _forget(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        if self._all_ended is not None and not self._all and not self._all_ended.done():
            self._all_ended.set_result(None)

    async def close(self) -> None:
        """Ends all workers, and returns when they are gone."""
        for worker in list(self._all):
            worker.kill()
        if self._all:
            self._all_ended = self._loop.create_future()
            await self._all_ended
