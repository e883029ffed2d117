"""Failures that `test_log_model` has found, each as a test of as few steps as possible."""

from random import Random

import pytest

from barnabas.storage.env import read_fully
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from tests.storage.fault_env import FaultEnv, nth
from tests.storage.helpers import TOPIC_ID, append, fill, make_batch, read_values, small_config
from tests.storage.log_checks import check_indexes, decode
from tests.support.chance import seeds

SEEDS = seeds(20)


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv(seed=1)
    env.mkdir("/logs")
    env.sync_dir("/")
    return env


def opened(env: FaultEnv, **config: object) -> tuple[LogManager, UnifiedLog]:
    """The log of t-0 in a manager, its high watermark at the end."""
    manager = LogManager(env, ["/logs"], lambda _topic: small_config(**config))
    manager.dirs.lock()
    manager.load_logs()
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    log.update_high_watermark(log.log_end_offset)
    return manager, log


def check_all_indexes(log: UnifiedLog) -> None:
    for segment in log.segments:
        check_indexes(segment, list(decode(read_fully(segment.file, segment.size, 0))))


@pytest.mark.parametrize("seed", SEEDS)
def test_recovery_is_synced_before_the_recovery_point_passes_it(env: FaultEnv, seed: int) -> None:
    _, log = opened(env)
    log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0)
    fill(log, 20)
    env.kill()
    manager, log = opened(env)
    log.flush()
    manager.dirs.checkpoint_all()
    env.crash(Random(seed))
    _, log = opened(env)
    assert len(read_values(log)) == 21
    check_all_indexes(log)
    assert log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0).duplicate


@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_cut_after_a_flush_and_a_roll_leaves_indexes_to_rebuild(env: FaultEnv, seed: int) -> None:
    manager, log = opened(env)
    fill(log, 4)
    log.flush()
    manager.dirs.checkpoint_all()
    log.roll()
    env.crash(Random(seed))
    _, log = opened(env)
    assert len(read_values(log)) == 4
    check_all_indexes(log)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clean_stop_survives_a_power_cut_right_after_it(env: FaultEnv, seed: int) -> None:
    manager, log = opened(env)
    fill(log, 13)
    manager.shutdown()
    env.crash(Random(seed))
    _, log = opened(env)
    assert log.truncated_bytes == 0
    assert len(read_values(log)) == 13
    check_all_indexes(log)


@pytest.mark.parametrize("seed", SEEDS)
def test_deleted_records_stay_deleted_when_the_deletion_of_their_segments_does_not(
    env: FaultEnv, seed: int
) -> None:
    manager, log = opened(env)
    fill(log, 12)
    log.flush()
    reason = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
    log.maybe_increment_log_start_offset(log.segments[1].base_offset, reason)
    start = log.log_start_offset
    log.delete_old_segments()
    assert log.segments[0].base_offset == start
    manager.dirs.checkpoint_all()
    env.crash(Random(seed))
    _, log = opened(env)
    assert log.log_start_offset == start


def test_preallocated_room_is_trimmed_after_preallocate_is_turned_off(env: FaultEnv) -> None:
    manager, log = opened(env, preallocate=True)
    append(log, b"one")
    log.update_config(small_config())
    log.roll()
    assert env.size(log.segments[0].path) == log.segments[0].size
    manager.shutdown()
    _, log = opened(env)
    assert read_values(log) == {0: b"one"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_preallocated_segment_trimmed_by_a_roll_stays_trimmed(env: FaultEnv, seed: int) -> None:
    manager, log = opened(env, preallocate=True)
    append(log, b"one")
    log.flush()
    log.roll()
    append(log, b"two")
    if seed % 2:
        env.kill()
        manager, log = opened(env, preallocate=True)
    log.flush()
    manager.dirs.checkpoint_all()
    env.crash(Random(seed))
    _, log = opened(env, preallocate=True)
    assert read_values(log) == {0: b"one", 1: b"two"}


def test_a_segment_that_is_active_again_is_sealed_once(env: FaultEnv) -> None:
    manager, log = opened(env)
    fill(log, 3)
    log.roll()
    manager.truncate_to(log, 2)
    log.roll()
    manager.truncate_fully_and_start_at(log, 9)
    env.time_ms += 60_000
    for deletion in manager.take_due_deletions():
        deletion.run()
    append(log, b"goes on")
    log.flush()
    assert log.recovery_point == 10


def test_retention_takes_a_snapshot_that_a_roll_could_not(env: FaultEnv) -> None:
    manager, log = opened(env, retention_ms=-1, retention_bytes=-1)
    log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0)
    env.inject(lambda _number, kind, path: nth(0)(0, kind, path) if path.endswith(".snapshot") else None)
    log.roll()
    env.inject(None)
    append(log, b"y")
    log.update_high_watermark(log.log_end_offset)
    reason = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
    log.maybe_increment_log_start_offset(1, reason)
    assert log.delete_old_segments() == 1
    manager.dirs.checkpoint_all()
    env.kill()
    _, log = opened(env)
    assert log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0).duplicate


def test_a_crash_during_retention_loses_no_producer(env: FaultEnv) -> None:
    """After any of its renames: the segment is renamed before the snapshot at its start."""
    _, log = opened(env, retention_bytes=0)
    for sequence in range(3):
        log.append_as_leader(make_batch(b"x", producer=(7 + sequence, 0, 0)), 0)
        log.roll()
    log.flush()
    log.update_high_watermark(2)
    log.delete_old_segments()
    for seed in SEEDS:
        env.crash(Random(seed))
        _, log = opened(env)
        for sequence in range(3):
            assert log.append_as_leader(make_batch(b"x", producer=(7 + sequence, 0, 0)), 0).duplicate


def test_a_truncation_reopens_no_ended_transaction(env: FaultEnv) -> None:
    from barnabas.storage.offsets import AppendOrigin
    from tests.storage.helpers import end_txn

    manager, log = opened(env)
    log.append_as_leader(make_batch(b"x", producer=(7, 0, 0), transactional=True), 0)
    log.append_as_leader(end_txn(7, 0, commit=True), 0, AppendOrigin.COORDINATOR)
    append(log, b"y")
    append(log, b"z")
    log.update_high_watermark(3)
    manager.truncate_to(log, 3)
    assert log.last_stable_offset == 3
