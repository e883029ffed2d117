"""LogSegment: one .log file with its indexes.

It knows positions and offsets, and nothing of leaders, producers or topics. The .log and the maps of the indexes are
opened at first use; `release` closes them, and what was read keeps its own hold on the file (`FileRecords`).
"""

import logging
from collections.abc import Sequence
from contextlib import suppress

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.protocol.records.scanning import FOLLOW_NONE, SegmentScanner
from barnabas.storage.env import Buffer, Env, File, remove_if_exists, sync_path, write_rest
from barnabas.storage.errors import CorruptIndexError, KafkaStorageError, is_no_space, storage_error
from barnabas.storage.offsets import NO_LEADER_EPOCH, FetchDataInfo, FileRecords, LogOffsetMetadata
from barnabas.storage.segment.batch_pass import SegmentPass
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex
from barnabas.storage.segment.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
)
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.scan import batch_headers, check_indexed_batch, find_batch
from barnabas.storage.segment.txn_index import TransactionIndex

logger = logging.getLogger("barnabas.storage")

AppendedBatch = tuple[int, int, int]
"""(last offset, size in bytes, max timestamp) of one batch of an append."""


class LogSegment:
    """One segment: the batches from `base_offset` on, in `size` bytes."""

    __slots__ = (
        "_bytes_since_last_index_entry",
        "_env",
        "_file",
        "_index_bytes",
        "_indexes_are_unsynced",
        "_is_preallocated",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_open_segments",
        "_rolling_timestamp",
        "_time_index",
        "_txn_index",
        "base_offset",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "is_deleted",
        "roll_jitter_ms",
        "size",
        "was_used",
    )

    def __init__(
        self,
        env: Env,
        directory: str,
        base_offset: int,
        *,
        open_segments: OpenSegments,
        size: int,
        index_interval_bytes: int,
        index_bytes: int,
        roll_jitter_ms: int = 0,
    ) -> None:
        """A segment whose files exist, or are created next by `create_files`."""
        self._env = env
        self._open_segments = open_segments
        self._file: File | None = None
        self._index_bytes = index_bytes
        self._indexes_are_unsynced = False
        self._is_preallocated = False
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self._bytes_since_last_index_entry = 0
        self._max_timestamp: int | None = None  # None: not read yet
        self._offset_of_max_timestamp = base_offset
        self._rolling_timestamp: int | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = roll_jitter_ms
        self.created_ms = env.now_ms()
        self.is_deleted = False
        self.was_used = False  # since `OpenSegments` looked last

    def __repr__(self) -> str:
        return f"LogSegment({self.path}, size={self.size})"

    # -- files --

    def create_files(self, preallocate_bytes: int = 0, *, is_bare: bool = False) -> None:
        """Creates the files of this new, empty segment and removes old ones of the same names. Raises OSError.

        `is_bare`: the caller knows that there are none.
        """
        for suffix in () if is_bare else SEGMENT_SUFFIXES:
            remove_if_exists(self._env, segment_path(self.directory, self.base_offset, suffix))
        # The .log comes last: a crash in between leaves indexes without a log, which loading removes.
        for index in self._new_indexes():
            index.preallocate()
        log = self._env.open(self.path, create=True)
        if preallocate_bytes:
            log.truncate(preallocate_bytes)
            self._is_preallocated = True

    def _path(self, suffix: str) -> str:
        path = segment_path(self.directory, self.base_offset, suffix)
        return path + DELETED_SUFFIX if self.is_deleted else path

    @property
    def path(self) -> str:
        """The .log file."""
        return self._path(LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The .log, opened at first use."""
        if self._file is None:
            self._open_segments.add(self)
            self._file = self._env.open(self.path)
        return self._file

    @property
    def is_open(self) -> bool:
        """Whether the .log is open."""
        return self._file is not None

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, opened at first use; rebuilt when it is missing or contradicts itself."""
        if self._offset_index is None:
            path = self._path(OFFSET_INDEX_SUFFIX)
            try:
                self._offset_index = OffsetIndex.load(self._env, path, self.base_offset, self._index_bytes)
            except (CorruptIndexError, FileNotFoundError) as error:
                self.rebuild_wrong_indexes(error)
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, opened and rebuilt in the same way."""
        if self._time_index is None:
            path = self._path(TIME_INDEX_SUFFIX)
            try:
                self._time_index = TimeIndex.load(self._env, path, self.base_offset, self._index_bytes)
            except (CorruptIndexError, FileNotFoundError) as error:
                self.rebuild_wrong_indexes(error)
        assert self._time_index is not None
        return self._time_index

    @property
    def txn_index(self) -> TransactionIndex:
        """The transaction index; its file exists only when it has entries."""
        if self._txn_index is None:
            self._txn_index = TransactionIndex(self._env, self._path(TXN_INDEX_SUFFIX), self.base_offset)
        return self._txn_index

    def release(self) -> None:
        """Closes files and maps; the next use opens them again."""
        self._open_segments.discard(self)
        self._file = None  # closes with the last FileRecords that holds it
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.unmap()

    def share_open_segments(self, ring: OpenSegments) -> None:
        """Registers with `ring` when it is next opened; it must not be open now."""
        assert self._file is None, f"{self} is open"
        self._open_segments = ring

    def paths_to_sync(self) -> list[str]:
        """The index files, which must be synced beside the .log before a closed segment is durable.

        Raises OSError while a full disk keeps a transaction out of its index.
        """
        paths = [self._path(OFFSET_INDEX_SUFFIX), self._path(TIME_INDEX_SUFFIX)]
        if self._txn_index is not None:
            self._txn_index.write_pending()
        paths.append(self._path(TXN_INDEX_SUFFIX))  # also after a truncation has emptied it; it may be absent
        return paths

    # -- appending --

    def append(self, buffers: Sequence[Buffer], size: int, batches: Sequence[AppendedBatch]) -> None:
        """Writes whole batches, `size` bytes in all, at the end, then their index entries.

        When the write fails, the file is truncated to its size before; `undone` of the KafkaStorageError says whether
        that succeeded. No reader sees the batches before it returns.
        """
        position = self.size
        self.was_used = self._indexes_are_unsynced = True
        try:
            file = self._file or self.file
        except OSError as error:  # nothing was written
            raise storage_error(self.path, error, undone=True) from error
        try:
            written = file.pwritev(buffers, position)
            if written != size:
                write_rest(file, buffers, position, size, written)
            self._index(batches, position)
        except OSError as error:
            raise storage_error(self.path, error, undone=self._cut_back()) from error
        except CorruptRecordError as damage:  # an index is wrong, and the .log too damaged to rebuild it
            raise KafkaStorageError(f"{self.path}: {damage}", cause=damage) from damage
        self.size = position + size

    def _index(self, batches: Sequence[AppendedBatch], position: int) -> None:
        """Updates the largest timestamp for batches from `position` on; adds index entries every so many bytes."""
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
        """Truncates the open indexes; one that could not be opened has no such entries."""
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
        """Whether an append of `size` bytes up to `last_offset` needs a new segment (Kafka's RollParams).

        Raises OSError when the first batch has to be read.
        """
        if self.size > segment_bytes - size:
            return True
        if self.size:
            # The age of the segment: by the first batch's timestamp if it has one, else since creation.
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
        """The largest timestamp of the first batch, ms; -1 if it has none."""
        if self._rolling_timestamp is None and self.size:
            first = next(batch_headers(self.file, 0, self.size, 64), None)
            self._rolling_timestamp = first.max_timestamp if first else NO_TIMESTAMP
        return NO_TIMESTAMP if self._rolling_timestamp is None else self._rolling_timestamp

    def _trim_log(self) -> None:
        if self._is_preallocated:
            self.file.truncate(self.size)
            self._is_preallocated = False

    def _append_last_time_index_entry(self) -> None:
        if self._max_timestamp is not None and self._max_timestamp > NO_TIMESTAMP:
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp, last_slot=True)

    def on_become_inactive(self) -> None:
        """Adds the last time index entry and trims the indexes, and the .log if it was preallocated."""
        self._trim_indexes()
        self._trim_log()

    # -- reading --

    def translate_offset(self, offset: int, start_position: int = 0) -> tuple[int, int, int] | None:
        """(position, size, last offset) of the batch with the offset, or of the first one after it."""
        entry_offset, position = self.offset_index.lookup(offset)
        if position <= start_position:  # also for offsets before the first index entry
            return find_batch(self._file or self.file, start_position, self.size, offset)
        try:
            indexed = (self.base_offset, entry_offset)
            return find_batch(self._file or self.file, position, self.size, offset, indexed)
        except CorruptIndexError as error:
            self.rebuild_wrong_indexes(error)
            return self.translate_offset(offset, start_position)

    def position_near(self, offset: int) -> int:
        """The position of a batch at or shortly before the one with the offset, from the offset index."""
        entry_offset, position = self.offset_index.lookup(offset)
        if position:
            try:
                check_indexed_batch(self.file, position, self.size, self.base_offset, entry_offset)
            except CorruptIndexError as error:
                self.rebuild_wrong_indexes(error)
                return self.offset_index.lookup(offset)[1]
        return position

    def indexed_offset_after(self, position: int) -> int | None:
        """An offset at or after the end of the batches before a byte position; None if no valid index entry has one."""
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
        """Batches from the one with `start_offset`, or the next one; None at the end of the segment.

        At most `max_bytes`, but under `min_one_message` the whole first batch; nothing at or after `max_position`.
        The slice may end within a batch, as Kafka's do: clients skip the partial batch. With a `max_bytes` of 0 the
        first batch is not marked incomplete.
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
        """The offset after the last record, from the batch headers after the last index entry.

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
        """Finds the largest timestamp: the last of the time index, or one of a batch after the last index entry.

        In a segment that is damaged there, the time index alone decides, as in Kafka: otherwise retention would fail in
        each of its rounds, and the log would grow for ever.
        """
        try:
            self._search_max_timestamp()
        except CorruptRecordError as damage:
            if self._max_timestamp is None:
                self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
            logger.warning(
                "%s: its largest timestamp is taken to be %d: %s", self.path, self._max_timestamp, damage
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
        index = self.time_index  # it may have been rebuilt
        self._max_timestamp, self._offset_of_max_timestamp = index.last_timestamp, index.last_offset
        for header in batch_headers(self.file, position, self.size):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset

    @property
    def max_timestamp_so_far(self) -> int:
        """The largest timestamp in the segment, ms; -1 if it has none."""
        if self._max_timestamp is None:
            self._read_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The age that retention by time compares: the largest timestamp, or the mtime of the file without one."""
        timestamp = self.max_timestamp_so_far
        return timestamp if timestamp >= 0 else self._env.mtime_ms(self.path)

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch with the largest timestamp; the base offset if there is none."""
        if self._max_timestamp is None:
            self._read_max_timestamp()
        return self._offset_of_max_timestamp

    # -- indexes --

    @property
    def _lacks_last_time(self) -> bool:
        """Whether the largest timestamp, if known, is missing from the time index."""
        youngest = self._max_timestamp
        return youngest is not None and youngest > max(self.time_index.last_timestamp, NO_TIMESTAMP)

    def rebuild_wrong_indexes(self, why: Exception) -> None:
        """Rebuilds both because one is missing or does not match the .log."""
        logger.warning("rebuilding the indexes of %s: %s", self.path, why)
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Rebuilds offset and time index from the headers of the .log, trimmed and synced.

        Raises CorruptRecordError if damage hides where batches begin: an error of this log, not of the disk.
        """
        scan = self.new_scanner(check_crc=False)
        SegmentPass().run(self.file, self.size, scan)
        if scan.position < self.size:
            raise CorruptRecordError(
                f"{self.path} is damaged at byte {scan.position} and its index cannot be built: {scan.damage}"
            )
        self._install_indexes(scan)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            # Below the recovery point they are trusted after a crash.
            sync_path(self._env, self._path(suffix))

    def _new_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Replaces both indexes by empty ones; their files are left as they are."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.unmap()
        path, size = self._path(OFFSET_INDEX_SUFFIX), self._index_bytes
        self._offset_index = OffsetIndex(self._env, path, self.base_offset, size)
        self._time_index = TimeIndex(self._env, self._path(TIME_INDEX_SUFFIX), self.base_offset, size)
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_last_index_entry = 0
        self._rolling_timestamp = None
        return self._offset_index, self._time_index

    def _trim_indexes(self) -> None:
        """Adds the last time index entry and truncates both files to their entries, fewer on a full disk."""
        try:
            self._append_last_time_index_entry()
            self.offset_index.trim_to_valid_size()
            self.time_index.trim_to_valid_size()
        except OSError as error:
            if not is_no_space(error):
                raise
            self._drop_unwritten_entries()

    def _drop_unwritten_entries(self) -> None:
        """Keeps of both indexes what is on the disk; searches fall back on the .log.

        The largest timestamp is searched in the time index and after the last entry of the offset index, so the offset
        index must not reach beyond a timestamp that the time index has lost.
        """
        lost = self.time_index.first_unwritten_offset
        self.time_index.drop_unwritten()
        self.offset_index.drop_unwritten()
        if lost is not None:
            self.offset_index.truncate_to(lost)
        self._max_timestamp = None
        for index in (self.offset_index, self.time_index):
            try:
                index.trim_to_valid_size()
            except OSError as error:
                if not is_no_space(error):
                    raise
                index.clear()  # there is no room even for an empty file

    def new_scanner(
        self, *, check_crc: bool = True, latest_epoch: int = NO_LEADER_EPOCH, follow_from: int = FOLLOW_NONE
    ) -> SegmentScanner:
        """A scanner for this segment, for one `SegmentPass` over its .log."""
        return SegmentScanner(
            self.base_offset,
            size=self.size,
            index_interval_bytes=self.index_interval_bytes,
            index_bytes=self._index_bytes,
            check_crc=check_crc,
            latest_epoch=latest_epoch,
            follow_from=follow_from,
        )

    def _install_indexes(self, scan: SegmentScanner) -> None:
        offset_index, time_index = self._new_indexes()
        offset_index.begin_bulk()
        offset_index.take_bulk(scan.offset_index)
        time_index.begin_bulk()
        time_index.take_bulk(scan.time_index)
        self._max_timestamp, self._offset_of_max_timestamp = scan.max_timestamp, scan.offset_of_max_timestamp
        self._bytes_since_last_index_entry = scan.bytes_since_index_entry
        self._trim_indexes()

    # -- repair, truncation --

    def complete_recovery(self, scan: SegmentScanner) -> None:
        """Truncates the .log, durably, to the valid batches of a scan, and installs the indexes that it built."""
        if scan.position < self.size:
            self.file.truncate(scan.position)
            self.file.sync()
            self.size = scan.position
        self._install_indexes(scan)

    def truncate_to(self, offset: int) -> int:
        """Removes the batch with the offset and all after it; returns the bytes removed. Durable on return."""
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

    # -- rename, delete, close --

    def update_directory(self, directory: str) -> None:
        """Follows a rename of the partition's directory."""
        self.directory = directory
        self._rename_indexes()

    def _rename_indexes(self) -> None:
        for index, suffix in (
            (self._offset_index, OFFSET_INDEX_SUFFIX),
            (self._time_index, TIME_INDEX_SUFFIX),
            (self._txn_index, TXN_INDEX_SUFFIX),
        ):
            if index is not None:
                index.renamed(self._path(suffix))

    def mark_deleted(self) -> list[str]:
        """Renames all files to .deleted and closes them; returns the paths to be removed later."""
        self.release()
        doomed = []
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(self.directory, self.base_offset, suffix)
            try:
                self._env.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            except OSError as error:
                if not is_no_space(error):
                    raise
                # A directory may have no room for the longer name; a removal needs none.
                self._env.remove(path)
                continue
            doomed.append(path + DELETED_SUFFIX)
        self.is_deleted = True
        self._rename_indexes()
        return doomed

    def close(self) -> None:
        """Trims the indexes, and the .log if it was preallocated, and closes everything.

        Indexes that may be unsynced are synced: after a clean stop they are trusted, even if the machine then crashes.
        """
        self._trim_log()
        indexes = (self._offset_index, self._time_index)
        if self._lacks_last_time or any(index is not None and not index.is_trimmed for index in indexes):
            self._trim_indexes()
        if self._txn_index is not None:
            self._txn_index.write_pending()
        if self._indexes_are_unsynced:
            for path in self.paths_to_sync():
                with suppress(FileNotFoundError):
                    sync_path(self._env, path)
            self._indexes_are_unsynced = False
        self.release()
