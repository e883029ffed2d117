"""Transactions in a log that moves between log directories keep their state."""

from __future__ import annotations

import pytest

from barnabas.broker.replica.moves import alter_log_dirs
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin, FetchIsolation
from tests.broker.coordinator.transaction.txn_fakes import PRODUCER_ID, txn_batch
from tests.broker.logs import START_MS
from tests.broker.replica.moves.moving_node import MovingNode
from tests.storage.fault_env import FaultEnv


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> MovingNode:
    """A node that copies in small steps, each released by the test."""
    monkeypatch.setattr(alter_log_dirs, "INLINE_BYTES", 300)
    monkeypatch.setattr(alter_log_dirs, "FLUSH_BYTES", 2_000)
    node = MovingNode(FaultEnv())
    node.start()
    return node


def begin(node: MovingNode, sequence: int = 0) -> None:
    """Appends a transactional batch, which begins a transaction or continues it."""
    guard = node.log.start_transaction_verification(PRODUCER_ID, sequence, 0)
    batch = txn_batch(f"{node.log.log_end_offset:08d}", sequence=sequence)
    node.partition.append_as_leader(batch, -1, guard=guard)


def end(node: MovingNode, *, commit: bool) -> None:
    marker = end_transaction_marker(
        commit=commit, coordinator_epoch=0, producer_id=PRODUCER_ID, producer_epoch=0, timestamp=START_MS
    )
    node.partition.append_as_leader(marker, -1, AppendOrigin.COORDINATOR)


def aborted(log: UnifiedLog, offset: int) -> list[int]:
    """The first offsets of the aborted transactions from that offset on."""
    info = log.read(offset, 100_000, FetchIsolation.TXN_COMMITTED, min_one_message=True)
    return sorted(it.first_offset for it in info.aborted_transactions or ())


@pytest.mark.parametrize("after", range(0, 9, 2))
def test_a_transaction_ends_while_its_log_moves(node: MovingNode, after: int) -> None:
    """Whenever the marker is written, it is in the new log, and readers follow it."""
    node.log.producer_state_manager.verifies_transactions = True
    node.append(10)
    begin(node)
    node.append(5)
    node.move("/b")
    for _ in range(after):
        node.step()
    begin(node, sequence=1)
    node.append(1)
    end(node, commit=False)
    node.finish()
    assert node.place == "/b"
    assert node.log.last_stable_offset == node.log.high_watermark == node.log.log_end_offset == 19
    assert aborted(node.log, 10) == [10]


def test_a_transaction_that_is_verified_while_its_log_moves(node: MovingNode) -> None:
    """The verification guard of the old log begins the transaction in the new one."""
    node.log.producer_state_manager.verifies_transactions = True
    node.append(3)
    node.move("/b")
    guard = node.log.start_transaction_verification(PRODUCER_ID, 0, 0)
    node.finish()
    assert node.place == "/b"
    node.partition.append_as_leader(txn_batch("a"), -1, guard=guard)
    assert node.log.last_stable_offset == 3
    end(node, commit=True)
    assert node.log.last_stable_offset == node.log.log_end_offset == 5


def test_a_crash_after_the_move_keeps_the_transactions(node: MovingNode) -> None:
    node.append(2)
    begin(node)
    end(node, commit=False)
    begin(node, sequence=1)
    node.move("/b")
    node.finish()
    node.restart_after(None, power_is_cut=False)
    assert node.place == "/b"
    assert (node.log.last_stable_offset, node.log.log_end_offset) == (4, 5)
    end(node, commit=True)
    assert (node.log.last_stable_offset, aborted(node.log, 2)) == (6, [2])
