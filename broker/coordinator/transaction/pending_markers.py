"""PendingMarkers: writes the markers that end the transactions of one shard, until every partition has its own.

Pending markers are in no record: the record that decides the end is enough to begin again after a load, and writing a
marker twice does no harm. Each leader of partitions answers by itself, so that one that is slow delays no other.

    answer of a partition                        | then
    ---------------------------------------------+------------------------------------------------------------
    NONE, UNSUPPORTED_VERSION (of an old format) | done
    INVALID_PRODUCER_EPOCH                       | done: the transaction has ended there. Kafka stops, for good
    TRANSACTION_COORDINATOR_FENCED               | stop, unless the marker was of an earlier epoch of this coordinator
    any other; the leader cannot be reached      | send it again, to the leader of then, with growing delays

Source: TransactionMarkerChannelManager,
TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from barnabas.broker.coordinator.java_order import in_java_order
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.txn import MarkerSender, TransactionMarker
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

_FENCED: Final = ErrorCode.TRANSACTION_COORDINATOR_FENCED
"""The partition has seen a later coordinator epoch: that coordinator ends the transaction."""


class _Pending:
    """One transaction that is ending. `left` are the partitions without a marker, in the order of the answers; those of
    them whose marker is under way are `awaited`. Nothing is sent any more where it is `is_stopped`."""

    __slots__ = ("attempts", "awaited", "is_retried", "is_stopped", "left", "metadata")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.left = dict.fromkeys(in_java_order(metadata.partitions, metadata.table))
        self.awaited: set[TopicPartition] = set()
        self.attempts = 0
        self.is_retried = False
        self.is_stopped = False


class PendingMarkers:
    """`completed(metadata)` is called once every partition has the marker of that transaction."""

    def __init__(
        self, context: ShardContext, sender: MarkerSender, completed: Callable[[TransactionMetadata], None]
    ) -> None:
        self._context = context
        self._sender = sender
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

    def epoch_changed(self) -> None:
        """Sends what is left, in the new coordinator epoch."""
        for pending in list(self._pending.values()):
            pending.is_stopped, pending.attempts = False, 0
            self._write(pending)

    def _write(self, pending: _Pending) -> None:
        pending.attempts += 1
        self._drop_deleted(pending)
        if not pending.left:
            self._finish(pending)
            return
        wanted = [partition for partition in pending.left if partition not in pending.awaited]
        if not wanted:
            return
        pending.awaited.update(wanted)
        epoch = self._context.epoch

        def is_current() -> bool:
            return self._is_pending(pending) and self._context.epoch == epoch

        for answer in self._sender.send(self._marker(pending.metadata), wanted, is_current):
            answer.add_done_callback(partial(self._written, pending, epoch))

    def _is_pending(self, pending: _Pending) -> bool:
        return not self._is_closed and self._pending.get(pending.metadata.transactional_id) is pending

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

    def _written(self, pending: _Pending, epoch: int, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """`epoch` is the coordinator epoch of the markers."""
        if not self._is_pending(pending):
            return
        pending.awaited.difference_update(errors)
        for partition, error in errors.items():
            if error in _DONE or error in _OUTDATED:
                pending.left.pop(partition, None)
            pending.is_stopped |= error is _FENCED and epoch == self._context.epoch
            if error is not ErrorCode.NONE:
                _log(pending, partition, error)
        if not pending.left:
            self._finish(pending)
        elif not pending.is_stopped and pending.left.keys() - pending.awaited:
            self._retry_later(pending)

    def _retry_later(self, pending: _Pending) -> None:
        transactional_id = pending.metadata.transactional_id

        def again() -> CoordinatorResult[None]:
            if self._is_pending(pending) and not pending.is_stopped:
                self._write(pending)
            return CoordinatorResult(None)

        pending.is_retried = True
        if self._context.timer.is_scheduled(("markers", transactional_id)):
            return
        exponent = min(pending.attempts - 1, 10)
        delay_ms = min(RETRY_BACKOFF_MS << exponent, RETRY_BACKOFF_MAX_MS)
        self._context.timer.schedule(("markers", transactional_id), delay_ms, again)

    def _finish(self, pending: _Pending) -> None:
        transactional_id = pending.metadata.transactional_id
        del self._pending[transactional_id]
        self._context.timer.cancel(("markers", transactional_id))
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
        _consequence(pending, partition),
    )


def _consequence(pending: _Pending, partition: TopicPartition) -> str:
    if partition not in pending.left:
        return "the producer has a newer epoch"
    return "another coordinator ends the transaction" if pending.is_stopped else "it is retried"
