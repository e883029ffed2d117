"""The state of one producer in a log: its epoch, its last five batches, and its open transaction."""

from typing import Final, NamedTuple

from barnabas.protocol.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, RecordBatch
from barnabas.protocol.records.layout import MAX_SEQUENCE, NO_TIMESTAMP

BATCHES_TO_RETAIN: Final = 5
NO_TXN: Final = -1
NO_COORDINATOR_EPOCH: Final = -1


class BatchMetadata:
    """The sequence numbers, offsets and largest timestamp (ms) of one batch."""

    __slots__ = ("last_offset", "last_sequence", "offset_delta", "timestamp")

    def __init__(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    def __repr__(self) -> str:
        return (
            f"BatchMetadata(sequence {self.first_sequence}..{self.last_sequence}, "
            f"offset {self.first_offset}..{self.last_offset})"
        )


class ProducerStateEntry:
    """One producer: `batches` oldest first, at most five; `current_txn_first_offset` -1 outside a transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.current_txn_first_offset = NO_TXN
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        """Of the last batch in this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def set_epoch(self, producer_epoch: int) -> None:
        """Starts a new epoch, with a new sequence."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The remembered batch with the same sequence numbers."""
        if batch.producer_epoch == self.producer_epoch:
            first, last = batch.base_sequence, batch.last_sequence
            for known in self.batches:
                if known.last_sequence == last and known.first_sequence == first:
                    return known
        return None


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
