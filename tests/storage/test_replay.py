"""Batches read back in big chunks, and producers followed through them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import CorruptRecordError, RecordBatch
from storage.errors import CorruptIndexError
from storage.offsets import AppendOrigin
from storage.producer_state import ProducerStateManager
from storage.replay import apply_batch, read_batches, rebuild_producer_state
from storage.snapshots import ProducerSnapshotFiles
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, end_txn, fill, make_batch, new_log
from tests.storage.test_scan import MIXED, file_of
from tests.storage.test_segment import new_segment


@given(st.integers(17, 700))
def test_chunks_do_not_matter(chunk_bytes: int) -> None:
    data = b"".join(MIXED)
    found = list(read_batches(file_of(data), 0, len(data), chunk_bytes))
    assert [batch.last_offset for batch in found] == [0, 1, 3, 7, 9]
    for batch in found:
        batch.ensure_valid()


def test_a_walk_may_begin_and_end_anywhere_between_batches() -> None:
    data = b"".join(MIXED)
    start, end = len(MIXED[0]), len(data) - len(MIXED[-1])
    assert [batch.last_offset for batch in read_batches(file_of(data), start, end)] == [1, 3, 7]


@given(st.integers(1, 490))
def test_what_is_cut_off_at_the_end_is_damage(cut: int) -> None:
    data = b"".join(MIXED)
    boundaries = {sum(map(len, MIXED[:index])) for index in range(len(MIXED) + 1)}
    end = len(data) - cut
    if end in boundaries:
        list(read_batches(file_of(data[:end]), 0, end))
    else:
        with pytest.raises(CorruptRecordError):
            list(read_batches(file_of(data[:end]), 0, end))


def test_an_aborted_transaction_goes_into_the_index_of_its_marker() -> None:
    env = FaultEnv()
    env.mkdir("/d")
    segment = new_segment(env)
    producers = ProducerStateManager(ProducerSnapshotFiles(env, "/d", []), "t-0", 1000)
    write = RecordBatch(bytearray(make_batch(b"a", base_offset=100, producer=(7, 0, 0), transactional=True)))
    abort = RecordBatch(bytearray(end_txn(7, 0, commit=False)))
    abort.base_offset = 101
    for segment_or_none, entries in ((None, 0), (segment, 1)):
        apply_batch(producers, write, segment_or_none)
        apply_batch(producers, abort, segment_or_none)
        assert len(segment.txn_index.transactions) == entries
    (entry,) = segment.txn_index.transactions
    assert (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset) == (
        7,
        100,
        101,
        102,
    )


def test_a_damaged_transaction_index_is_told() -> None:
    env = FaultEnv()
    env.mkdir("/d")
    segment = new_segment(env)
    env.write_file(segment.txn_index.path, b"odd")
    with pytest.raises(CorruptIndexError):
        _ = segment.txn_index.transactions


def test_producers_are_followed_from_a_snapshot_to_any_offset() -> None:
    """A truncation goes back to the snapshot at a segment's start, and from there through data and markers."""
    env = FaultEnv()
    log = new_log(env)
    fill(log, 6)
    for producer in (1, 2):
        log.append_as_leader(make_batch(b"a", producer=(producer, 0, 0), transactional=True), 0)
    fill(log, 1)
    log.append_as_leader(end_txn(1, 0, commit=False), 0, AppendOrigin.COORDINATOR)
    log.append_as_leader(make_batch(b"b", producer=(1, 0, 1)), 0)
    log.append_as_leader(make_batch(b"c", producer=(1, 0, 2)), 0)
    end = log.log_end_offset
    assert log.segments[-1].base_offset < 6 < end
    log.truncate_to(end - 1)
    producers = log.producer_state_manager
    assert producers.producers[1].last_sequence == 1
    assert producers.producers[1].current_txn_first_offset == -1
    assert producers.first_unstable_offset == 6  # the marker is not below the high watermark yet
    log.update_high_watermark(end - 1)
    assert log.last_stable_offset == 7
    log.truncate_to(7)
    assert set(producers.producers) == {1}


def test_the_replay_ends_where_it_is_told() -> None:
    log = new_log(FaultEnv())
    for sequence in range(4):
        log.append_as_leader(make_batch(b"a", producer=(7, 0, sequence)), 0)
    rebuild_producer_state(log.producer_state_manager, log._local.segments, 0, 2, T0)
    assert log.producer_state_manager.producers[7].last_sequence == 1


def test_a_snapshot_beyond_what_is_left_of_a_segment_ends_the_replay() -> None:
    env = FaultEnv()
    log = new_log(env)
    fill(log, 4)
    log.producer_state_manager.map_end_offset = 0
    local = log._local
    rebuild_producer_state(log.producer_state_manager, local.segments, 0, 9, env.time_ms)
    assert log.producer_state_manager.map_end_offset == 9
    rebuild_producer_state(log.producer_state_manager, local.segments, 8, 12, env.time_ms)
    assert log.producer_state_manager.map_end_offset == 12
