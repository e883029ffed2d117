"""Counts keys, and the records that would remain if a log were compacted now.

Each segment is counted by itself (`KeyCounter`): of each key a hash of 128 bits and the last record. A partition's
segments are combined by their hashes (`last_records`), a part of all hashes at a time where there are many, since
a key is in one part only. The records that remain of a segment are those whose keys occur in no later segment.

Compaction follows Kafka's rules: the active segment, and segments from the one on in which the oldest open transaction
begins, neither lose records nor supersede others; records of aborted transactions and records without a key go;
tombstones stay for delete.retention.ms, and so they count as kept here. Bytes are those on disk: a record has a share
of its batch, by its size, codec and header included.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from barnabas.pipeline.log_reading.batch_columns import add_batch, binary_array
from barnabas.pipeline.log_reading.transactions import Aborted, AbortedTransactions
from barnabas.protocol.records.batch import CorruptRecordError, InvalidRecordError, RecordBatch
from barnabas.protocol.records.columns import RecordColumns
from barnabas.protocol.records.errors import UnsupportedCompressionError

if TYPE_CHECKING:
    from barnabas.storage.segment.batch_reading import Batch
    from barnabas.storage.segment.txn_index import AbortedTxn

ROWS_AT_A_TIME: Final = 1 << 18
BYTES_AT_A_TIME: Final = 1 << 26
HASH_BYTES: Final = 16
_RECORD_BYTES: Final = 8
"""Approximate bytes of a record beside key, value and headers."""

KEYS: Final = pa.schema(
    [
        pa.field("hash", pa.binary(HASH_BYTES), nullable=False),
        pa.field("bytes", pa.float64(), nullable=False),
        pa.field("is_tombstone", pa.bool_(), nullable=False),
    ]
)
"""The last record of each key in a segment: the key's hash, bytes on disk, whether it has no value."""


class KeyStats(NamedTuple):
    """Records of a segment and their bytes on disk; `aborted`: those of aborted transactions, keyed or not."""

    keyed_records: int = 0
    keyed_bytes: int = 0
    keyless_records: int = 0
    keyless_bytes: int = 0
    aborted_records: int = 0
    aborted_bytes: int = 0


class KeptRecords(NamedTuple):
    """The records that compaction keeps: their number, bytes on disk, and how many have no value."""

    records: int = 0
    bytes: int = 0
    tombstones: int = 0

    def plus(self, other: KeptRecords) -> KeptRecords:
        return KeptRecords(*map(sum, zip(self, other, strict=True)))


class Kept(NamedTuple):
    """The number of keys in all segments, and the records that compaction keeps of each cleanable one, by base
    offset."""

    distinct_keys: int
    by_segment: Mapping[int, KeptRecords]

    def plus(self, other: Kept) -> Kept:
        """Adds the result for another part of the hashes."""
        bases = {*self.by_segment, *other.by_segment}
        none = KeptRecords()
        return Kept(
            self.distinct_keys + other.distinct_keys,
            {base: self.by_segment.get(base, none).plus(other.by_segment.get(base, none)) for base in bases},
        )


class KeyCounter:
    """Counts the keys of one segment, batch by batch."""

    def __init__(self, aborted: Iterable[AbortedTxn] = ()) -> None:
        """`aborted`: the transactions that overlap the segment."""
        self._aborted = AbortedTransactions(map(Aborted.of, aborted))
        self._columns = RecordColumns()
        self._scales = array("d")
        self._parts: list[pa.Table] = []
        self._sums = [0.0] * len(KeyStats._fields)

    def add(self, batch: Batch) -> None:
        """Counts a whole batch; one whose records cannot be read is skipped."""
        if batch.is_control:
            return
        if isinstance(batch, RecordBatch) and self._aborted.has(batch):
            self._sums[4] += batch.record_count
            self._sums[5] += batch.size_in_bytes
            return
        before = self._columns.row_count
        size = self._size()
        try:
            add_batch(self._columns, batch)
        except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError):
            return
        rows = self._columns.row_count - before
        if rows:
            scale = batch.size_in_bytes / (self._size() - size + _RECORD_BYTES * rows)
            self._scales.extend(array("d", [scale]) * rows)
        if self._columns.row_count >= ROWS_AT_A_TIME or self._size() >= BYTES_AT_A_TIME:
            self._flush()

    def _size(self) -> int:
        columns = self._columns
        return len(columns.keys.data) + len(columns.values.data) + len(columns.headers.data)

    def _flush(self) -> None:
        """Reduces the rows so far to the last one of each key."""
        columns, rows = self._columns, self._columns.row_count
        if not rows:
            return
        keys, values, headers = (
            binary_array(each, rows) for each in (columns.keys, columns.values, columns.headers)
        )
        sizes = pc.add(pc.binary_length(headers), _RECORD_BYTES)
        for each in (keys, values):
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(each), 0))
        bytes_on_disk = pc.multiply(
            pc.cast(sizes, pa.float64()),
            pa.Array.from_buffers(pa.float64(), rows, [None, pa.py_buffer(self._scales)]),
        )
        table = pa.table({"key": keys, "bytes": bytes_on_disk, "is_tombstone": values.is_null()})
        has_key = keys.is_valid()
        keyless = table.filter(pc.invert(has_key))
        keyed = table.filter(has_key) if keyless.num_rows else table
        for at, part in ((0, keyed), (2, keyless)):
            self._sums[at] += part.num_rows
            self._sums[at + 1] += pc.sum(part["bytes"]).as_py() or 0.0
        last = _last_by(keyed, "key")
        hashes = pa.array([xxh3_128_digest(key) for key in last["key"].to_pylist()], pa.binary(HASH_BYTES))
        self._parts.append(pa.table([hashes, last["bytes"], last["is_tombstone"]], schema=KEYS))
        self._columns, self._scales = RecordColumns(), array("d")

    def finish(self) -> tuple[KeyStats, pa.Table]:
        """The counts, and a table of KEYS."""
        self._flush()
        stats = KeyStats(*(round(each) for each in self._sums))
        if len(self._parts) <= 1:
            return stats, self._parts[0] if self._parts else KEYS.empty_table()
        return stats, _last_by(pa.concat_tables(self._parts), "hash").select(KEYS.names).cast(KEYS)


def _last_by(table: pa.Table, column: str) -> pa.Table:
    """The last row for each value in a column."""
    others = [name for name in table.column_names if name != column]
    found = table.group_by(column, use_threads=False).aggregate([(name, "last") for name in others])
    return found.rename_columns([name.removesuffix("_last") for name in found.column_names])


def parts_of(keys: pa.Table, count: int) -> list[pa.Table]:
    """Divides the keys into so many parts, by their hashes."""
    if count == 1 or not keys.num_rows:
        return [keys] * count
    hashes: Any = keys["hash"].combine_chunks()
    data = memoryview(hashes.buffers()[1])[HASH_BYTES * hashes.offset :]
    first = data[: HASH_BYTES * keys.num_rows : HASH_BYTES].tobytes()  # of each, without an object for each
    bytes_of = pa.Array.from_buffers(pa.uint8(), keys.num_rows, [None, pa.py_buffer(first)])
    number = pc.shift_right(pc.multiply(pc.cast(bytes_of, pa.int32()), count), 8)
    return [keys.filter(pc.equal(number, part)) for part in range(count)]


def last_records(keys: Sequence[tuple[int, pa.Table]], first_uncleanable: int | None) -> Kept:
    """What compaction keeps of a partition's segments, given as (base offset, table of KEYS), oldest first.

    Segments from `first_uncleanable` on count for the number of keys alone; None: all are cleaned.
    """
    if not keys:
        return Kept(0, {})
    tables = [_with_segment(base, table) for base, table in keys]
    distinct = pc.count_distinct(pa.concat_tables(tables)["hash"])
    by_segment = {
        base: KeptRecords() for base, _ in keys if first_uncleanable is None or base < first_uncleanable
    }
    if cleanable := tables[: len(by_segment)]:
        last = _last_by(pa.concat_tables(cleanable), "hash")
        sums = last.group_by("segment").aggregate(
            [("hash", "count"), ("bytes", "sum"), ("is_tombstone", "sum")]
        )
        for row in sums.to_pylist():
            by_segment[row["segment"]] = KeptRecords(
                row["hash_count"], round(row["bytes_sum"]), row["is_tombstone_sum"]
            )
    return Kept(distinct.as_py(), by_segment)


def _with_segment(base_offset: int, table: pa.Table) -> pa.Table:
    segments: Any = pa.array([base_offset], pa.int64()).take(
        pa.array(array("i", bytes(4 * table.num_rows)), pa.int32())
    )
    return table.append_column("segment", segments)
