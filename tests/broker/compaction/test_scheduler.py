"""Compaction in the life of a broker: when it begins, how it ends, and what may come between."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.dynamic import apply_dynamic_settings
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.storage.env import RealEnv, RealFile
from barnabas.storage.log.cleaning_plan import CleaningPlan
from barnabas.storage.worker_messages import Failed, FailureKind
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.compaction.cleaner_harness import BACKOFF_S, CleanerHarness
from tests.broker.logs import ManualEnv
from tests.broker.turned_disk import TurnedDisk
from tests.storage.compacting import contents
from tests.storage.fault_env import Fault
from tests.support.difference import Like

LAST_OFFSETS = [16, 17, 18, 19, 20, 21]
"""What is left of 22 records with four keys in turn: the last of each, and the active segment."""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[CleanerHarness]:
    harness = CleanerHarness(tmp_path)
    yield harness
    harness.broker.kill()


# ---- when


def test_a_log_is_compacted(harness: CleanerHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.fill(22)
    assert harness.log.segment_count == 5
    harness.advance(BACKOFF_S - 0.1)
    assert not harness.runner.held
    harness.advance(0.1)
    harness.runner.release_all()
    (cleaning,) = harness.cleaner.running
    assert cleaning.phase.value == "cleaning"
    with caplog.at_level(logging.INFO):
        harness.workers.last.finish()
        harness.settle()
    assert not harness.cleaner.running
    assert harness.offsets() == LAST_OFFSETS
    assert harness.leftovers() == []
    assert "t 0 20" in (harness.directory / "cleaner-offset-checkpoint").read_text()
    line = next(message for message in caplog.messages if message.startswith("compacted t-0"))
    assert "dirty offsets 0 to 20" in line
    assert "20 records became" in line


def test_appends_and_reads_go_on_meanwhile(harness: CleanerHarness) -> None:
    worker = harness.begin()
    harness.fill(3)
    answer = worker.work()
    harness.fill(3)
    worker.answer(answer)
    harness.fill(3)
    harness.runner.release()
    harness.fill(3)
    harness.settle()
    assert harness.offsets() == [16, 17, 18, 19, *range(20, 34)]


def test_what_is_left_is_looked_for_at_once(harness: CleanerHarness) -> None:
    """One log after the other, without a rest between them."""
    harness.broker.create_topic("u", cleanup_policy="compact", internal_segment_bytes="1000")
    harness.fill(22, "u")
    harness.begin().finish()
    harness.settle()
    harness.settle()
    assert len(harness.workers.all) == 2
    harness.workers.last.finish()
    harness.settle()
    assert harness.cleaner.last.cleanings == 2
    assert not harness.cleaner.running


def test_as_many_at_a_time_as_there_are_threads(tmp_path: Path) -> None:
    harness = CleanerHarness(
        tmp_path, {"log.cleaner.threads": "2", "log.cleaner.io.max.bytes.per.second": "1e9"}
    )
    for topic in ("u", "v"):
        harness.broker.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="1000")
        harness.fill(22, topic)
    harness.begin()
    assert sorted(cleaning.slot for cleaning in harness.cleaner.running) == [0, 1]
    for worker in harness.workers.all:
        plan: CleaningPlan = worker.job.argument
        assert plan.max_io_bytes_per_second == 5e8
        assert plan.dedupe_buffer_bytes == (4 << 20) // 2
        assert plan.io_buffer_bytes == (512 << 10) // 2 // 2
    harness.workers.all[0].finish()
    harness.settle()
    harness.settle()
    assert sorted(cleaning.slot for cleaning in harness.cleaner.running) == [0, 1]
    harness.broker.kill()


@pytest.mark.parametrize("setting", ["log.cleaner.enable=false", "log.cleaner.threads=0"])
def test_it_can_be_turned_off(tmp_path: Path, setting: str, caplog: pytest.LogCaptureFixture) -> None:
    key, _, value = setting.partition("=")
    harness = CleanerHarness(tmp_path, {key: value}, cleanup_policy="compact,delete", retention_ms="1000")
    harness.fill(22)
    harness.advance(1000)
    assert not harness.runner.held
    assert not harness.workers.all
    assert "compaction is off" in caplog.text
    assert harness.broker.log_manager.cleanup_logs() > 0, "what is to be deleted still is"
    harness.broker.kill()


def test_retention_of_compacted_logs_comes_with_it(tmp_path: Path) -> None:
    harness = CleanerHarness(tmp_path, cleanup_policy="compact,delete", retention_ms="60000")
    harness.broker.env.ms = time.time_ns() // 1_000_000  # an empty segment goes by the time of its file
    harness.begin()
    harness.advance(100)
    assert harness.log.log_start_offset == 0, "while it is compacted it is not deleted from"
    harness.workers.last.finish()
    harness.settle()
    harness.advance()
    assert harness.log.log_start_offset == 22
    harness.broker.kill()


def test_a_look_is_taken_now_and_then_even_when_a_cleaning_takes_long(
    harness: CleanerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    worker = harness.begin()
    worker.on_progress(0.42)
    with caplog.at_level(logging.INFO):
        harness.advance()
        harness.advance()
    assert caplog.messages == ["compacting t-0: cleaning, 42 % after 30 s"]
    harness.advance()
    assert len(caplog.messages) == 1


# ---- failures


def test_a_worker_that_dies_spoils_nothing(harness: CleanerHarness, caplog: pytest.LogCaptureFixture) -> None:
    worker = harness.begin()
    worker.work()
    assert harness.leftovers()
    worker.die()
    harness.settle()
    assert harness.leftovers() == []
    assert harness.offsets() == list(range(22))
    assert "it is retried in 15 s: worker process 7 was ended by signal 9" in caplog.text
    assert harness.cleaner.last.dead_worker_count == 1
    harness.advance()
    harness.runner.release_all()
    assert len(harness.workers.all) == 2
    harness.workers.last.finish()
    harness.settle()
    assert harness.offsets() == LAST_OFFSETS
    assert harness.cleaner.last.dead_worker_count == 0


@pytest.mark.parametrize("kind", [FailureKind.MEMORY, FailureKind.DISK])
def test_what_may_pass_is_tried_again(harness: CleanerHarness, kind: FailureKind) -> None:
    harness.begin().answer(Failed(kind, "not now", ""))
    harness.settle()
    harness.advance()
    harness.runner.release_all()
    assert len(harness.workers.all) == 2


def test_a_directory_that_another_worker_still_has_is_tried_again_soon(
    harness: CleanerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.begin().answer(Failed(FailureKind.BUSY, "another process", ""))
    harness.settle()
    harness.advance()
    harness.runner.release_all()
    assert len(harness.workers.all) == 2
    assert "another process" not in caplog.text


def test_nothing_is_swapped_while_another_worker_may_write(harness: CleanerHarness) -> None:
    """One that a dead broker has left behind: what it leaves would have a crash take back the wrong files."""
    worker = harness.begin()
    answer = worker.work()
    lock = harness.broker.env.lock_dir(str(harness.directory / "t-0"))
    assert lock is not None
    worker.answer(answer)
    harness.settle()
    assert harness.offsets() == list(range(22))
    assert harness.leftovers() == []
    lock.release()
    harness.advance()
    harness.runner.release_all()
    harness.workers.last.finish()
    harness.settle()
    assert harness.offsets() == LAST_OFFSETS


def test_what_such_a_worker_has_left_goes_before_the_swap(harness: CleanerHarness) -> None:
    worker = harness.begin()
    answer = worker.work()
    (harness.directory / "t-0" / f"{1:020d}.log.cleaned").write_bytes(b"a stray")
    worker.answer(answer)
    harness.runner.release()
    assert f"{1:020d}.log.cleaned" not in harness.leftovers()
    harness.settle()
    assert harness.offsets() == LAST_OFFSETS
    assert harness.leftovers() == []
    lock = harness.broker.env.lock_dir(str(harness.directory / "t-0"))
    assert lock is not None, "the directory was given back"
    lock.release()


def test_what_would_fail_again_is_left_alone(
    harness: CleanerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.begin().answer(Failed(FailureKind.JOB, "CorruptRecordError: rot", "Traceback: here"))
    harness.settle()
    harness.advance(10_000)
    harness.runner.release_all()
    assert len(harness.workers.all) == 1
    assert harness.cleaner.manager.is_uncleanable(("t", 0))
    assert "Traceback: here" in caplog.text
    assert "uncleanable: CorruptRecordError: rot" in caplog.text
    harness.fill(1)


def test_files_that_cannot_be_looked_at(harness: CleanerHarness) -> None:
    harness.fill(22)
    harness.advance()
    harness.runner.fail(OSError(errno.EIO, "no"))
    harness.settle()
    assert not harness.workers.all
    harness.advance()
    harness.runner.release_all()
    assert len(harness.workers.all) == 1


def test_a_swap_that_cannot_be_prepared(harness: CleanerHarness) -> None:
    harness.begin().finish()
    harness.runner.fail(OSError(errno.EIO, "no"))
    harness.settle()
    assert harness.offsets() == list(range(22))
    assert harness.leftovers() == []
    assert not harness.log.is_failed


def test_a_swap_that_fails_half_way_takes_the_directory_offline(
    harness: CleanerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def rename(self: ManualEnv, source: str, target: str) -> None:
        if source.endswith(".log.swap"):
            raise OSError(errno.EIO, "the disk has gone")
        RealEnv.rename(self, source, target)

    harness.begin().finish()
    monkeypatch.setattr(ManualEnv, "rename", rename)
    harness.settle()
    assert not harness.cleaner.running
    assert harness.log.is_failed
    assert harness.broker.failed_dirs == [str(harness.directory)]
    assert "cannot be swapped in" in caplog.text
    monkeypatch.undo()
    harness.broker.kill()
    again = InProcessBroker(harness.directory)
    found = list(contents(again.replica_manager.partition("t", 0).log))
    assert found == list(range(5, 22)), "the first segment was compacted, and that is completed"
    again.kill()


@pytest.mark.parametrize("moment", ["when nothing is to be compacted any more", "when the disk fails"])
def test_a_swap_that_cannot_be_taken_back_takes_the_directory_offline(
    harness: CleanerHarness, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The next start would complete it, whatever has been cut off or decided since."""

    def rename(self: ManualEnv, source: str, target: str) -> None:
        if source.endswith(".log.swap"):
            raise OSError(errno.EIO, "the disk has gone")
        RealEnv.rename(self, source, target)

    harness.begin().finish()
    harness.runner.release()  # the directory is claimed
    swap = harness.cleaner.running[0].swap
    assert swap is not None
    swap.run()
    monkeypatch.setattr(ManualEnv, "rename", rename)
    log_manager = harness.broker.log_manager
    if moment == "when the disk fails":
        log_manager.log_dir_failed(str(harness.directory), "a test says so")
    else:
        log_manager.update_configs(lambda log: log.config._replace(cleanup_policy=frozenset({"delete"})))
    assert harness.broker.failed_dirs == [str(harness.directory)]
    harness.settle()
    assert not harness.cleaner.running
    monkeypatch.undo()
    harness.broker.kill()


def test_a_sync_that_fails_takes_the_directory_offline(
    harness: CleanerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cleaning went by may be lost, and nobody will say so again."""

    def fail(_: RealFile) -> None:
        raise OSError(errno.EIO, "the disk has gone")

    worker = harness.begin()
    answer = worker.work()
    monkeypatch.setattr(RealFile, "sync", fail)
    worker.answer(answer)
    harness.settle()
    assert harness.broker.failed_dirs == [str(harness.directory)]
    assert harness.leftovers() == []


NEEDS_A_DESCRIPTOR = frozenset({"open", "map", "sync_dir", "lock_dir", "listdir", "read_file"})


@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_cleaning_waits_for_descriptors(*, is_lasting: bool) -> None:
    """Whichever of its files cannot be opened, that one or all from there on: the disk is not to blame."""
    number, was_hit = 0, True
    while was_hit:
        disk = TurnedDisk()
        harness = CleanerHarness(Path("/disk"), env=disk)
        harness.fill(22)
        was_hit = compacted_without_descriptor(harness, disk, number, is_lasting=is_lasting)
        assert harness.broker.failed_dirs == [], number
        assert not harness.cleaner.manager.is_uncleanable(("t", 0)), number
        harness.advance(1000)
        finish_cleanings(harness)
        assert harness.offsets() == LAST_OFFSETS, number
        assert not [name for name in disk.listdir("/disk/t-0") if name.endswith((".cleaned", ".swap"))]
        harness.broker.kill()
        number += 1
    assert number > 20


def compacted_without_descriptor(
    harness: CleanerHarness, disk: TurnedDisk, number: int, *, is_lasting: bool
) -> bool:
    """Whether the cleaning came to its `number`th file that has to be opened, for which there was no descriptor."""
    count = 0

    def plan(_: int, kind: str, __: str) -> Fault | None:
        nonlocal count
        if kind not in NEEDS_A_DESCRIPTOR:
            return None
        count += 1
        is_hit = count > number if is_lasting else count == number + 1
        return Fault(errno.EMFILE) if is_hit else None

    disk.inject(plan)
    harness.advance()
    finish_cleanings(harness)
    disk.inject(None)
    return count > number


def finish_cleanings(harness: CleanerHarness) -> None:
    """Has everything done that has begun, by threads and workers."""
    harness.settle()
    for worker in harness.workers.all:
        if not worker.has_answered:
            worker.finish()
            harness.settle()


def test_a_log_that_changed_behind_its_back_is_not_touched(harness: CleanerHarness) -> None:
    worker = harness.begin()
    worker.work()
    answer = worker.work()
    harness.log._local.segments.remove(harness.log.segments[1])
    worker.answer(answer)
    harness.settle()
    assert harness.leftovers() == []
    assert harness.cleaner.manager._retries


# ---- called off


def delete_topic(harness: CleanerHarness) -> None:
    client = harness.broker.client(version=5)
    assert client >> DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000) << Like()


@pytest.mark.parametrize("moment", ["survey", "clean", "swap", "after the swap was prepared"])
def test_a_topic_that_is_deleted_and_comes_back(harness: CleanerHarness, moment: str) -> None:
    harness.fill(22)
    harness.advance()
    if moment != "survey":
        harness.runner.release_all()
        worker = harness.workers.last
        answer = worker.work()
        if moment != "clean":
            worker.answer(answer)
            if moment != "swap":
                # The thread has done its part, and the loop does not know yet.
                harness.runner.release()  # the directory is claimed
                swap = harness.cleaner.running[0].swap
                assert swap is not None
                swap.run()
    delete_topic(harness)
    harness.broker.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    harness.fill(12)
    if moment == "clean":
        assert worker.is_killed
        worker.die()
    harness.runner.release_all()
    assert not harness.cleaner.running
    assert harness.offsets() == list(range(12))
    assert not any(name.endswith(".swap") for name in harness.leftovers() if "delete" not in name)
    harness.settle()
    harness.runner.release_all()
    harness.workers.last.finish()
    harness.settle()
    assert harness.offsets() == [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("moment", ["clean", "swap", "after the swap was prepared"])
def test_a_log_that_is_truncated(harness: CleanerHarness, moment: str) -> None:
    worker = harness.begin()
    answer = worker.work()
    if moment != "clean":
        worker.answer(answer)
        if moment != "swap":
            harness.runner.release()  # the directory is claimed
            swap = harness.cleaner.running[0].swap
            assert swap is not None
            swap.run()
            assert any(name.endswith(".swap") for name in harness.leftovers())
    harness.broker.log_manager.truncate_to(harness.log, 12)
    assert not any(name.endswith(".swap") for name in harness.leftovers())
    if moment == "clean":
        assert worker.is_killed
        worker.answer(answer)  # it had done its work in the same moment
    harness.settle()
    assert harness.offsets() == list(range(12))
    assert harness.leftovers() == []
    harness.advance()
    harness.runner.release_all()
    assert len(harness.workers.all) == 2


def test_a_failed_directory_ends_it(harness: CleanerHarness) -> None:
    worker = harness.begin()
    harness.cleaner.manager.handle_log_dir_failure(str(harness.directory))
    assert worker.is_killed
    worker.die()
    harness.settle()
    harness.advance(10_000)
    harness.runner.release_all()
    assert len(harness.workers.all) == 1


def test_a_log_that_goes_offline_takes_no_result(harness: CleanerHarness) -> None:
    worker = harness.begin()
    answer = worker.work()
    harness.log.fail("a test says so")
    worker.answer(answer)
    harness.settle()
    assert harness.leftovers() == []
    assert not harness.broker.failed_dirs


async def test_the_end_calls_everything_off(harness: CleanerHarness) -> None:
    worker = harness.begin()
    await harness.cleaner.stop()
    assert worker.is_killed
    assert harness.workers.is_closed
    worker.die()
    harness.settle()
    harness.advance(1000)
    assert not harness.cleaner.running
    assert not harness.runner.held
    harness.cleaner.check_logs()
    assert not harness.runner.held


async def test_the_end_takes_a_swap_back(harness: CleanerHarness) -> None:
    harness.begin().finish()
    harness.runner.release()
    harness.log.flush()
    await harness.cleaner.stop()
    harness.settle()
    assert harness.leftovers() == []


# ---- changes of log.cleaner.*


def change(harness: CleanerHarness, **settings: str) -> None:
    """Sets dynamic keys, their dots written as underscores, in place of those before."""
    texts = {key.replace("_", "."): text for key, text in settings.items()}
    assert apply_dynamic_settings(harness.broker.config, {}, texts) == []
    harness.cleaner.reconfigure()


def test_more_threads_take_more_logs_at_once(harness: CleanerHarness) -> None:
    for topic in ("u", "v"):
        harness.broker.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="1000")
        harness.fill(22, topic)
    harness.begin()
    assert len(harness.cleaner.running) == 1
    change(harness, log_cleaner_threads="2")
    harness.settle()
    assert len(harness.cleaner.running) == 2


def test_a_cleaning_is_begun_anew_with_other_limits(harness: CleanerHarness) -> None:
    first = harness.begin()
    change(harness, log_cleaner_io_max_bytes_per_second="1000000", log_cleaner_io_buffer_size="100000")
    assert first.is_killed
    first.die()
    harness.settle()
    harness.settle()
    plan: CleaningPlan = harness.workers.last.job.argument
    assert harness.workers.last is not first
    assert (plan.max_io_bytes_per_second, plan.io_buffer_bytes) == (1_000_000, 50_000)
    harness.workers.last.finish()
    harness.settle()
    assert harness.offsets() == LAST_OFFSETS


def test_a_cleaning_goes_on_where_its_limits_stay(harness: CleanerHarness) -> None:
    worker = harness.begin()
    change(harness, log_cleaner_backoff_ms="7000")
    assert not worker.is_killed
    worker.finish()
    harness.settle()
    assert harness.offsets() == LAST_OFFSETS


def test_threads_that_come_where_there_were_none_start_compaction(tmp_path: Path) -> None:
    harness = CleanerHarness(tmp_path, {"log.cleaner.threads": "0"})
    harness.fill(22)
    harness.advance(1000)
    assert harness.cleaner.running == []
    change(harness, log_cleaner_threads="1")
    harness.advance(0)
    harness.runner.release_all()
    harness.workers.last.finish()
    harness.settle()
    assert harness.offsets() == LAST_OFFSETS
    harness.fill(22)
    harness.advance()
    assert harness.cleaner.running, "and it goes on at log.cleaner.backoff.ms"
    harness.broker.kill()


def test_threads_start_nothing_where_compaction_is_disabled(tmp_path: Path) -> None:
    harness = CleanerHarness(tmp_path, {"log.cleaner.threads": "0", "log.cleaner.enable": "false"})
    harness.fill(22)
    change(harness, log_cleaner_threads="1")
    harness.advance(1000)
    assert harness.cleaner.running == []
    harness.broker.kill()


def test_nothing_is_scheduled_before_the_start(tmp_path: Path) -> None:
    """The stored configuration is applied before the logs may be compacted."""
    harness = CleanerHarness(tmp_path, {"log.cleaner.threads": "0"}, starts=False)
    harness.fill(22)
    change(harness, log_cleaner_threads="1")
    harness.advance(1000)
    assert harness.cleaner.running == []
    harness.cleaner.start()
    harness.advance()
    assert harness.cleaner.running
    harness.broker.kill()


def test_without_threads_compaction_ends_and_retention_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No client can ask for that; the metadata of another version may hold it."""
    harness = CleanerHarness(tmp_path, cleanup_policy="compact,delete", retention_ms="1000")
    worker = harness.begin()
    change(harness, log_cleaner_threads="0")
    assert worker.is_killed
    worker.die()
    harness.settle()
    harness.advance(1000)
    assert harness.cleaner.running == []
    assert "compaction is off" in caplog.text
    assert harness.broker.log_manager.cleanup_logs() > 0
    harness.broker.kill()


def test_another_backoff_holds_from_the_next_look_on(harness: CleanerHarness) -> None:
    change(harness, log_cleaner_backoff_ms="100")
    harness.advance(0)
    harness.fill(22)
    harness.advance(0.1)
    harness.runner.release_all()
    assert harness.cleaner.running
