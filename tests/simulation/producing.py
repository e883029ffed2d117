"""Producers: idempotent ones, and the transactions of those with a transactional id, as in Java's
TransactionManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from barnabas.protocol.records.builder import build_batch
from tests.simulation.ledger import Transaction
from tests.simulation.network import LATE, LATE_WITH_EPOCH_BUMPS, DisconnectedError
from tests.simulation.node import COORDINATOR_ERRORS, GROUP, TRANSACTION, Node, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.consumer import Consumer

MAX_ATTEMPTS: Final = 12
"""The attempts of a request before its transaction is aborted."""

_RETRIED: Final = COORDINATOR_ERRORS | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
_ABORTABLE: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
_ABORTABLE_IN_PRODUCE: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)

FIRST_VERSION: Final = {
    ApiKey.PRODUCE: (3, 11),
    ApiKey.TXN_OFFSET_COMMIT: (3, 4),
    ApiKey.END_TXN: (0, 4),
    ApiKey.INIT_PRODUCER_ID: (3, 5),
}
"""The versions of clients of transaction versions 0 and 1; they bump the epoch themselves (KIP-360)."""
SECOND_VERSION: Final = {
    ApiKey.PRODUCE: (12, 13),
    ApiKey.TXN_OFFSET_COMMIT: (5, 5),
    ApiKey.END_TXN: (5, 5),
    ApiKey.INIT_PRODUCER_ID: (5, 5),
}
"""The versions of clients of transaction version 2 (KIP-890)."""


class AbortableError(Exception):
    """This transaction can only be aborted."""


class FatalError(Exception):
    """This producer can only be closed."""


def transactional_needs(version: int) -> Mapping[ApiKey, tuple[int, int]]:
    return SECOND_VERSION if version == 2 else FIRST_VERSION


def transactional_late_apis(version: int) -> frozenset[ApiKey]:
    return LATE_WITH_EPOCH_BUMPS if version == 2 else LATE


class TransactionalProducer:
    """The producer in a client's process."""

    def __init__(self, node: Node, transactional_id: str, version: int, timeout_s: float) -> None:
        self._node = node
        self._world = node.world
        self.transactional_id = transactional_id
        self._bumps = version == 2
        self.timeout_s = timeout_s
        self.producer_id = self.epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[object] = set()
        self._must_raise_epoch = False
        self._count = 0
        self.transaction: Transaction | None = None
        self._world.transactional_ids.add(transactional_id)

    async def init(self) -> None:
        """Obtains an epoch. Raises FatalError if another producer with the same id has fenced it."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=int(self.timeout_s * 1000),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
        )
        answer = await self._ask(request, attempts=10_000)
        self._check(answer.error_code)
        self._begin_epoch(answer.producer_id, answer.producer_epoch)

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self._sequences.clear()

    def begin(self) -> Transaction:
        assert self.transaction is None
        self._count += 1
        name = f"{self._node.name}/{self.producer_id}/{self.epoch}/{self._count}"
        self.transaction = self._world.ledger.begin(name)
        self._added.clear()
        return self.transaction

    async def send(
        self, partition: TopicPartition, values: Sequence[bytes], topic_id: bytes = bytes(16)
    ) -> None:
        """Writes values in the transaction. Raises AbortableError, FatalError."""
        assert self.transaction is not None
        self._world.ledger.add_sent(partition, list(values), self.transaction)
        if not self._bumps and partition not in self._added:
            await self._add_partition(partition)
        self._added.add(partition)
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            [(None, value, self._world.clock.now_ms, ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._sequences[partition] = sequence + len(values)
        request = produce_request(partition, batch, topic_id, self._node, self.transactional_id)
        try:
            answer = await self._ask(request, "data")
        except AbortableError:
            self._must_raise_epoch = True  # whether it was written is unknown
            raise
        self._check_produced(partition, answer.responses[0].partition_responses[0].error_code)

    def _check_produced(self, partition: TopicPartition, code: int) -> None:
        """Raises the error of a response. With an epoch for each transaction, late requests cause no wrong order."""
        is_kept = partition[0] not in self._world.transient_topics
        assert not (self._bumps and is_kept and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (
            f"{self._node} is out of order in {partition}, but sends one batch at a time"
        )
        if code in _ABORTABLE_IN_PRODUCE:
            self._must_raise_epoch = True
            raise AbortableError(ErrorCode(code).name)
        if code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._check(code)

    async def _add_partition(self, partition: TopicPartition) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=partition[0], partitions=[partition[1]]
        )
        answer = await self._ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[topic],
            )
        )
        self._check(_added_code(answer))

    async def send_offsets(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int], member: tuple[str, int]
    ) -> None:
        """Commits a consumer's offsets in the transaction. Raises AbortableError, FatalError."""
        assert self.transaction is not None
        for partition, offset in offsets.items():
            self.transaction.offsets[consumer.group, partition] = offset
        if not self._bumps and consumer.group not in self._added:
            added = await self._ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=consumer.group,
                )
            )
            self._check(added.error_code)
        self._added.add(consumer.group)
        await self._node.find_coordinator(consumer.group, GROUP)
        answer = await self._ask(self._offset_commit(consumer, offsets, member))
        for topic in answer.topics:
            for one in topic.partitions:
                self._check(one.error_code)

    def _offset_commit(
        self, consumer: Consumer, offsets: Mapping[TopicPartition, int], member: tuple[str, int]
    ) -> TxnOffsetCommitRequest:
        topics: dict[str, list[Any]] = {}
        for (topic, index), offset in offsets.items():
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=""
                )
            )
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=consumer.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=member[1],
            member_id=member[0],
            group_instance_id=consumer.instance_id,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    async def end(self, *, commit: bool) -> None:
        """Commits or aborts. Raises FatalError, and AbortableError for a rejected commit."""
        transaction, self.transaction = self.transaction, None
        assert transaction is not None
        if not self._added:
            return
        self._node.say("commits" if commit else "aborts", transaction.name)
        transaction.wants_commit = commit
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self._ask(request, attempts=10_000)
        if answer.error_code in _ABORTABLE:
            self.transaction = transaction
        self._check(answer.error_code)
        transaction.committed = commit
        if commit:
            self._world.commits.transaction_committed(transaction)
        self._added.clear()
        if self._bumps:
            self._begin_epoch(answer.producer_id, answer.producer_epoch)
        elif self._must_raise_epoch:
            await self.init()
        self._must_raise_epoch = False

    async def abort(self) -> None:
        """Raises FatalError."""
        if self.transaction is not None:
            try:
                await self.end(commit=False)
            except AbortableError as error:
                raise FatalError(str(error)) from error

    # -- requests --

    async def _ask(self, request: Any, link: str = "coordinator", attempts: int = MAX_ATTEMPTS) -> Any:
        """Returns the response, after retries of transient errors. Raises AbortableError when retries run out."""
        for _ in range(attempts):
            try:
                if link == "coordinator" and not isinstance(request, TxnOffsetCommitRequest):
                    await self._node.find_coordinator(self.transactional_id, TRANSACTION)
                answer = await self._node.ask(request, link)
            except DisconnectedError:
                await self._node.sleep(0.05)
                continue
            code = _first_code(answer)
            if code not in _RETRIED:
                return answer
            if code in COORDINATOR_ERRORS:
                self._node.forget_coordinator()
                if isinstance(request, TxnOffsetCommitRequest):
                    await self._node.find_coordinator(request.group_id, GROUP)
            await self._node.sleep(0.02 if code == ErrorCode.CONCURRENT_TRANSACTIONS else 0.1)
        raise AbortableError(f"no response to {type(request).__name__}")

    def _check(self, code: int) -> None:
        if code in _ABORTABLE:
            raise AbortableError(ErrorCode(code).name)
        if code in _FATAL:
            raise FatalError(ErrorCode(code).name)
        assert code == ErrorCode.NONE, f"{self._node} was answered {ErrorCode(code).name}"


def produce_request(
    partition: TopicPartition, batch: bytes, topic_id: bytes, node: Node, transactional_id: str | None = None
) -> ProduceRequest:
    """A request that writes one batch with acks=all."""
    data = ProduceRequest.PartitionProduceData(index=partition[1], records=batch)
    by_id = node.version(ApiKey.PRODUCE) >= 13
    topic = ProduceRequest.TopicProduceData(
        name="" if by_id else partition[0],
        topic_id=topic_id if by_id else bytes(16),
        partition_data=[data],
    )
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=3000, topic_data=[topic])


def _added_code(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def _first_code(answer: Any) -> int:
    """The error code of a response about one item, or that of the first item with an error."""
    if hasattr(answer, "results_by_topic_v3_and_below"):
        return _added_code(answer)
    if hasattr(answer, "responses"):
        return int(answer.responses[0].partition_responses[0].error_code)
    if hasattr(answer, "topics"):
        codes = [one.error_code for topic in answer.topics for one in topic.partitions]
        return next((code for code in codes if code), 0)
    return int(answer.error_code)
