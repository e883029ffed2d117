"""What producers may do with a transactional id, and what they hear where they may not."""

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
from tests.broker.coordinator.transaction.transaction_harness import T0, T1, TX, TransactionBench, ids

FENCED, MAPPING = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING
CONCURRENT, INVALID = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(ApiError) as caught:
        yield
    assert caught.value.code is code


def exhausted(left: int = 0, version: int = 2) -> tuple[TransactionBench, tuple[int, int]]:
    """A producer in the last epoch but `left` that is given to clients."""
    bench = TransactionBench(version)
    producer_id, _ = ids(bench.init())
    last = MAX_EPOCH - 1 - left
    bench.shard.transactions[TX] = bench.metadata()._replace(producer_epoch=last)
    return bench, (producer_id, last)


# ---- InitProducerId


def test_each_producer_fences_those_before() -> None:
    bench = TransactionBench()
    first, second = ids(bench.init()), ids(bench.init())
    assert (first, second) == ((1000, 0), (1000, 1))
    with refused(FENCED):
        bench.add(first, T0)
    with refused(FENCED):
        bench.end(first, commits=True)
    bench.add(second, T0)


@pytest.mark.parametrize(("version", "epoch"), [(2, 2), (1, 2), (0, 2)])
def test_an_open_transaction_is_aborted_first(version: int, epoch: int) -> None:
    bench = TransactionBench(version)
    first = ids(bench.init())
    bench.add(first, T0)
    bench.markers.is_held = True
    assert bench.init() == ProducerAnswer(CONCURRENT)
    assert bench.metadata().state is PREPARE_ABORT
    with refused(CONCURRENT):
        bench.init()
    bench.markers.release()
    bench.settle()
    assert bench.metadata().state is COMPLETE_ABORT
    assert ids(bench.init()) == (1000, epoch)
    with refused(FENCED):
        bench.end(first, commits=True)


def test_a_producer_takes_another_epoch_and_hears_the_same_again() -> None:
    bench = TransactionBench()
    first = ids(bench.init())
    second = ids(bench.init(first))
    assert second == (1000, 1)
    assert ids(bench.init(first)) == second
    assert ids(bench.init(first)) == second
    third = ids(bench.init(second))
    assert third == (1000, 2)
    with refused(FENCED):
        bench.init(first)
    with refused(FENCED):
        bench.init((1001, 2))
    with refused(FENCED):
        bench.init((1000, 3))


def test_after_somebody_else_came_there_is_no_other_epoch() -> None:
    bench = TransactionBench()
    first = ids(bench.init())
    ids(bench.init())
    with refused(FENCED):
        bench.init(first)


def test_a_retry_after_a_load_is_not_known_any_more() -> None:
    bench = TransactionBench()
    first = ids(bench.init())
    ids(bench.init(first))
    with refused(FENCED):
        bench.reloaded().init(first)


def test_who_was_never_known_gets_an_id_all_the_same() -> None:
    bench = TransactionBench()
    assert ids(bench.init((77, 5))) == (1000, 0)


def test_after_the_last_epoch_comes_another_producer_id() -> None:
    bench, _ = exhausted(left=1)
    assert ids(bench.init()) == (1000, MAX_EPOCH - 1)
    assert ids(bench.init()) == (1001, 0)
    assert bench.metadata().previous_producer_id == 1000


def test_a_producer_in_its_last_epoch_gets_another_id_and_hears_it_again() -> None:
    bench, last = exhausted()
    renewed = ids(bench.init(last))
    assert renewed == (1001, 0)
    assert ids(bench.init(last)) == renewed
    with refused(FENCED):
        bench.init((1000, MAX_EPOCH - 2))
    assert ids(bench.init(renewed)) == (1001, 1)


def test_an_older_epoch_than_the_last_is_a_bug_there() -> None:
    bench, (producer_id, last) = exhausted()
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        bench.init((producer_id, last - 1))


# ---- AddPartitionsToTxn


def test_partitions_are_added_by_who_has_the_id() -> None:
    bench = TransactionBench()
    producer_id, epoch = producer = ids(bench.init())
    bench.add(producer, T0)
    bench.add(producer, T0)
    bench.add(producer, T1)
    assert bench.metadata().partitions == (T0, T1)
    assert len(bench.bench.records) == 3
    with refused(MAPPING):
        bench.add(producer, T0, name="nobody")
    with refused(MAPPING):
        bench.add((producer_id + 1, epoch), T0)
    with refused(FENCED):
        bench.add((producer_id, epoch + 1), T0)


def test_while_a_transaction_ends_none_begins_whoever_asks() -> None:
    bench = TransactionBench()
    producer_id, epoch = producer = ids(bench.init())
    bench.add(producer, T0)
    bench.markers.is_held = True
    bench.end(producer, commits=True)
    for somebody in (producer, (producer_id, epoch + 1), (producer_id + 1, 0)):
        with refused(CONCURRENT):
            bench.add(somebody, T0)


def test_partitions_are_verified() -> None:
    bench = TransactionBench()
    producer_id, epoch = producer = ids(bench.init())
    bench.add(producer, T0)

    def verify(name: str = TX, producer: tuple[int, int] = producer) -> object:
        return bench.shard.verify_partitions(name, ProducerIdAndEpoch(*producer), [T0, T1])

    assert verify() == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
    with refused(MAPPING):
        verify("nobody")
    with refused(MAPPING):
        verify(producer=(producer_id + 1, epoch))
    with refused(FENCED):
        verify(producer=(producer_id, epoch + 1))
    bench.markers.is_held = True
    bench.end(producer, commits=True, version=0)
    with refused(CONCURRENT):
        verify()


# ---- EndTxn


def ended(was_committed: bool | None, version: int) -> tuple[TransactionBench, tuple[int, int]]:
    bench = TransactionBench(version)
    producer = ids(bench.init())
    if was_committed is not None:
        bench.add(producer, T0, version=version)
        answer = bench.end(producer, commits=was_committed, version=version)
        bench.settle()
        producer = ids(answer) if version >= 2 else producer
    return bench, producer


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
def test_with_version_2_the_end_of_what_is_not_open(
    was_committed: bool | None, commits: bool, offset: int, outcome: ErrorCode | str
) -> None:
    bench, (producer_id, epoch) = ended(was_committed, 2)
    asking = (producer_id, epoch + offset)
    if isinstance(outcome, ErrorCode) and outcome is not NO_ERROR:
        with refused(outcome):
            bench.end(asking, commits=commits)
        return
    answer = bench.end(asking, commits=commits)
    assert ids(answer) == (producer_id, epoch + (outcome == "bump"))
    bench.settle()
    assert bench.metadata().state is (COMPLETE_COMMIT if was_committed and commits else COMPLETE_ABORT)


@pytest.mark.parametrize("was_committed", [None, False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_before_version_2_only_the_same_end_comes_to_nothing(
    was_committed: bool | None, commits: bool
) -> None:
    bench, (producer_id, epoch) = ended(was_committed, 1)
    before = bench.metadata()
    if was_committed is commits:
        bench.end((producer_id, epoch), commits=commits, version=0)
    else:
        with refused(INVALID):
            bench.end((producer_id, epoch), commits=commits, version=0)
    for other in (epoch - 1, epoch + 1):
        with refused(FENCED):
            bench.end((producer_id, other), commits=commits, version=0)
    with refused(MAPPING):
        bench.end((producer_id + 1, epoch), commits=commits, version=0)
    assert bench.metadata() is before


@pytest.mark.parametrize("version", [0, 2])
def test_while_a_transaction_ends_it_is_not_ended(version: int) -> None:
    bench = TransactionBench()
    producer = ids(bench.init())
    bench.add(producer, T0, version=version)
    bench.markers.is_held = True
    bench.end(producer, commits=True, version=version)
    assert bench.metadata().state is PREPARE_COMMIT
    for commits in (True, False):
        with refused(CONCURRENT):
            bench.end(producer, commits=commits, version=version)


def test_the_last_epoch_ends_with_another_producer_id_and_a_retry_hears_it() -> None:
    bench, last = exhausted()
    bench.add(last, T0)
    bench.markers.is_held = True
    answer = bench.end(last, commits=True)
    assert ids(answer) == (1001, 0)
    ((marker, partitions),) = bench.markers.asked
    assert (marker.producer_id, marker.producer_epoch, partitions) == (1000, MAX_EPOCH, [T0])
    with refused(CONCURRENT):
        bench.add((1001, 0), T0)
    bench.markers.release()
    bench.settle()
    assert bench.end(last, commits=True) == answer
    with refused(INVALID):
        bench.end(last, commits=False)
    bench.add((1001, 0), T0)
    assert bench.metadata().state is ONGOING
    with refused(MAPPING):
        bench.end((1000, MAX_EPOCH), commits=True)


def test_fencing_in_the_last_epoch_leads_to_another_producer_id() -> None:
    bench, last = exhausted()
    bench.add(last, T0)
    assert bench.init() == ProducerAnswer(CONCURRENT)
    bench.settle()
    assert (bench.metadata().producer_id, bench.metadata().producer_epoch) == (1001, 0)
    assert ids(bench.init()) == (1001, 1)
    assert bench.metadata().state is EMPTY


def test_before_version_2_the_next_producer_gets_the_other_id() -> None:
    bench, last = exhausted(version=1)
    bench.add(last, T0, version=0)
    assert bench.init() == ProducerAnswer(CONCURRENT)
    bench.settle()
    assert (bench.metadata().producer_id, bench.metadata().producer_epoch) == (1000, MAX_EPOCH)
    assert ids(bench.init()) == (1001, 0)
