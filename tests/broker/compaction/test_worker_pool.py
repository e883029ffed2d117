"""Worker processes on an event loop: real ones, which are killed and closed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from barnabas.broker.compaction import worker_pool
from barnabas.broker.compaction.worker_pool import WorkerPool, WorkerProcess
from barnabas.storage.env import RealEnv
from barnabas.storage.log.cleaning_plan import CleaningPlan, CleaningResult
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job
from tests.storage.compacting import CompactionHarness

LIMIT_S = 60.0
COFFEE = Job("make coffee", None)
"""No such job exists: it fails at once."""


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that another process brings about."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(0.01)


class Jobs:
    """A pool, and the answers to the jobs given to it."""

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.progress: list[float] = []

    def start(self, job: Job) -> tuple[WorkerProcess, asyncio.Future[Done | Failed]]:
        answered: asyncio.Future[Done | Failed] = asyncio.get_running_loop().create_future()
        worker = self.pool.start(job, self.progress.append, answered.set_result)
        return worker, answered

    async def do(self, job: Job) -> Done | Failed:
        return await asyncio.wait_for(self.start(job)[1], LIMIT_S)


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    loop = asyncio.get_running_loop()
    pool = WorkerPool(loop)
    yield Jobs(pool)
    await asyncio.wait_for(pool.close(), LIMIT_S)
    assert len(pool) == 0


def plan(directory: Path, *, bytes_per_second: float = float("inf")) -> CleaningPlan:
    harness = CompactionHarness(RealEnv(), log_dir=str(directory))
    harness.fill(60)
    plan = harness.plan(harness.grab())
    harness.manager.abandon()
    return plan._replace(max_io_bytes_per_second=bytes_per_second)


async def test_a_cleaning(jobs: Jobs, tmp_path: Path) -> None:
    done = await jobs.do(Job("clean", plan(tmp_path)))
    assert isinstance(done, Done)
    result: CleaningResult = done.result
    assert result.stats.messages_read > result.stats.messages_written
    assert jobs.progress == sorted(jobs.progress)
    assert jobs.progress[-1] <= 1.0
    assert [name for name in os.listdir(tmp_path / "t-0") if name.endswith(".log.cleaned")]


async def test_nothing_is_started_before_there_is_a_job(jobs: Jobs) -> None:
    assert len(jobs.pool) == 0


async def test_a_worker_takes_one_job_after_the_other(jobs: Jobs) -> None:
    pids = set()
    for _ in range(3):
        failed = await jobs.do(COFFEE)
        assert isinstance(failed, Failed)
        assert failed.kind is FailureKind.JOB
        pids.update(jobs.pool.pids)
    assert len(pids) == 1


async def test_as_many_workers_as_jobs(jobs: Jobs) -> None:
    started = [jobs.start(COFFEE) for _ in range(2)]
    assert len(jobs.pool) == 2
    await asyncio.wait_for(asyncio.gather(*(answered for _, answered in started)), LIMIT_S)


async def test_an_idle_worker_is_closed(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "IDLE_S", 0.01)
    await jobs.do(COFFEE)
    await until(lambda: len(jobs.pool) == 0)


async def test_a_worker_that_is_killed_fails_its_job(jobs: Jobs, tmp_path: Path) -> None:
    """By the system, for want of memory perhaps."""
    worker, answered = jobs.start(Job("clean", plan(tmp_path, bytes_per_second=500.0)))
    await until(lambda: bool(jobs.progress))
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    failed = await asyncio.wait_for(answered, LIMIT_S)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.ENDED
    assert "signal 9" in failed.text
    assert isinstance(await jobs.do(COFFEE), Failed)


async def test_a_killed_worker_fails_its_job_when_it_is_dead(jobs: Jobs, tmp_path: Path) -> None:
    worker, answered = jobs.start(Job("clean", plan(tmp_path, bytes_per_second=500.0)))
    await until(lambda: bool(jobs.progress))
    worker.kill()
    failed = await asyncio.wait_for(answered, LIMIT_S)
    assert isinstance(failed, Failed)
    assert worker.has_ended
    assert worker.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


async def test_a_worker_killed_before_it_has_started(jobs: Jobs) -> None:
    worker, answered = jobs.start(COFFEE)
    worker.kill()
    failed = await asyncio.wait_for(answered, LIMIT_S)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.ENDED


async def test_an_idle_worker_that_died_takes_no_job(jobs: Jobs) -> None:
    await jobs.do(COFFEE)
    (dead,) = jobs.pool.pids
    os.kill(dead, 9)
    await asyncio.to_thread(os.waitid, os.P_PID, dead, os.WEXITED | os.WNOWAIT)
    failed = await jobs.do(COFFEE)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.JOB
    await until(lambda: dead not in jobs.pool.pids)


async def test_a_thread_that_cannot_be_started(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        failed = await jobs.do(COFFEE)
    assert isinstance(failed, Failed)
    assert failed.text == "no worker process could be started: can't start new thread"


async def test_a_worker_that_cannot_be_started(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn() -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("barnabas.storage.worker.spawn", spawn)
    failed = await jobs.do(COFFEE)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.ENDED
    assert "no worker process could be started" in failed.text


async def test_the_failure_quotes_what_a_dying_worker_prints(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    failed = await jobs.do(COFFEE)
    assert isinstance(failed, Failed)
    assert "status 1" in failed.text
    assert "saying:" in failed.text


async def test_close_does_not_wait_for_jobs(jobs: Jobs, tmp_path: Path) -> None:
    _, answered = jobs.start(Job("clean", plan(tmp_path, bytes_per_second=1.0)))
    await asyncio.wait_for(jobs.pool.close(), LIMIT_S)
    assert answered.done()
