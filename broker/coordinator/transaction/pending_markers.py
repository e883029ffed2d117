"""PendingMarkers: writes the markers that end the transactions of one shard, until every partition has its own.

Pending markers are in no record: the record that decides the end is enough to begin again after a load, and writing a
marker twice does no harm. Source: TransactionMarkerChannelManager,
TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.broker.coordinator.java_order import in_java_order
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.txn import MarkerWriter, TransactionMarker
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.offsets import TopicPartition

logger = logging.getLogger("barnabas.transactions")

RETRY_BACKOFF_MS: Final = 20
RETRY_BACKOFF_MAX_MS: Final = 1_000
"""The delay before a failed marker is retried: doubled each time, up to a second."""

_DONE: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
)
_OUTDATED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH})
"""The partition has seen a later epoch of this producer: the transaction has ended there."""


class _Pending:
    """One transaction that is ending. `left` are the partitions without a marker, in the order of the answers."""

    __slots__ = ("attempts", "is_retried", "left", "metadata")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.left = dict.fromkeys(in_java_order(metadata.partitions, metadata.table))
        self.attempts = 0
        self.is_retried = False


class PendingMarkers:
    """`completed(metadata)` is called once every partition has the marker of that transaction."""

    def __init__(
        self, context: ShardContext, writer: MarkerWriter, completed: Callable[[TransactionMetadata], None]
    ) -> None:
        self._context = context
        self._writer = writer
        self._completed = completed
        self._pending: dict[str, _Pending] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def retried(self) -> int:
        """How many markers wait for a retry."""
        return sum(len(pending.left) for pending in self._pending.values() if pending.is_retried)

    def begin(self, metadata: TransactionMetadata) -> None:
        """Writes the markers of a transaction whose end is decided and committed."""
        assert metadata.is_ending, metadata
        pending = self._pending[metadata.transactional_id] = _Pending(metadata)
        self._write(pending)

    def left(self, transactional_id: str) -> Sequence[TopicPartition] | None:
        """The partitions without a marker; None where no markers are being written."""
        pending = self._pending.get(transactional_id)
        return None if pending is None else list(pending.left)

    def close(self) -> None:
        """Drops all pending markers: another coordinator continues."""
        self._is_closed = True
        self._pending.clear()

    def _write(self, pending: _Pending) -> None:
        pending.attempts += 1
        self._drop_deleted(pending)
        if not pending.left:
            self._finish(pending)
            return
        answer = self._writer.write(self._marker(pending.metadata), list(pending.left))
        answer.add_done_callback(lambda errors: self._written(pending, errors))

    def _marker(self, metadata: TransactionMetadata) -> TransactionMarker:
        return TransactionMarker(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            coordinator_epoch=self._context.epoch,
            committed=metadata.commits,
            transaction_version=metadata.client_version,
        )

    def _drop_deleted(self, pending: _Pending) -> None:
        """Drops deleted topics, which have no transaction to end; Kafka finds no leader for them in its metadata."""
        image = self._context.image()
        for topic, index in list(pending.left):
            found = image.topics.get(topic)
            if found is None or index not in found.partitions:
                logger.info(
                    "%s-%d was deleted: the transaction of %s ends without it",
                    topic,
                    index,
                    pending.metadata.transactional_id,
                )
                del pending.left[topic, index]

    def _written(self, pending: _Pending, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        transactional_id = pending.metadata.transactional_id
        if self._is_closed or self._pending.get(transactional_id) is not pending:
            return
        for partition, error in errors.items():
            if error in _DONE or error in _OUTDATED:
                pending.left.pop(partition, None)
            if error is not ErrorCode.NONE:
                _log(pending, partition, error)
        if pending.left:
            self._retry_later(pending)
        else:
            self._finish(pending)

    def _retry_later(self, pending: _Pending) -> None:
        transactional_id = pending.metadata.transactional_id

        def again() -> CoordinatorResult[None]:
            if self._pending.get(transactional_id) is pending:
                self._write(pending)
            return CoordinatorResult(None)

        pending.is_retried = True
        exponent = min(pending.attempts - 1, 10)
        delay_ms = min(RETRY_BACKOFF_MS << exponent, RETRY_BACKOFF_MAX_MS)
        self._context.timer.schedule(("markers", transactional_id), delay_ms, again)

    def _finish(self, pending: _Pending) -> None:
        del self._pending[pending.metadata.transactional_id]
        self._completed(pending.metadata)


def _log(pending: _Pending, partition: TopicPartition, error: ErrorCode) -> None:
    level = logging.INFO if error.retriable and pending.attempts <= 1 else logging.WARNING
    if pending.attempts > 1 and pending.attempts & (pending.attempts - 1):
        return  # logged at attempts 1, 2, 4, 8...: a disk may be full for long
    logger.log(
        level,
        "the marker that ends the transaction of %s (producer id %d, epoch %d) could not be written to %s-%d: %s; %s",
        pending.metadata.transactional_id,
        pending.metadata.producer_id,
        pending.metadata.producer_epoch,
        *partition,
        error.name,
        "the producer has a newer epoch" if partition not in pending.left else "it is retried",
    )
