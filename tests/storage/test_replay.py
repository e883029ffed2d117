"""Batches read back in big chunks, and producers followed through them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import CorruptRecordError, RecordBatch
from storage.errors import CorruptIndexError
from storage.producer_state import ProducerStateManager
from storage.replay import apply_batch, read_batches
from storage.snapshots import ProducerSnapshotFiles
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import end_txn, make_batch
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
