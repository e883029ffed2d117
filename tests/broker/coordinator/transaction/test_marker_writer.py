"""TxnMarkerWriter: the partitions that get a marker, and the result for each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.broker.coordinator.transaction.marker_writer import TxnMarkerWriter
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.pending import Pending
from barnabas.broker.replica.new_logs import MissingLog
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.control import ControlRecordType, control_record_type, coordinator_epoch
from barnabas.protocol.records.entries import batches
from barnabas.storage.errors import DiskFullError
from barnabas.storage.offsets import FetchIsolation, TopicPartition
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.coordinator.transaction.test_appends import SlowAtTimes
from tests.broker.coordinator.transaction.txn_fakes import PRODUCER_ID, txn_batch
from tests.broker.logs import START_MS, partition_image

OFFSETS = "__consumer_offsets"
COMMIT = TransactionMarker(PRODUCER_ID, 0, 5, True, 1)
ABORT = COMMIT._replace(committed=False)


class Groups:
    """A fake runtime of the group coordinator, with results of the test."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, TransactionMarker]] = []
        self.pending: list[Pending[ApiError | None]] = []

    def complete_transaction(self, partition: int, marker: TransactionMarker) -> Pending[ApiError | None]:
        self.asked.append((partition, marker))
        self.pending.append(Pending())
        return self.pending[-1]


class Harness:
    """A broker with a topic of two partitions, and a writer of markers over it."""

    def __init__(self, log_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        self.runner = SlowAtTimes()
        self.broker = InProcessBroker(log_dir, settings, runner=self.runner)
        self.replica_manager = self.broker.replica_manager
        self.broker.create_topic("t", partitions=2)
        self.groups = Groups()
        self.writer = TxnMarkerWriter(
            self.replica_manager, self.groups.complete_transaction, self.broker.config, lambda: START_MS
        )

    def write(self, marker: TransactionMarker, *partitions: TopicPartition) -> dict[str, ErrorCode]:
        """The codes, by topic-partition; filled in when the response arrives."""
        found: dict[str, ErrorCode] = {}

        def answered(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            found.update({f"{topic}-{index}": code for (topic, index), code in codes.items()})

        self.writer.write(marker, partitions).add_done_callback(answered)
        return found

    def begin(self, index: int = 0, epoch: int = 0) -> None:
        log = self.replica_manager.partition("t", index).log
        guard = log.start_transaction_verification(PRODUCER_ID, 0, epoch)
        self.replica_manager.partition("t", index).append_as_leader(
            txn_batch("a", epoch=epoch), -1, guard=guard
        )

    def last_batch(self, index: int = 0) -> RecordBatch:
        log = self.replica_manager.partition("t", index).log
        data = log.read(0, 10_000, FetchIsolation.LOG_END, min_one_message=True).records.read()
        *_, last = batches(data)
        assert isinstance(last, RecordBatch)
        return last


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_a_marker_is_the_batch_that_kafka_writes(harness: Harness, marker: TransactionMarker) -> None:
    harness.begin()
    assert harness.write(marker, ("t", 0)) == {"t-0": ErrorCode.NONE}
    batch = harness.last_batch()
    assert (batch.is_control, batch.is_transactional, batch.base_offset) == (True, True, 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (PRODUCER_ID, 0, -1)
    (record,) = batch.records()
    assert control_record_type(record.key) is (
        ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
    )
    assert (coordinator_epoch(record.value), record.timestamp) == (5, START_MS)
    log = harness.replica_manager.partition("t", 0).log
    assert log.last_stable_offset == log.high_watermark == 2


def test_each_partition_has_its_own_result(harness: Harness) -> None:
    harness.begin(0)
    harness.begin(1, epoch=3)
    found = harness.write(ABORT, ("t", 0), ("t", 1), ("t", 2), ("u", 0), ("t", 0))
    assert found == {
        "t-0": ErrorCode.NONE,
        "t-1": ErrorCode.INVALID_PRODUCER_EPOCH,
        "t-2": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "u-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert harness.replica_manager.partition("t", 0).log.log_end_offset == 2


def test_a_marker_without_partitions_is_answered_at_once(harness: Harness) -> None:
    assert harness.writer.write(COMMIT, ()).done


def test_an_outdated_coordinator(harness: Harness) -> None:
    harness.begin()
    assert harness.write(COMMIT, ("t", 0)) == {"t-0": ErrorCode.NONE}
    late = harness.write(COMMIT._replace(coordinator_epoch=4), ("t", 0))
    assert late == {"t-0": ErrorCode.TRANSACTION_COORDINATOR_FENCED}


def test_the_transaction_version_determines_the_epoch_check(harness: Harness) -> None:
    harness.begin()
    bumping = COMMIT._replace(transaction_version=2)
    assert harness.write(bumping, ("t", 0)) == {"t-0": ErrorCode.INVALID_PRODUCER_EPOCH}
    assert harness.write(bumping._replace(producer_epoch=1), ("t", 0)) == {"t-0": ErrorCode.NONE}


def test_a_response_waits_for_the_flush(tmp_path: Path) -> None:
    harness = Harness(tmp_path, {"log.flush.interval.messages": "1"})
    harness.begin()
    harness.runner.is_slow = True
    found = harness.write(COMMIT, ("t", 0))
    assert found == {}
    harness.runner.release_all()
    assert found == {"t-0": ErrorCode.NONE}


def test_a_disk_full_for_producers_accepts_markers(harness: Harness) -> None:
    harness.begin()
    harness.replica_manager.partition("t", 0).log.disk_space.ran_out()
    assert harness.write(COMMIT, ("t", 0)) == {"t-0": ErrorCode.NONE}


def test_a_disk_that_failed(harness: Harness) -> None:
    harness.begin()
    harness.replica_manager.log_dir_failed(harness.replica_manager.partition("t", 0).log.log_dir)
    assert harness.write(COMMIT, ("t", 0)) == {"t-0": ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_log_that_could_not_be_opened(harness: Harness) -> None:
    missing = MissingLog(
        harness.broker.broker.image.topics["t"], partition_image(), False, DiskFullError("a test says so")
    )
    for key in (("t", 7), (OFFSETS, 3)):
        harness.replica_manager._without_log.add(key, missing)
    found = harness.write(COMMIT, ("t", 7), (OFFSETS, 3))
    assert found == {"t-7": ErrorCode.KAFKA_STORAGE_ERROR, f"{OFFSETS}-3": ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_topic_that_was_deleted(harness: Harness) -> None:
    harness.begin()
    harness.replica_manager._remove(harness.broker.broker.image.topics["t"])
    assert harness.write(COMMIT, ("t", 0)) == {"t-0": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# ---- offsets of groups

SAID = [
    (None, ErrorCode.NONE),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
]


@pytest.mark.parametrize(("said", "told"), SAID)
def test_markers_for_offsets_go_to_the_group_coordinator(
    harness: Harness, said: ErrorCode | None, told: ErrorCode
) -> None:
    harness.broker.create_topic(OFFSETS, partitions=2)
    harness.begin()
    found = harness.write(COMMIT, ("t", 0), (OFFSETS, 1))
    assert (found, harness.groups.asked) == ({}, [(1, COMMIT)])
    harness.groups.pending[0].complete(None if said is None else ApiError(said))
    assert found == {"t-0": ErrorCode.NONE, f"{OFFSETS}-1": told}


def test_an_offsets_partition_that_is_absent(harness: Harness) -> None:
    assert harness.write(COMMIT, (OFFSETS, 1)) == {f"{OFFSETS}-1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert harness.groups.asked == []


def test_sent_markers_are_written_in_one_answer(harness: Harness) -> None:
    harness.begin()
    found: list[Mapping[TopicPartition, ErrorCode]] = []
    answers = harness.writer.send(COMMIT, [("t", 0), ("t", 1)], lambda: True)
    for answer in answers:
        answer.add_done_callback(found.append)
    assert found == [{("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}]
