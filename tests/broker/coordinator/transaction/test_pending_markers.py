"""PendingMarkers: each leader answers by itself; retries, stops, and a change of the coordinator's epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.transaction.pending_markers import (
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    PendingMarkers,
)
from barnabas.broker.coordinator.transaction.state import PREPARE_COMMIT
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topic_records import RemoveTopicRecord
from barnabas.storage.offsets import TopicPartition
from tests.broker.cluster_images import image_of, topic_id, topic_records
from tests.broker.coordinator.runtime_harness import RuntimeHarness

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
Codes = Mapping[TopicPartition, ErrorCode]


class Leaders:
    """A MarkerSender: each partition has a leader of its own, whose answer the test gives."""

    def __init__(self) -> None:
        self.sent: list[tuple[TopicPartition, int]] = []
        self.pending: dict[TopicPartition, Pending[Codes]] = {}
        self.is_current: Callable[[], bool] = lambda: False

    def send(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], is_current: Callable[[], bool]
    ) -> list[Pending[Codes]]:
        self.is_current = is_current
        for partition in partitions:
            assert partition not in self.pending, "its marker is under way"
            self.pending[partition] = Pending()
            self.sent.append((partition, marker.coordinator_epoch))
        return [self.pending[partition] for partition in partitions]

    def answer(self, partition: TopicPartition, code: ErrorCode = ErrorCode.NONE) -> None:
        self.pending.pop(partition).complete({partition: code})


class Harness:
    """The markers of a transaction with three partitions, in coordinator epoch 7."""

    def __init__(self) -> None:
        self.runtime = RuntimeHarness()
        self.image = image_of(*topic_records("t", [1, 1]), *topic_records("u", [1]))
        self.context = self.runtime.shard.context
        self.context.image = lambda: self.image
        self.leaders = Leaders()
        self.finished: list[TransactionMetadata] = []
        self.markers = PendingMarkers(self.context, self.leaders, self.finished.append)
        self.metadata = TransactionMetadata(
            "tx", 7, 1000, 0, producer_epoch=3, state=PREPARE_COMMIT, partitions=(T0, T1, U0)
        )
        self.markers.begin(self.metadata)

    def advance(self, ms: int) -> None:
        self.runtime.clock.advance(ms / 1000)

    def left(self) -> list[TopicPartition]:
        return sorted(self.markers.left("tx") or ())


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_leader_that_is_slow_delays_no_other(harness: Harness) -> None:
    harness.leaders.answer(T0, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.advance(RETRY_BACKOFF_MS)
    harness.leaders.answer(T0)
    assert [partition for partition, _ in harness.leaders.sent[3:]] == [T0]
    assert (harness.left(), harness.finished) == ([T1, U0], [])
    harness.leaders.answer(U0)
    harness.leaders.answer(T1)
    assert (harness.left(), harness.finished) == ([], [harness.metadata])


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_marker_that_was_not_written_is_sent_again(harness: Harness, code: ErrorCode) -> None:
    for partition in (T0, T1, U0):
        harness.leaders.answer(partition, code)
    harness.advance(RETRY_BACKOFF_MS)
    assert sorted(partition for partition, _ in harness.leaders.sent[3:]) == [T0, T1, U0]
    assert harness.markers.retried == 3


def test_the_retries_of_a_transaction_are_not_those_of_the_next_one(harness: Harness) -> None:
    harness.leaders.answer(T0, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.image = image_of(RemoveTopicRecord(topic_id=topic_id("t")), before=harness.image)
    harness.markers.epoch_changed()  # tries again before the delay is over
    harness.leaders.answer(U0)
    assert harness.finished == [harness.metadata]
    following = harness.metadata._replace(producer_epoch=4, partitions=(U0,))
    harness.markers.begin(following)
    harness.leaders.answer(U0, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.advance(RETRY_BACKOFF_MS)
    harness.leaders.answer(U0)
    assert harness.finished == [harness.metadata, following]


def test_the_delays_grow_up_to_a_second(harness: Harness) -> None:
    for partition in (T1, U0):
        harness.leaders.answer(partition)
    at = []
    for _ in range(10):
        harness.leaders.answer(T0, ErrorCode.NETWORK_EXCEPTION)
        waited = 0
        while T0 not in harness.leaders.pending:
            harness.advance(1)
            waited += 1
        at.append(waited)
    expected = [min(RETRY_BACKOFF_MS << attempt, RETRY_BACKOFF_MAX_MS) for attempt in range(10)]
    assert at == [pytest.approx(delay, abs=1) for delay in expected]  # the clock adds fractions


@pytest.mark.parametrize(
    "code", [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
)
def test_a_partition_whose_transaction_has_ended_is_done(harness: Harness, code: ErrorCode) -> None:
    for partition in (T0, T1, U0):
        harness.leaders.answer(partition, code)
    assert harness.finished == [harness.metadata]


def test_a_fenced_coordinator_stops_sending(harness: Harness) -> None:
    harness.leaders.answer(T1, ErrorCode.NETWORK_EXCEPTION)
    harness.leaders.answer(T0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    harness.leaders.answer(U0, ErrorCode.NETWORK_EXCEPTION)
    harness.advance(60_000)
    assert (len(harness.leaders.sent), harness.finished, harness.left()) == (3, [], [T0, T1, U0])


def test_a_new_epoch_sends_what_is_left(harness: Harness) -> None:
    harness.leaders.answer(T0)
    harness.leaders.answer(T1, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    is_current = harness.leaders.is_current
    assert is_current()
    harness.context.epoch = 8
    assert not is_current()
    harness.markers.epoch_changed()
    assert harness.leaders.sent[3:] == [(T1, 8)]
    harness.leaders.answer(U0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)  # in epoch 7
    harness.advance(RETRY_BACKOFF_MS)
    assert harness.leaders.sent[4:] == [(U0, 8)]
    harness.leaders.answer(T1)
    harness.leaders.answer(U0)
    assert harness.finished == [harness.metadata]


def test_nothing_is_sent_after_the_resignation(harness: Harness) -> None:
    harness.leaders.answer(T0, ErrorCode.NETWORK_EXCEPTION)
    harness.markers.close()
    assert not harness.leaders.is_current()
    harness.advance(60_000)
    for partition in (T1, U0):
        harness.leaders.answer(partition)
    assert (len(harness.leaders.sent), harness.finished, len(harness.markers)) == (3, [], 0)


def test_a_topic_that_is_deleted_needs_no_marker(harness: Harness) -> None:
    harness.image = image_of(RemoveTopicRecord(topic_id=topic_id("u")), before=harness.image)
    harness.leaders.answer(U0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    harness.advance(RETRY_BACKOFF_MS)
    assert harness.left() == [T0, T1]
    harness.image = MetadataImage.empty()
    for partition in (T0, T1):
        harness.leaders.answer(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    harness.advance(2 * RETRY_BACKOFF_MS)
    assert harness.finished == [harness.metadata]
