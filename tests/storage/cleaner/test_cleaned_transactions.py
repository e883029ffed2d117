"""The aborted transactions that the cleaner finds, and the batches and markers that it keeps."""

from __future__ import annotations

import pytest

from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.control import ControlRecordType, control_record_key
from barnabas.storage.cleaner.cleaned_transactions import AbortedTransactionFiles, CleanedTransactions
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.names import segment_path
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex
from tests.protocol.records.raw_batches import empty_batch
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, T0, end_txn

# (producer, first offset, marker, last stable offset then), by the segment where the marker is
ENTRIES = {0: [(1, 5, 9, 10)], 100: [(2, 50, 120, 110), (1, 110, 130, 140)], 300: [(3, 310, 320, 400)]}


def entry(producer_id: int, first: int, last: int, stable: int) -> AbortedTxn:
    return AbortedTxn(producer_id, first, last, stable)


def packed(values: tuple[int, int, int, int], version: int = 0) -> bytes:
    return TransactionIndex.ENTRY.pack(version, *values)


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv()
    env.mkdir(DIRECTORY)
    for base_offset, entries in ENTRIES.items():
        path = segment_path(DIRECTORY, base_offset, ".txnindex")
        env.write_file(path, b"".join(packed(values) for values in entries))
    env.write_file(f"{DIRECTORY}/junk.txnindex", b"?")
    return env


@pytest.mark.parametrize(
    ("first", "end", "markers"),
    [
        (0, 100, [9, 120]),
        (100, 110, [120]),  # the entry says that all before 110 was decided
        (100, 200, [120, 130]),
        (0, 1000, [9, 120, 130, 320]),
    ],
)
def test_overlapping_transactions_are_found_wherever_their_marker_is(
    env: FaultEnv, first: int, end: int, markers: list[int]
) -> None:
    found = AbortedTransactionFiles(env, DIRECTORY).overlapping(first, first, end)
    assert [each.last_offset for each in found] == markers


def test_a_partly_written_entry_is_ignored(env: FaultEnv) -> None:
    data = env.file(segment_path(DIRECTORY, 300, ".txnindex")).data
    data += packed((9, 1, 2, 3))[:20]
    found = AbortedTransactionFiles(env, DIRECTORY).overlapping(300, 300, 1000)
    assert [each.last_offset for each in found] == [320]


def test_an_entry_of_another_version_is_rejected(env: FaultEnv) -> None:
    env.write_file(segment_path(DIRECTORY, 300, ".txnindex"), packed((9, 1, 2, 3), version=1))
    with pytest.raises(CorruptIndexError):
        AbortedTransactionFiles(env, DIRECTORY).overlapping(300, 300, 1000)


def data(producer_id: int, offset: int) -> RecordBatch:
    return RecordBatch(
        build_batch(
            [(b"k", b"v", T0, ())],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def marker(producer_id: int, offset: int, *, commit: bool) -> RecordBatch:
    batch = bytearray(end_txn(producer_id, 0, commit=commit))
    batch[:8] = offset.to_bytes(8, "big")
    return RecordBatch(batch)


def test_an_aborted_transaction_with_data_keeps_its_marker_and_entry() -> None:
    transactions = CleanedTransactions()
    aborted = entry(1, 5, 9, 10)
    transactions.add_aborted([aborted, aborted])  # two segments may have its entry
    assert not transactions.may_discard(data(2, 3))
    assert transactions.may_discard(data(1, 5))
    assert not transactions.may_discard(marker(1, 9, commit=False))
    assert transactions.take_retained() == [aborted]
    assert transactions.take_retained() == []
    assert not transactions.may_discard(data(1, 10))  # its next transaction


def test_a_marker_without_data_may_be_removed() -> None:
    transactions = CleanedTransactions()
    transactions.add_aborted([entry(1, 5, 9, 10)])
    assert transactions.may_discard(marker(1, 9, commit=False))
    assert transactions.may_discard(marker(2, 11, commit=True))
    assert transactions.take_retained() == []


def test_a_commit_with_data_keeps_its_marker_once() -> None:
    transactions = CleanedTransactions()
    assert not transactions.may_discard(data(1, 5))
    assert not transactions.may_discard(marker(1, 6, commit=True))
    assert transactions.may_discard(marker(1, 7, commit=True))


def test_other_control_batches_stay_and_empty_ones_may_be_removed() -> None:
    transactions = CleanedTransactions()
    change = build_batch(
        [(control_record_key(ControlRecordType.LEADER_CHANGE), b"", T0, ())], is_control=True
    )
    assert not transactions.may_discard(RecordBatch(change))
    emptied = empty_batch(base_offset=1, last_offset=1, timestamp=T0, is_control=True, is_transactional=True)
    assert transactions.may_discard(RecordBatch(emptied))
