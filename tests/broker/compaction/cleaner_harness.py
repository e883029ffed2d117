"""A broker in this process with a cleaner, whose workers and threads do nothing before the test says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from barnabas.broker.compaction.scheduler import LogCleaner
from barnabas.storage.env import Env
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.worker import perform
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job
from tests.broker.broker_fixture import InProcessBroker, TurnedEnv
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import batch
from tests.storage.compacting import contents

SMALL = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": "1000",
    "min_cleanable_dirty_ratio": "0.01",
}
LITTLE_MEMORY = {"log.cleaner.dedupe.buffer.size": str(4 << 20)}
BACKOFF_S = 15.0
KEYS = 4


class HeldWorker:
    """One worker with a job."""

    def __init__(
        self,
        env: Env,
        job: Job,
        on_progress: Callable[[float], None],
        on_done: Callable[[Done | Failed], None],
    ) -> None:
        self._env = env
        self.job = job
        self.on_progress = on_progress
        self._on_done = on_done
        self.is_killed = self.has_answered = False

    def work(self) -> Done | Failed:
        """Does the job, without telling anybody."""
        return perform(self._env, self.job, self.on_progress)

    def answer(self, answer: Done | Failed) -> None:
        self.has_answered = True
        self._on_done(answer)

    def finish(self) -> None:
        """Does the job and answers."""
        self.answer(self.work())

    def die(self) -> None:
        """It is dead: by a kill, or of itself."""
        self.answer(Failed(FailureKind.ENDED, "worker process 7 was ended by signal 9", ""))

    def kill(self) -> None:
        self.is_killed = True


class HeldWorkers:
    """Workers, in the order in which they got their jobs."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self.all: list[HeldWorker] = []
        self.is_closed = False

    def start(
        self, job: Job, on_progress: Callable[[float], None], on_done: Callable[[Done | Failed], None]
    ) -> HeldWorker:
        worker = HeldWorker(self._env, job, on_progress, on_done)
        self.all.append(worker)
        return worker

    async def close(self) -> None:
        self.is_closed = True

    @property
    def last(self) -> HeldWorker:
        return self.all[-1]


class CleanerHarness:
    """The broker and its cleaner, started if it `starts`; `settings` are broker keys, `env` its file system.

    The topic t has segments of some five records.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        *,
        starts: bool = True,
        env: TurnedEnv | None = None,
        **configs: str,
    ) -> None:
        self.directory = directory
        self.broker = InProcessBroker(directory, {**LITTLE_MEMORY, **(settings or {})}, env=env)
        self.broker.create_topic("t", **{**SMALL, **configs})  # type: ignore[arg-type]
        self.runner = HeldRunner()
        self.workers = HeldWorkers(self.broker.env)
        self.cleaner = LogCleaner(
            self.broker.config,
            self.broker.env,
            self.broker.log_manager,
            runner=self.runner,
            timer=self.broker.timer,
            workers=self.workers,
            log_dir_failed=self.broker.replica_manager.log_dir_failed,
        )
        self.broker.log_manager.cleaner = self.cleaner.manager
        if starts:
            self.cleaner.start()

    @property
    def log(self) -> UnifiedLog:
        return self.log_of("t")

    def log_of(self, topic: str, partition: int = 0) -> UnifiedLog:
        return self.broker.replica_manager.partition(topic, partition).log

    def fill(self, count: int, topic: str = "t") -> None:
        """Appends records of 120 bytes, keys in turn."""
        partition = self.broker.replica_manager.partition(topic, 0)
        for _ in range(count):
            offset = partition.log.log_end_offset
            partition.append_as_leader(batch(b"%0120d" % offset, key=b"key %d" % (offset % KEYS)), -1)

    def advance(self, seconds: float = BACKOFF_S) -> None:
        self.broker.env.ms += int(seconds * 1000)
        self.broker.timer.advance(seconds)

    def begin(self) -> HeldWorker:
        """Fills the log and lets time pass until a worker has the job of cleaning it."""
        self.fill(22)
        self.advance()
        self.runner.release_all()
        return self.workers.last

    def settle(self) -> None:
        """Lets everything that waits in threads, and what follows from it at once, happen."""
        self.runner.release_all()
        self.broker.timer.advance(0)

    def offsets(self) -> list[int]:
        """Of the records in the log."""
        return list(contents(self.log))

    def leftovers(self) -> list[str]:
        return sorted(
            path.name for path in self.directory.glob("t-0*/*") if path.suffix in (".cleaned", ".swap")
        )
