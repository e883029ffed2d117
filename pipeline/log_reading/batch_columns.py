"""Decodes batches of every format into columns, and these into Arrow's, for reading millions of records."""

from typing import Final

import pyarrow as pa

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.columns import Binary, RecordColumns
from barnabas.protocol.records.compression import unpacked
from barnabas.protocol.records.layout import DEFAULT_MAX_DECOMPRESSED_BYTES, TimestampType
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.protocol.records.record import encode_records

_MAX_OFFSET: Final = (1 << 63) - 1


def add_batch(
    rows: RecordColumns,
    batch: RecordBatch | LegacyEntry,
    first_offset: int = 0,
    end_offset: int = _MAX_OFFSET,
) -> int:
    """Adds the records with offsets from the first on and below the end; returns how many bytes were unpacked for it.

    Raises CorruptRecordError, InvalidRecordError and UnsupportedCompressionError.
    """
    if isinstance(batch, LegacyEntry):
        return _add_legacy(rows, batch, first_offset, end_offset)
    if not batch.is_compressed:
        return _add(rows, batch, batch.payload(), first_offset, end_offset)
    with unpacked(batch.compression_type, batch.payload(), DEFAULT_MAX_DECOMPRESSED_BYTES) as plain:
        return _add(rows, batch, plain, first_offset, end_offset)


def _add(
    rows: RecordColumns, batch: RecordBatch, payload: memoryview | bytes, first_offset: int, end_offset: int
) -> int:
    rows.add(
        payload,
        batch.record_count,
        batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        first_offset,
        end_offset,
    )
    return len(payload)


def _add_legacy(rows: RecordColumns, entry: LegacyEntry, first_offset: int, end_offset: int) -> int:
    """Adds a batch of an older format, which is converted to records of the current one first."""
    records = [it for it in entry.records() if first_offset <= it.offset < end_offset]
    if not records:
        return 0
    payload = encode_records(records, records[0].offset, 0)
    rows.add(payload, len(records), records[0].offset, 0)
    return len(payload)


def binary_array(column: Binary, row_count: int) -> pa.Array:
    """An array of keys, values or headers over the buffers that hold them, without a copy."""
    validity = pa.py_buffer(column.validity) if column.null_count else None
    buffers = [validity, pa.py_buffer(column.ends), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), row_count, buffers, column.null_count)
