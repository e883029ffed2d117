"""UnifiedLog: appends, reads by isolation, offsets in order, truncation, retention, flush in three steps."""

import errno
from pathlib import Path

import pytest

from barnabas.protocol.records.batch import CorruptRecordError, InvalidRecordError, RecordBatch
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import (
    InconsistentTopicIdError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    OutOfResourcesError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import (
    AbortedTransaction,
    AppendOrigin,
    EpochEndOffset,
    FetchIsolation,
    LogStartOffsetIncrementReason,
)
from tests.storage.fault_env import Fault, FaultEnv, nth
from tests.storage.helpers import (
    DIRECTORY,
    T0,
    TOPIC_ID,
    append,
    end_txn,
    fill,
    make_batch,
    names,
    new_log,
    read_batches,
    read_values,
    small_config,
)

DELETED = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


@pytest.fixture
def log(env: FaultEnv) -> UnifiedLog:
    return new_log(env)


# -- appending as leader --


def test_the_result_of_an_append(log: UnifiedLog) -> None:
    append(log, b"before")
    info = log.append_as_leader(make_batch(b"a", b"b", b"c", timestamp=T0 - 7), 4)
    assert (info.first_offset, info.last_offset, info.record_count, info.duplicate) == (1, 3, 3, False)
    assert (info.log_append_time_ms, info.log_start_offset, info.conversion_count) == (-1, 0, 0)
    assert (log.segments[0].max_timestamp_so_far, log.segments[0].size, log.latest_epoch) == (T0, 75 + 88, 4)
    assert "1..3" in repr(info)
    assert [(batch.base_offset, batch.partition_leader_epoch) for batch in read_batches(log, 0)] == [
        (0, 0),
        (1, 4),
    ]


def test_log_append_time_is_returned(env: FaultEnv) -> None:
    log = new_log(env, small_config(message_timestamp_type="LogAppendTime"))
    env.time_ms += 99
    info = log.append_as_leader(make_batch(b"a", timestamp=5, producer=(7, 0, 0)), 0)
    assert info.log_append_time_ms == log.segments[0].max_timestamp_so_far == T0 + 99
    env.time_ms += 1
    again = log.append_as_leader(make_batch(b"a", timestamp=5, producer=(7, 0, 0)), 0)
    assert (again.duplicate, again.log_append_time_ms) == (True, T0 + 99)


def test_a_repeated_batch_returns_its_offsets_and_is_not_written(log: UnifiedLog) -> None:
    first = make_batch(b"a", b"b", producer=(7, 0, 0))
    log.append_as_leader(first, 0)
    log.append_as_leader(make_batch(b"c", producer=(7, 0, 2)), 0)
    info = log.append_as_leader(first, 0)
    assert (info.duplicate, info.first_offset, info.last_offset, info.record_count) == (True, 0, 1, 2)
    assert log.log_end_offset == 3
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(make_batch(b"d", producer=(7, 0, 9)), 0)
    assert log.log_end_offset == 3


def test_a_rejected_append_changes_nothing(log: UnifiedLog) -> None:
    append(log, b"a")
    before = (log.log_end_offset, log.size, log.latest_epoch)
    for data in (b"", make_batch(b"b")[:-1] + b"x", make_batch(b"b") + make_batch(b"c")):
        with pytest.raises((InvalidRecordError, CorruptRecordError)):
            log.append_as_leader(data, 9)
    with pytest.raises(RecordBatchTooLargeError, match=r"segment\.bytes"):
        log.append_as_leader(make_batch(bytes(2000)), 9)
    assert (log.log_end_offset, log.size, log.latest_epoch) == before


def test_segments_roll_by_size_and_leave_snapshots(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 5, 10]
    assert log.segment_count == 3
    assert log.segments[0].base_offset == 0
    assert [name for name in names(env) if name.endswith(".snapshot")] == [
        f"{base:020d}.snapshot" for base in (5, 10)
    ]
    sizes = [env.size(f"{DIRECTORY}/{base:020d}.index") for base in bases]
    assert sizes[-1] == 1200
    assert max(sizes[:-1]) < 100
    assert log.size == sum(env.size(segment.path) for segment in log.segments)


def test_an_empty_segment_is_not_rolled(log: UnifiedLog) -> None:
    log.roll()
    assert log.segment_count == 1
    append(log, b"a")
    log.roll()
    log.roll()
    assert log.segment_count == 2


def test_segment_jitter_is_within_bounds(env: FaultEnv) -> None:
    log = new_log(env, small_config(segment_jitter_ms=50, segment_ms=1000))
    fill(log, 30)
    jitters = {segment.roll_jitter_ms for segment in log.segments[1:]}
    assert len(jitters) > 1
    assert all(0 <= jitter < 50 for jitter in jitters)


def test_the_first_segment_of_an_opened_log_has_jitter_too(env: FaultEnv) -> None:
    """Otherwise all partitions of a new topic, or of a starting broker, would roll their first segment together."""
    config = small_config(segment_jitter_ms=1 << 40, segment_ms=1 << 41)
    assert new_log(env, config).segments[0].roll_jitter_ms > 0
    assert new_log(env, config, is_clean=True).segments[0].roll_jitter_ms > 0


def test_a_segment_rolls_by_time(env: FaultEnv) -> None:
    log = new_log(env, small_config(segment_ms=1000))
    append(log, b"a", timestamp=T0)
    append(log, b"b", timestamp=T0 + 1000)
    append(log, b"c", timestamp=T0 + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


# -- appending as follower --


def test_a_follower_keeps_offsets_and_epochs(log: UnifiedLog) -> None:
    data = make_batch(b"a", b"b", base_offset=10, epoch=3) + make_batch(b"c", base_offset=15, epoch=4)
    info = log.append_as_follower(data, 4)
    assert (info.first_offset, info.last_offset, log.latest_epoch) == (10, 15, 4)
    assert read_values(log) == {10: b"a", 11: b"b", 15: b"c"}
    assert log.leader_epoch_cache.entries == [(3, 10), (4, 15)]
    assert log.log_end_offset == 16
    assert log.append_as_follower(b"", 4).first_offset == -1


def test_a_follower_takes_more_batches_than_a_system_call_takes_buffers(tmp_path: Path) -> None:
    manager = LogManager(RealEnv(), [str(tmp_path)], lambda _topic: small_config(segment_bytes=1 << 20))
    manager.dirs.lock()
    manager.load_logs()
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    records = b"".join(make_batch(b"", key=None, base_offset=offset, epoch=0) for offset in range(1100))
    log.append_as_follower(records, 0)
    assert log.log_end_offset == 1100
    assert log.size == len(records)
    manager.abandon()


def test_a_follower_stops_at_a_later_epoch(log: UnifiedLog) -> None:
    data = make_batch(b"a", base_offset=0, epoch=3) + make_batch(b"b", base_offset=1, epoch=5)
    assert log.append_as_follower(data, 4).last_offset == 0
    assert log.log_end_offset == 1


def test_appends_as_follower_that_are_rejected(log: UnifiedLog) -> None:
    fill(log, 3)
    with pytest.raises(UnexpectedAppendOffsetError) as caught:
        log.append_as_follower(make_batch(b"a", base_offset=2, epoch=0), 1)
    assert (caught.value.first_offset, caught.value.last_offset) == (2, 2)
    with pytest.raises(OffsetsOutOfOrderError):
        log.append_as_follower(
            make_batch(b"a", base_offset=9, epoch=0) + make_batch(b"b", base_offset=9, epoch=0), 1
        )
    with pytest.raises(CorruptRecordError):
        log.append_as_follower(make_batch(b"a", base_offset=9, epoch=0)[:-1] + b"\xff", 1)
    assert log.log_end_offset == 3


def test_a_follower_tracks_producers(log: UnifiedLog) -> None:
    log.append_as_follower(make_batch(b"a", base_offset=0, epoch=0, producer=(7, 0, 41)), 0)
    assert log.append_as_leader(make_batch(b"a", producer=(7, 0, 41)), 1).duplicate
    assert log.append_as_leader(make_batch(b"b", producer=(7, 0, 42)), 1).first_offset == 1


# -- reading --


def test_reads_end_at_the_offset_of_their_isolation(log: UnifiedLog) -> None:
    fill(log, 8)
    log.append_as_leader(make_batch(b"open", producer=(7, 0, 0), transactional=True), 0)
    append(log, b"after it")
    append(log, b"beyond")
    log.update_high_watermark(10)
    log.truncate_to(10)
    log.append_as_leader(make_batch(b"beyond"), 0)
    assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (8, 10, 11)
    assert max(read_values(log, 0, FetchIsolation.LOG_END)) == 10
    assert max(read_values(log, 0, FetchIsolation.HIGH_WATERMARK)) == 9
    assert max(read_values(log, 0, FetchIsolation.TXN_COMMITTED)) == 7
    for isolation, limit in ((FetchIsolation.HIGH_WATERMARK, 10), (FetchIsolation.TXN_COMMITTED, 8)):
        for offset in range(limit, 12):
            info = log.read(offset, 1000, isolation, min_one_message=True)
            assert info.records.size == 0
            assert info.fetch_offset == offset
            assert (info.high_watermark, info.last_stable_offset, info.log_start_offset) == (10, 8, 0)


def test_offsets_outside_the_log_are_out_of_range(log: UnifiedLog) -> None:
    fill(log, 8)
    log.maybe_increment_log_start_offset(3, DELETED)
    for offset in (2, 9, -1):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(offset, 100, FetchIsolation.LOG_END, min_one_message=True)
        assert (caught.value.offset, caught.value.log_start_offset, caught.value.log_end_offset) == (
            offset,
            3,
            8,
        )
    assert log.read(8, 100, FetchIsolation.LOG_END, min_one_message=True).records.read() == b""


def test_a_read_returns_records_of_one_segment(log: UnifiedLog) -> None:
    fill(log, 12)
    info = log.read(3, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
    assert RecordBatch(info.records.read()).base_offset == 3
    assert info.fetch_offset_metadata.segment_base_offset == 0
    assert info.fetch_offset_metadata.position + info.records.size == log.segments[0].size
    assert list(read_values(log)) == list(range(12))


def test_records_of_a_read_stay_readable(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    info = log.read(0, 1 << 20, FetchIsolation.LOG_END, min_one_message=True)
    log.delete()
    assert not env.exists(DIRECTORY)
    assert RecordBatch(info.records.read()).base_offset == 0
    with pytest.raises(KafkaStorageError, match="deleted"):
        log.read(0, 100, FetchIsolation.LOG_END, min_one_message=True)


def test_aborted_transactions_are_returned_with_the_records(log: UnifiedLog) -> None:
    for producer, commit in ((1, True), (2, False), (3, False)):
        for sequence in range(4):
            data = make_batch(bytes(100), producer=(producer, 0, sequence), transactional=True)
            log.append_as_leader(data, 0)
        log.append_as_leader(end_txn(producer, 0, commit=commit), 0, AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
    assert log.segment_count > 2
    assert log.last_stable_offset == log.log_end_offset == 15
    seen = {
        offset: {aborted.producer_id for aborted in info.aborted_transactions or []}
        for offset in range(15)
        for info in [log.read(offset, 300, FetchIsolation.TXN_COMMITTED, min_one_message=True)]
    }
    for offset in range(15):
        here = 1 + offset // 5
        assert seen[offset] >= ({here} - {1})
        assert seen[offset] <= {2, 3}
    assert seen[14] == {3}
    last = log.read(14, 300, FetchIsolation.TXN_COMMITTED, min_one_message=True)
    assert AbortedTransaction(3, 10) in (last.aborted_transactions or [])
    assert log.read(15, 300, FetchIsolation.TXN_COMMITTED, min_one_message=True).aborted_transactions == []
    assert log.read(14, 300, FetchIsolation.HIGH_WATERMARK, min_one_message=True).aborted_transactions is None


def test_a_read_of_zero_bytes_returns_the_aborted_transaction_at_its_offset(log: UnifiedLog) -> None:
    """As in Kafka, where the size limit of a request may leave 0 bytes for its last partitions."""
    log.append_as_leader(make_batch(bytes(100), producer=(1, 0, 0), transactional=True), 0)
    log.append_as_leader(end_txn(1, 0, commit=False), 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    info = log.read(0, 0, FetchIsolation.TXN_COMMITTED, min_one_message=False)
    assert (info.records.size, info.first_entry_incomplete) == (0, False)
    assert info.aborted_transactions == [AbortedTransaction(1, 0)]
    assert log.read(2, 0, FetchIsolation.TXN_COMMITTED, min_one_message=False).aborted_transactions == []


def test_a_search_by_time_over_segments(log: UnifiedLog) -> None:
    for number in range(12):
        append(log, bytes(100), timestamp=T0 + 10 * number)
    assert log.segment_count > 2
    for number in range(12):
        found = log.fetch_offset_by_timestamp(T0 + 10 * number - 3)
        assert found is not None
        assert (found.offset, found.timestamp, found.leader_epoch) == (number, T0 + 10 * number, 0)
    assert log.fetch_offset_by_timestamp(T0 + 111) is None
    log.maybe_increment_log_start_offset(4, DELETED)
    early = log.fetch_offset_by_timestamp(0)
    assert early is not None
    assert early.offset == 4
    append(log, bytes(100), timestamp=T0)
    youngest = log.offset_of_max_timestamp()
    assert youngest is not None
    assert (youngest.offset, youngest.timestamp) == (11, T0 + 110)


def test_an_empty_log_has_no_timestamps(log: UnifiedLog) -> None:
    assert log.fetch_offset_by_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


# -- offsets --


def test_the_log_start_increases_up_to_the_high_watermark(log: UnifiedLog) -> None:
    fill(log, 8)
    log.update_high_watermark(6)
    with pytest.raises(OffsetOutOfRangeError, match="high watermark 6"):
        log.maybe_increment_log_start_offset(7, DELETED)
    assert log.maybe_increment_log_start_offset(6, DELETED)
    assert not log.maybe_increment_log_start_offset(2, DELETED)
    assert log.log_start_offset == log.last_stable_offset == 6


def test_leader_epochs_are_answered(log: UnifiedLog) -> None:
    fill(log, 3, epoch=1)
    log.assign_epoch_start_offset(4, 3)
    fill(log, 2, epoch=4)
    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(1) == EpochEndOffset(1, 3)
    assert log.end_offset_for_epoch(4) == EpochEndOffset(4, 5)
    assert log.end_offset_for_epoch(9) is None


def test_a_directory_belongs_to_one_topic_id(env: FaultEnv, log: UnifiedLog) -> None:
    assert log.topic_id is None
    log.assign_topic_id(TOPIC_ID)
    log.assign_topic_id(TOPIC_ID)
    env.kill()
    log = new_log(env)
    assert log.topic_id == TOPIC_ID
    with pytest.raises(InconsistentTopicIdError, match="t-0"):
        log.assign_topic_id(bytes(16))


def test_a_damaged_topic_id_is_rewritten(env: FaultEnv, log: UnifiedLog) -> None:
    env.write_file(f"{DIRECTORY}/partition.metadata", b"damaged")
    log = new_log(env)
    assert log.topic_id is None
    log.assign_topic_id(TOPIC_ID)
    assert new_log(env).topic_id == TOPIC_ID


# -- truncation --


def test_truncation(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 6, epoch=1)
    fill(log, 6, epoch=2)
    log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 2)
    assert not log.truncate_to(13)
    assert log.truncate_to(7)
    assert list(read_values(log)) == list(range(7))
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (7, 7, 2)
    assert log.producer_state_manager.is_empty
    assert log.truncate_to(6)
    assert log.leader_epoch_cache.entries == [(1, 0)]
    assert append(log, b"again", epoch=3) == 6
    env.kill()
    assert read_values(new_log(env))[6] == b"again"


def test_truncation_below_the_first_segment_empties_the_log(log: UnifiedLog) -> None:
    log.truncate_fully_and_start_at(100)
    append(log, b"a")
    assert log.truncate_to(50)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (50, 50, 50)
    assert append(log, b"b") == 50


def test_truncation_removes_an_open_transaction(log: UnifiedLog) -> None:
    append(log, b"plain")
    log.append_as_leader(make_batch(b"a", producer=(7, 0, 0), transactional=True), 0)
    assert log.offsets.first_unstable_offset == 1
    log.truncate_to(1)
    assert log.offsets.first_unstable_offset is None


def test_a_truncation_that_fails_takes_the_log_offline(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    env.inject(nth(2))
    with pytest.raises(KafkaStorageError, match="truncation"):
        log.truncate_to(3)
    env.inject(None)
    assert log.is_failed
    assert not log.needs_flush(T0)
    for attempt in (lambda: append(log, b"x"), lambda: read_values(log)):
        with pytest.raises(KafkaStorageError, match="offline"):
            attempt()
    env.kill()
    assert set(range(3)) <= set(read_values(new_log(env)))


# -- retention --


def keep(env: FaultEnv, log: UnifiedLog, **config: object) -> int:
    log.update_config(small_config(**config))
    return log.delete_old_segments()


def test_retention_by_size(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 22)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15, 20]
    whole = log.size
    assert keep(env, log, retention_bytes=whole) == 0
    assert keep(env, log, retention_bytes=whole - log.segments[0].size + 1) == 0
    assert keep(env, log, retention_bytes=whole - log.segments[0].size) == 1
    assert (log.log_start_offset, log.segment_count) == (5, 4)
    assert keep(env, log, retention_bytes=0) == 4
    assert (log.log_start_offset, log.log_end_offset, log.size, log.segment_count) == (22, 22, 0, 1)
    assert keep(env, log, retention_bytes=0) == 0


def test_retention_by_time(env: FaultEnv, log: UnifiedLog) -> None:
    for number in range(12):
        append(log, bytes(130), timestamp=T0 + 1000 * (number // 5))
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10]
    env.time_ms = T0 + 2000
    assert keep(env, log, retention_ms=2000) == 0
    assert keep(env, log, retention_ms=1999) == 1
    assert keep(env, log, retention_ms=-1) == 0
    env.time_ms = T0 + 10_000
    assert keep(env, log, retention_ms=1000) == 2
    assert log.log_start_offset == log.log_end_offset == 12


def test_segments_below_the_log_start_are_removed_under_any_policy(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    log.maybe_increment_log_start_offset(9, DELETED)
    config = {"cleanup_policy": frozenset({"compact"}), "retention_bytes": 0, "retention_ms": 0}
    assert keep(env, log, **config) == 1
    log.maybe_increment_log_start_offset(10, DELETED)
    assert keep(env, log, **config) == 1
    assert (log.log_start_offset, log.segment_count) == (10, 1)


def test_segments_above_the_high_watermark_are_kept(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    log.update_high_watermark(9)
    assert keep(env, log, retention_bytes=0) == 1
    assert log.log_start_offset == 5


def test_files_are_renamed_now_and_removed_when_due(env: FaultEnv) -> None:
    deletions = DeletionQueue(env)
    log = new_log(env, small_config(retention_bytes=0, file_delete_delay_ms=500), deletions=deletions)
    fill(log, 12)
    assert log.delete_old_segments() == 3
    renamed = [name for name in names(env) if name.endswith(".deleted")]
    assert len(renamed) == 3 * 3 + 2  # a snapshot with all but the first
    assert deletions.take_due(env.time_ms + 499) == []
    for deletion in deletions.take_due(env.time_ms + 500):
        deletion.run()
        deletion.run()
    assert [name[20:] for name in names(env)] == [".index", ".log", ".snapshot", ".timeindex"]
    assert len(deletions) == 0


def test_idempotent_producers_outlive_their_records(env: FaultEnv, log: UnifiedLog) -> None:
    log.append_as_leader(make_batch(bytes(900), producer=(7, 0, 0)), 0)
    fill(log, 3)
    assert keep(env, log, retention_bytes=0) == 2
    env.kill()
    log = new_log(env)
    assert log.log_end_offset == 4
    info = log.append_as_leader(make_batch(bytes(900), producer=(7, 0, 0)), 0)
    assert (info.duplicate, info.first_offset) == (True, 0)


def test_a_retention_that_fails_takes_the_log_offline(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    env.inject(lambda _number, kind, _path: Fault() if kind == "rename" else None)
    with pytest.raises(KafkaStorageError, match="retention"):
        keep(env, log, retention_bytes=0)
    assert log.is_failed


# -- flush --


def test_a_flush_covers_the_log_as_it_was_at_its_start(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 7)
    assert log.unflushed_messages == 7
    job = log.prepare_flush()
    fill(log, 4)
    job.run()
    assert log.recovery_point == 0
    log.complete_flush(job)
    assert (log.recovery_point, log.unflushed_messages) == (7, 4)
    env.crash()
    assert set(range(7)) <= set(read_values(new_log(env, recovery_point=7)))


def test_when_a_flush_is_due(env: FaultEnv) -> None:
    log = new_log(env, small_config(flush_messages=3, flush_ms=100))
    fill(log, 2)
    assert not log.needs_flush()
    assert not log.needs_flush(T0 + 99)
    assert log.needs_flush(T0 + 100)
    fill(log, 1)
    assert log.needs_flush()
    log.flush()
    assert not log.needs_flush(T0 + 1000)
    log.roll()
    assert log.needs_flush()
    log.flush()
    assert not log.needs_flush()


def test_a_flush_of_a_flushed_log_writes_nothing(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 6)
    log.roll()
    log.flush()
    env.inject(None)
    log.flush()
    assert env.operations == 0
    log.roll()
    log.assign_epoch_start_offset(9, 6)
    log.flush()
    assert env.operations > 0
    assert env.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n0 0\n9 6\n"


def test_a_flush_syncs_indexes_snapshots_and_epochs(env: FaultEnv, log: UnifiedLog) -> None:
    """After a crash of the machine, nothing before the recovery point is rebuilt."""
    fill(log, 6, epoch=1)
    fill(log, 6, epoch=2)
    log.flush()
    wanted = {
        name: env.read_file(f"{DIRECTORY}/{name}")
        for name in names(env)
        if not name.startswith(f"{10:020d}.")
    }
    env.crash()
    found = {name: env.read_file(f"{DIRECTORY}/{name}") for name in names(env)}
    assert {name: found.get(name) for name in wanted} == wanted
    assert found[f"{10:020d}.snapshot"]
    assert found["leader-epoch-checkpoint"] == b"0\n2\n1 0\n2 6\n"


def test_a_flush_that_fails_takes_the_log_offline(env: FaultEnv, log: UnifiedLog) -> None:
    """A second fsync after one that failed may succeed although the data is gone."""
    fill(log, 3)
    job = log.prepare_flush()
    env.inject(nth(0))
    job.run()
    env.inject(None)
    with pytest.raises(KafkaStorageError, match="fsync") as caught:
        log.complete_flush(job)
    assert caught.value.__cause__ is job.error
    assert log.is_failed
    assert log.recovery_point == 0


@pytest.mark.parametrize("kind", ["open", "sync_dir"])
def test_a_flush_without_descriptors_is_repeated_by_the_next(
    env: FaultEnv, log: UnifiedLog, kind: str
) -> None:
    """Nothing is lost: files that could not be opened were not synced, and the next flush syncs them."""
    fill(log, 6, epoch=1)
    fill(log, 6, epoch=2)
    job = log.prepare_flush()
    no_descriptor = Fault(errno.EMFILE)
    env.inject(lambda number, wanted, path: no_descriptor if wanted == kind else None)
    job.run()
    env.inject(None)
    with pytest.raises(OutOfResourcesError):
        log.complete_flush(job)
    assert (log.is_failed, log.recovery_point) == (False, 0)
    log.flush()
    assert log.recovery_point == 12
    wanted = {name for name in names(env) if not name.startswith(f"{10:020d}.")}
    env.crash()
    assert wanted <= set(names(env))
    assert env.read_file(f"{DIRECTORY}/{10:020d}.snapshot")
    assert env.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n2 6\n"


def test_a_flush_that_cannot_begin_raises(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 3)
    log.release()
    env.inject(nth(0))
    with pytest.raises(KafkaStorageError) as caught:
        log.prepare_flush()
    assert isinstance(caught.value.__cause__, OSError)
    env.inject(None)
    log.flush()
    assert log.recovery_point == 3


def test_a_deleted_log_may_be_flushed(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    job = log.prepare_flush()
    log.delete()
    job.run()
    log.complete_flush(job)


# -- failures of appends --


def test_a_failed_append_that_is_undone_leaves_the_log_online(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 2)
    env.inject(nth(0, Fault(half=True)))
    with pytest.raises(KafkaStorageError) as caught:
        append(log, b"lost")
    assert caught.value.undone
    assert isinstance(caught.value.__cause__, OSError)
    assert append(log, b"kept") == 2
    env.kill()
    log = new_log(env)
    assert log.truncated_bytes == 0
    assert read_values(log)[2] == b"kept"


def test_a_failed_append_that_cannot_be_undone_takes_the_log_offline(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 2)
    env.inject(lambda _number, kind, _path: Fault(half=True) if kind in ("pwritev", "truncate") else None)
    with pytest.raises(KafkaStorageError):
        append(log, b"lost")
    env.inject(None)
    with pytest.raises(KafkaStorageError, match="offline"):
        append(log, b"refused")
    env.kill()
    log = new_log(env)
    assert log.truncated_bytes > 0
    assert append(log, b"kept") == 2


@pytest.mark.parametrize(("restarted", "first"), [(False, 0), (True, 0), (True, 1)])
def test_an_append_without_descriptors_leaves_the_log_online(
    env: FaultEnv, log: UnifiedLog, *, restarted: bool, first: int
) -> None:
    """The first append opens the segment after a start, and where many segments share the limit of open files."""
    config = small_config(index_interval_bytes=1)
    log.update_config(config)
    fill(log, 2)
    log.flush()
    if restarted:
        log.close()
        log = new_log(env, config, is_clean=True, recovery_point=2)
    else:
        log.release()
    left = first

    def no_descriptor(_number: int, kind: str, _path: str) -> Fault | None:
        nonlocal left
        if kind not in ("open", "map"):
            return None
        left -= 1
        return Fault(errno.EMFILE) if left < 0 else None

    env.inject(no_descriptor)
    with pytest.raises(OutOfResourcesError):
        append(log, b"lost")
    env.inject(None)
    assert not log.is_failed
    assert append(log, b"kept") == 2
    env.kill()
    log = new_log(env, config)
    assert log.truncated_bytes == 0
    assert read_values(log)[2] == b"kept"


def test_a_failed_roll_can_be_retried(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 5)
    for operation in range(8):
        env.inject(nth(operation))
        with pytest.raises(KafkaStorageError) as caught:
            fill(log, 1)
        assert caught.value.undone
        assert isinstance(caught.value.__cause__, OSError)
    env.inject(None)
    fill(log, 1)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    assert list(read_values(log)) == list(range(6))


def test_a_failed_snapshot_is_skipped(env: FaultEnv, log: UnifiedLog) -> None:
    append(log, b"a")
    env.inject(lambda _number, kind, path: Fault() if path.endswith(".snapshot") else None)
    log.roll()
    env.inject(None)
    append(log, b"b")
    env.kill()
    assert read_values(new_log(env)) == {0: b"a", 1: b"b"}


def test_an_aborted_transaction_that_cannot_be_indexed_takes_the_log_offline(
    env: FaultEnv, log: UnifiedLog
) -> None:
    log.append_as_leader(make_batch(b"a", producer=(7, 0, 0), transactional=True), 0)
    env.inject(lambda _number, _kind, path: Fault() if path.endswith(".txnindex") else None)
    with pytest.raises(KafkaStorageError, match="txnindex") as caught:
        log.append_as_leader(end_txn(7, 0, commit=False), 0, AppendOrigin.COORDINATOR)
    assert isinstance(caught.value.__cause__, OSError)
    assert log.is_failed


@pytest.mark.parametrize("call", ["read", "time", "youngest"])
def test_a_failed_read_raises_and_can_be_repeated(env: FaultEnv, log: UnifiedLog, call: str) -> None:
    fill(log, 12)
    log.release()
    env.inject(nth(0))
    calls = {
        "read": lambda: log.read(0, 100, FetchIsolation.HIGH_WATERMARK, min_one_message=True),
        "time": lambda: log.fetch_offset_by_timestamp(T0),
        "youngest": log.offset_of_max_timestamp,
    }
    with pytest.raises(KafkaStorageError) as caught:
        calls[call]()
    assert isinstance(caught.value.__cause__, OSError)
    env.inject(None)
    assert not log.is_failed
    assert calls[call]() is not None


# -- renames, closing, and other cases --


def test_a_log_directory_can_be_renamed(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12)
    log.rename_dir("/logs/t-0.abc-delete")
    assert not env.exists(DIRECTORY)
    fill(log, 12)
    log.flush()
    log.assign_topic_id(TOPIC_ID)
    assert env.exists("/logs/t-0.abc-delete/partition.metadata")
    assert env.exists("/logs/t-0.abc-delete/leader-epoch-checkpoint")
    assert list(read_values(log)) == list(range(24))


def test_a_closed_log_reopens_unchanged(env: FaultEnv, log: UnifiedLog) -> None:
    fill(log, 12, epoch=3)
    log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 3)
    log.flush()
    log.close()
    assert env.maps == 0
    assert f"{13:020d}.snapshot" in names(env)
    files = {name: env.read_file(f"{DIRECTORY}/{name}") for name in names(env)}
    env.kill()
    env.inject(None)
    again = new_log(env, is_clean=True)
    assert (again.log_end_offset, again.recovery_point, again.latest_epoch) == (13, 13, 3)
    assert again.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 3).duplicate
    again.close()
    assert {name: env.read_file(f"{DIRECTORY}/{name}") for name in names(env)} == files


def test_a_truncation_at_the_log_end_removes_an_epoch_without_records(log: UnifiedLog) -> None:
    """Such an epoch is of a leader that was replaced before it appended."""
    fill(log, 3, epoch=1)
    log.assign_epoch_start_offset(2, 3)
    assert not log.truncate_to(7)
    assert log.leader_epoch_cache.entries == [(1, 0)]


def test_batches_of_a_raft_leader_have_their_offsets_and_epoch(log: UnifiedLog) -> None:
    batch = make_batch(b"a", b"b", base_offset=0, epoch=4)
    info = log.append_as_leader(batch, 4, AppendOrigin.RAFT_LEADER)
    assert (info.first_offset, info.last_offset, log.latest_epoch) == (0, 1, 4)
    with pytest.raises(InvalidRecordError, match="of epoch 3"):
        log.append_as_leader(make_batch(b"c", base_offset=2, epoch=3), 4, AppendOrigin.RAFT_LEADER)
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_as_leader(make_batch(b"c", base_offset=1, epoch=4), 4, AppendOrigin.RAFT_LEADER)
    assert log.log_end_offset == 2


def test_a_transaction_is_verified_before_its_first_batch(log: UnifiedLog) -> None:
    log.producer_state_manager.verifies_transactions = True
    batch = make_batch(b"v", producer=(7, 0, 0), transactional=True)
    guard = log.start_transaction_verification(7, 0, 0)
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(batch, 0)
    assert log.log_end_offset == 0
    log.append_as_leader(batch, 0, verification_guard=guard)
    assert log.start_transaction_verification(7, 1, 0) is None
    marker = end_txn(7, 0, commit=True)
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR, transaction_version=2)
    log.append_as_leader(end_txn(7, 1, commit=True), 0, AppendOrigin.COORDINATOR, transaction_version=2)
    assert log.offsets.first_unstable_offset is not None  # until the marker is replicated
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_timestamps_from_the_future_are_logged_once(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    """They prevent retention by time of their segment and of all after it."""
    log = new_log(env, small_config(retention_ms=1000))
    append(log, b"old", timestamp=T0 - 5000)
    log.roll()
    append(log, b"from the future", timestamp=T0 + 10**9)
    log.roll()
    append(log, b"old", timestamp=T0 - 5000)
    log.roll()
    assert log.delete_old_segments() == 1
    for _ in range(3):
        assert log.delete_old_segments() == 0
    said = [message for message in caplog.messages if "from the future" in message]
    assert len(said) == 1
    assert f"{1:020d}.log" in said[0]
    env.time_ms += 10**9 + 2000
    assert log.delete_old_segments() == 2


def test_deleted_records_stay_deleted_after_a_stop_and_may_return_after_a_crash(env: FaultEnv) -> None:
    """As in Apache Kafka, the log start offset is checkpointed periodically, not at once."""

    def opened() -> tuple[LogManager, UnifiedLog]:
        manager = LogManager(env, ["/logs"], lambda _topic: small_config())
        manager.dirs.lock()
        manager.load_logs()
        return manager, manager.get_or_create_log("t", 0, TOPIC_ID)

    env.mkdir("/logs")
    manager, log = opened()
    fill(log, 30)
    log.update_high_watermark(30)
    log.maybe_increment_log_start_offset(5, DELETED)
    for job in manager.dirs.log_start_offset_jobs():
        job()
    log.maybe_increment_log_start_offset(6, DELETED)
    env.kill()
    manager, log = opened()
    assert log.log_start_offset == 5
    log.update_high_watermark(30)
    log.maybe_increment_log_start_offset(6, DELETED)
    manager.shutdown()
    manager, log = opened()
    assert log.log_start_offset == 6
    assert min(read_values(log)) == 6


def test_lookup_by_time_in_segments_out_of_order_in_time(env: FaultEnv) -> None:
    """The first closed segment that is young enough is cached, until segments are added or removed."""
    log = new_log(env)
    times = [50, 10, 90, 90, 20, 130, 5, 60, 131, 7, 7, 140, 1, 2, 3, 4]
    for number, time in enumerate(times):
        append(log, b"%020d" % number + bytes(100), timestamp=T0 + time)
        for target in (0, 11, 51, 91, 131, 139, 141):
            offsets = [
                offset for offset in range(log.log_start_offset, number + 1) if times[offset] >= target
            ]
            found = log.fetch_offset_by_timestamp(T0 + target)
            assert (None if found is None else found.offset) == min(offsets, default=None)
    log.truncate_to(7)
    found = log.fetch_offset_by_timestamp(T0 + 130)
    assert found is not None
    assert found.offset == 5
    assert log.fetch_offset_by_timestamp(T0 + 131) is None
