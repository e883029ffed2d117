"""Tests a member of confluent-kafka whose commit is rejected.

Apache Kafka rejects commits of a cooperative member while its group rebalances, and the member keeps its partitions. A
member that only continues with the next records never commits the last ones before a silence.
"""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.interop.members import confluent
from tests.interop.members.ledger import Ledger
from tests.interop.members.lines import Member

MEMBER = Member("a", "topic", "group", "cooperative")
REJECTED = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
GONE = KafkaException(KafkaError(KafkaError._STATE))
SILENT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Consumer:
    """Rejects the first commit; `committed` are the group's offsets, None without a response."""

    def __init__(self, committed: dict[int, int] | None, *, lost: int | None = None) -> None:
        self.positions: dict[int, int] = {}
        self._committed = committed
        self._lost = lost
        self._rejects = True

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if self._rejects:
            self._rejects = False
            raise REJECTED
        return offsets

    def committed(self, partitions: list[TopicPartition], _: float) -> list[TopicPartition]:
        if self._committed is None:
            raise SILENT
        return [
            TopicPartition(one.topic, one.partition, self._committed.get(one.partition, -1001))
            for one in partitions
        ]

    def seek(self, to: TopicPartition) -> None:
        if to.partition == self._lost:
            raise GONE
        self.positions[to.partition] = to.offset


def after_rejection(
    consumer: Consumer, offsets: dict[int, list[int]], capsys: pytest.CaptureFixture[str]
) -> Ledger:
    """The member's output after a rejected commit."""
    confluent.commit(consumer, MEMBER, offsets)  # type: ignore[arg-type]  # the methods that it calls
    ledger = Ledger()
    for line in capsys.readouterr().out.splitlines(keepends=True):
        ledger.add_line(line)
    assert len(ledger.rejections) == 1
    return ledger


def test_records_of_a_rejected_commit_are_read_again_and_committed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    consumer = Consumer({0: 3, 1: 0})
    ledger = after_rejection(consumer, {0: [3, 4], 1: [0, 1], 2: [0]}, capsys)
    assert consumer.positions == {0: 3, 1: 0, 2: 0}
    assert ledger.end(0) == 3
    confluent.commit(consumer, MEMBER, {0: [3, 4]})  # type: ignore[arg-type]
    assert capsys.readouterr().out == "committed a 0 5\n"


def test_a_commit_that_happened_counts(capsys: pytest.CaptureFixture[str]) -> None:
    consumer = Consumer({0: 5})
    ledger = after_rejection(consumer, {0: [3, 4]}, capsys)
    assert consumer.positions == {0: 5}
    assert ledger.end(0) == 5


def test_a_partition_of_another_member_does_not_block_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    consumer = Consumer({0: 3, 1: 3, 2: 3}, lost=0)
    after_rejection(consumer, {0: [3], 1: [3], 2: [3]}, capsys)
    assert consumer.positions == {1: 3, 2: 3}


def test_a_member_without_committed_offsets_reads_again(capsys: pytest.CaptureFixture[str]) -> None:
    consumer = Consumer(None)
    after_rejection(consumer, {0: [3, 4]}, capsys)
    assert consumer.positions == {0: 3}
