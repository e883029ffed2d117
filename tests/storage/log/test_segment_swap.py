"""A cleaned segment replaces its sources; whatever interrupts the swap, no key loses its last value."""

import errno
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from barnabas.storage.cleaner.log_to_clean import paths_to_sync
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.cleaning_plan import CleanedSegment
from barnabas.storage.log.segment_swap import (
    DirectoryBusyError,
    SwapClaim,
    SwapPreparation,
    complete_swaps,
    remove_cleaned,
)
from barnabas.storage.offsets import AppendOrigin, FetchIsolation
from tests.storage.compacting import ABORTED, CompactionHarness, contents, last_values, put
from tests.storage.fault_env import Fault, FaultEnv, PowerCut, nth, power_cut
from tests.storage.helpers import append, end_txn, make_batch, names

DIRECTORY = "/a/t-0"


def path(base_offset: int, suffix: str = "log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}.{suffix}"


def new_env() -> FaultEnv:
    env = FaultEnv(seed=1)
    env.mkdir("/a")
    env.sync_dir("/")
    return env


@pytest.fixture
def env() -> FaultEnv:
    return new_env()


@pytest.fixture
def harness(env: FaultEnv) -> CompactionHarness:
    """A log of segments 0, 5, 10, 15 and an active one at 20, with keys in turn."""
    harness = CompactionHarness(env)
    harness.fill(22)
    return harness


def bases(harness: CompactionHarness) -> list[int]:
    return [segment.base_offset for segment in harness.log.segments]


# -- in service --


def test_segments_are_replaced_by_one(harness: CompactionHarness, env: FaultEnv) -> None:
    before = last_values(harness.log)
    assert bases(harness) == [0, 5, 10, 15, 20]
    result = harness.compact()
    assert bases(harness) == [0, 20]
    assert last_values(harness.log) == before
    assert list(contents(harness.log)) == [16, 17, 18, 19, 20, 21]
    assert harness.checkpoint == result.next_first_dirty_offset == 20
    assert harness.log.log_end_offset == 22
    assert harness.log.size == sum(env.size(path(base)) for base in (0, 20))
    assert not [name for name in names(env, DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_the_old_files_are_removed_after_the_delay(harness: CompactionHarness, env: FaultEnv) -> None:
    harness.compact()
    assert env.exists(path(5, "log.deleted"))
    env.time_ms += harness.log.config.file_delete_delay_ms
    for deletion in harness.manager.take_due_deletions():
        deletion.run()
    assert not [name for name in names(env, DIRECTORY) if name.endswith(".deleted")]


def test_a_read_before_the_swap_stays_readable(harness: CompactionHarness) -> None:
    old = harness.log.read(0, 10_000, FetchIsolation.LOG_END, min_one_message=True).records
    wanted = old.read()
    harness.compact()
    assert old.read() == wanted


def test_a_read_from_a_gap_returns_the_next_record(harness: CompactionHarness) -> None:
    harness.compact()
    found = harness.log.read(3, 10_000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert found.records.read()[:8] == (16).to_bytes(8, "big")


def test_a_search_by_time_uses_the_new_segment(env: FaultEnv) -> None:
    harness = CompactionHarness(env)
    for number in range(12):
        put(harness.log, b"key %d" % (number % 2), b"v" * 100, timestamp=1_700_000_000_000 + number)
    harness.compact()
    found = harness.log.fetch_offset_by_timestamp(1_700_000_000_003)
    assert found is not None
    assert found.offset == min(contents(harness.log))


def test_snapshots_of_replaced_segments_are_removed(harness: CompactionHarness, env: FaultEnv) -> None:
    assert harness.log.producer_state_manager.snapshots.offsets == [5, 10, 15, 20]
    harness.compact()
    assert harness.log.producer_state_manager.snapshots.offsets == [20]
    assert env.exists(path(5, "snapshot.deleted"))


def test_a_high_watermark_in_an_old_segment_is_looked_up_again(env: FaultEnv) -> None:
    """It was a position in a segment that was active then, and is shorter now."""
    harness = CompactionHarness(env)
    harness.fill(10)
    assert harness.log.high_watermark_metadata.segment_base_offset == 5
    harness.log.append_as_leader(make_batch(b"x" * 120, key=b"not replicated yet"), 0)
    harness.log.offsets.first_unstable_offset = None
    assert bases(harness) == [0, 5, 10]
    harness.compact()
    metadata = harness.log.high_watermark_metadata
    assert (metadata.message_offset, metadata.segment_base_offset, metadata.position) == (10, 10, 0)
    visible = harness.log.read(0, 100_000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert visible.records.position + visible.records.size <= env.size(path(0))


def test_a_flush_under_way_completes(harness: CompactionHarness) -> None:
    job = harness.log.prepare_flush()
    harness.compact()
    job.run()
    harness.log.complete_flush(job)
    assert harness.log.recovery_point == 22
    assert not harness.log._local.has_unflushed


def test_retention_truncation_and_appends_after_a_swap(harness: CompactionHarness) -> None:
    harness.compact()
    harness.fill(10)
    harness.manager.truncate_to(harness.log, 25)
    assert harness.log.log_end_offset == 25
    assert list(contents(harness.log)) == [*range(16, 25)]
    harness.compact()
    assert list(contents(harness.log)) == [21, 22, 23, 24]
    harness.manager.truncate_to(harness.log, 22)
    assert list(contents(harness.log)) == [21]
    assert harness.checkpoint == 0


def test_repeated_swaps(harness: CompactionHarness) -> None:
    for _ in range(5):
        harness.fill(11)
        before = last_values(harness.log)
        harness.compact()
        assert last_values(harness.log) == before
    assert len(bases(harness)) <= 4


def test_missing_segments_are_not_replaced(harness: CompactionHarness, env: FaultEnv) -> None:
    before = dict(contents(harness.log))
    for replaces in ((0, 10), (5, 10, 15, 20), (1, 5), (30,), (15, 20)):
        assert not harness.log.replace_segments(CleanedSegment(replaces[0], 1, replaces))
    assert contents(harness.log) == before
    assert not [name for name in names(env, DIRECTORY) if name.endswith(".deleted")]


def test_an_offline_log_rejects_a_swap(harness: CompactionHarness) -> None:
    harness.log.fail("a test says so")
    with pytest.raises(KafkaStorageError):
        harness.log.replace_segments(CleanedSegment(0, 1, (0,)))


def test_a_disk_failure_in_the_swap_takes_the_log_offline(harness: CompactionHarness, env: FaultEnv) -> None:
    found = harness.grab()
    result = harness.clean(found)
    swap = SwapPreparation(env, DIRECTORY, result.segments[0])
    swap.run()
    before = last_values(harness.log)
    env.inject(lambda _, kind, where: Fault() if kind == "rename" and where.endswith(".swap") else None)
    with pytest.raises(KafkaStorageError, match="swapping"):
        harness.log.replace_segments(result.segments[0])
    assert harness.log.is_failed
    env.kill()
    again = CompactionHarness(env)
    assert last_values(again.log) == before
    assert bases(again) == [0, 20]


# -- the claim of the directory --


def test_stray_files_are_removed_before_a_swap(harness: CompactionHarness, env: FaultEnv) -> None:
    result = harness.clean(harness.grab())
    ours = [name for name in names(env, DIRECTORY) if name.endswith(".cleaned")]
    env.write_file(path(3, "log.cleaned"), b"stray")
    env.write_file(f"{DIRECTORY}/odd.cleaned", b"stray")
    claim = SwapClaim(env, DIRECTORY, result.segments)
    claim.run()
    assert [name for name in names(env, DIRECTORY) if name.endswith(".cleaned")] == ours
    assert env.lock_dir(DIRECTORY) is None
    claim.release()
    claim.release()
    assert env.lock_dir(DIRECTORY) is not None


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_superseding_record_is_synced_before_the_old_one_is_removed(env: FaultEnv, is_synced: bool) -> None:
    """A power cut after the first segment is swapped in, while later ones are written but not synced."""
    harness = CompactionHarness(env, group_bytes=900)
    harness.fill(4)
    harness.log.flush()
    durable = last_values(harness.log)
    harness.fill(18)
    found = harness.grab()
    result = harness.clean(found)
    SwapClaim(env, DIRECTORY, result.segments, paths_to_sync(found) if is_synced else ()).run()
    SwapPreparation(env, DIRECTORY, result.segments[0]).run()
    harness.log.replace_segments(result.segments[0])
    env.crash()
    left_over = last_values(CompactionHarness(env).log).keys()
    assert (left_over == durable.keys()) is is_synced, "without the sync the keys would be gone"


def test_a_sync_that_fails_is_remembered(harness: CompactionHarness, env: FaultEnv) -> None:
    found = harness.grab()
    result = harness.clean(found)
    claim = SwapClaim(env, DIRECTORY, result.segments, paths_to_sync(found))
    env.inject(lambda _, kind, __: Fault() if kind == "sync" else None)
    with pytest.raises(OSError, match="injected"):
        claim.run()
    assert claim.has_sync_failed


@pytest.mark.parametrize("kind", ["open", "sync_dir"])
def test_a_sync_without_a_descriptor_is_repeated_by_the_next_claim(
    harness: CompactionHarness, env: FaultEnv, kind: str
) -> None:
    """No fsync failed, so nothing can be lost."""
    found = harness.grab()
    result = harness.clean(found)
    claim = SwapClaim(env, DIRECTORY, result.segments, paths_to_sync(found))
    env.inject(lambda _, wanted, __: Fault(errno.EMFILE) if wanted == kind else None)
    with pytest.raises(OSError, match="injected"):
        claim.run()
    claim.release()
    assert not claim.has_sync_failed
    env.inject(None)
    again = SwapClaim(env, DIRECTORY, result.segments, paths_to_sync(found))
    again.run()
    env.crash()
    assert list(contents(CompactionHarness(env).log)) == list(range(20)), "all that was read is on the disk"


def test_flushed_files_are_not_synced_again(harness: CompactionHarness) -> None:
    found = harness.grab()
    assert [path[-24:] for path in paths_to_sync(found)] == [f"{base:020d}.log" for base in (0, 5, 10, 15)]
    harness.log.flush()
    assert paths_to_sync(found) == []


def test_a_locked_directory_is_not_claimed(harness: CompactionHarness, env: FaultEnv) -> None:
    lock = env.lock_dir(DIRECTORY)
    assert lock is not None
    claim = SwapClaim(env, DIRECTORY, ())
    with pytest.raises(DirectoryBusyError):
        claim.run()
    claim.release()
    assert env.lock_dir(DIRECTORY) is None


# -- the preparation, and reverting it --


def prepared(harness: CompactionHarness, env: FaultEnv) -> SwapPreparation:
    result = harness.clean(harness.grab())
    return SwapPreparation(env, DIRECTORY, result.segments[0])


def left(env: FaultEnv) -> list[str]:
    return [name[20:] for name in names(env, DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_a_swap_cancelled_before_it_runs_does_nothing(harness: CompactionHarness, env: FaultEnv) -> None:
    swap = prepared(harness, env)
    swap.cancel()
    swap.run()
    assert not swap.is_done
    assert all(name.endswith(".cleaned") for name in left(env))


def test_a_swap_cancelled_after_it_ran_is_reverted(harness: CompactionHarness, env: FaultEnv) -> None:
    swap = prepared(harness, env)
    swap.run()
    assert sorted(left(env)) == [".index.swap", ".log.swap", ".timeindex.swap"]
    swap.cancel()
    assert left(env) == [".log.cleaned"]
    remove_cleaned(env, DIRECTORY)
    assert left(env) == []
    env.crash()
    assert left(env) == [] or left(env) == [".log.cleaned"]
    assert len(contents(CompactionHarness(env).log)) <= 22


def test_a_failed_swap_is_reverted(harness: CompactionHarness, env: FaultEnv) -> None:
    swap = prepared(harness, env)
    env.inject(lambda _, kind, __: Fault(errno.EIO) if kind == "sync_dir" else None)
    with pytest.raises(OSError, match="injected"):
        swap.run()
    assert ".log.swap" not in left(env)


def test_a_revert_may_be_interrupted_anywhere(env: FaultEnv) -> None:
    """Whatever is left, loading restores the old segments, never a mixture of both."""
    operation, ended = 0, False
    while not ended:
        env = new_env()
        harness = CompactionHarness(env)
        harness.fill(22)
        harness.log.flush()
        wanted = contents(harness.log)
        swap = prepared(harness, env)
        swap.run()
        env.inject(power_cut(operation))
        try:
            swap.cancel()
            ended = True
        except PowerCut:
            pass
        env.kill()
        again = CompactionHarness(env)
        is_completed = not ended and operation == 0
        assert is_completed or contents(again.log) == wanted, operation
        assert not left(env)
        operation += 1
    assert operation > 4


def test_removing_the_files_of_a_deleted_partition(env: FaultEnv) -> None:
    remove_cleaned(env, "/nowhere")


# -- crashes --


def compaction(harness: CompactionHarness) -> None:
    harness.compact()


def rest_of_life(harness: CompactionHarness) -> None:
    """A compaction, due deletions, more records, and another compaction of the whole log."""
    harness.compact()
    harness.env.time_ms += 60_000  # type: ignore[attr-defined]
    for deletion in harness.manager.take_due_deletions():
        deletion.run()
    harness.fill(11)
    harness.log.flush()
    harness.compact()


def started(env: FaultEnv) -> CompactionHarness:
    """A log whose compaction swaps two segments in, one after the other."""
    harness = CompactionHarness(env, group_bytes=3000)
    harness.fill(22)
    harness.log.append_as_leader(
        make_batch(b"a" * 90, key=ABORTED, producer=(7, 0, 0), transactional=True), 0
    )
    harness.log.append_as_leader(end_txn(7, 0, commit=False), 0, AppendOrigin.COORDINATOR)
    harness.log.update_high_watermark(harness.log.log_end_offset)
    append(harness.log, b"last")
    harness.log.roll()
    harness.log.flush()
    harness.manager.dirs.checkpoint_all()
    return harness


def committed(harness: CompactionHarness) -> set[bytes]:
    """The records with the aborted transaction's key that a read_committed reader finds."""
    log = harness.log
    info = log.read(log.log_start_offset, 1 << 20, FetchIsolation.TXN_COMMITTED, min_one_message=True)
    assert info.aborted_transactions is not None
    return {ABORTED} if not info.aborted_transactions and ABORTED in info.records.read() else set()


@pytest.mark.parametrize(
    ("life", "ending"),
    [
        (compaction, "kill"),
        (compaction, "crash"),
        (compaction, "crash in doubt"),
        pytest.param(rest_of_life, "kill", marks=pytest.mark.slow),
        pytest.param(rest_of_life, "crash in doubt", marks=pytest.mark.slow),
    ],
)
def test_a_crash_at_every_operation(life: Callable[[CompactionHarness], None], ending: str) -> None:
    operation, ended = 0, False
    while not ended:
        env = new_env()
        harness = started(env)
        durable = last_values(harness.log)
        env.inject(power_cut(operation))
        try:
            life(harness)
            ended = True
        except PowerCut:
            pass
        env.inject(None)
        latest = durable if not ended else last_values(harness.log)
        env.kill() if ending == "kill" else env.crash(
            random.Random(operation) if ending == "crash in doubt" else None
        )
        again = CompactionHarness(env)
        found = last_values(again.log)
        for key in durable:
            assert found.get(key) is not None, (operation, key)
            assert found[key] >= durable[key], (operation, key)  # type: ignore[operator]
        if ended and ending == "kill":
            assert found == latest
        assert not committed(again), operation
        assert not left(env), operation
        again.fill(12)
        again.compact()
        assert last_values(again.log).keys() >= durable.keys()
        operation += 1
    assert operation > 40


@pytest.mark.parametrize("ending", ["kill", "crash"])
def test_a_crash_while_loading_completes_a_swap(ending: str) -> None:
    """The loading that completes a swap is interrupted at every operation."""
    operation, ended = 0, False
    while not ended:
        env = new_env()
        harness = started(env)
        wanted = last_values(harness.log)
        found = harness.grab()
        result = harness.clean(found)
        SwapPreparation(env, DIRECTORY, result.segments[0]).run()
        env.kill()
        env.inject(power_cut(operation))
        try:
            CompactionHarness(env)
            ended = True
        except PowerCut:
            pass
        env.kill() if ending == "kill" else env.crash()
        again = CompactionHarness(env)
        assert last_values(again.log) == wanted, operation
        assert not committed(again), operation
        assert not left(env)
        operation += 1
    assert operation > 30


@pytest.mark.parametrize("fault", [Fault(), Fault(errno.ENOSPC, half=True)])
def test_a_fault_at_every_operation(fault: Fault) -> None:
    """The log is unchanged and in service, or offline."""
    operation, was_hit = 0, True
    while was_hit:
        env = new_env()
        harness = started(env)
        wanted = last_values(harness.log)
        env.inject(nth(operation, fault))
        with suppress(OSError, KafkaStorageError):
            harness.compact()
        was_hit = env.operations > operation
        env.inject(None)
        if not harness.log.is_failed:
            assert last_values(harness.log) == wanted, operation
            put(harness.log, b"one more", b"x")
        env.kill()
        again = CompactionHarness(env)
        assert {**wanted, b"one more": b"x"}.items() >= last_values(again.log).items()
        assert last_values(again.log).items() >= wanted.items(), operation
        operation += 1
    assert operation > 40


# -- files that Kafka leaves --


def test_indexes_left_as_swap_without_a_log_are_renamed(harness: CompactionHarness, env: FaultEnv) -> None:
    """Kafka renames the .log first; a crash after that leaves only its indexes as .swap."""
    harness.compact()
    wanted = {suffix: env.read_file(path(0, suffix)) for suffix in ("index", "timeindex")}
    harness.log.flush()
    env.kill()
    for suffix in wanted:
        env.rename(path(0, suffix), path(0, f"{suffix}.swap"))
    again = CompactionHarness(env)
    assert {suffix: env.read_file(path(0, suffix)) for suffix in wanted} == wanted
    assert list(contents(again.log)) == [*range(16, 22)]


def test_an_index_without_a_log_is_removed(env: FaultEnv) -> None:
    env.mkdir(DIRECTORY)
    env.write_file(path(7, "index.swap"), b"12345678")
    harness = CompactionHarness(env)
    assert bases(harness) == [0]
    assert not left(env)
    assert not env.exists(path(7, "index"))


def test_an_empty_cleaned_segment_replaces_the_one_of_its_name(env: FaultEnv) -> None:
    env.mkdir(DIRECTORY)
    files = {
        path(0, "log"): b"old",
        path(0, "log.swap"): b"",
        path(0, "txnindex"): bytes(34),
        path(9, "log"): b"next",
    }
    for name, data in files.items():
        env.write_file(name, data)
    listed = set(env.listdir(DIRECTORY))
    complete_swaps(env, DIRECTORY, listed)
    assert sorted(listed) == sorted(env.listdir(DIRECTORY)) == [f"{0:020d}.log", f"{9:020d}.log"]
    assert env.read_file(path(0)) == b""


def test_loading_without_a_swap_writes_nothing(harness: CompactionHarness, env: FaultEnv) -> None:
    env.inject(None)
    complete_swaps(env, DIRECTORY, set(env.listdir(DIRECTORY)))
    assert env.operations == 1
