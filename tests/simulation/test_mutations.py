"""The simulation finds the faults that it is there to find: coordinators that are broken on purpose.

Each test removes one rule from the broker, and one of a few seeds has to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.consumer.reconciliation import Reconciliation
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager
from barnabas.broker.coordinator.group.offsets.store import CommittedOffset, OffsetStore, PendingOffsets
from barnabas.broker.coordinator.record_queue import RecordQueue
from barnabas.broker.coordinator.transaction import appends as transactional_appends
from barnabas.broker.coordinator.transaction.marker_writer import TxnMarkerWriter
from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.pending import completed
from barnabas.broker.startup.housekeeping import Housekeeping
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.cleaner.cleaned_transactions import CleanedTransactions
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.txn_index import TransactionIndex
from tests.simulation import scenario
from tests.simulation.scenario import LONG, Scenario

SEEDS = range(100)
PAUSES = ("freeze", "add_member", "lose_member")
"""Troubles that make fenced members act before they know that they are fenced."""


def found(themes: Sequence[str], *troubles: str) -> str:
    """The failure of the first seed that fails; fails when none does."""
    for seed in SEEDS:
        try:
            Scenario(seed, themes, troubles or None, LONG).run()
        except AssertionError as violation:
            print(f"seed {seed}: {violation}")
            return str(violation)
    pytest.fail(f"none of {len(SEEDS)} seeds notices")


def test_finds_a_partition_that_is_assigned_before_it_was_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reconciliation, "_owns_any", lambda self, partitions: False)
    assert "is owned by" in found(["modern"])


def test_finds_a_lost_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OffsetStore.put

    def put(self: OffsetStore, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        if committed.offset % 5 != 4:
            original(self, group, topic, partition, committed)

    monkeypatch.setattr(OffsetStore, "put", put)
    monkeypatch.setattr(scenario, "check_replay", lambda machine: 0)  # it fails sooner
    assert "committed" in found(["eager"])


def test_finds_a_lost_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TxnMarkerWriter._append
    calls = 0

    def append(self: TxnMarkerWriter, marker: TransactionMarker, partitions: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 7:
            return original(self, marker, partitions)
        return completed(dict.fromkeys(partitions, ErrorCode.NONE))

    monkeypatch.setattr(TxnMarkerWriter, "_append", append)
    found(["transactions"])


def test_finds_a_log_that_is_not_created_once_there_is_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Housekeeping, "open_missing_logs", lambda self: None)
    assert "no log" in found(["eager"], "run_out_of_inodes")


def test_finds_a_fenced_producer_whose_batch_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    original = transactional_appends._guards

    def guards(
        attempt: transactional_appends._Attempt,
    ) -> tuple[dict[TopicPartition, VerificationGuard], dict[TopicPartition, ErrorCode]]:
        found, errors = original(attempt)
        producer = attempt.producer
        for key, (partition, sequence) in attempt.first_sequences.items():
            if errors.get(key) is ErrorCode.INVALID_PRODUCER_EPOCH:
                del errors[key]
                found[key] = partition.log.producer_state_manager.verifications.start(
                    producer.producer_id,
                    sequence,
                    producer.producer_epoch,
                    supports_epoch_bump=producer.supports_epoch_bump,
                    now_ms=0,
                )
        return found, errors

    monkeypatch.setattr(transactional_appends, "_guards", guards)
    assert "out of order" in found(["transactions"], "replace_writer")


@pytest.mark.slow
def test_finds_aborts_that_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TxnMarkerWriter._append

    def append(self: TxnMarkerWriter, marker: TransactionMarker, partitions: Any) -> Any:
        return original(self, marker._replace(committed=True), partitions)

    monkeypatch.setattr(TxnMarkerWriter, "_append", append)
    assert "is not committed" in found(["transactions"])


@pytest.mark.slow
def test_finds_aborted_transactions_that_fetch_does_not_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        TransactionIndex, "collect", lambda self, fetch_offset, upper_bound_offset: ([], True)
    )
    assert "is not committed" in found(["transactions"])


@pytest.mark.slow
def test_finds_transactions_without_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionMetadata, "has_timed_out", lambda self, now_ms: False)
    assert "still" in found(["transactions"])


@pytest.mark.slow
def test_finds_commits_of_fenced_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicGroup, "check_offset_commit", lambda self, *args, **kwargs: None)
    said = found(["eager"], *PAUSES)
    assert "committed for" in said or "went back" in said


@pytest.mark.slow
def test_finds_fetches_that_ignore_unstable_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PendingOffsets, "open_partitions", lambda self, group_id, topic: {})
    assert "twice" in found(["classic chain"], *PAUSES)


@pytest.mark.slow
def test_finds_records_that_are_replayed_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RecordQueue.add
    calls = 0

    def add(self: RecordQueue[Any], batch: Any, records: Any) -> None:
        nonlocal calls
        calls += 1
        original(self, batch, records if calls % 8 else records[:-1])

    monkeypatch.setattr(RecordQueue, "add", add)
    found(["eager", "modern"])


@pytest.mark.slow
def test_finds_transactional_offsets_of_fenced_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetManager, "_check_transactional", lambda self, group, commit: None)
    assert "committed for" in found(["classic chain"], *PAUSES)


@pytest.mark.slow
def test_finds_compaction_that_removes_offsets_of_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CleanedTransactions, "may_discard", lambda self, batch: not batch.is_control)
    assert "what its log says" in found(["classic chain"], "stop", "add_member")
