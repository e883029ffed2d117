"""kill -9 of a process that changes a log on a real disk: no acknowledged record is lost, and none is added.

The page cache survives the process: the result of each completed step survives the kill, flushed or not. After
each kill a copy of the directory is opened and compared with the model (`tests.storage.log_harness`): records in order
with their bytes, the last value of each key, no aborted transaction for read_committed, producers, epochs, the
log start offset. Then the next process takes the directory over unchanged.

BARNABAS_KILLS is the number of kills at random instants.
"""

import os
import select
import shutil
import signal
import time
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.faults.storage_child import Listener, RealLogHarness, fork, unpack
from tests.storage.faulted_log_harness import Step
from tests.storage.log_harness import LogHarness as L
from tests.support.chance import seed_or

# No other thread of this process can hold up the children; newer Pythons warn all the same.
pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]

KILLS = int(os.environ.get("BARNABAS_KILLS") or 80)
LIFETIME = 25  # kills in one directory before a new one begins
WEIGHTS = {
    L.append: 10,
    L.append_idempotent: 6,
    L.append_transactional: 8,
    L.end_transaction: 8,
    L.append_as_follower: 2,
    L.next_epoch: 2,
    L.move_high_watermark: 10,
    L.flush: 2,
    L.flush_in_steps: 2,
    L.roll: 6,
    L.compact: 8,
    L.retain: 6,
    L.delete_records: 3,
    L.checkpoint: 4,
    L.truncate: 1,
    L.remove_due_files: 2,
    L.read_through: 2,
    L.find_by_time: 1,
    L.change_config: 1,
    L.stop_cleanly: 2,
}
GROWTH: tuple[Step, ...] = (
    *(
        L.append,
        L.append_idempotent,
        L.append_transactional,
        L.append,
        L.next_epoch,
        L.roll,
        L.append_idempotent,
    ),
    *(
        L.end_transaction,
        L.append,
        L.move_high_watermark,
        L.append_transactional,
        L.append,
        L.roll,
        L.checkpoint,
    ),
    *(L.append_idempotent, L.end_transaction, L.append, L.append, L.move_high_watermark, L.flush, L.append),
    *(L.append_transactional, L.delete_records, L.end_transaction, L.append, L.append_idempotent),
)
AFTERWARDS: tuple[Step, ...] = (
    L.read_through,
    L.append_idempotent,
    L.append,
    L.end_transaction,
    L.read_through,
)
PHASES: dict[str, tuple[Step, ...]] = {
    "roll": (L.append, L.roll, L.append_idempotent, L.roll),
    "retention": (L.move_high_watermark, L.retain, L.append, L.retain, L.remove_due_files, L.checkpoint),
    "compaction": (L.move_high_watermark, L.roll, L.compact, L.append, L.remove_due_files),
    "truncation": (L.append, L.truncate, L.append, L.truncate_fully, L.append_idempotent),
    "flush": (L.append, L.end_transaction, L.flush, L.roll, L.append, L.flush_in_steps, L.checkpoint),
    "clean stop": (L.append, L.stop_cleanly, L.append_idempotent),
    "recovery": (),
}


def check_copy(directory: Path, report: bytes) -> int:
    """Opens a copy of the killed process's directory and compares it with the process's report; returns its records."""
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    try:
        harness = RealLogHarness(str(copy), 1, None, unpack(report))
        harness.reopen_and_check(power_cut=False)
        for number, step in enumerate(
            (L.read_through, L.append_idempotent, L.append, L.end_transaction, L.read_through)
        ):
            harness.run_step(step, Random(number))
        harness.manager.abandon()
        return len(harness.model.present)
    finally:
        shutil.rmtree(copy)


def begin(directory: Path, seed: int, pipe: int, report: bytes | None) -> RealLogHarness:
    """Continues the directory in a new process."""
    harness = RealLogHarness(str(directory), seed, pipe, unpack(report) if report else None)
    if report is not None:
        harness.reopen_and_check(power_cut=False)
    return harness


# -- at random instants --


def run_until_killed(directory: Path, seed: int, pipe: int, report: bytes | None) -> None:
    rng = Random(seed)
    harness = begin(directory, seed, pipe, report)
    while True:
        for step in rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=100):
            harness.run_step(step, rng)


def killed_after(
    directory: Path, seed: int, report: bytes | None, after_s: float
) -> tuple[bytes | None, int]:
    """Returns the last report of the killed process, and the number of its reports."""
    pid, pipe = fork(lambda writing: run_until_killed(directory, seed, writing, report))
    listener = Listener(pipe)
    deadline = time.monotonic() + after_s
    is_alive = True
    while is_alive and (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            is_alive = listener.read()
    os.kill(pid, signal.SIGKILL)
    listener.read_to_end()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"the process failed before it was killed, with seed {seed}"
    return listener.last or report, listener.frames


def kill_at_random(tmp_path: Path, kills: int, seed: int) -> None:
    print(f"seed {seed}")
    rng = Random(seed)
    records = frames = 0
    report: bytes | None = None
    for number in range(kills):
        directory = tmp_path / f"logs {number // LIFETIME}"
        if number % LIFETIME == 0:
            report = None
        after_s = rng.choice((rng.uniform(0, 0.05), rng.uniform(0, 0.6)))
        report, reports = killed_after(directory, rng.randrange(1 << 32), report, after_s)
        frames += reports
        if report is not None:
            records += check_copy(directory, report)
    print(f"{kills} kills, {frames} reports, {records} records checked")


def test_kills_at_random_instants(tmp_path: Path) -> None:
    kill_at_random(tmp_path, 12, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_kills_at_random_instants(tmp_path: Path) -> None:
    kill_at_random(tmp_path, KILLS, seed=seed_or(50))


# -- at each operation of the file system in turn --


def grow(directory: Path) -> bytes:
    """Makes a directory as a process leaves it that is killed after a while; returns its last report."""

    def run(pipe: int) -> None:
        harness = begin(directory, 5, pipe, None)
        for number, step in enumerate(GROWTH):
            harness.run_step(step, Random(number))
        os.kill(os.getpid(), signal.SIGKILL)

    pid, pipe = fork(run)
    listener = Listener(pipe)
    listener.read_to_end()
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    assert listener.last is not None
    return listener.last


def killed_at(phase: str, number: int, directory: Path, report: bytes) -> bytes | None:
    """The last report of a process killed at that operation of a phase; None: the phase has fewer operations."""
    pid, pipe = fork(lambda writing: run_phase(phase, directory, writing, report, number))
    listener = Listener(pipe)
    listener.read_to_end()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return listener.last or report
    assert os.WEXITSTATUS(status) == 0, f"{phase} failed before operation {number}"
    return None


def run_phase(phase: str, directory: Path, pipe: int, report: bytes, kill_at: int) -> None:
    harness = RealLogHarness(str(directory), 7, pipe, unpack(report))
    harness.env.kill_at = -1 if PHASES[phase] else kill_at
    harness.reopen_and_check(power_cut=False)
    harness.report_state()
    harness.env.operations, harness.env.kill_at = 0, kill_at if PHASES[phase] else -1
    for number, step in enumerate(PHASES[phase]):
        harness.run_step(step, Random(100 + number))


@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_at_some_operations(phase: str, tmp_path: Path) -> None:
    kill_in_phase(phase, tmp_path, stride=17, offset=list(PHASES).index(phase))


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_at_each_operation(phase: str, tmp_path: Path) -> None:
    kill_in_phase(phase, tmp_path, stride=1, offset=0)


def kill_in_phase(phase: str, tmp_path: Path, stride: int, offset: int) -> None:
    grown, directory = tmp_path / "grown", tmp_path / "logs"
    report = grow(grown)
    records = 0
    for number in count(offset, stride):
        shutil.copytree(grown, directory)
        known = killed_at(phase, number, directory, report)
        if known is None:
            break
        try:
            records += check_copy(directory, known)
        except BaseException:
            print(f"killed at operation {number} of {phase}, in {unpack(known).step_in_progress}")
            raise
        shutil.rmtree(directory)
    print(f"{phase}: {(number - offset) // stride} kills, {records} records checked")
    assert records
