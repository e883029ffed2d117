"""The batches of a .log or .checkpoint file for `dump-log`, each with its position in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.records.batch import RecordBatch, entry_header
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.layout import ENTRY_HEADER, MAGIC_V2, RECORD_BATCH_OVERHEAD, TimestampType
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.env import File, read_fully

if TYPE_CHECKING:
    from barnabas.protocol.records.record import Record

CHUNK_BYTES: Final = 1024 * 1024

DAMAGED: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)
"""The errors of reading a batch and its records."""

TIMESTAMP_TYPES: Final = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
"""Kafka's names."""


class FileBatch(NamedTuple):
    """A complete batch, or an entry of an older format, and its position in the file."""

    position: int
    entry: RecordBatch | LegacyEntry


class LegacyCheck(NamedTuple):
    """The checksum of one message of an older format."""

    is_valid: bool
    crc: int


def file_batches(file: File, end: int, position: int = 0) -> Iterator[FileBatch]:
    """The batches from `position` on that lie wholly before `end`. Raises CorruptRecordError where none begins."""
    start, chunk = position, b""
    while position < end - ENTRY_HEADER.size:
        at = position - start
        if at + RECORD_BATCH_OVERHEAD > len(chunk):
            chunk, start, at = read_fully(file, CHUNK_BYTES, position), position, 0
            if len(chunk) < ENTRY_HEADER.size:
                return  # the file has been cut since
        try:
            _, size, magic = entry_header(chunk, at)
        except CorruptRecordError:
            raise CorruptRecordError(f"no batch begins at position {position}") from None
        if position + size > end:
            return
        if at + size > len(chunk):
            chunk, start, at = read_fully(file, max(size, CHUNK_BYTES), position), position, 0
            if len(chunk) < size:
                return
        yield FileBatch(position, RecordBatch(chunk, at) if magic == MAGIC_V2 else LegacyEntry(chunk, at))
        position += size


def records(entry: RecordBatch | LegacyEntry) -> Iterator[tuple[Record, LegacyCheck | None]]:
    """The records, each of an older format with its checksum. Raises one of DAMAGED."""
    if isinstance(entry, RecordBatch):
        yield from ((record, None) for record in entry.records())
    elif entry.is_compressed:
        for record, inner in zip(entry.records(), entry.inner_entries(), strict=True):
            yield record, LegacyCheck(inner.is_valid_crc(), inner.crc)
    else:
        yield next(entry.records()), LegacyCheck(entry.is_valid_crc(), entry.crc)
