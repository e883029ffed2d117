"""The rules of transactional ids: allowed requests of producers, and the errors of rejected ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.broker.coordinator.transaction.metadata import MAX_EPOCH
from barnabas.broker.coordinator.transaction.rules import ProducerAnswer, ProducerIdAndEpoch
from barnabas.broker.coordinator.transaction.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.broker.coordinator.transaction.transaction_harness import T0, T1, TX, TransactionHarness, ids

FENCED, MAPPING = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
CONCURRENT, INVALID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(ApiError) as caught:
        yield
    assert caught.value.code is code


def exhausted(left: int = 0, version: int = 2) -> tuple[TransactionHarness, tuple[int, int]]:
    """A producer that is `left` epochs before the last one for clients."""
    harness = TransactionHarness(version)
    producer_id, _ = ids(harness.init())
    last = MAX_EPOCH - 1 - left
    harness.shard.transactions[TX] = harness.metadata()._replace(producer_epoch=last)
    return harness, (producer_id, last)


# ---- InitProducerId


def test_each_producer_fences_its_predecessors() -> None:
    harness = TransactionHarness()
    first, second = ids(harness.init()), ids(harness.init())
    assert (first, second) == ((1000, 0), (1000, 1))
    with refused(FENCED):
        harness.add(first, T0)
    with refused(FENCED):
        harness.end(first, commits=True)
    harness.add(second, T0)


@pytest.mark.parametrize(("version", "epoch"), [(2, 2), (1, 2), (0, 2)])
def test_an_open_transaction_is_aborted_first(version: int, epoch: int) -> None:
    harness = TransactionHarness(version)
    first = ids(harness.init())
    harness.add(first, T0)
    harness.markers.is_held = True
    assert harness.init() == ProducerAnswer(CONCURRENT)
    assert harness.metadata().state is PREPARE_ABORT
    with refused(CONCURRENT):
        harness.init()
    harness.markers.release()
    harness.settle()
    assert harness.metadata().state is COMPLETE_ABORT
    assert ids(harness.init()) == (1000, epoch)
    with refused(FENCED):
        harness.end(first, commits=True)


def test_a_producer_bumps_its_epoch_and_a_retry_has_the_same_result() -> None:
    harness = TransactionHarness()
    first = ids(harness.init())
    second = ids(harness.init(first))
    assert second == (1000, 1)
    assert ids(harness.init(first)) == second
    assert ids(harness.init(first)) == second
    third = ids(harness.init(second))
    assert third == (1000, 2)
    with refused(FENCED):
        harness.init(first)
    with refused(FENCED):
        harness.init((1001, 2))
    with refused(FENCED):
        harness.init((1000, 3))


def test_a_fenced_producer_cannot_bump_its_epoch() -> None:
    harness = TransactionHarness()
    first = ids(harness.init())
    ids(harness.init())
    with refused(FENCED):
        harness.init(first)


def test_a_retry_after_a_load_is_not_recognized() -> None:
    harness = TransactionHarness()
    first = ids(harness.init())
    ids(harness.init(first))
    with refused(FENCED):
        harness.reloaded().init(first)


def test_a_producer_unknown_so_far_gets_an_id() -> None:
    harness = TransactionHarness()
    assert ids(harness.init((77, 5))) == (1000, 0)


def test_after_the_last_epoch_a_new_producer_id_is_assigned() -> None:
    harness, _ = exhausted(left=1)
    assert ids(harness.init()) == (1000, MAX_EPOCH - 1)
    assert ids(harness.init()) == (1001, 0)
    assert harness.metadata().previous_producer_id == 1000


def test_a_producer_in_its_last_epoch_gets_a_new_id_and_a_retry_has_the_same_result() -> None:
    harness, last = exhausted()
    renewed = ids(harness.init(last))
    assert renewed == (1001, 0)
    assert ids(harness.init(last)) == renewed
    with refused(FENCED):
        harness.init((1000, MAX_EPOCH - 2))
    assert ids(harness.init(renewed)) == (1001, 1)


def test_an_older_epoch_than_the_last_is_an_unknown_server_error() -> None:
    harness, (producer_id, last) = exhausted()
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        harness.init((producer_id, last - 1))


# ---- AddPartitionsToTxn


def test_only_the_owner_of_the_id_adds_partitions() -> None:
    harness = TransactionHarness()
    producer_id, epoch = producer = ids(harness.init())
    harness.add(producer, T0)
    harness.add(producer, T0)
    harness.add(producer, T1)
    assert harness.metadata().partitions == (T0, T1)
    assert len(harness.shard_harness.records) == 3
    with refused(MAPPING):
        harness.add(producer, T0, name="nobody")
    with refused(MAPPING):
        harness.add((producer_id + 1, epoch), T0)
    with refused(FENCED):
        harness.add((producer_id, epoch + 1), T0)


def test_no_transaction_begins_while_another_ends() -> None:
    harness = TransactionHarness()
    producer_id, epoch = producer = ids(harness.init())
    harness.add(producer, T0)
    harness.markers.is_held = True
    harness.end(producer, commits=True)
    for somebody in (producer, (producer_id, epoch + 1), (producer_id + 1, 0)):
        with refused(CONCURRENT):
            harness.add(somebody, T0)


def test_partitions_are_verified() -> None:
    harness = TransactionHarness()
    producer_id, epoch = producer = ids(harness.init())
    harness.add(producer, T0)

    def verify(name: str = TX, producer: tuple[int, int] = producer) -> object:
        return harness.shard.verify_partitions(name, ProducerIdAndEpoch(*producer), [T0, T1])

    assert verify() == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
    with refused(MAPPING):
        verify("nobody")
    with refused(MAPPING):
        verify(producer=(producer_id + 1, epoch))
    with refused(FENCED):
        verify(producer=(producer_id, epoch + 1))
    harness.markers.is_held = True
    harness.end(producer, commits=True, version=0)
    with refused(CONCURRENT):
        verify()


# ---- EndTxn


def ended(was_committed: bool | None, version: int) -> tuple[TransactionHarness, tuple[int, int]]:
    harness = TransactionHarness(version)
    producer = ids(harness.init())
    if was_committed is not None:
        harness.add(producer, T0, version=version)
        answer = harness.end(producer, commits=was_committed, version=version)
        harness.settle()
        producer = ids(answer) if version >= 2 else producer
    return harness, producer


NO_ERROR = ErrorCode.NONE
RETRY, CURRENT = -1, 0


@pytest.mark.parametrize(
    ("was_committed", "commits", "offset", "outcome"),
    [
        (None, False, RETRY, FENCED),
        (None, False, CURRENT, "bump"),
        (None, True, RETRY, FENCED),
        (None, True, CURRENT, INVALID),
        (False, False, RETRY, NO_ERROR),
        (False, False, CURRENT, "bump"),
        (False, True, RETRY, INVALID),
        (False, True, CURRENT, INVALID),
        (True, False, RETRY, INVALID),
        (True, False, CURRENT, "bump"),
        (True, True, RETRY, NO_ERROR),
        (True, True, CURRENT, INVALID),
        (True, True, -2, FENCED),
        (True, True, +1, FENCED),
    ],
)
def test_with_version_2_the_end_of_an_empty_transaction(
    was_committed: bool | None, commits: bool, offset: int, outcome: ErrorCode | str
) -> None:
    harness, (producer_id, epoch) = ended(was_committed, 2)
    asking = (producer_id, epoch + offset)
    if isinstance(outcome, ErrorCode) and outcome is not NO_ERROR:
        with refused(outcome):
            harness.end(asking, commits=commits)
        return
    answer = harness.end(asking, commits=commits)
    assert ids(answer) == (producer_id, epoch + (outcome == "bump"))
    harness.settle()
    assert harness.metadata().state is (COMPLETE_COMMIT if was_committed and commits else COMPLETE_ABORT)


@pytest.mark.parametrize("was_committed", [None, False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_before_version_2_only_a_repeated_end_is_accepted(was_committed: bool | None, commits: bool) -> None:
    harness, (producer_id, epoch) = ended(was_committed, 1)
    before = harness.metadata()
    if was_committed is commits:
        harness.end((producer_id, epoch), commits=commits, version=0)
    else:
        with refused(INVALID):
            harness.end((producer_id, epoch), commits=commits, version=0)
    for other in (epoch - 1, epoch + 1):
        with refused(FENCED):
            harness.end((producer_id, other), commits=commits, version=0)
    with refused(MAPPING):
        harness.end((producer_id + 1, epoch), commits=commits, version=0)
    assert harness.metadata() is before


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_ends_cannot_be_ended_otherwise(version: int) -> None:
    harness = TransactionHarness()
    producer = ids(harness.init())
    harness.add(producer, T0, version=version)
    harness.markers.is_held = True
    harness.end(producer, commits=True, version=version)
    assert harness.metadata().state is PREPARE_COMMIT
    for commits in (True, False):
        with refused(CONCURRENT):
            harness.end(producer, commits=commits, version=version)


def test_the_last_epoch_ends_with_a_new_producer_id_that_a_retry_gets_too() -> None:
    harness, last = exhausted()
    harness.add(last, T0)
    harness.markers.is_held = True
    answer = harness.end(last, commits=True)
    assert ids(answer) == (1001, 0)
    ((marker, partitions),) = harness.markers.asked
    assert (marker.producer_id, marker.producer_epoch, partitions) == (1000, MAX_EPOCH, [T0])
    with refused(CONCURRENT):
        harness.add((1001, 0), T0)
    harness.markers.release()
    harness.settle()
    assert harness.end(last, commits=True) == answer
    with refused(INVALID):
        harness.end(last, commits=False)
    harness.add((1001, 0), T0)
    assert harness.metadata().state is ONGOING
    with refused(MAPPING):
        harness.end((1000, MAX_EPOCH), commits=True)


def test_fencing_in_the_last_epoch_assigns_a_new_producer_id() -> None:
    harness, last = exhausted()
    harness.add(last, T0)
    assert harness.init() == ProducerAnswer(CONCURRENT)
    harness.settle()
    assert (harness.metadata().producer_id, harness.metadata().producer_epoch) == (1001, 0)
    assert ids(harness.init()) == (1001, 1)
    assert harness.metadata().state is EMPTY


def test_before_version_2_the_next_producer_gets_the_new_id() -> None:
    harness, last = exhausted(version=1)
    harness.add(last, T0, version=0)
    assert harness.init() == ProducerAnswer(CONCURRENT)
    harness.settle()
    assert (harness.metadata().producer_id, harness.metadata().producer_epoch) == (1000, MAX_EPOCH)
    assert ids(harness.init()) == (1001, 0)
