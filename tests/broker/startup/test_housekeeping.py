"""Chores at their intervals, on a clock that the test turns; what blocks goes to the runner."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from barnabas.broker.startup.housekeeping import Housekeeping
from barnabas.broker.waiting.blocking import Done, Work
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.storage.log.unified_log import UnifiedLog
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import batch
from tests.support.difference import Like

NEVER = str(2**63 - 1)
QUIET = {
    "log.retention.check.interval.ms": "100000000",
    "log.flush.offset.checkpoint.interval.ms": "100000000",
    "log.flush.start.offset.checkpoint.interval.ms": "100000000",
    "replica.high.watermark.checkpoint.interval.ms": "100000000",
    "producer.id.expiration.check.interval.ms": "100000000",
    "log.initial.task.delay.ms": "100000000",
    "barnabas.log.dir.space.check.interval.ms": "100000000",
}
"""All chores so seldom that a test sees only the one that it sets."""


class HousekeepingHarness:
    """A broker with one topic, whose housekeeping hands what blocks to `runner`."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, **configs: str) -> None:
        self.directory = directory
        self.broker = InProcessBroker(directory, {**QUIET, **(settings or {})})
        self.broker.create_topic("t", **configs)  # type: ignore[arg-type]  # partitions is not among them
        self.runner = HeldRunner()
        self.housekeeping = self.over(self.runner)

    def over(self, runner: HeldRunner | ClosedRunner) -> Housekeeping:
        broker = self.broker
        return Housekeeping(broker.config, broker.log_manager, broker.replica_manager, runner, broker.timer)

    @property
    def log(self) -> UnifiedLog:
        return self.broker.replica_manager.partition("t", 0).log

    def append(self, *values: str) -> None:
        for value in values:
            self.broker.replica_manager.partition("t", 0).append_as_leader(batch(value), -1)

    def advance(self, ms: int) -> None:
        self.broker.env.ms += ms
        self.broker.timer.advance(ms / 1000)

    def files(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}


class ClosedRunner:
    """A BlockingRunner that takes nothing any more."""

    def submit(self, work: Work, done: Done) -> None:
        raise RuntimeError("closed")


def test_the_first_round_comes_after_the_delay_or_the_interval_if_that_is_shorter(tmp_path: Path) -> None:
    settings = {
        "log.initial.task.delay.ms": "3000",
        "log.flush.offset.checkpoint.interval.ms": "5000",
        "replica.high.watermark.checkpoint.interval.ms": "2000",
    }
    harness = HousekeepingHarness(tmp_path, settings)
    runner, rounds = harness.runner, []
    harness.housekeeping.start()
    for _ in range(8):
        harness.advance(1000)
        rounds.append(runner.held)
        runner.release_all()
    # High watermarks at 2, 4, 6, 8 s; recovery points at 3 and 8; the others, whose interval is long, at 3.
    assert rounds == [0, 1, 3, 1, 0, 1, 0, 2]
    harness.broker.kill()


def test_old_segments_go_at_the_retention_interval(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"log.initial.task.delay.ms": "10000", "log.retention.check.interval.ms": "60000"}
    harness = HousekeepingHarness(tmp_path, settings, retention_bytes="0")
    caplog.set_level(logging.INFO, "barnabas.housekeeping")
    harness.housekeeping.start()
    for wait_ms, start in [(10_000, 1), (60_000, 2)]:
        harness.append("x")
        harness.log.roll()
        harness.advance(wait_ms - 1)
        assert harness.log.log_start_offset == start - 1
        harness.advance(1)
        assert harness.log.log_start_offset == start
    harness.advance(60_000)  # nothing to let go of, nothing to say
    assert caplog.messages == ["retention deleted 1 segments"] * 2
    harness.broker.kill()


def test_logs_are_synced_when_their_time_is_over(tmp_path: Path) -> None:
    settings = {"log.flush.scheduler.interval.ms": "500"}
    harness = HousekeepingHarness(tmp_path, settings, flush_ms="1000")
    harness.housekeeping.start()
    harness.append("a", "b")
    harness.advance(999)
    assert harness.log.recovery_point == 0
    harness.advance(501)
    assert harness.log.recovery_point == 2
    harness.broker.kill()


def test_what_never_is_due_is_not_scheduled(tmp_path: Path) -> None:
    """Which flushes by time are, by default."""
    harness = HousekeepingHarness(tmp_path)
    before = harness.broker.timer.scheduled
    harness.housekeeping.start()
    assert harness.broker.timer.scheduled == before + 8  # seven chores, and the deletions
    often = HousekeepingHarness(tmp_path / "often", {"log.flush.scheduler.interval.ms": "500"})
    before = often.broker.timer.scheduled
    often.housekeeping.start()
    assert often.broker.timer.scheduled == before + 9
    harness.broker.kill()
    often.broker.kill()


def test_deleted_files_go_when_their_delay_is_over(tmp_path: Path) -> None:
    harness = HousekeepingHarness(tmp_path, {"log.segment.delete.delay.ms": "2000"})
    harness.housekeeping.start()
    doomed = DeleteTopicsRequest(topic_names=["t"])
    assert harness.broker.client(version=1) >> doomed << Like(responses=[Like(error_code=0)])
    (renamed,) = (name for name in harness.files() if name.endswith("-delete"))
    harness.advance(1999)
    assert harness.runner.held == 0
    harness.advance(1)
    assert harness.runner.held == 1
    assert renamed in harness.files()
    harness.runner.release_all()
    assert renamed not in harness.files()
    harness.broker.kill()


@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("log.flush.offset.checkpoint.interval.ms", "recovery-point-offset-checkpoint"),
        ("log.flush.start.offset.checkpoint.interval.ms", "log-start-offset-checkpoint"),
        ("replica.high.watermark.checkpoint.interval.ms", "replication-offset-checkpoint"),
    ],
)
def test_checkpoints_are_written_by_the_runner(tmp_path: Path, key: str, file: str) -> None:
    harness = HousekeepingHarness(tmp_path, {key: "1000"})
    path = tmp_path / file
    path.unlink(missing_ok=True)
    harness.append("a")
    harness.housekeeping.start()
    harness.advance(1000)
    assert harness.runner.held == 1
    assert not path.exists()
    harness.runner.release()
    assert path.exists()
    harness.broker.kill()


def test_producers_who_are_silent_are_forgotten(tmp_path: Path) -> None:
    settings = {"producer.id.expiration.ms": "5000", "producer.id.expiration.check.interval.ms": "2000"}
    harness = HousekeepingHarness(tmp_path, settings)
    harness.housekeeping.start()
    records = batch("x", producer_id=7, producer_epoch=0, base_sequence=0)
    harness.broker.replica_manager.partition("t", 0).append_as_leader(records, -1)
    harness.advance(4000)
    assert 7 in harness.log.producer_state_manager.producers
    harness.advance(2000)
    assert 7 not in harness.log.producer_state_manager.producers
    harness.broker.kill()


@pytest.mark.parametrize(
    ("interval", "what"),
    [
        ("log.flush.offset.checkpoint.interval.ms", "writing recovery points"),
        ("log.flush.start.offset.checkpoint.interval.ms", "writing log start offsets"),
        ("replica.high.watermark.checkpoint.interval.ms", "writing high watermarks"),
    ],
)
def test_a_checkpoint_that_fails_takes_its_directory_offline(
    tmp_path: Path, interval: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = HousekeepingHarness(tmp_path, {interval: "1000"})
    harness.housekeeping.start()
    harness.advance(1000)
    harness.runner.fail(OSError(errno.EIO, "it clicks"))
    assert harness.broker.failed_dirs == [str(tmp_path)]
    assert harness.broker.replica_manager.is_offline("t", 0)
    assert [what in message for message in caplog.messages] == [True]
    harness.advance(1000)  # nothing is written there any more
    assert harness.runner.held == 0
    harness.broker.kill()


def test_a_deletion_that_fails_takes_its_directory_offline(tmp_path: Path) -> None:
    harness = HousekeepingHarness(tmp_path, None, **{"file.delete.delay.ms": "1000"})
    harness.housekeeping.start()
    harness.broker.replica_manager.log_manager.delete_log("t", 0)
    harness.advance(1000)
    harness.runner.fail(OSError(errno.EIO, "it clicks"))
    assert harness.broker.failed_dirs == [str(tmp_path)]
    harness.broker.kill()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_is_no_fault_of_the_disk_is_said_and_tried_again(
    tmp_path: Path, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is full, or a process that has as many files and connections open as it may."""
    harness = HousekeepingHarness(tmp_path, {"log.flush.offset.checkpoint.interval.ms": "1000"})
    harness.housekeeping.start()
    harness.advance(1000)
    harness.runner.fail(OSError(code, "not now"))
    assert caplog.messages == [f"writing recovery points failed: [Errno {code}] not now"]
    assert harness.broker.failed_dirs == []
    harness.advance(1000)
    harness.runner.release()
    assert len(caplog.messages) == 1
    harness.broker.kill()


def test_a_bug_in_one_round_does_not_prevent_the_next(tmp_path: Path) -> None:
    harness = HousekeepingHarness(tmp_path, {"log.flush.offset.checkpoint.interval.ms": "1000"})
    harness.over(ClosedRunner()).start()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="closed"):
            harness.advance(1000)
    harness.broker.kill()


def test_after_the_stop_nothing_is_scheduled(tmp_path: Path) -> None:
    harness = HousekeepingHarness(tmp_path, {"log.flush.offset.checkpoint.interval.ms": "1000"})
    before = harness.broker.timer.scheduled
    harness.housekeeping.start()
    harness.advance(5000)
    harness.runner.release_all()
    harness.housekeeping.stop()
    assert harness.broker.timer.scheduled == before
    harness.advance(200_000_000)
    assert harness.runner.held == 0
    harness.broker.kill()
