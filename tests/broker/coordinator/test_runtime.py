"""CoordinatorRuntime: the shard of a key, and the shards that result from the metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from barnabas.broker.coordinator.partition_log import LogLimits
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.internal_topics import partition_for
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendResult
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import FileRecords, TopicPartition
from tests.broker.coordinator.runtime_harness import Counters, MemoryLogs, RuntimeHarness, marker
from tests.broker.held_runner import HeldRunner

HERE, ELSEWHERE = 1, 2
TOPIC_ID = b"t" * 16
PRODUCER = TransactionalProducer("id", 5, 0, False)


class ManyLogs(MemoryLogs):
    """A log for each partition; settings here apply to all."""

    def __init__(self) -> None:
        super().__init__()
        self._others: dict[int, MemoryLogs] = {}

    def of(self, partition: int) -> MemoryLogs:
        return self._others.setdefault(partition, MemoryLogs()) if partition else self

    def check(self, partition: int, *, is_needed: bool = True) -> LogLimits:
        limits = super().check(0, is_needed=is_needed)
        return limits._replace(next_offset=self.of(partition).next_offset)

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | Pending[AppendResult]:
        return MemoryLogs.append(self.of(partition), 0, batch, guard=guard)

    def contents(self, partition: int) -> Sequence[FileRecords]:
        return MemoryLogs.contents(self.of(partition), 0)


class Harness:
    """A runtime over memory that follows the metadata."""

    def __init__(self, runner: HeldRunner | None = None) -> None:
        self.harness = RuntimeHarness(runner=runner)
        self.harness.runner.unload()
        self.harness.shards.clear()
        self.logs = self.harness.logs = ManyLogs()
        self.harness.dependencies.logs = self.logs
        self.image = MetadataImage.empty()
        self.runtime: CoordinatorRuntime[Counters] = CoordinatorRuntime(self.harness.dependencies, HERE)

    def change(self, *records: Message) -> None:
        self.image, delta = replayed(self.image, records)
        self.runtime.apply(self.image, delta)

    def create(self, *leaders: int, name: str = "counters") -> None:
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[HERE, ELSEWHERE],
                isr=[HERE, ELSEWHERE],
                leader=leader,
                leader_epoch=0,
            )
            for index, leader in enumerate(leaders)
        ]
        self.change(TopicRecord(name=name, topic_id=TOPIC_ID), *partitions)

    def lead(self, partition: int, leader: int) -> None:
        self.change(PartitionChangeRecord(partition_id=partition, topic_id=TOPIC_ID, leader=leader))

    def set(self, name: str, value: int) -> Pending[Any]:
        return self.runtime.write(name, lambda shard: shard.set(name, value), lambda error: error.code)

    def answer(self, pending: Pending[Any]) -> Any:
        self.harness.end_pass()
        told: list[Any] = []
        pending.add_done_callback(told.append)
        return told[0] if told else "nothing"


def key_of(partition: int, count: int) -> str:
    return next(key for key in map(str, range(1000)) if partition_for(key, count) == partition)


def test_without_a_topic_there_is_no_coordinator() -> None:
    harness = Harness()
    assert harness.answer(harness.set("a", 1)) is ErrorCode.NOT_COORDINATOR
    assert harness.runtime.read_all(lambda _: 1, lambda _: 2) == []


def test_the_partition_of_a_key_is_that_reported_to_clients() -> None:
    harness = Harness()
    harness.create(HERE, ELSEWHERE, HERE)
    assert [shard.context.partition for shard in harness.runtime.shards()] == [0, 2]
    assert harness.answer(harness.set(key_of(0, 3), 1)) is None
    assert harness.answer(harness.set(key_of(1, 3), 1)) is ErrorCode.NOT_COORDINATOR
    assert harness.answer(harness.set(key_of(2, 3), 1)) is None
    assert [sorted(shard.counters) for shard in harness.runtime.shards()] == [[key_of(0, 3)], [key_of(2, 3)]]


def test_shards_are_loaded_and_unloaded_with_the_leadership() -> None:
    harness = Harness()
    harness.create(HERE, ELSEWHERE)
    (first,) = harness.runtime.shards()
    harness.lead(1, HERE)
    assert [(shard.context.partition, shard.context.epoch) for shard in harness.runtime.shards()] == [
        (0, 0),
        (1, 1),
    ]
    harness.lead(0, ELSEWHERE)
    assert first.events[-1] == "unloaded"
    assert [shard.context.partition for shard in harness.runtime.shards()] == [1]


def test_a_deleted_topic_unloads_its_shards_even_if_the_name_returns() -> None:
    harness = Harness()
    harness.create(HERE)
    (old,) = harness.runtime.shards()
    harness.change(
        RemoveTopicRecord(topic_id=TOPIC_ID),
        TopicRecord(name="counters", topic_id=b"u" * 16),
        PartitionRecord(partition_id=0, topic_id=b"u" * 16, replicas=[HERE], isr=[HERE], leader=HERE),
    )
    assert old.events[-1] == "unloaded"
    assert harness.runtime.shards()[0] is not old
    harness.change(RemoveTopicRecord(topic_id=b"u" * 16))
    assert harness.runtime.shards() == []
    assert harness.answer(harness.set("a", 1)) is ErrorCode.NOT_COORDINATOR


def test_shards_receive_all_metadata() -> None:
    harness = Harness()
    harness.create(HERE)
    harness.change(TopicRecord(name="other", topic_id=b"o" * 16))
    assert harness.runtime.shards()[0].events == ["loaded", "metadata"]


def test_a_request_to_all_shards_reports_those_that_load() -> None:
    runner = HeldRunner()
    harness = Harness(runner)
    harness.create(HERE, HERE, ELSEWHERE)
    harness.answer(harness.set(key_of(1, 3), 4))
    harness.harness.end_pass()
    seen = harness.runtime.read_all(lambda shard: len(shard.counters), lambda error: int(error.code))
    assert sorted(harness.answer(each) for each in seen) == [0, 1]
    harness.logs.of(2).write(harness.logs.of(1).batches[0])
    harness.lead(2, HERE)
    states = harness.runtime.read_all(lambda _: "loaded", lambda error: error.code.name)
    assert {harness.answer(each) for each in states} == {"loaded", "COORDINATOR_LOAD_IN_PROGRESS"}


def test_shards_on_a_failed_disk_are_unloaded() -> None:
    harness = Harness()
    harness.create(HERE)
    (shard,) = harness.runtime.shards()
    harness.runtime.log_dir_failed()
    assert shard.events == ["loaded"]
    harness.logs.refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    harness.runtime.log_dir_failed()
    assert shard.events == ["loaded", "unloaded"]
    assert harness.answer(harness.set("a", 1)) is ErrorCode.NOT_COORDINATOR


def test_decided_records_are_written_at_the_stop() -> None:
    harness = Harness()
    harness.create(HERE)
    told = harness.set("a", 1)
    harness.runtime.stop()
    assert harness.answer(told) is None
    assert harness.answer(harness.set("a", 1)) is ErrorCode.NOT_COORDINATOR


# ---- transactions


class Verifier:
    """A TransactionVerifier whose responses the test gives."""

    def __init__(self) -> None:
        self.pending: Pending[Mapping[TopicPartition, ErrorCode]] = Pending()
        self.asked: list[tuple[TransactionalProducer, list[TopicPartition]]] = []

    def verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        self.asked.append((producer, list(partitions)))
        return self.pending


def in_transaction(harness: Harness) -> Pending[Any]:
    return harness.runtime.write_in_transaction(
        "a", PRODUCER, lambda shard: shard.set("a", 1), lambda error: error.code
    )


def test_a_transaction_is_verified_with_its_coordinator_first() -> None:
    harness = Harness()
    harness.runtime.verifier = verifier = Verifier()
    harness.logs.verifying = True
    harness.create(HERE)
    told = in_transaction(harness)
    assert harness.answer(told) == "nothing"
    assert verifier.asked == [(PRODUCER, [("counters", 0)])]
    verifier.pending.complete({("counters", 0): ErrorCode.NONE})
    assert harness.answer(told) is None
    assert harness.logs.guards[0] is not None
    harness.logs.verifying = False  # the log knows the transaction from now on
    assert harness.answer(in_transaction(harness)) is None
    assert len(verifier.asked) == 1
    assert harness.answer(harness.runtime.complete_transaction(0, marker(5, committed=True))) is None
    assert harness.runtime.shards()[0].counters == {"a": 1}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_commit_is_not_written_if_the_verification_fails(code: ErrorCode, told: ErrorCode) -> None:
    harness = Harness()
    harness.runtime.verifier = verifier = Verifier()
    verifier.pending.complete({("counters", 0): code})
    harness.logs.verifying = True
    harness.create(HERE)
    assert harness.answer(in_transaction(harness)) is told
    assert harness.logs.batches == []


def test_a_shard_unloaded_during_the_verification_writes_nothing() -> None:
    harness = Harness()
    harness.runtime.verifier = verifier = Verifier()
    harness.logs.verifying = True
    harness.create(HERE)
    told = in_transaction(harness)
    harness.lead(0, ELSEWHERE)
    verifier.pending.complete({("counters", 0): ErrorCode.NONE})
    assert harness.answer(told) is ErrorCode.NOT_COORDINATOR
    assert harness.answer(in_transaction(harness)) is ErrorCode.NOT_COORDINATOR
    ended = harness.answer(harness.runtime.complete_transaction(0, marker(5, committed=True)))
    assert ended.code is ErrorCode.NOT_COORDINATOR


def test_the_error_of_a_log_that_cannot_begin_a_verification_is_returned() -> None:
    harness = Harness()
    harness.create(HERE)
    harness.logs.refusal = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert harness.answer(in_transaction(harness)) is ErrorCode.NOT_COORDINATOR
