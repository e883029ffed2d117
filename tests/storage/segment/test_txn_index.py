"""The transaction index: the bytes of its format, and the transactions that a reader receives."""

import pytest

from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex
from tests.storage.fault_env import FaultEnv


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


ABORTED = AbortedTxn(1000, 10, 20, 21)


def test_transaction_index_bytes_are_kafkas(env: FaultEnv) -> None:
    index = TransactionIndex(env, "/x", 0)
    assert index.collect(0, 100) == ([], False)
    assert not env.exists("/x")
    index.append(ABORTED)
    assert env.read_file("/x").hex(" ", 2) == (
        "0000 0000 0000 0000 03e8 0000 0000 0000 000a 0000 0000 0000 0014 0000 0000 0000 0015"
    )


def test_aborted_transactions_that_overlap_are_found(env: FaultEnv) -> None:
    index = TransactionIndex(env, "/x", 0)
    for entry in (AbortedTxn(1, 0, 10, 11), AbortedTxn(2, 5, 20, 15), AbortedTxn(3, 15, 30, 31)):
        index.append(entry)
    again = TransactionIndex(env, "/x", 0)
    for found in (index, again):
        assert [txn.producer_id for txn in found.collect(0, 5)[0]] == [1]
        assert [txn.producer_id for txn in found.collect(11, 16)[0]] == [2, 3]
        assert found.collect(21, 25)[0][0].first_offset == 15
        assert found.collect(0, 31)[1]
        assert not found.collect(0, 32)[1]


def test_transactions_are_truncated_with_their_markers(env: FaultEnv) -> None:
    index = TransactionIndex(env, "/x", 0)
    index.append(AbortedTxn(1, 0, 10, 11))
    index.append(AbortedTxn(2, 5, 20, 21))
    index.truncate_to(20)
    assert [txn.producer_id for txn in index.transactions] == [1]
    assert env.size("/x") == 34
    index.reset()
    assert index.transactions == []
    assert not env.exists("/x")


@pytest.mark.parametrize("data", [bytes(33), b"\0\1" + bytes(32)])
def test_a_corrupt_transaction_index_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/x", data)
    with pytest.raises(CorruptIndexError, match="/x"):
        _ = TransactionIndex(env, "/x", 0).transactions
