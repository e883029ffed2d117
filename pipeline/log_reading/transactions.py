"""Finds the aborted and open transactions of a log, for read_committed.

The .txnindex files have the transactions that ended before the latest producer snapshot; from there on the batches'
headers are read, as by a broker at its start: an index of the active segment may be behind the log by the marker that
is just being written.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.pipeline.log_reading.segments import End, ListedSegment, open_segment
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.scanning import SegmentScanner
from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptIndexError, CorruptSnapshotError
from barnabas.storage.log.producer_entry import CompletedTxn
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.segment.batch_pass import SegmentPass
from barnabas.storage.segment.names import TXN_INDEX_SUFFIX
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex

_NEVER_MS: Final = 1 << 62


class Aborted(NamedTuple):
    """An aborted transaction, from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int

    @classmethod
    def of(cls, transaction: AbortedTxn | CompletedTxn) -> "Aborted":
        """From an entry of an index or a marker, without the last stable offset."""
        return cls(transaction.producer_id, transaction.first_offset, transaction.last_offset)


class AbortedTransactions:
    """The aborted transactions of one log, checked batch by batch."""

    def __init__(self, transactions: Iterable[Aborted]) -> None:
        self._of_producer: dict[int, tuple[list[int], list[int]]] = {}
        for producer_id, first_offset, last_offset in sorted(set(transactions)):
            firsts, lasts = self._of_producer.setdefault(producer_id, ([], []))
            firsts.append(first_offset)
            lasts.append(last_offset)

    def __bool__(self) -> bool:
        return bool(self._of_producer)

    def has(self, batch: RecordBatch) -> bool:
        """Whether a batch belongs to an aborted transaction: a producer has one transaction after the other."""
        known = self._of_producer.get(batch.producer_id)
        if known is None or not batch.is_transactional:
            return False
        at = bisect_right(known[0], batch.base_offset) - 1
        return at >= 0 and batch.base_offset <= known[1][at]

    def within(self, first_offset: int, end_offset: int) -> tuple[Aborted, ...]:
        """The aborted transactions that overlap a range of offsets."""
        return tuple(
            Aborted(producer_id, first, last)
            for producer_id, (firsts, lasts) in self._of_producer.items()
            for first, last in zip(firsts, lasts, strict=True)
            if first < end_offset and last >= first_offset
        )


class Transactions(NamedTuple):
    """The transactions of a log; `first_unstable_offset` is the first offset of the oldest open one."""

    aborted: AbortedTransactions
    first_unstable_offset: int | None


def find_transactions(env: Env, directory: str, segments: Sequence[ListedSegment], end: End) -> Transactions:
    """The transactions in these segments, up to the end of the last. Raises FileNotFoundError where one is gone."""
    snapshots = ProducerSnapshotFiles(env, directory, env.listdir(directory))
    usable = [offset for offset in snapshots.offsets if segments[0].base_offset <= offset <= end.offset]
    while usable:
        try:
            return _Replay(env, segments, end, snapshots, usable[-1]).run()
        except (CorruptSnapshotError, CorruptIndexError):
            usable.pop()  # the snapshot before it, or the whole log, gives the same
    return _Replay(env, segments, end, snapshots, None).run()


class _Replay:
    """Replays the log after a snapshot over the producers' state in it."""

    def __init__(
        self,
        env: Env,
        segments: Sequence[ListedSegment],
        end: End,
        snapshots: ProducerSnapshotFiles,
        snapshot: int | None,
    ) -> None:
        self._env = env
        self._segments = segments
        self._end = end
        self._start = segments[0].base_offset
        self._aborted: list[Aborted] = []
        self._producers = ProducerStateManager(snapshots, "", _NEVER_MS)
        if snapshot is not None:
            self._producers.load_snapshot(snapshot, 0)
            self._start = snapshot

    def run(self) -> Transactions:
        """Raises FileNotFoundError, CorruptIndexError."""
        for number, segment in enumerate(self._segments):
            is_last = number + 1 == len(self._segments)
            following = self._end.offset if is_last else self._segments[number + 1].base_offset
            if following <= self._start:
                self._read_index(segment)
            else:
                self._follow(segment, self._end.position if is_last else None)
        return Transactions(AbortedTransactions(self._aborted), self._producers.first_unstable_offset)

    def _read_index(self, segment: ListedSegment) -> None:
        """Reads the index of a segment that begins before the snapshot."""
        index = TransactionIndex(self._env, segment.path(TXN_INDEX_SUFFIX), segment.base_offset)
        self._aborted += map(Aborted.of, index.transactions)

    def _follow(self, listed: ListedSegment, most_bytes: int | None) -> None:
        segment = open_segment(self._env, listed, most_bytes)
        if listed.base_offset < self._start:
            self._read_index(listed)
        position = segment.position_of(max(self._start, listed.base_offset))
        if position is None:
            return
        scanner = segment.new_scanner(check_crc=False, follow_from=self._start)

        def take_control(batch: RecordBatch) -> None:
            self._take_runs(scanner)
            self._take_marker(batch)

        SegmentPass().run(segment.file, segment.size, scanner, take_control, position)
        self._take_runs(scanner)

    def _take_runs(self, scanner: SegmentScanner) -> None:
        for run in scanner.take_runs():
            self._producers.update_with_run(run)

    def _take_marker(self, batch: RecordBatch) -> None:
        completed = self._producers.update(batch, batch.base_offset, batch.last_offset)
        if completed is None:
            return
        self._producers.complete_txn(completed)
        self._producers.on_high_watermark_updated(completed.last_offset + 1)
        if completed.is_aborted:
            self._aborted.append(Aborted.of(completed))
