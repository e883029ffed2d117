"""The simulation finds what it is there to find: coordinators that are broken on purpose.

Each of these takes one rule out of the broker, and some seed among a few has to tell.
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
from barnabas.broker.startup.housekeeping import Housekeeping
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.cleaner.cleaned_transactions import CleanedTransactions
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.txn_index import TransactionIndex
from tests.simulation import scenario
from tests.simulation.scenario import LONG, Scenario

SEEDS = range(100)
PAUSES = ("freeze", "one_more", "lose_member")
"""What brings members to light that do not know yet that they are none any more."""


def found(themes: Sequence[str], *troubles: str) -> str:
    """What the first seed that notices has to say; fails where none does."""
    for seed in SEEDS:
        try:
            Scenario(seed, themes, troubles or None, LONG).run()
        except AssertionError as violation:
            print(f"seed {seed}: {violation}")
            return str(violation)
    pytest.fail(f"none of {len(SEEDS)} seeds notices")


def test_a_partition_that_is_given_away_before_it_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reconciliation, "_owns_any", lambda self, partitions: False)
    assert "is owned by" in found(["modern"])


def test_an_offset_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OffsetStore.put

    def put(self: OffsetStore, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        if committed.offset % 5 != 4:
            original(self, group, topic, partition, committed)

    monkeypatch.setattr(OffsetStore, "put", put)
    monkeypatch.setattr(scenario, "check_replay", lambda machine: 0)  # it notices sooner
    assert "committed" in found(["eager"])


def test_a_marker_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TxnMarkerWriter._append
    calls = 0

    def append(self: TxnMarkerWriter, marker: TransactionMarker, partitions: Any, answers: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 7:
            original(self, marker, partitions, answers)
            return
        for partition in partitions:
            answers.put(partition, ErrorCode.NONE)

    monkeypatch.setattr(TxnMarkerWriter, "_append", append)
    found(["transactions"])


def test_a_log_that_is_not_made_when_there_is_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Housekeeping, "open_missing_logs", lambda self: None)
    assert "no log" in found(["eager"], "run_out_of_inodes")


def test_a_fenced_producer_whose_batch_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_aborts_that_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TxnMarkerWriter._append

    def append(self: TxnMarkerWriter, marker: TransactionMarker, partitions: Any, answers: Any) -> None:
        original(self, marker._replace(committed=True), partitions, answers)

    monkeypatch.setattr(TxnMarkerWriter, "_append", append)
    assert "is not committed" in found(["transactions"])


@pytest.mark.slow
def test_aborted_transactions_that_are_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        TransactionIndex, "collect", lambda self, fetch_offset, upper_bound_offset: ([], True)
    )
    assert "is not committed" in found(["transactions"])


@pytest.mark.slow
def test_transactions_without_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionMetadata, "has_timed_out", lambda self, now_ms: False)
    assert "still" in found(["transactions"])


@pytest.mark.slow
def test_commits_of_members_that_are_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicGroup, "check_offset_commit", lambda self, *args, **kwargs: None)
    said = found(["eager"], *PAUSES)
    assert "committed for" in said or "went back" in said


@pytest.mark.slow
def test_offsets_of_open_transactions_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PendingOffsets, "open_partitions", lambda self, group_id, topic: {})
    assert "twice" in found(["classic chain"], *PAUSES)


@pytest.mark.slow
def test_records_that_are_replayed_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    original = RecordQueue.add
    calls = 0

    def add(self: RecordQueue[Any], batch: Any, records: Any) -> None:
        nonlocal calls
        calls += 1
        original(self, batch, records if calls % 8 else records[:-1])

    monkeypatch.setattr(RecordQueue, "add", add)
    found(["eager", "modern"])


@pytest.mark.slow
def test_transactional_offsets_of_members_that_are_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetManager, "_check_transactional", lambda self, group, commit: None)
    assert "committed for" in found(["classic chain"], *PAUSES)


@pytest.mark.slow
def test_compaction_that_takes_offsets_of_transactions_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CleanedTransactions, "may_discard", lambda self, batch: not batch.is_control)
    assert "what its log says" in found(["classic chain"], "stop", "one_more")
