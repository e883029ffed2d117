"""A cleaned segment takes the place of those it stands for; whatever comes between, no key loses its last value."""

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
from tests.storage.compacting import ABORTED, Compacted, contents, last_values, put
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
def house(env: FaultEnv) -> Compacted:
    """A log of segments 0, 5, 10, 15 and an active one at 20, with keys in turn."""
    house = Compacted(env)
    house.fill(22)
    return house


def bases(house: Compacted) -> list[int]:
    return [segment.base_offset for segment in house.log.segments]


# -- in life --


def test_segments_become_one(house: Compacted, env: FaultEnv) -> None:
    before = last_values(house.log)
    assert bases(house) == [0, 5, 10, 15, 20]
    result = house.compact()
    assert bases(house) == [0, 20]
    assert last_values(house.log) == before
    assert list(contents(house.log)) == [16, 17, 18, 19, 20, 21]
    assert house.checkpoint == result.next_first_dirty_offset == 20
    assert house.log.log_end_offset == 22
    assert house.log.size == sum(env.size(path(base)) for base in (0, 20))
    assert not [name for name in names(env, DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_the_old_files_go_after_a_while(house: Compacted, env: FaultEnv) -> None:
    house.compact()
    assert env.exists(path(5, "log.deleted"))
    env.time_ms += house.log.config.file_delete_delay_ms
    for deletion in house.manager.take_due_deletions():
        deletion.run()
    assert not [name for name in names(env, DIRECTORY) if name.endswith(".deleted")]


def test_what_was_read_before_stays_readable(house: Compacted) -> None:
    old = house.log.read(0, 10_000, FetchIsolation.LOG_END, min_one_message=True).records
    wanted = old.read()
    house.compact()
    assert old.read() == wanted


def test_a_read_from_a_gap_goes_on_after_it(house: Compacted) -> None:
    house.compact()
    found = house.log.read(3, 10_000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert found.records.read()[:8] == (16).to_bytes(8, "big")


def test_by_time_the_new_segment_is_searched(env: FaultEnv) -> None:
    house = Compacted(env)
    for number in range(12):
        put(house.log, b"key %d" % (number % 2), b"v" * 100, timestamp=1_700_000_000_000 + number)
    house.compact()
    found = house.log.fetch_offset_by_timestamp(1_700_000_000_003)
    assert found is not None
    assert found.offset == min(contents(house.log))


def test_snapshots_of_vanished_segments_go_with_them(house: Compacted, env: FaultEnv) -> None:
    assert house.log.producer_state_manager.snapshots.offsets == [5, 10, 15, 20]
    house.compact()
    assert house.log.producer_state_manager.snapshots.offsets == [20]
    assert env.exists(path(5, "snapshot.deleted"))


def test_a_high_watermark_that_stood_in_an_old_segment_is_looked_up_again(env: FaultEnv) -> None:
    """It was noted as a position in a segment that was the active one then, and is shorter now."""
    house = Compacted(env)
    house.fill(10)
    assert house.log.high_watermark_metadata.segment_base_offset == 5
    house.log.append_as_leader(make_batch(b"x" * 120, key=b"not replicated yet"), 0)
    house.log.offsets.first_unstable_offset = None
    assert bases(house) == [0, 5, 10]
    house.compact()
    metadata = house.log.high_watermark_metadata
    assert (metadata.message_offset, metadata.segment_base_offset, metadata.position) == (10, 10, 0)
    visible = house.log.read(0, 100_000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert visible.records.position + visible.records.size <= env.size(path(0))


def test_a_flush_under_way_ends_as_if_nothing_had_been(house: Compacted) -> None:
    job = house.log.prepare_flush()
    house.compact()
    job.run()
    house.log.complete_flush(job)
    assert house.log.recovery_point == 22
    assert not house.log._local.has_unflushed


def test_retention_truncation_and_appends_go_on_after_it(house: Compacted) -> None:
    house.compact()
    house.fill(10)
    house.manager.truncate_to(house.log, 25)
    assert house.log.log_end_offset == 25
    assert list(contents(house.log)) == [*range(16, 25)]
    house.compact()
    assert list(contents(house.log)) == [21, 22, 23, 24]
    house.manager.truncate_to(house.log, 22)
    assert list(contents(house.log)) == [21]
    assert house.checkpoint == 0


def test_again_and_again(house: Compacted) -> None:
    for _ in range(5):
        house.fill(11)
        before = last_values(house.log)
        house.compact()
        assert last_values(house.log) == before
    assert len(bases(house)) <= 4


def test_segments_that_are_not_there_any_more_are_not_replaced(house: Compacted, env: FaultEnv) -> None:
    before = dict(contents(house.log))
    for replaces in ((0, 10), (5, 10, 15, 20), (1, 5), (30,), (15, 20)):
        assert not house.log.replace_segments(CleanedSegment(replaces[0], 1, replaces))
    assert contents(house.log) == before
    assert not [name for name in names(env, DIRECTORY) if name.endswith(".deleted")]


def test_a_log_that_is_offline_takes_nothing(house: Compacted) -> None:
    house.log.fail("a test says so")
    with pytest.raises(KafkaStorageError):
        house.log.replace_segments(CleanedSegment(0, 1, (0,)))


def test_a_disk_that_fails_in_the_swap_takes_the_log_offline(house: Compacted, env: FaultEnv) -> None:
    found = house.grab()
    result = house.clean(found)
    swap = SwapPreparation(env, DIRECTORY, result.segments[0])
    swap.run()
    before = last_values(house.log)
    env.inject(lambda _, kind, where: Fault() if kind == "rename" and where.endswith(".swap") else None)
    with pytest.raises(KafkaStorageError, match="swapping"):
        house.log.replace_segments(result.segments[0])
    assert house.log.is_failed
    env.kill()
    again = Compacted(env)
    assert last_values(again.log) == before
    assert bases(again) == [0, 20]


# -- the directory to itself --


def test_strays_go_before_a_swap(house: Compacted, env: FaultEnv) -> None:
    result = house.clean(house.grab())
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
def test_what_makes_a_record_superfluous_is_on_the_disk_before_that_goes(
    env: FaultEnv, is_synced: bool
) -> None:
    """A power cut when the first segment is swapped in, and what came later was written and not synced."""
    house = Compacted(env, group_bytes=900)
    house.fill(4)
    house.log.flush()
    durable = last_values(house.log)
    house.fill(18)
    found = house.grab()
    result = house.clean(found)
    SwapClaim(env, DIRECTORY, result.segments, paths_to_sync(found) if is_synced else ()).run()
    SwapPreparation(env, DIRECTORY, result.segments[0]).run()
    house.log.replace_segments(result.segments[0])
    env.crash()
    left_over = last_values(Compacted(env).log).keys()
    assert (left_over == durable.keys()) is is_synced, "without the sync the keys would be gone"


def test_a_sync_that_fails_is_remembered(house: Compacted, env: FaultEnv) -> None:
    found = house.grab()
    result = house.clean(found)
    claim = SwapClaim(env, DIRECTORY, result.segments, paths_to_sync(found))
    env.inject(lambda _, kind, __: Fault() if kind == "sync" else None)
    with pytest.raises(OSError, match="injected"):
        claim.run()
    assert claim.has_sync_failed


@pytest.mark.parametrize("kind", ["open", "sync_dir"])
def test_a_sync_that_has_no_descriptor_is_made_up_for_by_the_next_claim(
    house: Compacted, env: FaultEnv, kind: str
) -> None:
    """No fsync has failed then, so nothing can be lost."""
    found = house.grab()
    result = house.clean(found)
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
    assert list(contents(Compacted(env).log)) == list(range(20)), "all that was read is on the disk"


def test_what_was_flushed_is_not_synced_again(house: Compacted) -> None:
    found = house.grab()
    assert [path[-24:] for path in paths_to_sync(found)] == [f"{base:020d}.log" for base in (0, 5, 10, 15)]
    house.log.flush()
    assert paths_to_sync(found) == []


def test_a_locked_directory_is_not_claimed(house: Compacted, env: FaultEnv) -> None:
    lock = env.lock_dir(DIRECTORY)
    assert lock is not None
    claim = SwapClaim(env, DIRECTORY, ())
    with pytest.raises(DirectoryBusyError):
        claim.run()
    claim.release()
    assert env.lock_dir(DIRECTORY) is None


# -- the first step, and taking it back --


def prepared(house: Compacted, env: FaultEnv) -> SwapPreparation:
    result = house.clean(house.grab())
    return SwapPreparation(env, DIRECTORY, result.segments[0])


def left(env: FaultEnv) -> list[str]:
    return [name[20:] for name in names(env, DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_what_is_cancelled_before_is_never_done(house: Compacted, env: FaultEnv) -> None:
    swap = prepared(house, env)
    swap.cancel()
    swap.run()
    assert not swap.is_done
    assert all(name.endswith(".cleaned") for name in left(env))


def test_what_is_cancelled_afterwards_is_taken_back(house: Compacted, env: FaultEnv) -> None:
    swap = prepared(house, env)
    swap.run()
    assert sorted(left(env)) == [".index.swap", ".log.swap", ".timeindex.swap"]
    swap.cancel()
    assert left(env) == [".log.cleaned"]
    remove_cleaned(env, DIRECTORY)
    assert left(env) == []
    env.crash()
    assert left(env) == [] or left(env) == [".log.cleaned"]
    assert len(contents(Compacted(env).log)) <= 22


def test_a_failure_takes_back_what_was_done(house: Compacted, env: FaultEnv) -> None:
    swap = prepared(house, env)
    env.inject(lambda _, kind, __: Fault(errno.EIO) if kind == "sync_dir" else None)
    with pytest.raises(OSError, match="injected"):
        swap.run()
    assert ".log.swap" not in left(env)


def test_taking_back_may_be_interrupted_anywhere(env: FaultEnv) -> None:
    """Whatever is left, loading goes back to the old segments, never to a mixture of both."""
    operation, ended = 0, False
    while not ended:
        env = new_env()
        house = Compacted(env)
        house.fill(22)
        house.log.flush()
        wanted = contents(house.log)
        swap = prepared(house, env)
        swap.run()
        env.inject(power_cut(operation))
        try:
            swap.cancel()
            ended = True
        except PowerCut:
            pass
        env.kill()
        again = Compacted(env)
        is_completed = not ended and operation == 0
        assert is_completed or contents(again.log) == wanted, operation
        assert not left(env)
        operation += 1
    assert operation > 4


def test_removing_what_is_left_of_a_deleted_partition(env: FaultEnv) -> None:
    remove_cleaned(env, "/nowhere")


# -- crashes --


def compaction(house: Compacted) -> None:
    house.compact()


def rest_of_life(house: Compacted) -> None:
    """A compaction, what is due, more records, another compaction of all."""
    house.compact()
    house.env.time_ms += 60_000  # type: ignore[attr-defined]
    for deletion in house.manager.take_due_deletions():
        deletion.run()
    house.fill(11)
    house.log.flush()
    house.compact()


def started(env: FaultEnv) -> Compacted:
    """A log whose compaction swaps two segments in, one after the other."""
    house = Compacted(env, group_bytes=3000)
    house.fill(22)
    house.log.append_as_leader(make_batch(b"a" * 90, key=ABORTED, producer=(7, 0, 0), transactional=True), 0)
    house.log.append_as_leader(end_txn(7, 0, commit=False), 0, AppendOrigin.COORDINATOR)
    house.log.update_high_watermark(house.log.log_end_offset)
    append(house.log, b"last")
    house.log.roll()
    house.log.flush()
    house.manager.dirs.checkpoint_all()
    return house


def committed(house: Compacted) -> set[bytes]:
    """What a reader of committed records finds under the key of the aborted transaction."""
    log = house.log
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
def test_a_crash_at_every_operation(life: Callable[[Compacted], None], ending: str) -> None:
    operation, ended = 0, False
    while not ended:
        env = new_env()
        house = started(env)
        durable = last_values(house.log)
        env.inject(power_cut(operation))
        try:
            life(house)
            ended = True
        except PowerCut:
            pass
        env.inject(None)
        latest = durable if not ended else last_values(house.log)
        env.kill() if ending == "kill" else env.crash(
            random.Random(operation) if ending == "crash in doubt" else None
        )
        again = Compacted(env)
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
    """The loading that completes a swap is itself interrupted, at every operation."""
    operation, ended = 0, False
    while not ended:
        env = new_env()
        house = started(env)
        wanted = last_values(house.log)
        found = house.grab()
        result = house.clean(found)
        SwapPreparation(env, DIRECTORY, result.segments[0]).run()
        env.kill()
        env.inject(power_cut(operation))
        try:
            Compacted(env)
            ended = True
        except PowerCut:
            pass
        env.kill() if ending == "kill" else env.crash()
        again = Compacted(env)
        assert last_values(again.log) == wanted, operation
        assert not committed(again), operation
        assert not left(env)
        operation += 1
    assert operation > 30


@pytest.mark.parametrize("fault", [Fault(), Fault(errno.ENOSPC, half=True)])
def test_a_fault_at_every_operation(fault: Fault) -> None:
    """Not the end of anything: the log goes on as it was, or says that it is offline."""
    operation, was_hit = 0, True
    while was_hit:
        env = new_env()
        house = started(env)
        wanted = last_values(house.log)
        env.inject(nth(operation, fault))
        with suppress(OSError, KafkaStorageError):
            house.compact()
        was_hit = env.operations > operation
        env.inject(None)
        if not house.log.is_failed:
            assert last_values(house.log) == wanted, operation
            put(house.log, b"one more", b"x")
        env.kill()
        again = Compacted(env)
        assert {**wanted, b"one more": b"x"}.items() >= last_values(again.log).items()
        assert last_values(again.log).items() >= wanted.items(), operation
        operation += 1
    assert operation > 40


# -- what Kafka leaves --


def test_indexes_alone_that_are_still_to_be_renamed_get_their_names(house: Compacted, env: FaultEnv) -> None:
    """Kafka renames the .log first; a crash after that leaves only its indexes as .swap."""
    house.compact()
    wanted = {suffix: env.read_file(path(0, suffix)) for suffix in ("index", "timeindex")}
    house.log.flush()
    env.kill()
    for suffix in wanted:
        env.rename(path(0, suffix), path(0, f"{suffix}.swap"))
    again = Compacted(env)
    assert {suffix: env.read_file(path(0, suffix)) for suffix in wanted} == wanted
    assert list(contents(again.log)) == [*range(16, 22)]


def test_an_index_of_nothing_goes(env: FaultEnv) -> None:
    env.mkdir(DIRECTORY)
    env.write_file(path(7, "index.swap"), b"12345678")
    house = Compacted(env)
    assert bases(house) == [0]
    assert not left(env)
    assert not env.exists(path(7, "index"))


def test_an_empty_cleaned_segment_replaces_its_own(env: FaultEnv) -> None:
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


def test_nothing_to_complete_touches_nothing(house: Compacted, env: FaultEnv) -> None:
    env.inject(None)
    complete_swaps(env, DIRECTORY, set(env.listdir(DIRECTORY)))
    assert env.operations == 1
