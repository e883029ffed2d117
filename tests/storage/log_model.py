"""The expected contents of a log, as lists and dictionaries: the oracle of the random tests.

It has every batch that was appended and not truncated, deleted ones included (a crash of the machine may restore
those), and derives from them the records of readers, and the states of transactions and producers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_SEQUENCE = 0x7FFFFFFF
REMEMBERED_BATCHES = 5


class ModelRecord(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(eq=False)
class ModelBatch:
    """A batch in the log; `producer` is (id, epoch, first sequence), `commit` the decision of a marker."""

    records: tuple[ModelRecord, ...]
    epoch: int
    producer: tuple[int, int, int] | None = None
    transactional: bool = False
    commit: bool | None = None  # None: data
    outcome: str = "plain"  # else open, committed or aborted

    @property
    def base_offset(self) -> int:
        return self.records[0].offset

    @property
    def next_offset(self) -> int:
        return self.records[-1].offset + 1

    @property
    def last_sequence(self) -> int:
        assert self.producer is not None
        return (self.producer[2] + len(self.records) - 1) & MAX_SEQUENCE


@dataclass(eq=False)
class ModelProducer:
    """The log's state of a producer id; `doubtful`: it may have expired."""

    epoch: int
    batches: list[ModelBatch] = field(default_factory=list)
    last_timestamp: int = -1
    open_batches: list[ModelBatch] = field(default_factory=list)
    doubtful: bool = False

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE if self.batches else 0

    @property
    def txn_first_offset(self) -> int | None:
        return self.open_batches[0].base_offset if self.open_batches else None


class LogModel:
    """One partition. Offsets as in the log; records before `durable_end` survive a crash of the machine."""

    def __init__(self) -> None:
        self.batches: list[ModelBatch] = []
        self.present: set[int] = set()  # offsets from `start` on that no compaction has removed
        self.compacted: set[int] = set()  # offsets
        self.compacted_to = (
            0  # the end at the last compaction; a truncation below it makes Kafka too lose producers
        )
        self.start = self.end = self.high_watermark = self.durable_end = 0
        self.checkpointed_start = self.checkpointed_high_watermark = 0
        self.deleted_up_to = 0  # the largest value of `start` so far
        self.epochs: list[tuple[int, int]] = []
        self.producers: dict[int, ModelProducer] = {}
        self.ever_expired: set[int] = set()
        self.newest_epochs: dict[int, int] = {}  # the highest epoch that each producer id has written with
        self.given_up: set[int] = set()  # producers that the log may or may not have
        self.lost_before = 0  # the log may have lost producers of records below it: a crash lost the snapshot
        self.retained_since_flush = False
        self.decided: list[tuple[int, int]] = []  # transactions: first offset, the marker's
        self.stable_is_exact_from = (
            0  # once the high watermark is here, the last stable offset is known exactly
        )

    # -- operations --

    def append(self, batch: ModelBatch) -> None:
        """A batch was appended, as leader or as follower."""
        assert batch.base_offset >= self.end
        self.batches.append(batch)
        self.present.update(record.offset for record in batch.records)
        self.end = batch.next_offset
        if batch.epoch != (self.epochs[-1][0] if self.epochs else -1):
            self.assign_epoch(batch.epoch, batch.base_offset)
        self._follow(batch)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        if self.epochs and epoch == self.epochs[-1][0] and start_offset >= self.epochs[-1][1]:
            return
        self.epochs = [(e, s) for e, s in self.epochs if e < epoch and s < start_offset]
        self.epochs.append((epoch, start_offset))

    def _follow(self, batch: ModelBatch) -> None:
        """Apply a batch to the state of its producer."""
        if batch.producer is None:
            return
        producer_id, epoch, _ = batch.producer
        producer = self.producers.setdefault(producer_id, ModelProducer(epoch))
        producer.doubtful = False
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        # The minimum: a replay uses the youngest record of the batch that compaction has left.
        producer.last_timestamp = min(record.timestamp for record in batch.records)
        if batch.commit is not None:
            if producer.open_batches:
                self.decided.append((producer.open_batches[0].base_offset, batch.base_offset))
                if producer_id in self.given_up:
                    self.stable_is_exact_from = batch.next_offset
            for written in producer.open_batches:
                written.outcome = "committed" if batch.commit else "aborted"
            producer.open_batches = []
            return
        producer.batches = [*producer.batches, batch][-REMEMBERED_BATCHES:]
        if batch.transactional:
            batch.outcome = "open"
            producer.open_batches.append(batch)

    def cut_to(self, end: int) -> None:
        """Remove all batches at or after `end`, with their effects."""
        self.batches = [batch for batch in self.batches if batch.next_offset <= end]
        self.present = {offset for offset in self.present if offset < end}
        self.end = end
        self.start = min(self.start, end)
        self.durable_end = min(self.durable_end, end)
        self.high_watermark = min(self.high_watermark, end)
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < end]
        self.producers, self.decided = {}, []
        for batch in self.batches:
            self._follow(batch)
        for producer_id in self.ever_expired & set(self.producers):
            self.producers[producer_id].doubtful = not self.producers[producer_id].open_batches
        self.give_up_producers_before(self.lost_before)
        self.stable_is_exact_from = end

    def start_anew_at(self, offset: int) -> None:
        """Empty the log; it continues at `offset`."""
        self.cut_to(0)
        self.start = self.end = self.high_watermark = self.durable_end = offset
        self.epochs = []
        self.stable_is_exact_from = offset

    def compact(self, offsets: set[int], *, happened: bool = True) -> None:
        """A compaction removed records, or may have: a restart will show."""
        self.compacted |= offsets
        self.present -= offsets if happened else set()

    def move_start(self, start: int) -> None:
        """The log start offset increased."""
        self.start = start
        self.deleted_up_to = max(self.deleted_up_to, start)
        self.present = {offset for offset in self.present if offset >= start}
        in_force = [entry for entry in self.epochs if entry[1] <= start]
        if in_force:
            self.epochs = [(in_force[-1][0], start), *self.epochs[len(in_force) :]]

    def flushed(self) -> None:
        """Everything is on stable storage."""
        self.durable_end = self.end
        self.retained_since_flush = False

    def give_up_producers_before(self, start: int) -> None:
        """Stop tracking producers without a record from `start` on, which the log may have lost."""
        self.lost_before = max(self.lost_before, start)
        for producer_id, producer in self.producers.items():
            first = producer.txn_first_offset
            is_open_before = first is not None and first < start
            if not producer.batches or producer.batches[-1].base_offset < start or is_open_before:
                self.given_up.add(producer_id)

    def expire(self, before_ms: int) -> None:
        """Remove producers without a transaction and without a record since `before_ms`, unless a replay finds them."""
        for producer_id, producer in self.producers.items():
            if not producer.open_batches and producer.last_timestamp <= before_ms:
                producer.doubtful = True
                self.ever_expired.add(producer_id)

    def expire_in_snapshots(self, before_ms: int) -> None:
        """Remove producers as `expire` does, where a snapshot is loaded and what follows it is replayed.

        One that has expired in the snapshot is left out, as in Kafka. A marker in the replay brings it back without its
        batches.
        """
        self.expire(before_ms)
        for producer_id, producer in self.producers.items():
            written = [record.timestamp for batch in producer.batches[-1:] for record in batch.records]
            if written and not producer.open_batches and min(written) <= before_ms:
                producer.doubtful = True
                self.ever_expired.add(producer_id)

    # -- derived values --

    @property
    def boundaries(self) -> list[int]:
        """The end offsets of batches."""
        return sorted({0, *(batch.next_offset for batch in self.batches)})

    def first_open_offset(self, *, given_up: bool) -> int | None:
        """The first offset of the oldest open transaction of producers in `given_up`, or of the others."""
        return min(
            (
                producer.txn_first_offset
                for producer_id, producer in self.producers.items()
                if producer.txn_first_offset is not None and (producer_id in self.given_up) == given_up
            ),
            default=None,
        )

    @property
    def last_stable_offsets(self) -> tuple[int, int]:
        """Bounds of the last stable offset; they are equal once the high watermark has moved.

        A transaction whose marker is not replicated is also unstable, but a restart need not restore that.
        """
        open_first = self.first_open_offset(given_up=False)
        high = self.high_watermark if open_first is None else min(self.high_watermark, open_first)
        unreplicated = [first for first, marker in self.decided if marker >= self.high_watermark]
        low = min([high, *unreplicated])
        doubtful = self.first_open_offset(given_up=True)
        if self.high_watermark >= self.stable_is_exact_from:
            high = low
        low = low if doubtful is None else min(low, doubtful)
        return max(low, min(self.start, self.high_watermark)), max(high, min(self.start, self.high_watermark))

    def visible(self, start: int, end: int) -> Iterable[ModelRecord]:
        """The records that readers below `end` receive from `start` on, markers included; of whole batches only."""
        for batch in self.batches:
            if start < batch.next_offset <= end:
                for record in batch.records:
                    if start <= record.offset and record.offset in self.present:
                        yield record

    def data(self, start: int, end: int, *, committed_only: bool = False) -> dict[int, ModelRecord]:
        """Offset: record, as consumers receive them; with read_committed without aborted transactions."""
        return {
            record.offset: record
            for batch in self.batches
            if batch.next_offset <= end and batch.commit is None
            if not (committed_only and batch.outcome == "aborted")
            for record in batch.records
            if start <= record.offset and record.offset in self.present
        }

    def by_offset(self) -> dict[int, tuple[ModelBatch, ModelRecord]]:
        """Every record that was appended and not truncated."""
        return {record.offset: (batch, record) for batch in self.batches for record in batch.records}

    def end_offset_for(self, epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) as in OffsetForLeaderEpoch."""
        if not self.epochs or epoch > self.epochs[-1][0] or epoch < 0:
            return None
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        end = next(start for e, start in self.epochs if e > epoch)
        known = [e for e, _ in self.epochs if e <= epoch]
        return (known[-1] if known else epoch), end
