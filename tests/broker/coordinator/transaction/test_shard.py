"""The shard: every transaction ends, whatever happens; what nobody uses is forgotten; a load goes on where it was."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.transaction.metadata import MAX_EPOCH
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.coordinator.transaction.shard import MAX_TOMBSTONE_BYTES
from barnabas.broker.coordinator.transaction.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.broker.coordinator.transaction.transaction_harness import (
    T0,
    T1,
    TIMEOUT_MS,
    TX,
    U0,
    TransactionBench,
    ids,
    metadata_records,
    remove_topic,
)

LOOK_MS = 10_000
"""How often transactions are looked at that may have run out of time."""

EXPIRATION_MS = 7_200_000
EXPIRATION_LOOK_MS = 3_600_000


@pytest.fixture
def bench() -> TransactionBench:
    return TransactionBench()


@pytest.mark.parametrize(("version", "epoch"), [(0, 0), (2, 1)])
def test_markers_go_out_and_then_it_is_complete(bench: TransactionBench, version: int, epoch: int) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0, U0, version=version)
    bench.markers.is_held = True
    bench.end(producer, commits=True, version=version)
    ((marker, partitions),) = bench.markers.asked
    assert marker == TransactionMarker(1000, epoch, 0, True, version)
    assert sorted(partitions) == [T0, U0]
    assert bench.metadata().state is PREPARE_COMMIT
    bench.markers.release()
    bench.settle()
    assert bench.metadata().state is COMPLETE_COMMIT
    assert not bench.shard.markers


def test_nothing_goes_out_before_the_decision_is_committed(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0)
    bench.bench.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(ApiError):
        bench.end(producer, commits=True)
    assert bench.metadata().state is ONGOING
    assert not bench.markers.asked
    bench.bench.fails = None
    assert ids(bench.end(producer, commits=True)) == (1000, 1)


def test_a_decision_that_is_committed_late_is_carried_out(bench: TransactionBench) -> None:
    """Whoever waited was told that it took too long; the record is there all the same."""
    producer = ids(bench.init())
    bench.add(producer, T0)
    result = bench.shard.end_transaction(TX, ProducerIdAndEpoch(*producer), commits=True, client_version=2)
    _replay_alone(bench, result)
    assert result.on_committed is not None
    result.on_committed(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert not bench.markers.asked
    bench.bench.advance(500)
    bench.settle()
    assert bench.metadata().state is COMPLETE_COMMIT


def test_a_shard_that_is_given_up_carries_nothing_out(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0)
    result = bench.shard.end_transaction(TX, ProducerIdAndEpoch(*producer), commits=True, client_version=2)
    _replay_alone(bench, result)
    assert result.on_committed is not None
    result.on_committed(ApiError(ErrorCode.NOT_COORDINATOR))
    bench.shard.on_unloaded()
    bench.bench.advance(500)
    assert not bench.markers.asked


def _replay_alone(bench: TransactionBench, result: CoordinatorResult[object]) -> None:
    """The records are on their way, and nobody knows yet."""
    bench.bench.run(lambda _: CoordinatorResult(None, result.records))


# ---- partitions that cannot take markers


def test_markers_are_written_again_until_every_partition_has_one(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0, T1)
    bench.markers.errors[T1] = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.end(producer, commits=False)
    bench.bench.advance(60_000)
    assert bench.metadata().state is PREPARE_ABORT
    assert list(bench.shard.partitions_of(bench.metadata())) == [T1]
    assert [partition for partition, _ in bench.markers.written] == [T0]
    assert (bench.shard.markers.refused, bench.shard.uncompleted) == (1, 0)
    assert 55 < len(bench.markers.asked) < 75  # at once, soon, and every second in the end
    del bench.markers.errors[T1]
    bench.bench.advance(1_000)
    assert bench.metadata().state is COMPLETE_ABORT
    assert [partition for partition, _ in bench.markers.written] == [T0, T1]


def test_topics_that_are_deleted_need_no_marker(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0, U0)
    bench.markers.errors[U0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.end(producer, commits=True)
    bench.bench.advance(10_000)
    assert bench.metadata().state is PREPARE_COMMIT
    bench.bench.metadata_changes(remove_topic("u"))
    bench.bench.advance(1_000)
    assert bench.metadata().state is COMPLETE_COMMIT


def test_a_transaction_of_nothing_but_deleted_topics_ends(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, U0)
    bench.bench.metadata_changes(remove_topic("u"))
    bench.end(producer, commits=True)
    bench.settle()
    assert bench.metadata().state is COMPLETE_COMMIT
    assert not bench.markers.asked


def test_a_partition_that_has_moved_on_keeps_nobody_waiting(
    bench: TransactionBench, caplog: pytest.LogCaptureFixture
) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0, T1)
    bench.markers.errors[T1] = ErrorCode.INVALID_PRODUCER_EPOCH
    with caplog.at_level(logging.INFO, "barnabas.transactions"):
        bench.end(producer, commits=True)
        bench.settle()
    assert bench.metadata().state is COMPLETE_COMMIT
    assert any("t-1: INVALID_PRODUCER_EPOCH; it has moved on" in message for message in caplog.messages)


def test_the_same_failure_is_told_less_and_less_often(
    bench: TransactionBench, caplog: pytest.LogCaptureFixture
) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0)
    bench.markers.errors[T0] = ErrorCode.KAFKA_STORAGE_ERROR
    with caplog.at_level(logging.INFO, "barnabas.transactions"):
        bench.end(producer, commits=True)
        bench.bench.advance(3_600_000)
    assert 5 < len(caplog.messages) < 20
    assert bench.metadata().state is PREPARE_COMMIT


def test_the_last_record_is_written_again_until_the_log_takes_it(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0)
    bench.markers.is_held = True
    bench.end(producer, commits=True)
    bench.bench.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bench.markers.release()
    bench.bench.advance(5_000)
    assert bench.metadata().state is PREPARE_COMMIT
    assert (bench.shard.markers.refused, bench.shard.uncompleted) == (0, 1)
    bench.bench.fails = None
    bench.bench.advance(500)
    assert bench.metadata().state is COMPLETE_COMMIT


# ---- timeouts


@pytest.mark.parametrize(("version", "epoch"), [(0, 1), (1, 1), (2, 1)])
def test_a_transaction_that_lasts_too_long_is_aborted(version: int, epoch: int) -> None:
    bench = TransactionBench(version)
    producer = ids(bench.init())
    bench.add(producer, T0, version=0)
    bench.bench.advance(TIMEOUT_MS)
    assert bench.metadata().state is ONGOING
    bench.bench.advance(LOOK_MS)
    assert bench.metadata().state is COMPLETE_ABORT
    assert bench.metadata().producer_epoch == epoch
    with pytest.raises(ApiError, match="PRODUCER_FENCED"):
        bench.end(producer, commits=True, version=0)


def test_the_time_runs_from_the_first_partition_on(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.bench.advance(10 * TIMEOUT_MS)
    bench.add(producer, T0)
    bench.bench.advance(TIMEOUT_MS - 1_000)
    bench.add(producer, T1)
    bench.bench.advance(LOOK_MS + 1_001)
    assert bench.metadata().state is COMPLETE_ABORT


def test_a_transaction_that_ended_in_time_is_left_alone(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    for _ in range(5):
        bench.add(producer, T0)
        bench.bench.advance(TIMEOUT_MS // 2)
        producer = ids(bench.end(producer, commits=True))
        bench.settle()
    bench.bench.advance(10 * TIMEOUT_MS)
    assert bench.metadata().state is COMPLETE_COMMIT


def test_one_that_cannot_be_aborted_does_not_keep_others_from_it(bench: TransactionBench) -> None:
    for name in ("a", "b"):
        bench.add(ids(bench.init(name=name)), T0, name=name)
    bench.bench.fails = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    bench.bench.advance(TIMEOUT_MS + LOOK_MS)
    assert {metadata.state for metadata in bench.shard.transactions.values()} == {ONGOING}
    bench.bench.fails = None
    bench.bench.advance(500)
    assert {metadata.state for metadata in bench.shard.transactions.values()} == {COMPLETE_ABORT}


def test_a_timeout_in_the_last_epoch_leads_to_another_producer_id(bench: TransactionBench) -> None:
    ids(bench.init())
    bench.shard.transactions[TX] = bench.metadata()._replace(producer_epoch=MAX_EPOCH - 1)
    bench.add((1000, MAX_EPOCH - 1), T0)
    bench.bench.advance(TIMEOUT_MS + LOOK_MS)
    ((marker, _),) = bench.markers.asked
    assert (marker.producer_id, marker.producer_epoch) == (1000, MAX_EPOCH)
    assert ids(bench.init()) == (1001, 1)


def test_two_phase_commit_waits_for_ever(bench: TransactionBench) -> None:
    bench.add(ids(bench.init(timeout_ms=2**31 - 1)), T0)
    bench.bench.advance(100 * TIMEOUT_MS)
    assert bench.metadata().state is ONGOING


# ---- ids that nobody uses


def test_an_unused_id_is_forgotten() -> None:
    bench = TransactionBench(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    producer = ids(bench.init())
    bench.init(name="open", timeout_ms=2**31 - 1)
    bench.add((1001, 0), T0, name="open")
    bench.bench.advance(EXPIRATION_MS - 1)
    assert TX in bench.shard.transactions
    bench.bench.advance(EXPIRATION_LOOK_MS)
    assert list(bench.shard.transactions) == ["open"]
    with pytest.raises(ApiError, match="INVALID_PRODUCER_ID_MAPPING"):
        bench.add(producer, T0)
    assert ids(bench.init()) == (1002, 0)


def test_many_are_forgotten_in_batches_of_some_size() -> None:
    bench = TransactionBench(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    names = [f"{number:03}" + "x" * 200 for number in range(100)]
    for name in names:
        bench.init(name=name)
    before = len(bench.bench.records)
    bench.bench.advance(EXPIRATION_MS + EXPIRATION_LOOK_MS)
    assert not bench.shard.transactions
    assert len(bench.bench.records) == before + len(names)
    assert 2 * MAX_TOMBSTONE_BYTES < 100 * 203 * 3


@pytest.mark.parametrize("max_records", [1, 7])
def test_batches_that_the_topic_does_not_take_are_made_smaller(max_records: int) -> None:
    """max.message.bytes of the topic may be anything; the same batch again and again would leave time for nothing."""
    bench = TransactionBench(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    for number in range(100):
        bench.init(name=f"{number:03}" + "x" * 200)
    bench.bench.max_records = max_records
    bench.bench.advance(EXPIRATION_MS + EXPIRATION_LOOK_MS)
    assert not bench.shard.transactions


def test_ids_that_cannot_be_forgotten_now_wait_for_the_next_look() -> None:
    bench = TransactionBench(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    for number in range(100):
        bench.init(name=f"{number:03}" + "x" * 200)
    bench.bench.max_records = 0
    bench.bench.advance(EXPIRATION_MS + EXPIRATION_LOOK_MS)
    assert len(bench.shard.transactions) == 100
    bench.bench.max_records = None
    bench.bench.advance(EXPIRATION_LOOK_MS)
    assert not bench.shard.transactions


# ---- loads


@pytest.mark.parametrize("commits", [True, False])
def test_a_load_goes_on_with_what_was_decided(bench: TransactionBench, commits: bool) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0, T1)
    bench.markers.is_held = True
    bench.end(producer, commits=commits)
    again = bench.reloaded()
    bench.markers.is_held = False
    bench.markers.release()
    bench.settle()
    assert bench.metadata().state in (PREPARE_COMMIT, PREPARE_ABORT)
    again.settle()
    assert again.metadata().state is (COMPLETE_COMMIT if commits else COMPLETE_ABORT)


def test_a_load_knows_since_when_a_transaction_is_open(bench: TransactionBench) -> None:
    bench.add(ids(bench.init()), T0)
    bench.bench.advance(TIMEOUT_MS - 1_000)
    again = bench.reloaded()
    again.bench.advance(1_000)
    assert again.metadata().state is ONGOING
    again.bench.advance(LOOK_MS)
    assert again.metadata().state is COMPLETE_ABORT


def test_a_load_gives_what_there_was(bench: TransactionBench) -> None:
    producer = ids(bench.init())
    bench.add(producer, T0, U0, T1)
    bench.markers.is_held = True
    loaded = bench.reloaded()
    listed = loaded.shard.partitions_of(loaded.metadata())
    assert listed == bench.shard.partitions_of(bench.metadata())
    assert loaded.metadata() == bench.metadata()._replace(partitions=tuple(listed))
    loaded.markers.is_held = False
    loaded.end(producer, commits=True)
    loaded.settle()
    again = loaded.reloaded()
    assert again.metadata() == loaded.metadata()._replace(last_producer_epoch=-1)
    assert ids(again.end(producer, commits=True)) == (1000, 1)  # a retry is known by what is in the record


def test_without_features_values_are_as_they_were() -> None:
    bench = TransactionBench(0)
    producer = ids(bench.init())
    bench.add(producer, T0, version=0)
    assert {record.version for record in bench.bench.records} == {0}
    assert bench.metadata().state is ONGOING
    bench.bench.metadata_changes(*metadata_records(2, {}))
    bench.end(producer, commits=True, version=0)
    bench.settle()
    assert {record.version for record in bench.bench.records[2:]} == {1}
    assert bench.metadata().state is COMPLETE_COMMIT


def test_a_new_producer_begins_where_nothing_is_open(bench: TransactionBench) -> None:
    ids(bench.init())
    assert bench.metadata().state is EMPTY
    assert bench.shard.partitions_of(bench.metadata()) == []
