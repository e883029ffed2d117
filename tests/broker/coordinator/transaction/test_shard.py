"""TransactionCoordinatorShard: every transaction ends; unused ids expire; a load continues with decided ends."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.coordinator.record_queue import Committed
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.transaction.metadata import MAX_EPOCH
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.coordinator.transaction.shard import DECISION_RETRY_MS, MAX_TOMBSTONE_BYTES
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
    TransactionHarness,
    ids,
    metadata_records,
    remove_topic,
)

LOOK_MS = 10_000
"""The interval of checks for transactions that have timed out."""

EXPIRATION_MS = 7_200_000
EXPIRATION_LOOK_MS = 3_600_000


@pytest.fixture
def harness() -> TransactionHarness:
    return TransactionHarness()


@pytest.mark.parametrize(("version", "epoch"), [(0, 0), (2, 1)])
def test_markers_are_written_and_then_the_transaction_is_complete(
    harness: TransactionHarness, version: int, epoch: int
) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0, U0, version=version)
    harness.markers.is_held = True
    harness.end(producer, commits=True, version=version)
    ((marker, partitions),) = harness.markers.asked
    assert marker == TransactionMarker(1000, epoch, 0, True, version)
    assert sorted(partitions) == [T0, U0]
    assert harness.metadata().state is PREPARE_COMMIT
    harness.markers.release()
    harness.settle()
    assert harness.metadata().state is COMPLETE_COMMIT
    assert not harness.shard.markers


def test_no_marker_is_written_before_the_decision_is_committed(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0)
    harness.shard_harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(ApiError):
        harness.end(producer, commits=True)
    assert harness.metadata().state is ONGOING
    assert not harness.markers.asked
    harness.shard_harness.fails = None
    assert ids(harness.end(producer, commits=True)) == (1000, 1)


def test_a_decision_committed_late_is_carried_out(harness: TransactionHarness) -> None:
    """The client got a timeout; the record is in the log nevertheless."""
    producer = ids(harness.init())
    harness.add(producer, T0)
    result = harness.shard.end_transaction(TX, ProducerIdAndEpoch(*producer), commits=True, client_version=2)
    _replay_alone(harness, result)
    assert result.on_committed is not None
    result.on_committed(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert not harness.markers.asked
    harness.shard_harness.advance(500)
    harness.settle()
    assert harness.metadata().state is COMPLETE_COMMIT


def test_an_unloaded_shard_writes_no_markers(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0)
    result = harness.shard.end_transaction(TX, ProducerIdAndEpoch(*producer), commits=True, client_version=2)
    _replay_alone(harness, result)
    assert result.on_committed is not None
    result.on_committed(ApiError(ErrorCode.NOT_COORDINATOR))
    harness.shard.on_unloaded()
    harness.shard_harness.advance(500)
    assert not harness.markers.asked


def _replay_alone(harness: TransactionHarness, result: CoordinatorResult[object]) -> None:
    """The records are not committed yet."""
    harness.shard_harness.run(lambda _: CoordinatorResult(None, result.records))


# ---- partitions that cannot take markers


def test_markers_are_retried_until_every_partition_has_one(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0, T1)
    harness.markers.errors[T1] = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.end(producer, commits=False)
    harness.shard_harness.advance(60_000)
    assert harness.metadata().state is PREPARE_ABORT
    assert list(harness.shard.partitions_of(harness.metadata())) == [T1]
    assert [partition for partition, _ in harness.markers.written] == [T0]
    assert (harness.shard.markers.retried, harness.shard.uncompleted) == (1, 0)
    assert 55 < len(harness.markers.asked) < 75  # at once, soon, and finally every second
    del harness.markers.errors[T1]
    harness.shard_harness.advance(1_000)
    assert harness.metadata().state is COMPLETE_ABORT
    assert [partition for partition, _ in harness.markers.written] == [T0, T1]


def test_a_new_coordinator_ends_what_is_decided_and_committed(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0)
    harness.markers.is_held = True
    harness.end(producer, commits=True)
    waiting: list[Committed] = []
    later = TransactionHarness(log=harness.shard_harness.log, when_committed=waiting.append)
    assert later.metadata().state is PREPARE_COMMIT
    later.shard_harness.advance(60_000)
    assert later.markers.asked == []
    waiting.pop()(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))  # it takes too long
    later.shard_harness.advance(DECISION_RETRY_MS)
    later.settle()
    assert [partition for partition, _ in later.markers.written] == [T0]
    assert later.metadata().state is COMPLETE_COMMIT


def test_topics_that_are_deleted_need_no_marker(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0, U0)
    harness.markers.errors[U0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    harness.end(producer, commits=True)
    harness.shard_harness.advance(10_000)
    assert harness.metadata().state is PREPARE_COMMIT
    harness.shard_harness.metadata_changes(remove_topic("u"))
    harness.shard_harness.advance(1_000)
    assert harness.metadata().state is COMPLETE_COMMIT


def test_a_transaction_of_only_deleted_topics_ends(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, U0)
    harness.shard_harness.metadata_changes(remove_topic("u"))
    harness.end(producer, commits=True)
    harness.settle()
    assert harness.metadata().state is COMPLETE_COMMIT
    assert not harness.markers.asked


def test_a_partition_with_a_newer_epoch_does_not_block(
    harness: TransactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0, T1)
    harness.markers.errors[T1] = ErrorCode.INVALID_PRODUCER_EPOCH
    with caplog.at_level(logging.INFO, "barnabas.transactions"):
        harness.end(producer, commits=True)
        harness.settle()
    assert harness.metadata().state is COMPLETE_COMMIT
    assert any(
        "t-1: INVALID_PRODUCER_EPOCH; the producer has a newer epoch" in message
        for message in caplog.messages
    )


def test_a_repeated_failure_is_logged_less_and_less_often(
    harness: TransactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0)
    harness.markers.errors[T0] = ErrorCode.KAFKA_STORAGE_ERROR
    with caplog.at_level(logging.INFO, "barnabas.transactions"):
        harness.end(producer, commits=True)
        harness.shard_harness.advance(3_600_000)
    assert 5 < len(caplog.messages) < 20
    assert harness.metadata().state is PREPARE_COMMIT


def test_the_final_record_is_retried_until_it_is_written(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0)
    harness.markers.is_held = True
    harness.end(producer, commits=True)
    harness.shard_harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.markers.release()
    harness.shard_harness.advance(5_000)
    assert harness.metadata().state is PREPARE_COMMIT
    assert (harness.shard.markers.retried, harness.shard.uncompleted) == (0, 1)
    harness.shard_harness.fails = None
    harness.shard_harness.advance(500)
    assert harness.metadata().state is COMPLETE_COMMIT


# ---- timeouts


@pytest.mark.parametrize(("version", "epoch"), [(0, 1), (1, 1), (2, 1)])
def test_a_transaction_that_exceeds_its_timeout_is_aborted(version: int, epoch: int) -> None:
    harness = TransactionHarness(version)
    producer = ids(harness.init())
    harness.add(producer, T0, version=0)
    harness.shard_harness.advance(TIMEOUT_MS)
    assert harness.metadata().state is ONGOING
    harness.shard_harness.advance(LOOK_MS)
    assert harness.metadata().state is COMPLETE_ABORT
    assert harness.metadata().producer_epoch == epoch
    with pytest.raises(ApiError, match="PRODUCER_FENCED"):
        harness.end(producer, commits=True, version=0)


def test_the_timeout_counts_from_the_first_partition(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.shard_harness.advance(10 * TIMEOUT_MS)
    harness.add(producer, T0)
    harness.shard_harness.advance(TIMEOUT_MS - 1_000)
    harness.add(producer, T1)
    harness.shard_harness.advance(LOOK_MS + 1_001)
    assert harness.metadata().state is COMPLETE_ABORT


def test_a_transaction_that_ended_in_time_is_not_aborted(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    for _ in range(5):
        harness.add(producer, T0)
        harness.shard_harness.advance(TIMEOUT_MS // 2)
        producer = ids(harness.end(producer, commits=True))
        harness.settle()
    harness.shard_harness.advance(10 * TIMEOUT_MS)
    assert harness.metadata().state is COMPLETE_COMMIT


def test_a_failed_abort_does_not_block_others(harness: TransactionHarness) -> None:
    for name in ("a", "b"):
        harness.add(ids(harness.init(name=name)), T0, name=name)
    harness.shard_harness.fails = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    harness.shard_harness.advance(TIMEOUT_MS + LOOK_MS)
    assert {metadata.state for metadata in harness.shard.transactions.values()} == {ONGOING}
    harness.shard_harness.fails = None
    harness.shard_harness.advance(500)
    assert {metadata.state for metadata in harness.shard.transactions.values()} == {COMPLETE_ABORT}


def test_a_timeout_in_the_last_epoch_assigns_a_new_producer_id(harness: TransactionHarness) -> None:
    ids(harness.init())
    harness.shard.transactions[TX] = harness.metadata()._replace(producer_epoch=MAX_EPOCH - 1)
    harness.add((1000, MAX_EPOCH - 1), T0)
    harness.shard_harness.advance(TIMEOUT_MS + LOOK_MS)
    ((marker, _),) = harness.markers.asked
    assert (marker.producer_id, marker.producer_epoch) == (1000, MAX_EPOCH)
    assert ids(harness.init()) == (1001, 1)


def test_two_phase_commit_has_no_timeout(harness: TransactionHarness) -> None:
    harness.add(ids(harness.init(timeout_ms=2**31 - 1)), T0)
    harness.shard_harness.advance(100 * TIMEOUT_MS)
    assert harness.metadata().state is ONGOING


# ---- unused ids


def test_an_unused_id_expires() -> None:
    harness = TransactionHarness(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    producer = ids(harness.init())
    harness.init(name="open", timeout_ms=2**31 - 1)
    harness.add((1001, 0), T0, name="open")
    harness.shard_harness.advance(EXPIRATION_MS - 1)
    assert TX in harness.shard.transactions
    harness.shard_harness.advance(EXPIRATION_LOOK_MS)
    assert list(harness.shard.transactions) == ["open"]
    with pytest.raises(ApiError, match="INVALID_PRODUCER_ID_MAPPING"):
        harness.add(producer, T0)
    assert ids(harness.init()) == (1002, 0)


def test_many_expired_ids_are_removed_in_bounded_batches() -> None:
    harness = TransactionHarness(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    names = [f"{number:03}" + "x" * 200 for number in range(100)]
    for name in names:
        harness.init(name=name)
    before = len(harness.shard_harness.records)
    harness.shard_harness.advance(EXPIRATION_MS + EXPIRATION_LOOK_MS)
    assert not harness.shard.transactions
    assert len(harness.shard_harness.records) == before + len(names)
    assert 2 * MAX_TOMBSTONE_BYTES < 100 * 203 * 3


@pytest.mark.parametrize("max_records", [1, 7])
def test_batches_too_large_for_the_topic_are_split(max_records: int) -> None:
    """max.message.bytes of the topic may have any value; retries of the same batch would never end."""
    harness = TransactionHarness(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    for number in range(100):
        harness.init(name=f"{number:03}" + "x" * 200)
    harness.shard_harness.max_records = max_records
    harness.shard_harness.advance(EXPIRATION_MS + EXPIRATION_LOOK_MS)
    assert not harness.shard.transactions


def test_ids_that_cannot_be_removed_now_wait_for_the_next_check() -> None:
    harness = TransactionHarness(settings={"transactional.id.expiration.ms": str(EXPIRATION_MS)})
    for number in range(100):
        harness.init(name=f"{number:03}" + "x" * 200)
    harness.shard_harness.max_records = 0
    harness.shard_harness.advance(EXPIRATION_MS + EXPIRATION_LOOK_MS)
    assert len(harness.shard.transactions) == 100
    harness.shard_harness.max_records = None
    harness.shard_harness.advance(EXPIRATION_LOOK_MS)
    assert not harness.shard.transactions


# ---- loads


@pytest.mark.parametrize("commits", [True, False])
def test_a_load_continues_decided_ends(harness: TransactionHarness, commits: bool) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0, T1)
    harness.markers.is_held = True
    harness.end(producer, commits=commits)
    again = harness.reloaded()
    harness.markers.is_held = False
    harness.markers.release()
    harness.settle()
    assert harness.metadata().state in (PREPARE_COMMIT, PREPARE_ABORT)
    again.settle()
    assert again.metadata().state is (COMPLETE_COMMIT if commits else COMPLETE_ABORT)


def test_a_load_restores_the_start_time_of_a_transaction(harness: TransactionHarness) -> None:
    harness.add(ids(harness.init()), T0)
    harness.shard_harness.advance(TIMEOUT_MS - 1_000)
    again = harness.reloaded()
    again.shard_harness.advance(1_000)
    assert again.metadata().state is ONGOING
    again.shard_harness.advance(LOOK_MS)
    assert again.metadata().state is COMPLETE_ABORT


def test_a_load_restores_the_state(harness: TransactionHarness) -> None:
    producer = ids(harness.init())
    harness.add(producer, T0, U0, T1)
    harness.markers.is_held = True
    loaded = harness.reloaded()
    listed = loaded.shard.partitions_of(loaded.metadata())
    assert listed == harness.shard.partitions_of(harness.metadata())
    assert loaded.metadata() == harness.metadata()._replace(partitions=tuple(listed))
    loaded.markers.is_held = False
    loaded.end(producer, commits=True)
    loaded.settle()
    again = loaded.reloaded()
    assert again.metadata() == loaded.metadata()._replace(last_producer_epoch=-1)
    assert ids(again.end(producer, commits=True)) == (1000, 1)  # a retry is recognized by the record


def test_without_features_old_record_versions_are_written() -> None:
    harness = TransactionHarness(0)
    producer = ids(harness.init())
    harness.add(producer, T0, version=0)
    assert {record.version for record in harness.shard_harness.records} == {0}
    assert harness.metadata().state is ONGOING
    harness.shard_harness.metadata_changes(*metadata_records(2, {}))
    harness.end(producer, commits=True, version=0)
    harness.settle()
    assert {record.version for record in harness.shard_harness.records[2:]} == {1}
    assert harness.metadata().state is COMPLETE_COMMIT


def test_an_id_without_an_open_transaction_gets_a_new_producer(harness: TransactionHarness) -> None:
    ids(harness.init())
    assert harness.metadata().state is EMPTY
    assert harness.shard.partitions_of(harness.metadata()) == []
