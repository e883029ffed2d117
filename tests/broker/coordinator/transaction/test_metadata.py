"""TransactionMetadata: steps from one state to the next."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.transaction.metadata import MAX_EPOCH, TV_0, TV_2, TransactionMetadata
from barnabas.broker.coordinator.transaction.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)

NEW = TransactionMetadata("tx", 7, 60_000, 100)
P, Q = ("t", 0), ("t", 1)


def at_epoch(epoch: int) -> TransactionMetadata:
    return NEW._replace(producer_epoch=epoch)


def test_the_first_epoch_is_zero() -> None:
    first = NEW.with_next_epoch(30_000, 110, last_epoch=-1)
    assert (first.state, first.producer_epoch, first.last_producer_epoch) == (EMPTY, 0, -1)
    assert (first.timeout_ms, first.last_update_timestamp_ms, first.start_timestamp_ms) == (30_000, 110, -1)
    assert first.previous_producer_id == 7


def test_a_transaction_begins_with_its_first_partition() -> None:
    begun = at_epoch(0).with_partitions([P], 120, TV_2)
    assert (begun.state, begun.partitions, begun.start_timestamp_ms) == (ONGOING, (P,), 120)
    more = begun.with_partitions([P, Q], 130, TV_2)
    assert (more.partitions, more.start_timestamp_ms, more.last_update_timestamp_ms) == ((P, Q), 120, 130)


@pytest.mark.parametrize(
    ("commits", "states"),
    [(True, (PREPARE_COMMIT, COMPLETE_COMMIT)), (False, (PREPARE_ABORT, COMPLETE_ABORT))],
)
@pytest.mark.parametrize(("version", "epochs"), [(TV_0, (3, -1)), (TV_2, (4, 3))])
def test_a_transaction_ends(
    commits: bool, states: tuple[object, object], version: int, epochs: tuple[int, int]
) -> None:
    begun = at_epoch(3).with_partitions([P], 120, version)
    ending = begun.ending(commits=commits, client_version=version, now_ms=150)
    assert ending.state is states[0]
    assert (ending.producer_epoch, ending.last_producer_epoch) == epochs
    assert (ending.partitions, ending.start_timestamp_ms, ending.commits) == ((P,), 120, commits)
    ended = ending.completed(160)
    assert ended.state is states[1]
    assert (ended.producer_epoch, ended.last_producer_epoch) == epochs
    assert (ended.partitions, ended.start_timestamp_ms, ended.last_update_timestamp_ms) == ((), 120, 160)


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    begun = at_epoch(MAX_EPOCH - 1).with_partitions([P], 120, TV_2)
    ending = begun.ending(commits=True, client_version=TV_2, now_ms=150, next_producer_id=8)
    assert (ending.producer_id, ending.producer_epoch, ending.next_producer_id) == (7, MAX_EPOCH, 8)
    ended = ending.completed(160)
    assert (ended.producer_id, ended.producer_epoch, ended.next_producer_id) == (8, 0, -1)
    assert (ended.previous_producer_id, ended.last_producer_epoch) == (7, MAX_EPOCH - 1)


@pytest.mark.parametrize(
    ("version", "before", "after"),
    [(2, 3, 4), (1, 3, 4), (0, 3, 4), (2, MAX_EPOCH, MAX_EPOCH), (1, MAX_EPOCH, MAX_EPOCH)],
)
def test_fencing_bumps_the_epoch_unless_it_is_the_last(version: int, before: int, after: int) -> None:
    fenced = at_epoch(before).with_partitions([P], 120, TV_0).fenced_and_aborting(version, 150)
    assert (fenced.state, fenced.producer_epoch) == (PREPARE_ABORT, after)
    assert fenced.last_producer_epoch == (before if version == 2 else -1)
    assert fenced.client_version == (2 if version == 2 else 0)


def test_with_version_2_an_empty_transaction_may_be_aborted() -> None:
    ending = at_epoch(0).ending(commits=False, client_version=TV_2, now_ms=150)
    assert (ending.state, ending.start_timestamp_ms, ending.partitions) == (PREPARE_ABORT, 150, ())


def test_invalid_transitions() -> None:
    begun = at_epoch(0).with_partitions([P], 120, TV_2)
    ending = begun.ending(commits=True, client_version=TV_2, now_ms=150)
    with pytest.raises(AssertionError):
        at_epoch(0).ending(commits=True, client_version=TV_2, now_ms=150)
    with pytest.raises(AssertionError):
        ending.with_partitions([Q], 160, TV_2)
    with pytest.raises(AssertionError):
        begun.completed(160)
    with pytest.raises(AssertionError):
        ending.with_next_epoch(60_000, 160, last_epoch=-1)
    with pytest.raises(AssertionError):
        at_epoch(MAX_EPOCH - 1).with_next_epoch(60_000, 160, last_epoch=-1)


def test_transactions_time_out_except_under_two_phase_commit() -> None:
    begun = at_epoch(0).with_partitions([P], 1_000, TV_2)
    assert not begun.has_timed_out(61_000)
    assert begun.has_timed_out(61_001)
    assert not begun._replace(timeout_ms=2**31 - 1).has_timed_out(1 << 60)
    assert not begun.ending(commits=True, client_version=TV_2, now_ms=1_000).has_timed_out(1 << 60)


def test_an_id_expires_only_without_an_open_transaction() -> None:
    assert NEW.has_expired(200, 100)
    assert not NEW.has_expired(199, 100)
    assert not at_epoch(0).with_partitions([P], 100, TV_2).has_expired(1 << 60, 100)
