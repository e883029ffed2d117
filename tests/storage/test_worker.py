"""The worker process: its loop over two pipes, its failures, and its end."""

import errno
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from barnabas.storage import worker
from barnabas.storage.env import Env, RealEnv
from barnabas.storage.worker import JOBS, OnProgress, Worker, perform, spawn
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job, Progress
from tests.storage.compacting import CompactionHarness, last_values
from tests.storage.fault_env import Fault, FaultEnv

LIMIT_S = 60.0


def ignore(_: float) -> None:
    pass


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Jobs that a test may add to."""
    monkeypatch.setattr(worker, "JOBS", dict(JOBS))
    return worker.JOBS


# -- one job --


@pytest.fixture
def harness() -> CompactionHarness:
    env = FaultEnv(seed=1)
    env.mkdir("/a")
    harness = CompactionHarness(env)
    harness.fill(22)
    return harness


def test_a_log_is_cleaned(harness: CompactionHarness) -> None:
    found = harness.grab()
    wanted = last_values(harness.log)
    done = perform(harness.env, Job("clean", harness.plan(found)), ignore)
    assert isinstance(done, Done)
    harness.swap(found, done.result)
    assert last_values(harness.log) == wanted
    assert harness.log.segment_count == 2


def test_two_workers_never_clean_the_same_directory(harness: CompactionHarness) -> None:
    """The worker of a killed broker may outlive it for a moment."""
    lock = harness.env.lock_dir("/a/t-0")
    assert lock is not None
    job = Job("clean", harness.plan(harness.grab()))
    failed = perform(harness.env, job, ignore)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.BUSY
    lock.release()
    assert isinstance(perform(harness.env, job, ignore), Done)
    assert isinstance(perform(harness.env, job, ignore), Done), "the lock was given back"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "full"), FailureKind.DISK),
        (MemoryError(), FailureKind.MEMORY),
        (ZeroDivisionError("a bug"), FailureKind.JOB),
    ],
)
def test_each_kind_of_failure_is_reported(jobs: dict[str, Any], error: Exception, kind: FailureKind) -> None:
    def fails(_env: Env, _argument: object, _on_progress: OnProgress) -> None:
        raise error

    jobs["fails"] = fails
    failed = perform(RealEnv(), Job("fails", None), ignore)
    assert isinstance(failed, Failed)
    assert failed.kind is kind
    assert "Traceback" in failed.traceback


def test_an_unknown_job_fails() -> None:
    failed = perform(RealEnv(), Job("make coffee", None), ignore)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.JOB


def test_a_disk_failure_during_a_cleaning_is_reported(harness: CompactionHarness) -> None:
    plan = harness.plan(harness.grab())
    assert isinstance(harness.env, FaultEnv)
    harness.env.inject(lambda _, kind, path: Fault() if kind == "pwritev" and "cleaned" in path else None)
    failed = perform(harness.env, Job("clean", plan), ignore)
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.DISK


# -- the loop --


class Parent:
    """The other ends of a worker's pipes; the worker runs in a thread."""

    def __init__(self) -> None:
        (worker_input, self.jobs), (self.answers, worker_output) = map(_pipe, range(2))
        self.ended = threading.Event()
        self._ends = (worker_input, worker_output, self.answers)
        worker = Worker(RealEnv(), worker_input, worker_output)
        self._thread = threading.Thread(target=worker.serve, args=(self.ended.set,), daemon=True)
        self._thread.start()

    def send(self, data: bytes) -> None:
        self.jobs.write(data)
        self.jobs.flush()

    def receive(self) -> Any:
        return pickle.load(self.answers)

    def close(self) -> None:
        self.jobs.close()
        assert self.ended.wait(LIMIT_S)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        for end in self._ends:
            end.close()


def _pipe(_: int) -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


@pytest.fixture
def parent() -> Iterator[Parent]:
    parent = Parent()
    yield parent
    parent.close()


def test_jobs_are_done_one_after_the_other(jobs: dict[str, Any], parent: Parent) -> None:
    def double(_env: Env, number: int, on_progress: OnProgress) -> int:
        on_progress(0.5)
        return 2 * number

    jobs["double"] = double
    both = pickle.dumps(Job("double", 1)) + pickle.dumps(Job("double", 2))
    parent.send(both[:7])
    parent.send(both[7:])
    assert [parent.receive() for _ in range(4)] == [Progress(0.5), Done(2), Progress(0.5), Done(4)]


def test_the_worker_ends_when_its_parent_dies_during_a_job(parent: Parent) -> None:
    parent.send(pickle.dumps(Job("double", 1))[:7])


def test_a_large_result_arrives_whole(jobs: dict[str, Any], parent: Parent) -> None:
    jobs["large"] = lambda _env, size, _on_progress: b"x" * size
    parent.send(pickle.dumps(Job("large", 500_000)))
    assert parent.receive() == Done(b"x" * 500_000)


# -- the process --


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    process = spawn()
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_the_process_ends_when_its_parent_closes_the_pipe(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(LIMIT_S) == 0


def test_the_process_answers(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(Job("make coffee", None), process.stdin)
    process.stdin.flush()
    failed = pickle.load(process.stdout)
    assert failed.kind is FailureKind.JOB


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_process_inherits_only_the_pipes(process: "subprocess.Popen[bytes]") -> None:
    import socket

    assert process.stdin is not None
    assert process.stdout is not None
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        other = spawn()
        try:
            assert other.stdin is not None
            assert other.stdout is not None
            pickle.dump(Job("make coffee", None), other.stdin)
            other.stdin.flush()
            other.stdout.read(10)  # it has started
            targets = {os.readlink(path) for path in Path(f"/proc/{other.pid}/fd").iterdir()}
        finally:
            other.kill()
            other.wait()
            for stream in (other.stdin, other.stdout, other.stderr):
                assert stream is not None
                stream.close()
    assert all(target.startswith("pipe:") for target in targets), targets
    assert os.getpriority(os.PRIO_PROCESS, process.pid) >= os.getpriority(os.PRIO_PROCESS, 0)


def test_the_process_imports_the_parents_packages_before_others() -> None:
    assert worker._environment({"A": "b"}, "/root") == {"A": "b", "PYTHONPATH": "/root"}
    both = worker._environment({"PYTHONPATH": "/x"}, "/root")["PYTHONPATH"]
    assert both == os.pathsep.join(["/root", "/x"])
