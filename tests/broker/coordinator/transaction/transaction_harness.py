"""TransactionHarness: a shard of the transaction coordinator, with partitions whose results the test sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.broker.coordinator.records import TRANSACTION_RECORDS, RecordSerde
from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.transaction.rules import (
    NEW_ID_NEEDED,
    ProducerAnswer,
    ProducerIdAndEpoch,
)
from barnabas.broker.coordinator.transaction.shard import TransactionCoordinatorShard
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topic_records import (
    FeatureLevelRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.storage.offsets import TopicPartition
from tests.broker.coordinator.shard_harness import Logged, ShardHarness

SERDE = RecordSerde(TRANSACTION_RECORDS)
TX = "tx"
TIMEOUT_MS = 60_000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


class Markers:
    """A MarkerSender. Every partition gets its marker at once, unless `errors` has an error for it, or `is_held`: then
    responses wait for `release`."""

    def __init__(self) -> None:
        self.written: list[tuple[TopicPartition, TransactionMarker]] = []
        self.asked: list[tuple[TransactionMarker, list[TopicPartition]]] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_held = False
        self._held: list[tuple[Pending[Any], TransactionMarker, list[TopicPartition]]] = []

    def write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        answer: Pending[Mapping[TopicPartition, ErrorCode]] = Pending()
        self.asked.append((marker, list(partitions)))
        self._held.append((answer, marker, list(partitions)))
        if not self.is_held:
            self.release()
        return answer

    def send(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], is_current: Callable[[], bool]
    ) -> list[Pending[Mapping[TopicPartition, ErrorCode]]]:
        return [self.write(marker, partitions)]

    def release(self) -> None:
        """Writes, or fails, all held markers."""
        held, self._held = self._held, []
        for answer, marker, partitions in held:
            codes = {partition: self.errors.get(partition, ErrorCode.NONE) for partition in partitions}
            self.written += [(partition, marker) for partition in partitions if not codes[partition]]
            answer.complete(codes)


def metadata_records(transaction_version: int, topics: Mapping[str, int]) -> list[Any]:
    records: list[Any] = [FeatureLevelRecord(name="transaction.version", feature_level=transaction_version)]
    for name, partitions in topics.items():
        topic_id = name.encode().ljust(16, b"-")
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [
            PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
            for index in range(partitions)
        ]
    return records


def remove_topic(name: str) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=name.encode().ljust(16, b"-"))


class TransactionHarness:
    """The shard, the markers, and the requests of producers. New producer ids are 1000, 1001, ..."""

    def __init__(
        self,
        transaction_version: int = 2,
        settings: Mapping[str, str] | None = None,
        *,
        markers: Markers | None = None,
        log: list[Logged] | None = None,
        image: MetadataImage | None = None,
        next_id: int = 1000,
        **options: Any,
    ) -> None:
        self.markers = markers or Markers()
        self.next_id = next_id
        if image is None:
            image, _ = replayed(
                MetadataImage.empty(),
                metadata_records(transaction_version, {"t": 12, "u": 3, "__consumer_offsets": 50}),
            )
        self.shard_harness: ShardHarness[TransactionCoordinatorShard] = ShardHarness(
            lambda context: TransactionCoordinatorShard(context, self.markers, self),
            settings,
            image=image,
            log=log,
            **options,
        )

    @property
    def shard(self) -> TransactionCoordinatorShard:
        return self.shard_harness.shard

    def metadata(self, transactional_id: str = TX) -> TransactionMetadata:
        return self.shard.transactions[transactional_id]

    def reloaded(self) -> TransactionHarness:
        """A coordinator that has loaded the bytes of the log, with the same partitions; this one is unloaded."""
        self.shard.on_unloaded()
        read = [Logged(SERDE.decode(*SERDE.encode(record))) for record in self.shard_harness.records]
        return TransactionHarness(
            settings=self.shard_harness.settings,
            markers=self.markers,
            log=read,
            image=self.shard_harness.image,
            next_id=self.next_id,
            now_ms=self.shard_harness.now_ms,
        )

    # ---- requests of producers; a rejection raises ApiError

    def init(
        self, expected: tuple[int, int] | None = None, timeout_ms: int = TIMEOUT_MS, name: str = TX
    ) -> ProducerAnswer:
        named = None if expected is None else ProducerIdAndEpoch(*expected)
        answer = self.shard_harness.run(lambda shard: shard.init_producer_id(name, timeout_ms, named))
        if answer is NEW_ID_NEEDED:
            new_id = self._new_id()
            answer = self.shard_harness.run(
                lambda shard: shard.init_producer_id(name, timeout_ms, named, new_id)
            )
        assert isinstance(answer, ProducerAnswer)
        return answer

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 2, name: str = TX
    ) -> None:
        code = self.shard_harness.run(
            lambda shard: shard.add_partitions(name, ProducerIdAndEpoch(*producer), partitions, version)
        )
        assert code is ErrorCode.NONE

    def end(
        self, producer: tuple[int, int], *, commits: bool, version: int = 2, name: str = TX
    ) -> ProducerAnswer:
        def end(new_id: int | None) -> Any:
            return self.shard_harness.run(
                lambda shard: shard.end_transaction(
                    name,
                    ProducerIdAndEpoch(*producer),
                    commits=commits,
                    client_version=version,
                    new_id=new_id,
                )
            )

        answer = end(None)
        if answer is NEW_ID_NEEDED:
            answer = end(self._new_id())
        assert isinstance(answer, ProducerAnswer)
        return answer

    def settle(self) -> None:
        """Runs the calls that are due now."""
        self.shard_harness.advance(0)

    def generate(self) -> Pending[int | None]:
        """Also the source of new producer ids."""
        answer: Pending[int | None] = Pending()
        answer.complete(self._new_id())
        return answer

    def _new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1


def ids(answer: ProducerAnswer) -> tuple[int, int]:
    assert answer.error is ErrorCode.NONE, answer
    return answer.producer_id, answer.producer_epoch
