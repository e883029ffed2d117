"""A future log becomes a copy of the current log, whatever operations the current log goes through."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.storage.errors import OffsetsOutOfOrderError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.future_log import (
    PIECE_BATCHES,
    SourceChangedError,
    common_end,
    has_all,
    has_diverged,
    pieces,
)
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin, LogStartOffsetIncrementReason
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, append, end_txn, fill, make_batch, read_batches, small_config
from tests.storage.manager.test_log_dirs import begun, opened
from tests.storage.segment.test_scan import old_message
from tests.support.chance import seeds

SEEDS = seeds(12)


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv(seed=5)


def both(env: FaultEnv) -> tuple[LogManager, UnifiedLog, UnifiedLog]:
    """A manager, the current log in /a, and an empty future log in /b."""
    manager = opened(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    return manager, log, begun(manager, log, "/b")


def the_same(log: UnifiedLog, other: UnifiedLog) -> bool:
    """Whether both have the same batches, byte for byte, from the log start offset on."""
    start = log.log_start_offset

    def content(one: UnifiedLog) -> list[bytes]:
        found = read_batches(one, max(start, one.log_start_offset))
        return [bytes(it.buffer[it.position : it.position + it.size_in_bytes]) for it in found]

    return content(log) == content(other) and log.log_end_offset == other.log_end_offset


def test_batches_with_gaps_of_compaction_are_copied(env: FaultEnv) -> None:
    manager, log, future = both(env)
    for offset in (0, 3, 4, 90, 5_000_000_000, 5_000_000_007):
        log.append_as_follower(make_batch(b"v", base_offset=offset, epoch=0), 0)
    log.update_high_watermark(log.log_end_offset)
    manager.future.catch_up(log, future)
    assert the_same(log, future)
    assert future.segment_count > 1  # no segment has offsets beyond what its indexes can hold


def test_an_end_without_batches_is_copied(env: FaultEnv) -> None:
    """Compaction removed the newest batches, and a segment begins at their end."""
    manager, log, future = both(env)
    fill(log, 3)
    log.skip_to(40)
    log.update_high_watermark(40)
    manager.future.catch_up(log, future)
    assert (future.log_end_offset, future.segments[-1].base_offset) == (40, 40)
    assert append(log, b"next") == 40
    manager.future.catch_up(log, future)
    assert the_same(log, future)
    manager.shutdown()
    env.crash()
    (again,) = opened(env).future_logs()
    assert again.log_end_offset == 41


def test_message_sets_are_copied(env: FaultEnv) -> None:
    manager, log, future = both(env)
    segment = log.segments[0]
    env.write_file(segment.path, b"".join(old_message(offset, b"old", offset % 2) for offset in range(5)))
    manager.shutdown()
    env.kill()
    manager = opened(env)
    (log,), (future,) = manager.all_logs(), manager.future_logs()
    assert log.log_end_offset == 5
    manager.future.catch_up(log, future)
    assert future.log_end_offset == 5
    append(log, b"new", epoch=1)
    manager.future.catch_up(log, future)
    assert future.size == log.size


def test_transactions_and_their_index_are_copied(env: FaultEnv) -> None:
    manager, log, future = both(env)
    for number in range(6):
        log.append_as_leader(make_batch(b"x", producer=(7, 0, number), transactional=True), 0)
        if number % 2:
            log.append_as_leader(end_txn(7, 0, commit=number == 3), 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    manager.future.catch_up(log, future)
    assert the_same(log, future)
    aborted = [
        [(txn.producer_id, txn.first_offset) for at in one.segments for txn in at.txn_index.transactions]
        for one in (log, future)
    ]
    assert aborted[0] == aborted[1] != []


def test_a_source_that_was_truncated_and_diverged(env: FaultEnv) -> None:
    manager, log, future = both(env)
    fill(log, 20)
    manager.future.catch_up(log, future)
    manager.truncate_to(log, 8)
    fill(log, 5, epoch=1)
    assert has_diverged(log, future)
    assert not has_all(log, future)
    assert common_end(log, future) == 8
    manager.future.catch_up(log, future)
    assert the_same(log, future)
    assert future.leader_epoch_cache.entries == log.leader_epoch_cache.entries


def test_a_source_that_shares_no_epoch(env: FaultEnv) -> None:
    manager, log, future = both(env)
    fill(log, 9, epoch=0)
    manager.future.catch_up(log, future)
    manager.truncate_fully_and_start_at(log, 4)
    fill(log, 9, epoch=2)
    assert common_end(log, future) == 4
    manager.future.catch_up(log, future)
    assert the_same(log, future)


def test_a_truncation_in_the_middle_of_a_step(env: FaultEnv) -> None:
    manager, log, future = both(env)
    fill(log, 9)
    step = manager.future.plan_step(log, future)
    assert step is not None
    manager.truncate_to(log, 2)
    with pytest.raises(SourceChangedError):
        step.run()
    manager.future.catch_up(log, future)
    assert the_same(log, future)


@pytest.mark.parametrize("at", [80, 17, 1])
def test_damage_is_not_copied(env: FaultEnv, at: int) -> None:
    manager, log, future = both(env)
    fill(log, 4)
    data = bytearray(env.file(log.segments[0].path).data)
    data[at] ^= 1
    env.write_file(log.segments[0].path, bytes(data))
    with pytest.raises((CorruptRecordError, OffsetsOutOfOrderError)):
        manager.future.catch_up(log, future)
    assert future.log_end_offset == 0


def test_pieces_are_whole_batches_of_bounded_size(env: FaultEnv) -> None:
    batch = make_batch(b"x")
    data = batch * (PIECE_BATCHES + 3) + batch[:-1]
    assert [len(piece) for piece in pieces(data, 1 << 20)] == [len(batch) * PIECE_BATCHES, len(batch) * 3]
    assert [len(piece) for piece in pieces(batch * 3, 1)] == [len(batch)] * 3
    assert list(pieces(b"", 1)) == []


def test_future_logs_found_at_a_start(env: FaultEnv) -> None:
    """One in the current log's directory is removed, and of two in others the shorter one."""
    manager, log, future = both(env)
    fill(log, 9)
    manager.future.catch_up(log, future)
    manager.shutdown()
    for directory, name in (("/a", "1"), ("/c", "2")):
        env.mkdir(f"{directory}/t-0.{name * 32}-future")
    manager = opened(env, "/a", "/b", "/c")
    assert [one.log_end_offset for one in manager.future_logs()] == [9]
    assert [name for name in env.listdir("/a") + env.listdir("/c") if name.endswith("-future")] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations_on_the_source(env: FaultEnv, seed: int) -> None:
    """After any operations between the steps both logs are the same, and the future log replaces the current one."""
    dice = Random(seed)
    manager, log, future = both(env)
    epoch = 0
    for _ in range(60):
        match dice.randrange(8):
            case 0 | 1 | 2:
                fill(log, dice.randrange(1, 6), size=dice.randrange(400), epoch=epoch)
            case 3:
                log.roll()
            case 4 if log.log_end_offset > log.log_start_offset:
                offset = dice.randrange(log.log_start_offset, log.log_end_offset)
                log.maybe_increment_log_start_offset(
                    offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
                )
                log.delete_old_segments()
            case 5 if dice.random() < 0.4:
                manager.truncate_to(log, dice.randrange(log.log_start_offset, log.log_end_offset + 1))
                epoch += 1
            case 6 | 7:
                step = manager.future.plan_step(log, future, dice.randrange(1, 3000))
                if step is not None:
                    step.run()
            case _:
                future.flush()
    manager.future.catch_up(log, future)
    assert the_same(log, future)
    moved = manager.future.replace_current("t", 0)
    moved.take_over(log)
    assert (moved.log_start_offset, moved.high_watermark) == (log.log_start_offset, log.high_watermark)
    fill(moved, 3, epoch=epoch)
    manager.shutdown()
    env.crash()
    again = opened(env).get_log("t", 0)
    assert again is not None
    assert the_same(moved, again) or again.log_end_offset == moved.log_end_offset


def test_a_configuration_with_larger_batches_than_segments(env: FaultEnv) -> None:
    manager, log, future = both(env)
    fill(log, 4, size=800)
    future.update_config(small_config(segment_bytes=300))
    manager.future.catch_up(log, future)
    assert future.segment_count == 4
    assert the_same(log, future)
