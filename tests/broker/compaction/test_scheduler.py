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
from tests.broker.compaction.cleaner_harness import BACKOFF_S, CleanerHouse
from tests.broker.logs import ManualEnv
from tests.broker.turned_disk import TurnedDisk
from tests.storage.compacting import contents
from tests.storage.fault_env import Fault
from tests.support.difference import Like

LAST_OFFSETS = [16, 17, 18, 19, 20, 21]
"""What is left of 22 records with four keys in turn: the last of each, and the active segment."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[CleanerHouse]:
    house = CleanerHouse(tmp_path)
    yield house
    house.broker.kill()


# ---- when


def test_a_log_is_compacted(house: CleanerHouse, caplog: pytest.LogCaptureFixture) -> None:
    house.fill(22)
    assert house.log.segment_count == 5
    house.advance(BACKOFF_S - 0.1)
    assert not house.runner.held
    house.advance(0.1)
    house.runner.release_all()
    (cleaning,) = house.cleaner.running
    assert cleaning.phase.value == "cleaning"
    with caplog.at_level(logging.INFO):
        house.workers.last.finish()
        house.settle()
    assert not house.cleaner.running
    assert house.offsets() == LAST_OFFSETS
    assert house.leftovers() == []
    assert "t 0 20" in (house.directory / "cleaner-offset-checkpoint").read_text()
    line = next(message for message in caplog.messages if message.startswith("compacted t-0"))
    assert "dirty offsets 0 to 20" in line
    assert "20 records became" in line


def test_appends_and_reads_go_on_meanwhile(house: CleanerHouse) -> None:
    worker = house.begin()
    house.fill(3)
    answer = worker.work()
    house.fill(3)
    worker.answer(answer)
    house.fill(3)
    house.runner.release()
    house.fill(3)
    house.settle()
    assert house.offsets() == [16, 17, 18, 19, *range(20, 34)]


def test_what_is_left_is_looked_for_at_once(house: CleanerHouse) -> None:
    """One log after the other, without a rest between them."""
    house.broker.create_topic("u", cleanup_policy="compact", internal_segment_bytes="1000")
    house.fill(22, "u")
    house.begin().finish()
    house.settle()
    house.settle()
    assert len(house.workers.all) == 2
    house.workers.last.finish()
    house.settle()
    assert house.cleaner.last.cleanings == 2
    assert not house.cleaner.running


def test_as_many_at_a_time_as_there_are_threads(tmp_path: Path) -> None:
    house = CleanerHouse(tmp_path, {"log.cleaner.threads": "2", "log.cleaner.io.max.bytes.per.second": "1e9"})
    for topic in ("u", "v"):
        house.broker.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="1000")
        house.fill(22, topic)
    house.begin()
    assert sorted(cleaning.slot for cleaning in house.cleaner.running) == [0, 1]
    for worker in house.workers.all:
        plan: CleaningPlan = worker.job.argument
        assert plan.max_io_bytes_per_second == 5e8
        assert plan.dedupe_buffer_bytes == (4 << 20) // 2
        assert plan.io_buffer_bytes == (512 << 10) // 2 // 2
    house.workers.all[0].finish()
    house.settle()
    house.settle()
    assert sorted(cleaning.slot for cleaning in house.cleaner.running) == [0, 1]
    house.broker.kill()


@pytest.mark.parametrize("setting", ["log.cleaner.enable=false", "log.cleaner.threads=0"])
def test_it_can_be_turned_off(tmp_path: Path, setting: str, caplog: pytest.LogCaptureFixture) -> None:
    key, _, value = setting.partition("=")
    house = CleanerHouse(tmp_path, {key: value}, cleanup_policy="compact,delete", retention_ms="1000")
    house.fill(22)
    house.advance(1000)
    assert not house.runner.held
    assert not house.workers.all
    assert "nothing is compacted" in caplog.text
    assert house.broker.log_manager.cleanup_logs() > 0, "what is to be deleted still is"
    house.broker.kill()


def test_retention_of_compacted_logs_comes_with_it(tmp_path: Path) -> None:
    house = CleanerHouse(tmp_path, cleanup_policy="compact,delete", retention_ms="60000")
    house.broker.env.ms = time.time_ns() // 1_000_000  # an empty segment goes by the time of its file
    house.begin()
    house.advance(100)
    assert house.log.log_start_offset == 0, "while it is compacted it is not deleted from"
    house.workers.last.finish()
    house.settle()
    house.advance()
    assert house.log.log_start_offset == 22
    house.broker.kill()


def test_a_look_is_taken_now_and_then_even_when_a_cleaning_takes_long(
    house: CleanerHouse, caplog: pytest.LogCaptureFixture
) -> None:
    worker = house.begin()
    worker.on_progress(0.42)
    with caplog.at_level(logging.INFO):
        house.advance()
        house.advance()
    assert caplog.messages == ["compacting t-0: cleaning, 42 % after 30 s"]
    house.advance()
    assert len(caplog.messages) == 1


# ---- failures


def test_a_worker_that_dies_spoils_nothing(house: CleanerHouse, caplog: pytest.LogCaptureFixture) -> None:
    worker = house.begin()
    worker.work()
    assert house.leftovers()
    worker.die()
    house.settle()
    assert house.leftovers() == []
    assert house.offsets() == list(range(22))
    assert "tried again in 15 s: worker process 7 was ended by signal 9" in caplog.text
    assert house.cleaner.last.dead_worker_count == 1
    house.advance()
    house.runner.release_all()
    assert len(house.workers.all) == 2
    house.workers.last.finish()
    house.settle()
    assert house.offsets() == LAST_OFFSETS
    assert house.cleaner.last.dead_worker_count == 0


@pytest.mark.parametrize("kind", [FailureKind.MEMORY, FailureKind.DISK])
def test_what_may_pass_is_tried_again(house: CleanerHouse, kind: FailureKind) -> None:
    house.begin().answer(Failed(kind, "not now", ""))
    house.settle()
    house.advance()
    house.runner.release_all()
    assert len(house.workers.all) == 2


def test_a_directory_that_another_worker_still_has_is_tried_again_soon(
    house: CleanerHouse, caplog: pytest.LogCaptureFixture
) -> None:
    house.begin().answer(Failed(FailureKind.BUSY, "another process", ""))
    house.settle()
    house.advance()
    house.runner.release_all()
    assert len(house.workers.all) == 2
    assert "another process" not in caplog.text


def test_nothing_is_swapped_while_another_worker_may_write(house: CleanerHouse) -> None:
    """One that a dead broker has left behind: what it leaves would have a crash take back the wrong files."""
    worker = house.begin()
    answer = worker.work()
    lock = house.broker.env.lock_dir(str(house.directory / "t-0"))
    assert lock is not None
    worker.answer(answer)
    house.settle()
    assert house.offsets() == list(range(22))
    assert house.leftovers() == []
    lock.release()
    house.advance()
    house.runner.release_all()
    house.workers.last.finish()
    house.settle()
    assert house.offsets() == LAST_OFFSETS


def test_what_such_a_worker_has_left_goes_before_the_swap(house: CleanerHouse) -> None:
    worker = house.begin()
    answer = worker.work()
    (house.directory / "t-0" / f"{1:020d}.log.cleaned").write_bytes(b"a stray")
    worker.answer(answer)
    house.runner.release()
    assert f"{1:020d}.log.cleaned" not in house.leftovers()
    house.settle()
    assert house.offsets() == LAST_OFFSETS
    assert house.leftovers() == []
    lock = house.broker.env.lock_dir(str(house.directory / "t-0"))
    assert lock is not None, "the directory was given back"
    lock.release()


def test_what_would_fail_again_is_left_alone(house: CleanerHouse, caplog: pytest.LogCaptureFixture) -> None:
    house.begin().answer(Failed(FailureKind.JOB, "CorruptRecordError: rot", "Traceback: here"))
    house.settle()
    house.advance(10_000)
    house.runner.release_all()
    assert len(house.workers.all) == 1
    assert house.cleaner.manager.is_uncleanable(("t", 0))
    assert "Traceback: here" in caplog.text
    assert "uncleanable: CorruptRecordError: rot" in caplog.text
    house.fill(1)


def test_files_that_cannot_be_looked_at(house: CleanerHouse) -> None:
    house.fill(22)
    house.advance()
    house.runner.fail(OSError(errno.EIO, "no"))
    house.settle()
    assert not house.workers.all
    house.advance()
    house.runner.release_all()
    assert len(house.workers.all) == 1


def test_a_swap_that_cannot_be_prepared(house: CleanerHouse) -> None:
    house.begin().finish()
    house.runner.fail(OSError(errno.EIO, "no"))
    house.settle()
    assert house.offsets() == list(range(22))
    assert house.leftovers() == []
    assert not house.log.is_failed


def test_a_swap_that_fails_half_way_takes_the_directory_offline(
    house: CleanerHouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def rename(self: ManualEnv, source: str, target: str) -> None:
        if source.endswith(".log.swap"):
            raise OSError(errno.EIO, "the disk has gone")
        RealEnv.rename(self, source, target)

    house.begin().finish()
    monkeypatch.setattr(ManualEnv, "rename", rename)
    house.settle()
    assert not house.cleaner.running
    assert house.log.is_failed
    assert house.broker.failed_dirs == [str(house.directory)]
    assert "cannot be swapped in" in caplog.text
    monkeypatch.undo()
    house.broker.kill()
    again = InProcessBroker(house.directory)
    found = list(contents(again.replica_manager.partition("t", 0).log))
    assert found == list(range(5, 22)), "the first segment was compacted, and that is completed"
    again.kill()


@pytest.mark.parametrize("moment", ["when nothing is to be compacted any more", "when the disk fails"])
def test_a_swap_that_cannot_be_taken_back_takes_the_directory_offline(
    house: CleanerHouse, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The next start would complete it, whatever has been cut off or decided since."""

    def rename(self: ManualEnv, source: str, target: str) -> None:
        if source.endswith(".log.swap"):
            raise OSError(errno.EIO, "the disk has gone")
        RealEnv.rename(self, source, target)

    house.begin().finish()
    house.runner.release()  # the directory is claimed
    swap = house.cleaner.running[0].swap
    assert swap is not None
    swap.run()
    monkeypatch.setattr(ManualEnv, "rename", rename)
    log_manager = house.broker.log_manager
    if moment == "when the disk fails":
        log_manager.log_dir_failed(str(house.directory), "a test says so")
    else:
        log_manager.update_configs(lambda log: log.config._replace(cleanup_policy=frozenset({"delete"})))
    assert house.broker.failed_dirs == [str(house.directory)]
    house.settle()
    assert not house.cleaner.running
    monkeypatch.undo()
    house.broker.kill()


def test_a_sync_that_fails_takes_the_directory_offline(
    house: CleanerHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cleaning went by may be lost, and nobody will say so again."""

    def fail(_: RealFile) -> None:
        raise OSError(errno.EIO, "the disk has gone")

    worker = house.begin()
    answer = worker.work()
    monkeypatch.setattr(RealFile, "sync", fail)
    worker.answer(answer)
    house.settle()
    assert house.broker.failed_dirs == [str(house.directory)]
    assert house.leftovers() == []


NEEDS_A_DESCRIPTOR = frozenset({"open", "map", "sync_dir", "lock_dir", "listdir", "read_file"})


@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_cleaning_waits_for_descriptors(*, is_lasting: bool) -> None:
    """Whichever of its files cannot be opened, that one or all from there on: the disk is not to blame."""
    number, was_hit = 0, True
    while was_hit:
        disk = TurnedDisk()
        house = CleanerHouse(Path("/disk"), env=disk)
        house.fill(22)
        was_hit = compacted_without_descriptor(house, disk, number, is_lasting=is_lasting)
        assert house.broker.failed_dirs == [], number
        assert not house.cleaner.manager.is_uncleanable(("t", 0)), number
        house.advance(1000)
        finish_cleanings(house)
        assert house.offsets() == LAST_OFFSETS, number
        assert not [name for name in disk.listdir("/disk/t-0") if name.endswith((".cleaned", ".swap"))]
        house.broker.kill()
        number += 1
    assert number > 20


def compacted_without_descriptor(
    house: CleanerHouse, disk: TurnedDisk, number: int, *, is_lasting: bool
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
    house.advance()
    finish_cleanings(house)
    disk.inject(None)
    return count > number


def finish_cleanings(house: CleanerHouse) -> None:
    """Has everything done that has begun, by threads and workers."""
    house.settle()
    for worker in house.workers.all:
        if not worker.has_answered:
            worker.finish()
            house.settle()


def test_a_log_that_changed_behind_its_back_is_not_touched(house: CleanerHouse) -> None:
    worker = house.begin()
    worker.work()
    answer = worker.work()
    house.log._local.segments.remove(house.log.segments[1])
    worker.answer(answer)
    house.settle()
    assert house.leftovers() == []
    assert house.cleaner.manager._retries


# ---- called off


def delete_topic(house: CleanerHouse) -> None:
    client = house.broker.client(version=5)
    assert client >> DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000) << Like()


@pytest.mark.parametrize("moment", ["survey", "clean", "swap", "after the swap was prepared"])
def test_a_topic_that_is_deleted_and_comes_back(house: CleanerHouse, moment: str) -> None:
    house.fill(22)
    house.advance()
    if moment != "survey":
        house.runner.release_all()
        worker = house.workers.last
        answer = worker.work()
        if moment != "clean":
            worker.answer(answer)
            if moment != "swap":
                # The thread has done its part, and the loop does not know yet.
                house.runner.release()  # the directory is claimed
                swap = house.cleaner.running[0].swap
                assert swap is not None
                swap.run()
    delete_topic(house)
    house.broker.create_topic("t", cleanup_policy="compact", internal_segment_bytes="1000")
    house.fill(12)
    if moment == "clean":
        assert worker.is_killed
        worker.die()
    house.runner.release_all()
    assert not house.cleaner.running
    assert house.offsets() == list(range(12))
    assert not any(name.endswith(".swap") for name in house.leftovers() if "delete" not in name)
    house.settle()
    house.runner.release_all()
    house.workers.last.finish()
    house.settle()
    assert house.offsets() == [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("moment", ["clean", "swap", "after the swap was prepared"])
def test_a_log_that_is_truncated(house: CleanerHouse, moment: str) -> None:
    worker = house.begin()
    answer = worker.work()
    if moment != "clean":
        worker.answer(answer)
        if moment != "swap":
            house.runner.release()  # the directory is claimed
            swap = house.cleaner.running[0].swap
            assert swap is not None
            swap.run()
            assert any(name.endswith(".swap") for name in house.leftovers())
    house.broker.log_manager.truncate_to(house.log, 12)
    assert not any(name.endswith(".swap") for name in house.leftovers())
    if moment == "clean":
        assert worker.is_killed
        worker.answer(answer)  # it had done its work in the same moment
    house.settle()
    assert house.offsets() == list(range(12))
    assert house.leftovers() == []
    house.advance()
    house.runner.release_all()
    assert len(house.workers.all) == 2


def test_a_failed_directory_ends_it(house: CleanerHouse) -> None:
    worker = house.begin()
    house.cleaner.log_dir_failed(str(house.directory))
    assert worker.is_killed
    worker.die()
    house.settle()
    house.advance(10_000)
    house.runner.release_all()
    assert len(house.workers.all) == 1


def test_a_log_that_goes_offline_takes_no_result(house: CleanerHouse) -> None:
    worker = house.begin()
    answer = worker.work()
    house.log.fail("a test says so")
    worker.answer(answer)
    house.settle()
    assert house.leftovers() == []
    assert not house.broker.failed_dirs


async def test_the_end_calls_everything_off(house: CleanerHouse) -> None:
    worker = house.begin()
    await house.cleaner.stop()
    assert worker.is_killed
    assert house.workers.is_closed
    worker.die()
    house.settle()
    house.advance(1000)
    assert not house.cleaner.running
    assert not house.runner.held
    house.cleaner.look()
    assert not house.runner.held


async def test_the_end_takes_a_swap_back(house: CleanerHouse) -> None:
    house.begin().finish()
    house.runner.release()
    house.log.flush()
    await house.cleaner.stop()
    house.settle()
    assert house.leftovers() == []


# ---- changes of log.cleaner.*


def change(house: CleanerHouse, **settings: str) -> None:
    """Sets dynamic keys, their dots written as underscores, in place of those before."""
    texts = {key.replace("_", "."): text for key, text in settings.items()}
    assert apply_dynamic_settings(house.broker.config, {}, texts) == []
    house.cleaner.reconfigure()


def test_more_threads_take_more_logs_at_once(house: CleanerHouse) -> None:
    for topic in ("u", "v"):
        house.broker.create_topic(topic, cleanup_policy="compact", internal_segment_bytes="1000")
        house.fill(22, topic)
    house.begin()
    assert len(house.cleaner.running) == 1
    change(house, log_cleaner_threads="2")
    house.settle()
    assert len(house.cleaner.running) == 2


def test_a_cleaning_is_begun_anew_with_other_limits(house: CleanerHouse) -> None:
    first = house.begin()
    change(house, log_cleaner_io_max_bytes_per_second="1000000", log_cleaner_io_buffer_size="100000")
    assert first.is_killed
    first.die()
    house.settle()
    house.settle()
    plan: CleaningPlan = house.workers.last.job.argument
    assert house.workers.last is not first
    assert (plan.max_io_bytes_per_second, plan.io_buffer_bytes) == (1_000_000, 50_000)
    house.workers.last.finish()
    house.settle()
    assert house.offsets() == LAST_OFFSETS


def test_a_cleaning_goes_on_where_its_limits_stay(house: CleanerHouse) -> None:
    worker = house.begin()
    change(house, log_cleaner_backoff_ms="7000")
    assert not worker.is_killed
    worker.finish()
    house.settle()
    assert house.offsets() == LAST_OFFSETS


def test_threads_that_come_where_there_were_none_start_compaction(tmp_path: Path) -> None:
    house = CleanerHouse(tmp_path, {"log.cleaner.threads": "0"})
    house.fill(22)
    house.advance(1000)
    assert house.cleaner.running == []
    change(house, log_cleaner_threads="1")
    house.advance(0)
    house.runner.release_all()
    house.workers.last.finish()
    house.settle()
    assert house.offsets() == LAST_OFFSETS
    house.fill(22)
    house.advance()
    assert house.cleaner.running, "and it goes on at log.cleaner.backoff.ms"
    house.broker.kill()


def test_threads_start_nothing_where_compaction_is_disabled(tmp_path: Path) -> None:
    house = CleanerHouse(tmp_path, {"log.cleaner.threads": "0", "log.cleaner.enable": "false"})
    house.fill(22)
    change(house, log_cleaner_threads="1")
    house.advance(1000)
    assert house.cleaner.running == []
    house.broker.kill()


def test_nothing_is_scheduled_before_the_start(tmp_path: Path) -> None:
    """The stored configuration is applied before the logs may be compacted."""
    house = CleanerHouse(tmp_path, {"log.cleaner.threads": "0"}, starts=False)
    house.fill(22)
    change(house, log_cleaner_threads="1")
    house.advance(1000)
    assert house.cleaner.running == []
    house.cleaner.start()
    house.advance()
    assert house.cleaner.running
    house.broker.kill()


def test_without_threads_compaction_ends_and_retention_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No client can ask for that; the metadata of another version may hold it."""
    house = CleanerHouse(tmp_path, cleanup_policy="compact,delete", retention_ms="1000")
    worker = house.begin()
    change(house, log_cleaner_threads="0")
    assert worker.is_killed
    worker.die()
    house.settle()
    house.advance(1000)
    assert house.cleaner.running == []
    assert "nothing is compacted" in caplog.text
    assert house.broker.log_manager.cleanup_logs() > 0
    house.broker.kill()


def test_another_backoff_holds_from_the_next_look_on(house: CleanerHouse) -> None:
    change(house, log_cleaner_backoff_ms="100")
    house.advance(0)
    house.fill(22)
    house.advance(0.1)
    house.runner.release_all()
    assert house.cleaner.running
