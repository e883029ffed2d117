"""Turns records into Arrow record batches with the columns of Spark's Kafka source.

    key            binary                      null for records without one
    value          binary                      null for tombstones
    topic          string
    partition      int32
    offset         int64
    timestamp      timestamp[us, UTC]          of -1 ms where a record has none (format v0)
    timestampType  int32                       0 the producer's, 1 the broker's, -1 none
    headers        list<key: string, value: binary>   only where it is asked for; null for records without any

Keys, values and offsets are the buffers that `RecordColumns` has filled, not copied again.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipeline.log_reading.batch_columns import add_batch, binary_array
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.columns import Binary, RecordColumns
from barnabas.protocol.records.layout import TimestampType
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.protocol.records.record import decode_headers

HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
COLUMNS: Final = tuple(SCHEMA.names)
DEFAULT_COLUMNS: Final = COLUMNS[:-1]

ROWS: Final = 32 * 1024
"""So many rows are a record batch, or so many bytes of records, whichever comes first.

Larger ones cost more for each row: they stay in no cache between one copy and the next, and Java does not keep memory
of that size to use it again.
"""
BYTES: Final = 1024 * 1024


class ArrowColumns:
    """Collects rows of one partition into record batches of these columns."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str] = DEFAULT_COLUMNS) -> None:
        self._topic = topic
        self._partition = partition
        self._schema = pa.schema([SCHEMA.field(name) for name in columns])
        self._byte_capacity = 1024 * 1024
        self._row_capacity = ROWS + 2048
        self._constants: dict[tuple[str, Any], pa.Array] = {}
        self._begin()

    def _begin(self) -> None:
        self._rows = RecordColumns(
            self._row_capacity,
            self._byte_capacity,
            _allocate,
            keys="key" in self._schema.names,
            values="value" in self._schema.names,
            headers="headers" in self._schema.names,
        )
        self._bytes = 0
        self._types: list[tuple[TimestampType, int]] = []  # and up to which row

    @property
    def row_count(self) -> int:
        """The number of collected rows."""
        return self._rows.row_count

    @property
    def is_full(self) -> bool:
        """Whether the rows are enough for a record batch."""
        return self._rows.row_count >= ROWS or self._bytes >= BYTES

    def add(self, batch: RecordBatch | LegacyEntry, first_offset: int, end_offset: int) -> None:
        """Adds the records with offsets from the first on and below the end.

        Raises CorruptRecordError, InvalidRecordError and UnsupportedCompressionError.
        """
        self._bytes += add_batch(self._rows, batch, first_offset, end_offset)
        self._note(batch.timestamp_type)

    def _note(self, timestamp_type: TimestampType) -> None:
        rows = self._rows.row_count
        if self._types and self._types[-1][0] is timestamp_type:
            self._types[-1] = (timestamp_type, rows)
        else:
            self._types.append((timestamp_type, rows))

    def take(self) -> pa.RecordBatch:
        """The collected rows as a record batch. Raises OverflowError for a time outside the range of timestamps."""
        taken = pa.RecordBatch.from_arrays(
            [self._array(name) for name in self._schema.names], schema=self._schema
        )
        self._byte_capacity = min(max(self._bytes * 5 // 4, 1024 * 1024), 2 * BYTES)
        self._row_capacity = min(max(self.row_count * 5 // 4, 1024), ROWS + 2048)
        self._begin()
        return taken

    def _array(self, name: str) -> pa.Array:  # noqa: PLR0911 (one for each column)
        rows = self._rows
        match name:
            case "key":
                return binary_array(rows.keys, rows.row_count)
            case "value":
                return binary_array(rows.values, rows.row_count)
            case "topic":
                return self._constant(self._topic, pa.string())
            case "partition":
                return self._constant(self._partition, pa.int32())
            case "offset":
                return pa.Array.from_buffers(pa.int64(), rows.row_count, [None, pa.py_buffer(rows.offsets)])
            case "timestamp":
                return self._timestamps()
            case "timestampType":
                return self._timestamp_types()
        return self._headers()

    def _timestamps(self) -> pa.Array:
        buffers = [None, pa.py_buffer(self._rows.timestamps_in_us())]
        return pa.Array.from_buffers(SCHEMA.field("timestamp").type, self.row_count, buffers)

    def _timestamp_types(self) -> pa.Array:
        if len(self._types) <= 1:
            return self._constant(int(self._types[0][0]) if self._types else 0, pa.int32())
        runs, row = [], 0
        for timestamp_type, end in self._types:
            runs.append(pa.repeat(pa.scalar(int(timestamp_type), pa.int32()), end - row))
            row = end
        return pa.concat_arrays(runs)

    def _constant(self, value: Any, kind: pa.DataType) -> pa.Array:
        """A column with the same value in each row, from one array for all record batches."""
        known = self._constants.get((str(kind), value))
        if known is None or len(known) < self.row_count:
            known = pa.repeat(pa.scalar(value, kind), max(self.row_count, ROWS + 2048))
            self._constants[str(kind), value] = known
        return known.slice(0, self.row_count)

    def _headers(self) -> pa.Array:
        headers = self._rows.headers
        return (
            _decoded(headers, self._rows.header_counts)
            if len(headers.data)
            else pa.nulls(self.row_count, HEADERS)
        )


def _allocate(size: int) -> memoryview:
    """Allocates from Arrow's pool, which reuses the memory of released record batches."""
    return memoryview(pa.allocate_buffer(max(size, 1))).cast("B")


def _decoded(headers: Binary, counts: memoryview) -> pa.Array:
    """Decodes headers from their wire format to lists; null for records without any."""
    keys: list[str] = []
    values: list[bytes | None] = []
    starts = [0]
    data, ends = bytes(headers.data), headers.ends
    for row, count in enumerate(counts):
        if count:
            for key, value in decode_headers(data[ends[row] : ends[row + 1]], count):
                keys.append(key)
                values.append(value)
        starts.append(len(keys))
    pairs = pa.StructArray.from_arrays(
        [pa.array(keys, pa.string()), pa.array(values, pa.binary())], fields=list(HEADERS.value_type)
    )
    mask = pc.equal(pa.array(counts, pa.int32()), 0)
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs, type=HEADERS, mask=mask)
