"""LogSegment: one .log file with its indexes.

It knows positions and offsets, and nothing of leaders, producers or topics. The .log and the maps of the indexes are
opened at first use; `release` gives them back, and what was read keeps its own hold on the file (`FileRecords`).
"""

import logging
from collections.abc import Sequence

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.protocol.records.scanning import SegmentScanner
from barnabas.storage.env import Buffer, write_rest
from barnabas.storage.errors import CorruptIndexError, KafkaStorageError, storage_error
from barnabas.storage.offsets import FetchDataInfo, FileRecords, LogOffsetMetadata
from barnabas.storage.segment.files import SegmentFiles
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET
from barnabas.storage.segment.scan import batch_headers, check_indexed_batch, find_batch

logger = logging.getLogger("barnabas.storage")

AppendedBatch = tuple[int, int, int]
"""(last offset, size in bytes, max timestamp) of one batch of an append."""


class LogSegment(SegmentFiles):
    """One segment: the batches from `base_offset` on, in `size` bytes."""

    __slots__ = ()

    # -- appending --

    def append(self, buffers: Sequence[Buffer], size: int, batches: Sequence[AppendedBatch]) -> None:
        """Writes whole batches, `size` bytes of them, at the end, then their index entries.

        When the write fails, the file is cut back to where it ended: KafkaStorageError with `undone` says whether
        that worked. Until it returns, no reader sees anything of it.
        """
        position = self.size
        self.was_used = self._indexes_are_unsynced = True
        try:
            file = self._file or self.file
        except OSError as error:  # there is nothing to cut back
            raise storage_error(self.path, error, undone=True) from error
        try:
            written = file.pwritev(buffers, position)
            if written != size:
                write_rest(file, buffers, position, size, written)
            self._index(batches, position)
        except OSError as error:
            raise storage_error(self.path, error, undone=self._cut_back()) from error
        except CorruptRecordError as damage:  # an index is wrong, and the .log too damaged to build it anew
            raise KafkaStorageError(f"{self.path}: {damage}", cause=damage) from damage
        self.size = position + size

    def _index(self, batches: Sequence[AppendedBatch], position: int) -> None:
        """Notes batches that begin at `position`: the youngest timestamp, and an index entry now and then."""
        youngest = self.max_timestamp_so_far if self._max_timestamp is None else self._max_timestamp
        bytes_since = self._bytes_since_last_index_entry
        for last_offset, size, max_timestamp in batches:
            if max_timestamp > youngest:
                self._max_timestamp = youngest = max_timestamp
                self._offset_of_max_timestamp = last_offset
            if bytes_since > self.index_interval_bytes and not self.offset_index.is_full:
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(youngest, self._offset_of_max_timestamp)
                bytes_since = 0
            position += size
            bytes_since += size
        self._bytes_since_last_index_entry = bytes_since

    def _cut_back(self) -> bool:
        try:
            self.file.truncate(self.size)
            self._forget_index_entries_beyond(self.size)
        except OSError:
            return False
        return True

    def _forget_index_entries_beyond(self, position: int) -> None:
        """Of an index that could not even be opened there are none."""
        index, times = self._offset_index, self._time_index
        while index is not None and index.entries and index.entry(index.entries - 1)[1] >= position:
            if times is not None:
                times.truncate_to(index.last_offset)
            index.truncate_to_entries(index.entries - 1)
        self._max_timestamp = None
        self._bytes_since_last_index_entry = 0

    def should_roll(  # noqa: PLR0917 (every append asks)
        self,
        now_ms: int,
        size: int,
        last_offset: int,
        max_timestamp: int,
        segment_bytes: int,
        segment_ms: int,
    ) -> bool:
        """Whether an append of `size` bytes up to `last_offset` belongs into a new segment (Kafka's RollParams).

        Raises OSError where the segment's first batch has to be looked at.
        """
        if self.size > segment_bytes - size:
            return True
        if self.size:
            # The age of the segment: by the first batch's timestamp where there is one, else since creation.
            first = self._rolling_timestamp
            if first is None:
                first = self.first_batch_timestamp
            waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
            if waited_ms > segment_ms - self.roll_jitter_ms:
                return True
        offset_index = self._offset_index
        if offset_index is not None:
            time_index = self._time_index or self.time_index
            if offset_index.entries >= offset_index.full_at or time_index.entries >= time_index.full_at:
                return True
        return last_offset - self.base_offset > MAX_RELATIVE_OFFSET

    @property
    def first_batch_timestamp(self) -> int:
        """The youngest timestamp of the first batch, ms; -1 when there is none."""
        if self._rolling_timestamp is None and self.size:
            first = next(batch_headers(self.file, 0, self.size, 64), None)
            self._rolling_timestamp = first.max_timestamp if first else NO_TIMESTAMP
        return NO_TIMESTAMP if self._rolling_timestamp is None else self._rolling_timestamp

    def on_become_inactive(self) -> None:
        """Finishes the segment: last time index entry, indexes trimmed, the .log too where it was preallocated."""
        self._trim_indexes()
        self._trim_log()

    # -- reading --

    def translate_offset(self, offset: int, start_position: int = 0) -> tuple[int, int, int] | None:
        """(position, size, last offset) of the batch with the offset, or else the first one after it."""
        entry_offset, position = self.offset_index.lookup(offset)
        if position <= start_position:  # and so for all that the index knows nothing of
            return find_batch(self._file or self.file, start_position, self.size, offset)
        try:
            indexed = (self.base_offset, entry_offset)
            return find_batch(self._file or self.file, position, self.size, offset, indexed)
        except CorruptIndexError as error:
            self.rebuild_wrong_indexes(error)
            return self.translate_offset(offset, start_position)

    def position_near(self, offset: int) -> int:
        """Where a batch begins at or before the one with the offset, not far: by the offset index."""
        entry_offset, position = self.offset_index.lookup(offset)
        if position:
            try:
                check_indexed_batch(self.file, position, self.size, self.base_offset, entry_offset)
            except CorruptIndexError as error:
                self.rebuild_wrong_indexes(error)
                return self.offset_index.lookup(offset)[1]
        return position

    def indexed_offset_after(self, position: int) -> int | None:
        """An offset at or after the end of what lies before a byte position; None when the offset index has none, or
        what it has is wrong.
        """
        entry = self.offset_index.first_after_position(position)
        if entry is None:
            return None
        offset, indexed = entry
        try:
            check_indexed_batch(self.file, indexed, self.size, self.base_offset, offset)
        except CorruptIndexError:
            return None
        return offset

    def read(
        self, start_offset: int, max_bytes: int, max_position: int, *, min_one_message: bool
    ) -> FetchDataInfo | None:
        """Whole batches from the one with `start_offset` on, or the next; None when there is none.

        At most `max_bytes`, though the first batch comes whole under `min_one_message`; nothing at or after
        `max_position`. The slice may end within a batch, as Kafka's do: clients skip what is cut off. The first batch
        is not called incomplete where there was to be nothing of it.
        """
        self.was_used = True
        found = self.translate_offset(start_offset)
        if found is None:
            return None
        position, first_size, _ = found
        incomplete = 0 < max_bytes < first_size and not min_one_message
        wanted = max(max_bytes, first_size) if min_one_message else max_bytes
        size = max(min(wanted, max_position - position), 0)
        records = FileRecords(self._file if size else None, position, size)
        start = LogOffsetMetadata(start_offset, self.base_offset, position)
        return FetchDataInfo(start, records, first_entry_incomplete=incomplete)

    def read_next_offset(self) -> int:
        """The offset after the last record: from the last index entry on, by the headers.

        Raises CorruptRecordError when the batches do not end where the file does.
        """
        next_offset = self.base_offset
        position = self.offset_index.lookup(self.offset_index.last_offset)[1]
        for header in batch_headers(self.file, position, self.size, 65536):
            next_offset = header.last_offset + 1
            position = header.next_position
        if position != self.size:
            raise CorruptRecordError(f"{self.path}: {self.size - position} bytes after the last batch")
        return next_offset

    # -- time --

    def _read_max_timestamp(self) -> None:
        """Finds the youngest batch: what the time index knows, then the headers after its last offset index entry.

        In a segment that is damaged there it is what the time index says, as in Kafka, or nothing. Or else retention
        would meet the damage in each of its rounds, and the log would grow for ever.
        """
        try:
            self._search_max_timestamp()
        except CorruptRecordError as damage:
            if self._max_timestamp is None:
                self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
            logger.warning(
                "%s: its youngest timestamp is taken to be %d: %s", self.path, self._max_timestamp, damage
            )
        except OSError:
            self._max_timestamp = None
            raise

    def _search_max_timestamp(self) -> None:
        """Raises CorruptRecordError where the segment is damaged."""
        index = self.time_index
        self._max_timestamp, self._offset_of_max_timestamp = index.last_timestamp, index.last_offset
        # A time index that is full lags behind the offset index.
        known_to = index.last_offset if index.is_full else self.offset_index.last_offset
        position = self.position_near(known_to)
        index = self.time_index  # perhaps built anew
        self._max_timestamp, self._offset_of_max_timestamp = index.last_timestamp, index.last_offset
        for header in batch_headers(self.file, position, self.size):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset

    @property
    def max_timestamp_so_far(self) -> int:
        """The youngest timestamp in the segment, ms; -1 when there is none."""
        if self._max_timestamp is None:
            self._read_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """What retention by time goes by: the youngest timestamp, or else when the file was last written to."""
        timestamp = self.max_timestamp_so_far
        return timestamp if timestamp >= 0 else self._env.mtime_ms(self.path)

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that holds it; the base offset when there is none."""
        if self._max_timestamp is None:
            self._read_max_timestamp()
        return self._offset_of_max_timestamp

    # -- repair, truncation --

    def complete_recovery(self, scan: SegmentScanner) -> None:
        """Cuts the .log, durably, to what a pass found good, and puts the indexes that it made in their places."""
        if scan.position < self.size:
            self.file.truncate(scan.position)
            self.file.sync()
            self.size = scan.position
        self._take_indexes(scan)

    def truncate_to(self, offset: int) -> int:
        """Drops the batch with the offset and all after it; returns the bytes that went. Durable on return."""
        self._indexes_are_unsynced = True
        found = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        size = found[0] if found else self.size
        dropped = self.size - size
        if dropped:
            self.file.truncate(size)
            self.file.sync()
            self.size = size
        if size == 0:
            self.created_ms = self._env.now_ms()
            self._rolling_timestamp = None
        self._bytes_since_last_index_entry = 0
        self._max_timestamp = None
        return dropped
