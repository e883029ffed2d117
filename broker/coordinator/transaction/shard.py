"""TransactionCoordinatorShard: one partition of __transaction_state: its transactional ids and their transactions.

Every transaction ends: by EndTxn, by its timeout, or by another producer with its id; after a load the shard continues
with ends that were decided. Source: kafka.coordinator.transaction.TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from barnabas.broker.coordinator.java_order import in_java_order
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.coordinator.transaction import rules
from barnabas.broker.coordinator.transaction.metadata import TV_0, TransactionMetadata, supports_epoch_bump
from barnabas.broker.coordinator.transaction.pending_markers import PendingMarkers
from barnabas.broker.coordinator.transaction.records import TransactionRecord, forgotten, metadata_of
from barnabas.broker.coordinator.transaction.rules import (
    NEW_ID_NEEDED,
    NewIdNeeded,
    ProducerAnswer,
    ProducerIdAndEpoch,
    answer_for,
)
from barnabas.broker.coordinator.transaction.state import ONGOING
from barnabas.broker.coordinator.txn import MarkerSender, ProducerIds
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.versions import TRANSACTION_VERSION
from barnabas.config.catalogue.transactions import (
    TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS,
    TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.storage.offsets import TopicPartition

logger = logging.getLogger("barnabas.transactions")

R = TypeVar("R")

MAX_TOMBSTONE_BYTES: Final = 16_384
"""The approximate size of a batch of tombstones."""

TOMBSTONE_OVERHEAD_BYTES: Final = 24

EXPIRATION_RETRY_MS: Final = 500
"""The delay before rejected tombstones are retried."""

DECISION_RETRY_MS: Final = 500
"""The delay before a deciding record that was not committed in time is checked again."""

_TIMEOUTS: Final = "timeouts"
_EXPIRATION: Final = "expiration"


class TransactionCoordinatorShard:
    """The transactional ids of one partition."""

    def __init__(self, context: ShardContext, sender: MarkerSender, producer_ids: ProducerIds) -> None:
        self.context = context
        self._producer_ids = producer_ids
        self.transactions: dict[str, TransactionMetadata] = {}
        self.markers = PendingMarkers(context, sender, self._markers_written)
        self._ongoing: set[str] = set()
        self._tombstone_bytes = MAX_TOMBSTONE_BYTES
        self._is_unloaded = False

    @property
    def transaction_version(self) -> int:
        """The finalized level of transaction.version."""
        return self.context.image().features.get(TRANSACTION_VERSION, 0)

    # ---- replay

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            self._ongoing.discard(key.transactional_id)
            return
        assert isinstance(value, TransactionLogValue)
        metadata = metadata_of(key.transactional_id, value)
        if isinstance(record, TransactionRecord):
            _assert_same(record.metadata, metadata, record.version)
            metadata = record.metadata
        self._replace(metadata)

    def _replace(self, metadata: TransactionMetadata) -> None:
        self.transactions[metadata.transactional_id] = metadata
        if metadata.state is ONGOING:
            self._ongoing.add(metadata.transactional_id)
        else:
            self._ongoing.discard(metadata.transactional_id)

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """Nothing: this topic has no transactional records."""

    def on_loaded(self) -> None:
        self._schedule_expiration()
        if self._ongoing:
            self._schedule_timeouts()
        for metadata in list(self.transactions.values()):
            if metadata.is_ending:
                logger.info("The transaction of %s is being ended", metadata.transactional_id)
                self.context.when_committed(partial(self._decided, metadata))

    def on_unloaded(self) -> None:
        self._is_unloaded = True
        self.markers.close()

    def on_new_epoch(self) -> None:
        """Markers under way were of the epoch before, and may be fenced."""
        self.markers.epoch_changed()

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Nothing: the next attempt to write a marker finds deleted topics."""

    # ---- requests of producers

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_id: int | None = None,
    ) -> CoordinatorResult[ProducerAnswer | NewIdNeeded]:
        """Assigns an epoch to a producer, and fences earlier ones. An open transaction is aborted first;
        CONCURRENT_TRANSACTIONS makes the producer retry.

        Raises ApiError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        now_ms = self.context.now_ms()
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            if new_id is None:
                return CoordinatorResult(NEW_ID_NEEDED)
            metadata = TransactionMetadata(transactional_id, new_id, timeout_ms, now_ms)
        rules.check_not_ending(metadata)
        rules.check_expected_producer(metadata, expected)
        if metadata.state is ONGOING:
            if self._takes_the_last_epoch(metadata) and new_id is None:
                return CoordinatorResult(NEW_ID_NEEDED)
            return self._fence(metadata, ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS), new_id)
        after = rules.initialized(metadata, timeout_ms, expected, now_ms, new_id)
        if after is NEW_ID_NEEDED:
            return CoordinatorResult(NEW_ID_NEEDED)
        return CoordinatorResult(answer_for(after), [self._record(after)])

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> CoordinatorResult[ErrorCode]:
        """Adds partitions to the producer's transaction, which begins with the first.

        Raises ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        metadata = self._known(transactional_id)
        now_ms = self.context.now_ms()
        after = rules.with_partitions(metadata, producer, partitions, client_version, now_ms)
        if after is None:
            return CoordinatorResult(ErrorCode.NONE)
        self._schedule_timeouts()
        return CoordinatorResult(ErrorCode.NONE, [self._record(after)])

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether each partition is in the producer's transaction. Raises ApiError as `add_partitions` does."""
        return rules.verified(self._known(transactional_id), producer, partitions)

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        *,
        commits: bool,
        client_version: int,
        new_id: int | None = None,
    ) -> CoordinatorResult[ProducerAnswer | NewIdNeeded]:
        """Decides how the producer's transaction ends. The answer has the producer id and epoch for the next one.

        Raises ApiError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
        """
        metadata = self._known(transactional_id)
        after = rules.ended(
            metadata,
            producer,
            commits=commits,
            client_version=client_version,
            now_ms=self.context.now_ms(),
            new_id=new_id,
        )
        if after is NEW_ID_NEEDED:
            return CoordinatorResult(NEW_ID_NEEDED)
        if after is None:
            return CoordinatorResult(answer_for(metadata))
        return self._end(after, answer_for(after.completed(after.last_update_timestamp_ms)))

    # ---- descriptions

    def partitions_of(self, metadata: TransactionMetadata) -> Sequence[TopicPartition]:
        """The partitions of a transaction, in Kafka's order; while it ends those without a marker."""
        left = self.markers.left(metadata.transactional_id)
        return in_java_order(metadata.partitions, metadata.table) if left is None else left

    @property
    def uncompleted(self) -> int:
        """How many transactions have all their markers, but no record of that yet."""
        ending = sum(metadata.is_ending for metadata in self.transactions.values())
        return max(0, ending - len(self.markers))

    # ---- how transactions end

    def _fence(self, metadata: TransactionMetadata, answer: R, new_id: int | None) -> CoordinatorResult[R]:
        """Aborts an open transaction in an epoch above that of its producer."""
        assert new_id is not None or not self._takes_the_last_epoch(metadata), metadata
        next_id = new_id if new_id is not None and self._takes_the_last_epoch(metadata) else NO_PRODUCER_ID
        ending = metadata.fenced_and_aborting(self.transaction_version, self.context.now_ms(), next_id)
        return self._end(ending, answer)

    def _takes_the_last_epoch(self, metadata: TransactionMetadata) -> bool:
        """Whether a transaction that this broker ends takes the last epoch, so that a new producer id is needed."""
        return metadata.is_epoch_exhausted and supports_epoch_bump(self.transaction_version)

    def _end(self, ending: TransactionMetadata, answer: R) -> CoordinatorResult[R]:
        return CoordinatorResult(
            answer, [self._record(ending)], on_committed=lambda error: self._decided(ending, error)
        )

    def _decided(self, ending: TransactionMetadata, error: ApiError | None) -> None:
        """Begins the markers once the deciding record is committed. After a timeout of the commit it is checked again.
        (Where the record was rejected, this shard is unloaded.)"""

        def check_again() -> CoordinatorResult[None]:
            return CoordinatorResult(None, on_committed=lambda error: self._decided(ending, error))

        if self._is_unloaded or self.transactions.get(ending.transactional_id) is not ending:
            return
        if error is None:
            self.markers.begin(ending)
        else:
            self.context.timer.schedule(
                ("decided", ending.transactional_id), DECISION_RETRY_MS, check_again, retry=False
            )

    def _markers_written(self, ending: TransactionMetadata) -> None:
        def complete() -> CoordinatorResult[None]:
            if self.transactions.get(ending.transactional_id) is not ending:
                return CoordinatorResult(None)
            return CoordinatorResult(None, [self._record(ending.completed(self.context.now_ms()))])

        self.context.timer.schedule(("complete", ending.transactional_id), 0, complete)

    def _schedule_timeouts(self) -> None:
        """Schedules the next check of timeouts, at a multiple of the interval."""
        if not self.context.timer.is_scheduled(_TIMEOUTS):
            interval_ms = self.context.config[TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS]
            delay_ms = interval_ms - self.context.now_ms() % interval_ms
            self.context.timer.schedule(_TIMEOUTS, delay_ms, self._abort_expired)

    def _abort_expired(self) -> CoordinatorResult[None]:
        """Schedules the abort of each expired transaction as an operation of its own: one may be large, or fail."""
        now_ms = self.context.now_ms()
        for transactional_id in sorted(self._ongoing):
            if self.transactions[transactional_id].has_timed_out(now_ms):
                self._abort_soon(transactional_id)
        if self._ongoing:
            self._schedule_timeouts()
        return CoordinatorResult(None)

    def _abort_soon(self, transactional_id: str, new_id: int | None = None) -> None:
        def abort() -> CoordinatorResult[None]:
            metadata = self.transactions.get(transactional_id)
            if metadata is None or not metadata.has_timed_out(self.context.now_ms()):
                return CoordinatorResult(None)
            if new_id is None and self._takes_the_last_epoch(metadata):
                self._producer_ids.generate().add_done_callback(generated)
                return CoordinatorResult(None)
            logger.info(
                "Aborting the transaction of %s (producer id %d, epoch %d), which is open for longer than %d ms",
                transactional_id,
                metadata.producer_id,
                metadata.producer_epoch,
                metadata.timeout_ms,
            )
            return self._fence(metadata, None, new_id)

        def generated(producer_id: int | None) -> None:
            if producer_id is not None and not self._is_unloaded:  # else the next check retries
                self._abort_soon(transactional_id, producer_id)

        self.context.timer.schedule(("abort", transactional_id), 0, abort)

    # ---- expiration

    def _schedule_expiration(self) -> None:
        interval_ms = self.context.config[TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS]
        self.context.timer.schedule(_EXPIRATION, interval_ms, self._delete_expired)

    def _delete_expired(self) -> CoordinatorResult[None]:
        """Deletes a batch of expired ids; the next one follows when it is committed."""
        expired, is_all = self._expired()
        if expired:
            logger.info("%d transactional ids have expired: %s", len(expired), ", ".join(expired[:10]))
        return CoordinatorResult(
            None,
            [forgotten(transactional_id) for transactional_id in expired],
            on_committed=lambda error: self._expired_deleted(len(expired), is_all=is_all, error=error),
        )

    def _expired_deleted(self, count: int, *, is_all: bool, error: ApiError | None) -> None:
        """Schedules the next batch. A rejected batch may be larger than max.message.bytes of the topic: smaller ones
        follow, down to a single id."""
        if error is not None and count > 1:
            self._tombstone_bytes //= 2
            self.context.timer.schedule(_EXPIRATION, EXPIRATION_RETRY_MS, self._delete_expired)
        elif error is None and not is_all:
            self.context.timer.schedule(_EXPIRATION, 0, self._delete_expired)
        else:
            self._tombstone_bytes = MAX_TOMBSTONE_BYTES
            self._schedule_expiration()

    def _expired(self) -> tuple[list[str], bool]:
        """Expired ids, as many as fit into one batch, and whether that is all of them."""
        now_ms = self.context.now_ms()
        expiration_ms = self.context.config[TRANSACTIONAL_ID_EXPIRATION_MS]
        expired: list[str] = []
        size = 0
        for transactional_id, metadata in self.transactions.items():
            if metadata.has_expired(now_ms, expiration_ms):
                size += len(transactional_id) * 3 + TOMBSTONE_OVERHEAD_BYTES
                if expired and size > self._tombstone_bytes:
                    return expired, False
                expired.append(transactional_id)
        return expired, True

    # ---- helpers

    def _known(self, transactional_id: str) -> TransactionMetadata:
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return metadata

    def _record(self, metadata: TransactionMetadata) -> TransactionRecord:
        return TransactionRecord(metadata, self.transaction_version)


def _assert_same(known: TransactionMetadata, read: TransactionMetadata, version: int) -> None:
    """Asserts that a record holds its metadata, except for the fields that no record has."""
    assert _written(known, version) == _written(read, version), (known, read)
    assert set(known.partitions) == set(read.partitions), (known, read)


def _written(metadata: TransactionMetadata, version: int) -> TransactionMetadata:
    carried = metadata._replace(last_producer_epoch=NO_PRODUCER_EPOCH, partitions=(), table=0)
    if version >= 1:
        return carried
    return carried._replace(
        previous_producer_id=NO_PRODUCER_ID, next_producer_id=NO_PRODUCER_ID, client_version=TV_0
    )
