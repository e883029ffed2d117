"""TxnMarkerWriter: ends transactions in partitions, with markers in their logs and in the group coordinator.

Source: kafka.server.KafkaApis.handleWriteTxnMarkersRequest, TransactionMarkerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.replica.append import AppendResult, append_error_of
from barnabas.broker.replica.partition import ACKS_ALL
from barnabas.config.catalogue.server import REQUEST_TIMEOUT_MS
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.offsets import AppendOrigin, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.replica_manager import ReplicaManager
    from barnabas.config.broker_config import BrokerConfig

Codes = Mapping[TopicPartition, ErrorCode]

CompleteTransaction = Callable[[int, TransactionMarker], Pending[ApiError | None]]
"""CoordinatorRuntime.complete_transaction of the group coordinator."""

_NOT_COORDINATED_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors that transaction coordinators get as NOT_LEADER_OR_FOLLOWER, and retry."""


class TxnMarkerWriter:
    """A MarkerWriter for the partitions that this broker has. `now_ms` is the time of day in ms.

    It is the MarkerSender of a node that is alone, and leads all partitions.
    """

    def __init__(
        self,
        replica_manager: ReplicaManager,
        complete_transaction: CompleteTransaction,
        config: BrokerConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._replica_manager = replica_manager
        self._complete_transaction = complete_transaction
        self._config = config
        self._now_ms = now_ms

    def write(self, marker: TransactionMarker, partitions: Sequence[TopicPartition]) -> Pending[Codes]:
        """Appends the marker to each partition; NONE for those where it is committed.

        UNKNOWN_TOPIC_OR_PARTITION for one that is not here (the topic may have been deleted), KAFKA_STORAGE_ERROR for
        one whose log cannot be written, NOT_LEADER_OR_FOLLOWER while the offsets of __consumer_offsets are loaded,
        INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED for an outdated marker.
        """
        answers: list[Pending[Codes]] = []
        plain = []
        for topic, index in dict.fromkeys(partitions):
            if topic != CONSUMER_OFFSETS:
                plain.append((topic, index))
            elif self._replica_manager.find(topic, index) is None:
                answers.append(completed({(topic, index): self._missing_error(topic, index)}))
            else:
                answers.append(self._complete(marker, (topic, index)))
        if plain:
            answers.append(self._append(marker, plain))
        return all_of(answers).then(lambda parts: {key: code for part in parts for key, code in part.items()})

    def send(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], is_current: Callable[[], bool]
    ) -> Sequence[Pending[Codes]]:
        return [self.write(marker, partitions)]

    def _missing_error(self, topic: str, index: int) -> ErrorCode:
        """The error for a missing partition."""
        if self._replica_manager.lacks_log(topic, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _complete(self, marker: TransactionMarker, partition: TopicPartition) -> Pending[Codes]:
        def code_of(error: ApiError | None) -> Codes:
            code = ErrorCode.NONE if error is None else error.code
            return {partition: ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_COORDINATED_YET else code}

        return self._complete_transaction(partition[1], marker).then(code_of)

    def _append(self, marker: TransactionMarker, partitions: Sequence[TopicPartition]) -> Pending[Codes]:
        records = marker.batch(self._now_ms())

        def codes_of(results: list[AppendResult]) -> Codes:
            return dict(zip(partitions, map(append_error_of, results), strict=True))

        results = self._replica_manager.append_records(
            [(topic, index, ZERO_UUID, records, None) for topic, index in partitions],
            ACKS_ALL,
            self._config[REQUEST_TIMEOUT_MS],
            origin=AppendOrigin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
        return results.then(codes_of) if isinstance(results, Pending) else completed(codes_of(results))
