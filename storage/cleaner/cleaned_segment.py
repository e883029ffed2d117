"""CleanedSegmentWriter: writes the segment that replaces one or several cleaned ones, under the suffix .cleaned.

The indexes equal those of a log to which the same batches were appended (Kafka's LogSegment.append). They are collected
in memory, which segment.index.bytes bounds, and written when the segment is complete.
"""

from collections.abc import Sequence
from contextlib import closing
from typing import Final

from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.storage.env import Buffer, Env, remove_if_exists, write_fully
from barnabas.storage.errors import SegmentOverflowError
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from barnabas.storage.segment.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
)
from barnabas.storage.segment.segment import AppendedBatch
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex

CLEANED_SUFFIX: Final = ".cleaned"
MAX_POSITION: Final = 0x7FFFFFFF


class CleanedSegmentWriter:
    """Writes the files of one cleaned segment, over older ones of the same names."""

    def __init__(
        self, env: Env, directory: str, base_offset: int, *, index_interval_bytes: int, index_bytes: int
    ) -> None:
        """Raises OSError."""
        self._env = env
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._index_bytes = index_bytes
        self._offset_entries = bytearray()
        self._time_entries = bytearray()
        self._bytes_since_last_index_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self._last_indexed_timestamp = NO_TIMESTAMP
        self.base_offset = base_offset
        self.size = 0
        self.remove()
        self._file = env.open(self._path(LOG_SUFFIX), create=True)

    def _path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix) + CLEANED_SUFFIX

    def append(self, data: Buffer, batches: Sequence[AppendedBatch]) -> None:
        """Writes whole batches, each with (last offset, size, max timestamp). Raises SegmentOverflowError, OSError."""
        if self.size + len(data) > MAX_POSITION:
            raise SegmentOverflowError(
                f"{self._path(LOG_SUFFIX)} would be longer than {MAX_POSITION} bytes", self.base_offset
            )
        write_fully(self._file, (data,), self.size, len(data))
        for last_offset, size, max_timestamp in batches:
            if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                raise SegmentOverflowError(
                    f"{self._path(LOG_SUFFIX)}: offset {last_offset} is too far from the base offset",
                    self.base_offset,
                )
            if max_timestamp > self._max_timestamp:
                self._max_timestamp = max_timestamp
                self._offset_of_max_timestamp = last_offset
            if self._bytes_since_last_index_entry > self._index_interval_bytes:
                self._add_index_entries(last_offset)
            self.size += size
            self._bytes_since_last_index_entry += size

    def _add_index_entries(self, last_offset: int) -> None:
        """Adds entries for the batch that begins at `size`, if there is room, as `LogSegment` does."""
        if len(self._offset_entries) + OffsetIndex.ENTRY.size > self._index_bytes:
            return
        self._offset_entries += OffsetIndex.ENTRY.pack(last_offset - self.base_offset, self.size)
        self._add_time_entry(kept_free=1)
        self._bytes_since_last_index_entry = 0

    def _add_time_entry(self, *, kept_free: int) -> None:
        has_room = (
            len(self._time_entries) + TimeIndex.ENTRY.size * (1 + kept_free)
            <= self._index_bytes // TimeIndex.ENTRY.size * TimeIndex.ENTRY.size
        )
        if self._max_timestamp > self._last_indexed_timestamp and has_room:
            relative = self._offset_of_max_timestamp - self.base_offset
            self._time_entries += TimeIndex.ENTRY.pack(self._max_timestamp, relative)
            self._last_indexed_timestamp = self._max_timestamp

    def finish(self, aborted: Sequence[AbortedTxn], last_modified_ms: int) -> None:
        """Writes the indexes, syncs all files but not the directory, and sets their modification times.

        Raises OSError.
        """
        self._add_time_entry(kept_free=0)
        self._file.sync()
        self._file.close()
        self._write(OFFSET_INDEX_SUFFIX, self._offset_entries)
        self._write(TIME_INDEX_SUFFIX, self._time_entries)
        if aborted:
            self._write(
                TXN_INDEX_SUFFIX, b"".join(TransactionIndex.ENTRY.pack(0, *entry) for entry in aborted)
            )
        for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._env.set_mtime_ms(self._path(suffix), last_modified_ms)

    def _write(self, suffix: str, data: Buffer) -> None:
        with closing(self._env.open(self._path(suffix), create=True)) as file:
            if data:
                write_fully(file, (data,), 0, len(data))
            file.sync()

    def remove(self) -> None:
        """Removes its files. Raises OSError."""
        for suffix in SEGMENT_SUFFIXES:
            remove_if_exists(self._env, self._path(suffix))
