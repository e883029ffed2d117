"""Group commit: one fsync of a log at a time, which serves all appends before it began."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.replica.log_flusher import LogFlusher
from barnabas.storage.env import RealFile
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.unified_log import UnifiedLog
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import ManualEnv, batch, log, log_manager


class Story:
    """Records the results of flushes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def flushed(self, log: UnifiedLog) -> None:
        self.lines.append(f"{log.name} is durable up to {log.recovery_point}")

    def failed(self, log: UnifiedLog, error: KafkaStorageError) -> None:
        self.lines.append(f"{log.name} failed")


class FailingEnv(ManualEnv):
    """A disk whose syncs fail on demand."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        super().__init__()
        self.broken = False

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        real = super().open(path, create=create, write=write)
        file = FailingFile(self, real.fd)
        real.fd = -1
        return file


class FailingFile(RealFile):
    __slots__ = ("env",)

    def __init__(self, env: FailingEnv, fd: int) -> None:
        super().__init__(fd)
        self.env = env

    def sync(self) -> None:
        if self.env.broken:
            raise OSError("input/output error")


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def disk() -> HeldRunner:
    return HeldRunner()


@pytest.fixture
def flusher(disk: HeldRunner, story: Story) -> LogFlusher:
    return LogFlusher(disk, story.flushed, story.failed)


def append(log: UnifiedLog, *values: str) -> None:
    log.append_as_leader(batch(*values), 0)


def test_a_flush_makes_earlier_appends_durable(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    records = log(tmp_path)
    append(records, "a", "b")
    assert not flusher.is_flushing(records)
    flusher.flush(records)
    assert flusher.is_flushing(records)
    assert records.recovery_point == 0

    disk.release()
    assert story.lines == ["t-0 is durable up to 2"]
    assert not flusher.is_flushing(records)


def test_a_repeated_request_before_the_sync_needs_no_other_one(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    records = log(tmp_path)
    append(records, "a")
    for _ in range(3):
        flusher.flush(records)
    assert disk.held == 1
    disk.release()
    assert (disk.held, story.lines) == (0, ["t-0 is durable up to 1"])


def test_appends_during_a_sync_need_one_more(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    records = log(tmp_path)
    append(records, "a")
    flusher.flush(records)
    for value in "bcd":
        append(records, value)
        flusher.flush(records)
    assert disk.held == 1

    disk.release()
    assert story.lines == ["t-0 is durable up to 1"]
    assert (disk.held, flusher.is_flushing(records)) == (1, True)
    disk.release()
    assert story.lines[1:] == ["t-0 is durable up to 4"]
    assert (disk.held, flusher.is_flushing(records)) == (0, False)


def test_logs_do_not_wait_for_each_other(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    manager = log_manager(tmp_path, ManualEnv())
    for index in range(2):
        records = manager.get_or_create_log("t", index)
        append(records, "a")
        flusher.flush(records)
    assert disk.held == 2
    disk.release_all()
    assert story.lines == ["t-0 is durable up to 1", "t-1 is durable up to 1"]


def test_a_failed_sync_is_reported_and_ends_the_flushes(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    env = FailingEnv()
    records = log(tmp_path, env)
    append(records, "a")
    flusher.flush(records)
    append(records, "b")
    flusher.flush(records)
    env.broken = True
    disk.release()
    assert story.lines == ["t-0 failed"]
    assert (disk.held, flusher.is_flushing(records)) == (0, False)


def test_a_bug_is_not_taken_for_a_disk_failure(flusher: LogFlusher, disk: HeldRunner, tmp_path: Path) -> None:
    records = log(tmp_path)
    append(records, "a")
    flusher.flush(records)
    with pytest.raises(ZeroDivisionError):
        disk.fail(ZeroDivisionError())


def test_a_suspended_log_is_not_synced_until_it_is_resumed(tmp_path: Path, story: Story) -> None:
    runner = HeldRunner()
    flusher = LogFlusher(runner, story.flushed, story.failed)
    it = log(tmp_path)
    it.append_as_leader(batch("one"), 0)
    flusher.flush(it)
    flusher.hold(it)
    it.append_as_leader(batch("two"), 0)
    flusher.flush(it)
    runner.release_all()
    assert story.lines == ["t-0 is durable up to 1"]  # the sync under way completed; the next one waits
    assert flusher.is_flushing(it)
    flusher.release(it)
    runner.release_all()
    assert story.lines[1:] == ["t-0 is durable up to 2"]
    assert not flusher.is_flushing(it)


def test_pending_flushes_of_a_log_wait_for_its_replacement(tmp_path: Path, story: Story) -> None:
    runner = HeldRunner()
    flusher = LogFlusher(runner, story.flushed, story.failed)
    before, after = log(tmp_path / "a"), log(tmp_path / "b")
    flusher.hold(before)
    for one in (before, after):
        one.append_as_leader(batch("one"), 0)
    flusher.flush(before)
    flusher.replace(before, after)
    runner.release_all()
    assert (before.recovery_point, after.recovery_point) == (0, 1)
    assert not flusher.is_flushing(before)
    flusher.replace(before, after)
    assert runner.held == 0


def test_what_was_cut_off_while_the_log_was_held_is_not_waited_for(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    records = log(tmp_path)
    append(records, "a")
    append(records, "b")
    flusher.hold(records)
    flusher.flush(records)
    records.truncate_to(1)
    flusher.release(records)
    disk.release()
    assert (disk.held, story.lines) == (0, ["t-0 is durable up to 1"])


def test_a_log_that_is_held_is_idle_when_its_sync_has_ended(
    flusher: LogFlusher, disk: HeldRunner, story: Story, tmp_path: Path
) -> None:
    records = log(tmp_path)
    append(records, "a")
    flusher.hold(records)
    flusher.when_idle(records, lambda: story.lines.append("idle"))
    assert story.lines.pop() == "idle"
    flusher.release(records)
    flusher.flush(records)
    flusher.hold(records)
    flusher.when_idle(records, lambda: story.lines.append("idle"))
    assert story.lines == []
    disk.release()
    assert story.lines == ["t-0 is durable up to 1", "idle"]


def test_a_sync_that_fails_leaves_the_log_idle_too(disk: HeldRunner, story: Story, tmp_path: Path) -> None:
    env = FailingEnv()
    records = log_manager(tmp_path, env).get_or_create_log("t", 0, b"t" * 16)
    flusher = LogFlusher(disk, story.flushed, story.failed)
    append(records, "a")
    flusher.flush(records)
    flusher.hold(records)
    flusher.when_idle(records, lambda: story.lines.append("idle"))
    env.broken = True
    disk.release()
    assert story.lines == ["t-0 failed", "idle"]
