"""CoordinatorRuntime: runs the shards of one coordinator: loads them, runs their operations, writes their records.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from barnabas.broker.coordinator import errors
from barnabas.broker.coordinator.dependencies import RuntimeDependencies
from barnabas.broker.coordinator.record_queue import Answer
from barnabas.broker.coordinator.shard import CoordinatorResult, CoordinatorShard
from barnabas.broker.coordinator.shard_runner import ShardRunner, ShardState
from barnabas.broker.coordinator.txn import (
    TransactionalProducer,
    TransactionMarker,
    TransactionVerifier,
    needs_verification,
)
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.internal_topics import partition_for
from barnabas.broker.pending import Pending, completed
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import TopicPartition

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R")
Failed = Callable[[ApiError], R]
"""Makes a response of an error: the operation's own ApiError, or one of the runtime's (see `write`)."""

_partition_for = lru_cache(maxsize=1 << 16)(partition_for)


class CoordinatorRuntime(Generic[S]):
    """The shards of one coordinator's topic that this broker leads. Lives on the event loop.

    `verifier` verifies the transactions that write here; it may be set later.
    """

    def __init__(
        self, dependencies: RuntimeDependencies[S], node_id: int, verifier: TransactionVerifier | None = None
    ) -> None:
        self.verifier = verifier
        self.topic = dependencies.topic
        self.probe = dependencies.probe
        self._dependencies = dependencies
        self._node_id = node_id
        self._runners: dict[int, ShardRunner[S]] = {}
        self._partition_count = 0

    def partition_of(self, key: str) -> int | None:
        """The partition of the topic that a key belongs to; None while the topic does not exist."""
        return _partition_for(key, self._partition_count) if self._partition_count else None

    def write(
        self, key: str, operation: Callable[[S], CoordinatorResult[R]], failed: Failed[R]
    ) -> Pending[R]:
        """Runs `operation` on the shard that `key` (a group, a transactional id) belongs to.

        The response is completed when the records are committed. `failed` gets the ApiError that the operation raised,
        or COORDINATOR_NOT_AVAILABLE (its records could not be written), NOT_COORDINATOR (this broker does not lead the
        partition, or there is no such partition), COORDINATOR_LOAD_IN_PROGRESS; after a failure the state is as before.
        """
        answer = Answer(failed)
        runner = self._runner_of(key, answer)
        if runner is not None:
            runner.write(operation, answer)
        return answer.pending

    def read(self, key: str, operation: Callable[[S], R], failed: Failed[R]) -> Pending[R]:
        """Runs a read-only operation on the shard of `key`; completed when all records that it saw are committed."""
        answer = Answer(failed)
        runner = self._runner_of(key, answer)
        if runner is not None:
            runner.read(operation, answer)
        return answer.pending

    def read_all(self, operation: Callable[[S], R], failed: Failed[R]) -> list[Pending[R]]:
        """Runs a read-only operation on every shard that this broker leads, with one response for each."""
        answers: list[Pending[R]] = []
        for runner in list(self._runners.values()):
            answer = Answer(failed)
            answers.append(answer.pending)
            runner.read(operation, answer)
        return answers

    def write_in_transaction(
        self,
        key: str,
        producer: TransactionalProducer,
        operation: Callable[[S], CoordinatorResult[R]],
        failed: Failed[R],
    ) -> Pending[R]:
        """`write`, with records that belong to a producer's transaction and count when that is committed.

        The transaction's coordinator first verifies that the partition belongs to it (KIP-890), or adds it (transaction
        version 2). The shard's `replay` gets the producer's id with these records.
        """
        answer = Answer(failed)
        runner = self._runner_of(key, answer)
        if runner is None:
            return answer.pending
        rejection = runner.rejection()
        if rejection is not None:
            answer.fail(rejection)
            return answer.pending

        def verified(guard: VerificationGuard | None) -> None:
            runner.write_in_transaction(producer, guard, operation, answer)

        self._verify(runner.partition, producer, verified, answer.fail)
        return answer.pending

    def complete_transaction(self, partition: int, marker: TransactionMarker) -> Pending[ApiError | None]:
        """Writes the marker that ends a producer's transaction in `partition` of the topic, and replays it.

        The result is None once the marker is committed, or the error.
        """
        runner = self._runners.get(partition)
        if runner is None:
            return completed(errors.not_coordinator(f"{self.topic}-{partition}"))
        return runner.complete_transaction(marker)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Applies new metadata: loads the partitions that this broker now leads, unloads those that it does not."""
        gone = any(topic.name == self.topic for topic in delta.deleted_topics.values())
        if gone:
            self._lead({})
        topic = image.topics.get(self.topic)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        for runner in list(self._runners.values()):
            runner.metadata_changed(image, delta)
        if topic is None or (
            self.topic not in delta.created_topics and self.topic not in delta.changed_topics
        ):
            return
        self._lead(
            {
                index: partition.leader_epoch
                for index, partition in topic.partitions.items()
                if partition.leader == self._node_id
            }
        )

    def shards(self) -> Sequence[S]:
        """The shards that are loaded."""
        return [runner.shard for runner in self._runners.values() if runner.shard is not None]

    def states(self) -> list[ShardState]:
        """The states of all partitions that this broker leads."""
        return [runner.state for runner in self._runners.values()]

    def log_dir_failed(self) -> None:
        """Unloads the partitions whose log directory has failed."""
        for runner in list(self._runners.values()):
            if not runner.is_usable():
                runner.unload()

    def log_opened(self, partition: int) -> None:
        """Loads a partition whose log was missing until now."""
        runner = self._runners.get(partition)
        if runner is not None:
            runner.load()

    def stop(self) -> None:
        """Appends the records of all operations so far and closes the shards."""
        for runner in self._runners.values():
            runner.close()

    # ---- inside

    def _runner_of(self, key: str, answer: Answer[R]) -> ShardRunner[S] | None:
        """The runner of the key's partition; None where this broker does not coordinate it, and `answer` has failed."""
        partition = self.partition_of(key)
        if partition is None:
            answer.fail(errors.not_coordinator(f"{self.topic}, which does not exist"))
            return None
        runner = self._runners.get(partition)
        if runner is None:
            answer.fail(errors.not_coordinator(f"{self.topic}-{partition}"))
        return runner

    def _lead(self, epochs: Mapping[int, int]) -> None:
        """Coordinates these partitions, in these leader epochs, and no others."""
        for index in [index for index in self._runners if index not in epochs]:
            self._runners.pop(index).unload()
        for index, epoch in epochs.items():
            runner = self._runners.get(index)
            if runner is None:
                runner = self._runners[index] = ShardRunner(self._dependencies, index, epoch)
                runner.load()
            elif runner.epoch != epoch:
                runner.lead(epoch)

    def _verify(
        self,
        partition: int,
        producer: TransactionalProducer,
        verified: Callable[[VerificationGuard | None], None],
        failed: Callable[[ApiError], None],
    ) -> None:
        """Has the transaction's coordinator verify the producer, unless its transaction is open in the log already."""
        place: TopicPartition = (self.topic, partition)
        if not needs_verification(self._dependencies.config, producer.supports_epoch_bump):
            verified(None)
            return
        try:
            guard = self._dependencies.logs.start_verification(
                partition,
                producer.producer_id,
                producer.producer_epoch,
                supports_epoch_bump=producer.supports_epoch_bump,
            )
        except ApiError as error:
            failed(errors.as_coordinator(error))
            return
        if guard is None or self.verifier is None:
            verified(guard)
            return

        def answered(found: Mapping[TopicPartition, ErrorCode]) -> None:
            code = found.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code is ErrorCode.NONE:
                verified(guard)
            else:
                failed(errors.as_coordinator(ApiError(code)))

        self.verifier.verify(producer, [place]).add_done_callback(answered)
