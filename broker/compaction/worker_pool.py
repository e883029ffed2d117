"""Worker processes (storage.worker) and what they are told and tell, on the event loop without ever blocking it.

A process is started when there is a job for it, takes further ones, and is let go when it has been idle for a while.
Source of the idea: the broker's state has one owner, the loop; what takes long turns files into files elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Callable
from typing import Final

from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import TimerHandle
from barnabas.storage.worker_messages import (
    Done,
    Failed,
    FailureKind,
    Job,
    Progress,
    Unpacker,
    pack,
)

logger = logging.getLogger("barnabas.worker")

IDLE_S: Final = 30.0
KEPT_STDERR_BYTES: Final = 4096

OnProgress = Callable[[float], None]
OnDone = Callable[[Done | Failed], None]


class _Output(asyncio.Protocol):
    """One of a worker's output streams."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class _Input(asyncio.BaseProtocol):
    """A worker's input; that it has gone is noticed at the output."""

    def connection_lost(self, exc: Exception | None) -> None:
        pass


class WorkerProcess:
    """One worker. `on_end` is called when it has ended, however that came about, after `on_done` of its job."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, runner: BlockingRunner, on_end: Callable[[WorkerProcess], None]
    ) -> None:
        self._loop = loop
        self._runner = runner
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        self._input: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unpacker = Unpacker()
        self._stderr = bytearray()
        self._to_send: list[bytes] = []
        self._on_progress: OnProgress | None = None
        self._on_done: OnDone | None = None
        self._open_streams = 0
        self.is_killed = False
        self._spawn_error: BaseException | None = None
        self.has_ended = False
        self.idle_timer: TimerHandle | None = None
        runner.submit(self._spawn, self._spawned)

    @property
    def pid(self) -> int | None:
        """None before it was started."""
        return None if self._process is None else self._process.pid

    # ---- what it is told

    def start(self, job: Job, on_progress: OnProgress, on_done: OnDone) -> None:
        """Gives it a job; it has none now."""
        assert self._on_done is None, "it has a job"
        self._on_progress, self._on_done = on_progress, on_done
        frame = bytearray()  # packed in a thread: a plan may name thousands of segments and producers
        self._runner.submit(lambda: frame.extend(pack(job)), lambda _: self._send(frame))

    def kill(self) -> None:
        """Ends it at once, whatever it is doing: not one more step of its job is taken after this."""
        self.is_killed = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Lets an idle one go: it ends by itself."""
        if self._input is not None:
            self._input.close()

    def _send(self, frame: bytes | bytearray) -> None:
        if self._input is None:
            self._to_send.append(bytes(frame))
        else:
            self._input.write(frame)

    # ---- its life

    def _spawn(self) -> None:
        from barnabas.storage.worker import spawn

        self._process = spawn()

    def _spawned(self, error: BaseException | None) -> None:
        if error is not None:
            self._spawn_error = error
            self._ended()
            return
        if self.is_killed:
            self.kill()
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        process, loop = self._process, self._loop
        assert process is not None
        self._open_streams = 2
        await loop.connect_read_pipe(lambda: _Output(self._heard, self._stream_ended), process.stdout)
        await loop.connect_read_pipe(lambda: _Output(self._complained, self._stream_ended), process.stderr)
        self._input, _ = await loop.connect_write_pipe(_Input, process.stdin)
        for frame in self._to_send:
            self._input.write(frame)

    def _heard(self, data: bytes) -> None:
        for message in self._unpacker.feed(data):
            if self.is_killed:
                return  # too late: whoever had it killed takes nothing from it any more
            if isinstance(message, Progress):
                if self._on_progress is not None:
                    self._on_progress(message.fraction)
            else:
                self._answer(message)

    def _complained(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-KEPT_STDERR_BYTES]

    def _stream_ended(self) -> None:
        self._open_streams -= 1
        if not self._open_streams:
            process = self._process
            assert process is not None

            def wait() -> None:
                process.wait()

            self._runner.submit(wait, lambda _: self._ended())

    def _ended(self) -> None:
        self.has_ended = True
        if self._input is not None:
            self._input.close()
        if self._on_done is not None:
            self._answer(Failed(FailureKind.ENDED, self._why(), ""))
        self._on_end(self)

    def _answer(self, answer: Done | Failed) -> None:
        on_done, self._on_done, self._on_progress = self._on_done, None, None
        if on_done is not None:
            on_done(answer)

    def _why(self) -> str:
        """What can be said of a process that ended before its job did."""
        if self._spawn_error is not None:
            return f"no worker process could be started: {self._spawn_error}"
        assert self._process is not None
        code = self._process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        said = self._stderr.decode(errors="replace").strip()
        return f"worker process {self._process.pid} {how}" + (f", saying: {said}" if said else "")


class WorkerPool:
    """As many workers as there are jobs at a time, and idle ones for a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop, runner: BlockingRunner) -> None:
        self._loop = loop
        self._runner = runner
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._all_gone: asyncio.Future[None] | None = None

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
        if not self._idle:
            return None
        worker = self._idle.pop()
        if worker.idle_timer is not None:
            worker.idle_timer.cancel()
        return worker

    def _new(self) -> WorkerProcess:
        worker = WorkerProcess(self._loop, self._runner, self._forget)
        self._all.add(worker)
        return worker

    def _keep(self, worker: WorkerProcess) -> None:
        self._idle.append(worker)
        worker.idle_timer = self._loop.call_later(IDLE_S, self._let_go, worker)

    def _let_go(self, worker: WorkerProcess) -> None:
        self._idle.remove(worker)
        worker.close()

    def _forget(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.idle_timer is not None:
            worker.idle_timer.cancel()
        if self._all_gone is not None and not self._all and not self._all_gone.done():
            self._all_gone.set_result(None)

    async def close(self) -> None:
        """Ends all workers, and returns when they are gone."""
        for worker in list(self._all):
            worker.kill()
        if self._all:
            self._all_gone = self._loop.create_future()
            await self._all_gone
