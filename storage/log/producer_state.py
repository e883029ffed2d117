"""ProducerStateManager: the state of the idempotent and transactional producers of one log (KIP-98).

It keeps, by producer id, the epoch and the last five batches, to answer a repeated batch with its first offset and to
reject gaps and fenced producers; and the transactions that are open or whose marker is not yet replicated, which bound
the last stable offset. The batches in the log determine all of it: it is saved in snapshots (`snapshots`) at roll and
shutdown, and rebuilt after a crash from the latest snapshot by replay.
"""

import logging
from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.batch import (
    CONTROL_MASK,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    RecordBatch,
)
from barnabas.protocol.records.layout import MAX_SEQUENCE
from barnabas.protocol.records.scanning import ProducerRun
from barnabas.storage.errors import (
    CorruptSnapshotError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from barnabas.storage.log.producer_entry import (
    BATCHES_TO_RETAIN,
    NO_COORDINATOR_EPOCH,
    NO_TXN,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
)
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles, SnapshotEntry
from barnabas.storage.log.txn_verification import VerificationGuard, VerificationStates
from barnabas.storage.offsets import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.protocol.records.record import Record

EPOCH_PER_TRANSACTION: Final = 2
"""The first transaction version (transaction.version) in which each transaction ends with a higher epoch."""

LAST_EPOCH: Final = 2**15 - 1
"""The highest epoch: a transaction in it ends with the same one."""

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000

_CLIENT: Final = AppendOrigin.CLIENT  # a lookup of an enum member is slow, and every batch needs it

logger = logging.getLogger("barnabas.storage")


def _marker(batch: RecordBatch) -> "Record | None":
    """The record of an end-transaction marker: key (version, type), value (version, coordinator epoch).

    None for control records of the metadata log, and for a batch that compaction has emptied.
    """
    record = next(iter(batch.records()), None)
    return record if record is not None and _type_in(record) in (b"\0\0", b"\0\1") else None


def _type_in(record: "Record") -> bytes:
    return (record.key or b"")[2:4]


def _epoch_in(record: "Record") -> int:
    return int.from_bytes((record.value or b"")[2:6], "big", signed=True)


def _coordinator_epoch(batch: RecordBatch) -> int | None:
    record = _marker(batch)
    return None if record is None else _epoch_in(record)


class ProducerStateManager:
    """The producers of one log."""

    __slots__ = (
        "_ongoing_txns",
        "_unreplicated_txns",
        "expiration_ms",
        "map_end_offset",
        "name",
        "producers",
        "snapshots",
        "verifications",
        "verifies_transactions",
    )

    def __init__(self, snapshots: ProducerSnapshotFiles, name: str, producer_id_expiration_ms: int) -> None:
        self.name = name
        self.expiration_ms = producer_id_expiration_ms  # producer.id.expiration.ms, which may change
        self.verifies_transactions = False  # transaction.partition.verification.enable, set by the broker
        self.verifications = VerificationStates()
        self._ongoing_txns: dict[int, int] = {}  # first offset: producer id
        self._unreplicated_txns: dict[int, int] = {}  # first offset: the marker's offset
        self.snapshots = snapshots
        self.producers: dict[int, ProducerStateEntry] = {}
        self.map_end_offset = 0  # the state covers the batches before it

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self._unreplicated_txns

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open or whose marker is not replicated."""
        return min((*self._ongoing_txns, *self._unreplicated_txns), default=None)

    def last_records(self) -> dict[int, tuple[int, int | None]]:
        """By producer id, the epoch and the offset of the last data, None after a marker (Kafka's LastRecord)."""
        return {
            entry.producer_id: (entry.producer_epoch, entry.last_offset if entry.batches else None)
            for entry in self.producers.values()
        }

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transaction of the producer is open in this epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset >= 0
            and entry.producer_epoch == producer_epoch
        )

    def has_late_transaction(self, now_ms: int, max_transaction_timeout_ms: int) -> bool:
        """Whether the oldest open transaction is five minutes beyond its timeout."""
        if not self._ongoing_txns:
            return False
        entry = self.producers.get(self._ongoing_txns[min(self._ongoing_txns)])
        limit_ms = max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return entry is not None and 0 < entry.last_timestamp < now_ms - limit_ms

    # -- before an append --

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """The guard to append a transaction's first batch with; None if the transaction is open already.

        Raises InvalidProducerEpochError for an old epoch: verification of such a batch would block the producer that
        fenced it. Kafka's UnifiedLog.maybeStartTransactionVerification.
        """
        entry = self.producers.get(producer_id)
        if entry is not None:
            if epoch < entry.producer_epoch:
                raise InvalidProducerEpochError(self._fenced(producer_id, epoch, entry.producer_epoch))
            if entry.current_txn_first_offset >= 0 and epoch == entry.producer_epoch:
                return None
        return self.verifications.start(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms
        )

    def check_append(
        self,
        batch: RecordBatch,
        origin: AppendOrigin,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """Checks that a producer's batch may follow; returns the remembered batch that it repeats, if any.

        epoch of the batch   | sequence of the batch              | answer
        ---------------------+------------------------------------+---------------------------------
        below the known one  | any                                | InvalidProducerEpochError
        below -1             | any                                | InvalidProducerEpochError
        as known             | one of the last five, whole        | the remembered batch
        as known             | follows the last one               | None
        as known             | any other                          | OutOfOrderSequenceError
        above the known one  | 0                                  | None
        above the known one  | any other                          | OutOfOrderSequenceError
        producer not known   | any (its state may have expired)   | None

        Sequences are checked for clients only; coordinators have just the epoch. If transactions are verified, the
        first batch of one needs the `guard` of its verification (InvalidTxnStateError), and must not precede a batch
        that is still to come. A marker must come from the newest coordinator (TransactionCoordinatorFencedError) and,
        from `transaction_version` 2 on, with a higher epoch than the batches had: a lower or equal one is of an older
        transaction, unless it repeats the marker that ended this one. Kafka's ProducerAppendInfo.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is not None and origin is _CLIENT and batch.base_sequence >= 0:
            duplicate = entry.find_duplicate(batch)
            if duplicate is not None:
                return duplicate
        attributes = batch.attributes
        known_epoch = NO_PRODUCER_EPOCH if entry is None else entry.producer_epoch
        if batch.producer_epoch < known_epoch:
            self._reject_epoch(known_epoch, batch, origin)
        if attributes & CONTROL_MASK:
            self._check_marker(entry, batch, origin, transaction_version)
            return None
        if self.verifies_transactions and attributes & TRANSACTIONAL_MASK:
            self._check_verified(batch, guard)
        if origin is _CLIENT:
            self._check_sequence(entry, batch)
        if entry is not None and entry.current_txn_first_offset >= 0 and not attributes & TRANSACTIONAL_MASK:
            raise InvalidTxnStateError(
                f"producer {batch.producer_id} has an open transaction in {self.name} and wrote outside of it"
            )
        return None

    def _check_verified(self, batch: RecordBatch, guard: VerificationGuard | None) -> None:
        producer_id = batch.producer_id
        if self.has_ongoing_transaction(producer_id, batch.producer_epoch):
            return
        if not self.verifications.allows(producer_id, guard):
            raise InvalidTxnStateError(
                f"producer {producer_id} wrote to {self.name} outside of any transaction that the coordinator knows"
            )

    def _check_marker(
        self,
        entry: ProducerStateEntry | None,
        batch: RecordBatch,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> None:
        coordinator_epoch = _coordinator_epoch(batch)
        if coordinator_epoch is None:
            return
        if (
            transaction_version >= EPOCH_PER_TRANSACTION
            and entry is not None
            and batch.producer_epoch == entry.producer_epoch
            and entry.current_txn_first_offset != NO_TXN
            and batch.producer_epoch != LAST_EPOCH
        ):
            self._reject_epoch(entry.producer_epoch, batch, origin)
        self.check_coordinator_epoch(batch.producer_id, coordinator_epoch)

    def _reject_epoch(self, known_epoch: int, batch: RecordBatch, origin: AppendOrigin) -> None:
        """Raises InvalidProducerEpochError, or only logs it for a batch that a leader has accepted."""
        message = self._fenced(batch.producer_id, batch.producer_epoch, known_epoch)
        if origin is AppendOrigin.REPLICATION:
            logger.warning(message)
        else:
            raise InvalidProducerEpochError(message)

    def _fenced(self, producer_id: int, epoch: int, known_epoch: int) -> str:
        return f"producer {producer_id} writes to {self.name} with epoch {epoch}; the newest is {known_epoch}"

    def _check_unverified_sequence(self, entry: ProducerStateEntry | None, batch: RecordBatch) -> None:
        waiting = self.verifications.get(batch.producer_id)
        if waiting is None:
            return
        expected = waiting.lowest_sequence
        if waiting.supports_epoch_bump and (entry is None or not entry.batches):
            expected = min(expected, 0)
        if batch.base_sequence > expected:
            raise OutOfOrderSequenceError(
                f"producer {batch.producer_id} in {self.name}: sequence {batch.base_sequence} before its transaction "
                f"is verified, where {expected} is the first"
            )

    def _check_sequence(self, entry: ProducerStateEntry | None, batch: RecordBatch) -> None:
        if self.verifications:
            self._check_unverified_sequence(entry, batch)
        if entry is None:
            return
        if entry.producer_epoch == NO_PRODUCER_EPOCH:
            return
        last = entry.last_sequence if batch.producer_epoch == entry.producer_epoch else NO_SEQUENCE
        expected = (last + 1) & MAX_SEQUENCE
        if batch.base_sequence != expected:
            raise OutOfOrderSequenceError(
                f"producer {batch.producer_id}, epoch {batch.producer_epoch}, in {self.name}: "
                f"sequence {batch.base_sequence}, expected {expected}"
            )

    # -- after an append, and in replay --

    def update(self, batch: RecordBatch, first_offset: int, last_offset: int) -> CompletedTxn | None:
        """Applies a batch of the log; returns the transaction that it ended, if any."""
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            entry = self.producers[batch.producer_id] = ProducerStateEntry(batch.producer_id)
        attributes = batch.attributes
        if attributes & TRANSACTIONAL_MASK and self.verifications:
            # The transaction has ended, or its first offset is now known.
            self.verifications.clear_after(
                batch.producer_id, batch.producer_epoch, is_marker=attributes & CONTROL_MASK != 0
            )
        if attributes & CONTROL_MASK:
            return self._end_txn(entry, batch, last_offset)
        if batch.producer_epoch != entry.producer_epoch:
            entry.set_epoch(batch.producer_epoch)
        batches = entry.batches
        if len(batches) == BATCHES_TO_RETAIN:
            del batches[0]
        timestamp = entry.last_timestamp = batch.max_timestamp
        batches.append(BatchMetadata(batch.last_sequence, last_offset, last_offset - first_offset, timestamp))
        if attributes & TRANSACTIONAL_MASK and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = first_offset
            self._ongoing_txns[first_offset] = batch.producer_id
        return None

    def update_with_run(self, run: ProducerRun) -> None:
        """`update` for several batches of one producer at once, none of which ends a transaction."""
        entry = self.producers.get(run.producer_id)
        if entry is None:
            entry = self.producers[run.producer_id] = ProducerStateEntry(run.producer_id)
        if run.restarted or run.epoch != entry.producer_epoch:
            entry.batches.clear()
            entry.producer_epoch = run.epoch
        entry.batches += [BatchMetadata(*batch) for batch in run.batches()]
        del entry.batches[:-BATCHES_TO_RETAIN]
        entry.last_timestamp = run.last_timestamp
        if run.txn_first_offset >= 0 and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = run.txn_first_offset
            self._ongoing_txns[run.txn_first_offset] = run.producer_id

    def _end_txn(
        self, entry: ProducerStateEntry, batch: RecordBatch, last_offset: int
    ) -> CompletedTxn | None:
        entry.set_epoch(batch.producer_epoch)
        entry.last_timestamp = batch.max_timestamp
        record = _marker(batch)
        if record is None:
            return None  # compaction has removed it, and kept the batch for its epoch
        entry.coordinator_epoch = _epoch_in(record)
        first_offset, entry.current_txn_first_offset = entry.current_txn_first_offset, NO_TXN
        if first_offset < 0:
            return None
        return CompletedTxn(
            entry.producer_id, first_offset, last_offset, is_aborted=_type_in(record) == b"\0\0"
        )

    def check_coordinator_epoch(self, producer_id: int, coordinator_epoch: int) -> None:
        """Raises TransactionCoordinatorFencedError for a marker of a coordinator that has been replaced."""
        entry = self.producers.get(producer_id)
        known_epoch = NO_COORDINATOR_EPOCH if entry is None else entry.coordinator_epoch
        if known_epoch > coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"marker for producer {producer_id} in {self.name} from coordinator epoch {coordinator_epoch}, "
                f"where {known_epoch} is the newest"
            )

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset after `completed`, if everything is replicated."""
        others = (first for first in self._ongoing_txns if first != completed.first_offset)
        return min(others, default=completed.last_offset + 1)

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Ends a transaction, which stays unstable until its marker is below the high watermark."""
        self._ongoing_txns.pop(completed.first_offset, None)
        self._unreplicated_txns[completed.first_offset] = completed.last_offset

    def on_high_watermark_updated(self, high_watermark: int) -> bool:
        """Drops the transactions whose markers are now replicated; whether the first unstable offset may have moved."""
        if not self._unreplicated_txns:
            return False
        self._drop_unreplicated_below(high_watermark)
        return True

    def _drop_unreplicated_below(self, offset: int) -> None:
        for first_offset, last_offset in list(self._unreplicated_txns.items()):
            if last_offset < offset:
                del self._unreplicated_txns[first_offset]

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Drops transactions before the new log start offset, which are not unstable any more."""
        self._drop_unreplicated_below(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def remove_expired_producers(self, now_ms: int) -> int:
        """Removes producers without an open transaction that were idle for producer.id.expiration.ms; returns how many.

        Removes verifications that have waited for so long too.
        """
        self.verifications.remove_expired(now_ms, self.expiration_ms)
        expired = [
            entry.producer_id
            for entry in self.producers.values()
            if entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    # -- snapshots --

    def take_snapshot(self, *, sync: bool, of_the_past: bool = False) -> str | None:
        """Saves the state at `map_end_offset`; returns the path, None if there is a snapshot of that offset already.

        Without `sync` the caller must have the file synced before the recovery point passes it. Raises OSError.
        """
        if self.map_end_offset <= (self.snapshots.latest_offset or 0) and not of_the_past:
            return None
        return self.snapshots.write(self.map_end_offset, list(self._as_snapshot()), sync=sync)

    def _as_snapshot(self) -> "Iterator[SnapshotEntry]":
        for producer_id in sorted(self.producers, key=_bucket_of(len(self.producers))):
            entry = self.producers[producer_id]
            last = entry.batches[-1] if entry.batches else None
            yield SnapshotEntry(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_offset,
                last.offset_delta if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Loads the latest snapshot within the log; the caller replays from `map_end_offset` on."""
        self.snapshots.remove_outside(log_start_offset, log_end_offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self.clear()
        self._load_latest(log_start_offset, now_ms)

    def take_over(self, other: "ProducerStateManager") -> None:
        """Moves the state of another log with the same batches here."""
        self.map_end_offset = max(self.map_end_offset, other.map_end_offset)
        self.expiration_ms, self.verifies_transactions = other.expiration_ms, other.verifies_transactions
        self.producers, other.producers = other.producers, {}
        self._ongoing_txns, other._ongoing_txns = other._ongoing_txns, {}
        self._unreplicated_txns, other._unreplicated_txns = other._unreplicated_txns, {}
        self.verifications, other.verifications = other.verifications, VerificationStates()

    def clear(self) -> None:
        self.producers.clear()
        self._ongoing_txns.clear()
        self._unreplicated_txns.clear()
        self.map_end_offset = 0

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the state, as of a log that is empty and starts at `offset`."""
        self.clear()
        self.snapshots.remove_outside(offset, offset)
        self.snapshots.remove(offset)
        self.map_end_offset = offset

    def _load_latest(self, log_start_offset: int, now_ms: int) -> None:
        while (offset := self.snapshots.latest_offset) is not None:
            try:
                self.load_snapshot(offset, now_ms)
            except CorruptSnapshotError as error:
                logger.warning("%s; using the snapshot before it", error)
                self.snapshots.remove(offset)
                continue
            return
        self.map_end_offset = log_start_offset

    def load_snapshot(self, offset: int, now_ms: int) -> None:
        """Loads the snapshot at an offset. Raises CorruptSnapshotError."""
        for saved in self.snapshots.read(offset):
            self._restore(saved, now_ms)
        self.map_end_offset = offset

    def _restore(self, saved: SnapshotEntry, now_ms: int) -> None:
        if saved.current_txn_first_offset < 0 and now_ms - saved.timestamp >= self.expiration_ms:
            return
        entry = ProducerStateEntry(saved.producer_id, saved.producer_epoch)
        entry.coordinator_epoch = saved.coordinator_epoch
        entry.last_timestamp = saved.timestamp
        entry.current_txn_first_offset = saved.current_txn_first_offset
        if saved.last_offset >= 0:  # a coordinator's batches have an offset but no sequence
            entry.batches.append(
                BatchMetadata(saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp)
            )
        self.producers[saved.producer_id] = entry
        if saved.current_txn_first_offset >= 0:
            self._ongoing_txns[saved.current_txn_first_offset] = saved.producer_id


def _bucket_of(count: int) -> "Callable[[int], int]":
    """The sort key for the order of `count` keys in a Java HashMap, the order of producers in Kafka's snapshots."""
    size = 16
    while count > size * 3 // 4:
        size *= 2

    def bucket(producer_id: int) -> int:
        folded = (producer_id ^ producer_id >> 32) & 0xFFFFFFFF
        return (folded ^ folded >> 16) & (size - 1)

    return bucket
