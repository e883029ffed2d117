"""TransactionalAppends: verifies transactions before their first records in a partition are appended (KIP-890).

The first batch of a transaction in a partition is appended only when the transaction's coordinator has the partition:
it verifies that (transaction version 1), or adds the partition (version 2, from Produce version 12 on). Meanwhile later
requests of the same producer wait, or they would be appended out of order.

Source: kafka.server.ReplicaManager (handleProduceAppend, maybeSendPartitionsToTransactionCoordinator).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.coordinator.txn import TransactionalProducer, TransactionVerifier, needs_verification
from barnabas.broker.error_map import error_code_of
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendEntry, AppendError, AppendResult
from barnabas.broker.waiting.timer import Timer
from barnabas.config.catalogue.server import REQUEST_TIMEOUT_MS
from barnabas.config.catalogue.transactions import (
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS,
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.errors import InvalidProducerEpochError
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.partition import Partition
    from barnabas.broker.replica.replica_manager import ReplicaManager
    from barnabas.config.broker_config import BrokerConfig

Results = list[AppendResult]

Batches = dict[TopicPartition, tuple["Partition", RecordBatch]]
"""The batches of a transaction in a request."""

_ABORTABLE_SINCE: Final = 11
"""Older producers do not know TRANSACTION_ABORTABLE."""

_ADDED_SINCE: Final = 12
"""For producers of transaction version 2 the partition leader adds partitions to the transaction."""

_TRANSIENT: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the coordinator that producers do not expect of a partition: NOT_ENOUGH_REPLICAS makes them retry."""


class TransactionalProduce(NamedTuple):
    """A Produce request with records of a transaction; the rest is as ReplicaManager.append_records takes it."""

    transactional_id: str
    api_version: int
    entries: Sequence[AppendEntry]
    required_acks: int
    timeout_ms: int

    @property
    def supports_epoch_bump(self) -> bool:
        return self.api_version >= _ADDED_SINCE


@dataclass(slots=True, eq=False, repr=False)
class _Attempt:
    """A request that waits for its verification. `first_sequences` are those of the batches, by partition."""

    produce: TransactionalProduce
    producer: TransactionalProducer
    first_sequences: Mapping[TopicPartition, tuple[Partition, int]]
    began: float
    pending: Pending[Results] = field(default_factory=Pending)


class TransactionalAppends:
    """Appends the records of transactions. Lives on the event loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        verifier: TransactionVerifier,
        config: BrokerConfig,
        timer: Timer,
    ) -> None:
        self._replica_manager = replica_manager
        self._verifier = verifier
        self._config = config
        self._timer = timer
        self._waiting: dict[int, deque[_Attempt]] = {}
        """The later requests of each producer whose verification runs."""

    def append(self, produce: TransactionalProduce) -> Results | Pending[Results]:
        """Appends the entries that may be; results are in the order of the entries.

        Raises ApiError(INVALID_PRODUCER_ID_MAPPING) for batches of several producers.
        """
        batches = self._batches(produce)
        producer = _producer_of(batches)
        if producer is None:
            return self._append_records(produce, produce.entries, {})
        waiting = self._waiting.get(producer[0])
        if waiting is None and _have_begun(producer, batches):
            return self._append_records(produce, produce.entries, {})
        if not needs_verification(self._config, produce.supports_epoch_bump):
            return self._append_records(produce, produce.entries, {})
        attempt = _Attempt(
            produce,
            TransactionalProducer(produce.transactional_id, *producer, produce.supports_epoch_bump),
            {key: (partition, batch.base_sequence) for key, (partition, batch) in batches.items()},
            self._timer.time(),
        )
        if waiting is None:
            return self._start(attempt)
        waiting.append(attempt)
        return attempt.pending

    def _batches(self, produce: TransactionalProduce) -> Batches:
        """The transactional batches to verify; errors of the others are found when they are appended."""
        found: Batches = {}
        for topic, index, topic_id, records, refusal in produce.entries:
            if refusal is not None:
                continue
            try:
                partition = self._replica_manager.partition(topic, index, topic_id)
                batch = RecordBatch(records)
            except (ApiError, CorruptRecordError):
                continue
            if batch.is_transactional and batch.producer_id >= 0:
                found[partition.key] = partition, batch
        return found

    def _start(self, attempt: _Attempt) -> Results | Pending[Results]:
        guards, errors = _guards(attempt)
        if not guards:
            return self._append(attempt.produce, guards, errors)
        self._waiting[attempt.producer.producer_id] = deque()
        self._verify(attempt, guards, errors)
        return attempt.pending

    def _verify(
        self,
        attempt: _Attempt,
        guards: dict[TopicPartition, VerificationGuard],
        errors: dict[TopicPartition, ErrorCode],
    ) -> None:
        def answered(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            if ErrorCode.CONCURRENT_TRANSACTIONS in codes.values() and self._retries(attempt):
                backoff_s = self._config[ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS] / 1000
                self._timer.call_at(self._timer.time() + backoff_s, lambda: self._retry(attempt))
                return
            rejected = {key: code for key, code in codes.items() if code is not ErrorCode.NONE}
            self._end(attempt, guards, errors | rejected)

        self._verifier.verify(attempt.producer, list(guards)).add_done_callback(answered)

    def _retries(self, attempt: _Attempt) -> bool:
        """Whether to retry here until the producer's last transaction has ended, which costs less than to have the
        records sent again."""
        if not attempt.produce.supports_epoch_bump:
            return False
        limit_ms = min(
            self._config[ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS], self._config[REQUEST_TIMEOUT_MS]
        )
        return (self._timer.time() - attempt.began) * 1000 < limit_ms

    def _retry(self, attempt: _Attempt) -> None:
        guards, errors = _guards(attempt)
        if guards:
            self._verify(attempt, guards, errors)
        else:
            self._end(attempt, guards, errors)

    def _end(
        self,
        attempt: _Attempt,
        guards: Mapping[TopicPartition, VerificationGuard],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        """Appends, and continues with the later requests of the producer."""
        waiting = self._waiting.pop(attempt.producer.producer_id)
        _complete(attempt.pending, self._append(attempt.produce, guards, errors))
        while waiting:
            following = waiting.popleft()
            guards, errors = _guards(following)
            if guards:
                self._waiting[following.producer.producer_id] = waiting
                self._verify(following, guards, errors)
                return
            _complete(following.pending, self._append(following.produce, guards, errors))

    def _append(
        self,
        produce: TransactionalProduce,
        guards: Mapping[TopicPartition, VerificationGuard],
        errors: Mapping[TopicPartition, ErrorCode],
    ) -> Results | Pending[Results]:
        """Appends all but the partitions in `errors`, and merges the results."""
        if not errors:
            return self._append_records(produce, produce.entries, guards)
        rejected = [_refusal(errors.get((entry[0] or "", entry[1])), produce) for entry in produce.entries]
        others = [entry for entry, refusal in zip(produce.entries, rejected, strict=True) if refusal is None]
        results = self._append_records(produce, others, guards)
        if isinstance(results, Pending):
            return results.then(lambda appended: _merged(rejected, appended))
        return _merged(rejected, results)

    def _append_records(
        self,
        produce: TransactionalProduce,
        entries: Sequence[AppendEntry],
        guards: Mapping[TopicPartition, VerificationGuard],
    ) -> Results | Pending[Results]:
        return self._replica_manager.append_records(
            entries, produce.required_acks, produce.timeout_ms, guards=guards
        )


def _producer_of(batches: Batches) -> tuple[int, int] | None:
    """The id and epoch of the producer. Raises ApiError where there are several."""
    producer: tuple[int, int] | None = None
    for _, batch in batches.values():
        if producer is None:
            producer = (batch.producer_id, batch.producer_epoch)
        elif producer != (batch.producer_id, batch.producer_epoch):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "The transactional records are of more than one producer.",
            )
    return producer


def _have_begun(producer: tuple[int, int], batches: Batches) -> bool:
    """Whether the transaction is open in all these partitions, as it is for all but its first batches."""
    for partition, _ in batches.values():
        if partition.offline or not partition.is_leader:
            return False
        if not partition.log.producer_state_manager.has_ongoing_transaction(*producer):
            return False
    return True


def _guards(
    attempt: _Attempt,
) -> tuple[dict[TopicPartition, VerificationGuard], dict[TopicPartition, ErrorCode]]:
    """Guards for the partitions in which the transaction has yet to begin; errors of those that this broker does not
    lead, or that have seen a newer epoch."""
    guards: dict[TopicPartition, VerificationGuard] = {}
    errors: dict[TopicPartition, ErrorCode] = {}
    producer = attempt.producer
    for key, (partition, sequence) in attempt.first_sequences.items():
        try:
            partition.check_leader()
            guard = partition.log.start_transaction_verification(
                producer.producer_id,
                sequence,
                producer.producer_epoch,
                supports_epoch_bump=producer.supports_epoch_bump,
            )
        except (ApiError, InvalidProducerEpochError) as error:
            errors[key] = error_code_of(error)
            continue
        if guard is not None:
            guards[key] = guard
    return guards, errors


def _refusal(code: ErrorCode | None, produce: TransactionalProduce) -> AppendError | None:
    return None if code is None else AppendError(*_answer_of(code, produce.api_version))


def _answer_of(code: ErrorCode, api_version: int) -> tuple[ErrorCode, str | None]:
    """The producer's error for a `code` of the coordinator, with a message where Kafka has one."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    is_concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _ADDED_SINCE
    if is_concurrent or code in _TRANSIENT:
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return code, None


def _merged(rejected: Sequence[AppendError | None], appended: Results) -> Results:
    """The results of all entries, in their order."""
    remaining = iter(appended)
    return [next(remaining) if refusal is None else refusal for refusal in rejected]


def _complete(pending: Pending[Results], results: Results | Pending[Results]) -> None:
    if isinstance(results, Pending):
        results.add_done_callback(pending.complete)
    else:
        pending.complete(results)
