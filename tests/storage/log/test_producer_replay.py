"""ProducerReplay: producer state rebuilt from the batches of segments."""

import pytest

from barnabas.protocol.records.batch import RecordBatch
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.log.producer_replay import apply_batch, rebuild_producer_state
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.offsets import AppendOrigin
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, end_txn, fill, make_batch, new_log
from tests.storage.segment.test_segment import new_segment


def test_an_aborted_transaction_is_in_the_index_of_its_markers_segment() -> None:
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


def test_a_damaged_transaction_index_is_reported() -> None:
    env = FaultEnv()
    env.mkdir("/d")
    segment = new_segment(env)
    env.write_file(segment.txn_index.path, b"odd")
    with pytest.raises(CorruptIndexError):
        _ = segment.txn_index.transactions


def test_producers_are_replayed_from_a_snapshot_to_any_offset() -> None:
    """A truncation loads the snapshot at a segment's start, and replays data and markers from there."""
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


def test_the_replay_ends_at_the_given_offset() -> None:
    log = new_log(FaultEnv())
    for sequence in range(4):
        log.append_as_leader(make_batch(b"a", producer=(7, 0, sequence)), 0)
    rebuild_producer_state(log.producer_state_manager, log._local.segments, 0, 2, T0)
    assert log.producer_state_manager.producers[7].last_sequence == 1


def test_a_snapshot_beyond_the_end_of_a_segment_ends_the_replay() -> None:
    env = FaultEnv()
    log = new_log(env)
    fill(log, 4)
    log.producer_state_manager.map_end_offset = 0
    local = log._local
    rebuild_producer_state(log.producer_state_manager, local.segments, 0, 9, env.time_ms)
    assert log.producer_state_manager.map_end_offset == 9
    rebuild_producer_state(log.producer_state_manager, local.segments, 8, 12, env.time_ms)
    assert log.producer_state_manager.map_end_offset == 12
