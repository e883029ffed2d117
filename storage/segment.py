"""LogSegment: one .log file with its indexes.

It knows positions and offsets, and nothing of leaders, producers or topics. The .log and the maps of the indexes are
opened at first use; `release` gives them back, and what was read keeps its own hold on the file (`FileRecords`).
"""

import logging
from collections.abc import Sequence
from contextlib import suppress

from protocol.records.batch import CorruptRecordError
from protocol.records.scanning import NOBODY, SegmentScanner
from storage.env import Buffer, Env, File, remove_if_exists, sync_path, write_fully
from storage.errors import CorruptIndexError, KafkaStorageError, is_no_space, storage_error
from storage.index import MAX_RELATIVE_OFFSET, OffsetIndex, TimeIndex, TransactionIndex
from storage.offsets import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    FileRecords,
    LogOffsetMetadata,
)
from storage.open_segments import OpenSegments
from storage.scan import batch_headers, check_indexed_batch, find_batch
from storage.segment_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
)
from storage.segment_pass import SegmentPass

logger = logging.getLogger("barnabas.storage")

AppendedBatch = tuple[int, int, int]
"""(last offset, size in bytes, max timestamp) of one batch of an append."""


class SegmentRead:
    """What a read of one segment found."""

    __slots__ = ("first_entry_incomplete", "offset_metadata", "records")

    def __init__(self, offset_metadata: LogOffsetMetadata, records: FileRecords, incomplete: bool) -> None:
        self.offset_metadata = offset_metadata
        self.records = records
        self.first_entry_incomplete = incomplete


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
        """A segment whose files exist, or are to be made next by `create_files`."""
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
        self._max_timestamp: int | None = None  # None: the time index knows
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

    def create_files(self, preallocate_bytes: int = 0) -> None:
        """Makes the files of this new, empty segment; what lay there under the same names goes. Raises OSError."""
        for suffix in SEGMENT_SUFFIXES:
            remove_if_exists(self._env, segment_path(self.directory, self.base_offset, suffix))
        # The .log comes last: a crash in between leaves indexes without a log, which loading removes.
        for index in self._new_indexes():
            index.preallocate()
        log = self._env.open(self.path, create=True)
        if preallocate_bytes:
            log.truncate(preallocate_bytes)
            self._is_preallocated = True

    # -- files --

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

    def _new_offset_index(self) -> OffsetIndex:
        return OffsetIndex(self._env, self._path(OFFSET_INDEX_SUFFIX), self.base_offset, self._index_bytes)

    def _new_time_index(self) -> TimeIndex:
        return TimeIndex(self._env, self._path(TIME_INDEX_SUFFIX), self.base_offset, self._index_bytes)

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, opened at first use; built anew when it is missing or contradicts itself."""
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
        """The time index, in the same way."""
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
        """The transaction index; its file is there only when it has entries."""
        if self._txn_index is None:
            self._txn_index = TransactionIndex(self._env, self._path(TXN_INDEX_SUFFIX), self.base_offset)
        return self._txn_index

    def release(self) -> None:
        """Gives descriptors and maps back; the next use opens again."""
        self._open_segments.discard(self)
        self._file = None  # closes with the last FileRecords that holds it
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.unmap()

    def paths_to_sync(self) -> list[str]:
        """The index files: what has to be synced, beside the .log, before the segment counts as safe and closed.

        Raises OSError where a full disk still keeps a transaction out of its index.
        """
        paths = [self._path(OFFSET_INDEX_SUFFIX), self._path(TIME_INDEX_SUFFIX)]
        if self._txn_index is not None:
            self._txn_index.write_pending()
        paths.append(self._path(TXN_INDEX_SUFFIX))  # perhaps there is none, or a truncation has emptied it
        return paths

    # -- appending --

    def append(self, buffers: Sequence[Buffer], size: int, batches: Sequence[AppendedBatch]) -> None:
        """Writes whole batches, `size` bytes of them, at the end, then their index entries.

        When the write fails, the file is cut back to where it ended: KafkaStorageError with `undone` says whether
        that worked. Until it returns, no reader sees anything of it.
        """
        position = self.size
        self.was_used = self._indexes_are_unsynced = True
        try:
            write_fully(self._file or self.file, buffers, position, size)
            self._index(batches, position)
        except OSError as error:
            raise storage_error(self.path, error, undone=self._cut_back()) from error
        self.size = position + size

    def _index(self, batches: Sequence[AppendedBatch], position: int) -> None:
        """Notes batches that begin at `position`: the youngest timestamp, and an index entry now and then."""
        youngest = self.max_timestamp_so_far if self._max_timestamp is None else self._max_timestamp
        for last_offset, size, max_timestamp in batches:
            if max_timestamp > youngest:
                self._max_timestamp = youngest = max_timestamp
                self._offset_of_max_timestamp = last_offset
            if (
                self._bytes_since_last_index_entry > self.index_interval_bytes
                and not self.offset_index.is_full
            ):
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(youngest, self._offset_of_max_timestamp)
                self._bytes_since_last_index_entry = 0
            position += size
            self._bytes_since_last_index_entry += size

    def _cut_back(self) -> bool:
        try:
            self.file.truncate(self.size)
            self._forget_index_entries_beyond(self.size)
        except OSError:
            return False
        return True

    def _forget_index_entries_beyond(self, position: int) -> None:
        index = self.offset_index
        while index.entries and index.entry(index.entries - 1)[1] >= position:
            self.time_index.truncate_to(index.last_offset)
            index.truncate_to_entries(index.entries - 1)
        self._max_timestamp = None
        self._bytes_since_last_index_entry = 0

    def should_roll(
        self,
        *,
        now_ms: int,
        size: int,
        last_offset: int,
        max_timestamp: int,
        segment_bytes: int,
        segment_ms: int,
    ) -> bool:
        """Whether an append of `size` bytes up to `last_offset` belongs into a new segment (Kafka's RollParams)."""
        if self.size > segment_bytes - size:
            return True
        if self.size and self.time_waited_for_roll(now_ms, max_timestamp) > segment_ms - self.roll_jitter_ms:
            return True
        if self._offset_index is not None and (self._offset_index.is_full or self.time_index.is_full):
            return True
        return last_offset - self.base_offset > MAX_RELATIVE_OFFSET

    def time_waited_for_roll(self, now_ms: int, message_timestamp: int) -> int:
        """The age of the segment in ms: by the first batch's timestamp where there is one, else since creation."""
        first_timestamp = self.first_batch_timestamp
        return message_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms

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

    def _trim_log(self) -> None:
        if self._is_preallocated:
            self.file.truncate(self.size)
            self._is_preallocated = False

    def _append_last_time_index_entry(self) -> None:
        if self._max_timestamp is not None and self._max_timestamp > NO_TIMESTAMP:
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp, last_slot=True)

    @property
    def _lacks_last_time(self) -> bool:
        """Whether the youngest record came after the last time index entry, as far as that is known."""
        youngest = self._max_timestamp
        return youngest is not None and youngest > max(self.time_index.last_timestamp, NO_TIMESTAMP)

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

    def read(
        self, start_offset: int, max_bytes: int, max_position: int, *, min_one_message: bool
    ) -> SegmentRead | None:
        """Whole batches from the one with `start_offset` on, or the next; None when there is none.

        At most `max_bytes`, though the first batch comes whole under `min_one_message`; nothing at or after
        `max_position`. The slice may end within a batch, as Kafka's do: clients skip what is cut off.
        """
        self.was_used = True
        found = self.translate_offset(start_offset)
        if found is None:
            return None
        position, first_size, _ = found
        incomplete = max_bytes < first_size and not min_one_message
        wanted = max(max_bytes, first_size) if min_one_message else max_bytes
        size = max(min(wanted, max_position - position), 0)
        records = FileRecords(self._file if size else None, position, size)
        return SegmentRead(LogOffsetMetadata(start_offset, self.base_offset, position), records, incomplete)

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
        """Finds the youngest batch: what the time index knows, then the headers after its last offset index entry."""
        index = self.time_index
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

    # -- repair, truncation, deletion --

    def rebuild_wrong_indexes(self, why: Exception) -> None:
        """Builds both anew because one of them was found missing, or not to be those of this .log."""
        logger.warning("the indexes of %s are built anew: %s", self.path, why)
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Builds offset and time index anew from the headers of the .log, and leaves them trimmed and synced.

        Raises KafkaStorageError where the .log is damaged so that batches cannot be told apart.
        """
        scan = self.new_scanner(check_crc=False)
        SegmentPass().run(self.file, self.size, scan)
        if scan.position < self.size:
            raise KafkaStorageError(
                f"{self.path} is damaged at byte {scan.position} and its index cannot be built: {scan.damage}"
            )
        self._take_indexes(scan)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            sync_path(
                self._env, self._path(suffix)
            )  # below the recovery point they are trusted after a crash

    def _new_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Empty indexes in the place of those that there are, whose files are left as they are."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.unmap()
        self._offset_index = self._new_offset_index()
        self._time_index = self._new_time_index()
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_last_index_entry = 0
        self._rolling_timestamp = None
        return self._offset_index, self._time_index

    def _trim_indexes(self) -> None:
        """The last time index entry, and both files cut to what they hold, which on a full disk is less."""
        try:
            self._append_last_time_index_entry()
            self.offset_index.trim_to_valid_size()
            self.time_index.trim_to_valid_size()
        except OSError as error:
            if not is_no_space(error):
                raise
            self._give_up_unwritten_entries()

    def _give_up_unwritten_entries(self) -> None:
        """Both indexes as far as they are on the disk, and none that the other needs: the .log makes up for the rest.

        The youngest batch is looked for in the time index and behind the last entry of the offset index, so the latter
        must not reach beyond a timestamp that the former has lost.
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
                index.clear()  # not even an empty file can be made

    def new_scanner(
        self, *, check_crc: bool = True, latest_epoch: int = NO_LEADER_EPOCH, follow_from: int = NOBODY
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

    def complete_recovery(self, scan: SegmentScanner) -> None:
        """Cuts the .log, durably, to what a pass found good, and puts the indexes that it made in their places."""
        if scan.position < self.size:
            self.file.truncate(scan.position)
            self.file.sync()
            self.size = scan.position
        self._take_indexes(scan)

    def _take_indexes(self, scan: SegmentScanner) -> None:
        offset_index, time_index = self._new_indexes()
        offset_index.begin_bulk()
        offset_index.take_bulk(scan.offset_index)
        time_index.begin_bulk()
        time_index.take_bulk(scan.time_index)
        self._max_timestamp, self._offset_of_max_timestamp = scan.max_timestamp, scan.offset_of_max_timestamp
        self._bytes_since_last_index_entry = scan.bytes_since_index_entry
        self._trim_indexes()

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

    def update_directory(self, directory: str) -> None:
        """The partition's directory has another name now."""
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
        """Renames all files to .deleted and gives everything back; returns the paths that are to be removed later."""
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
                self._env.remove(
                    path
                )  # a directory may have no room for the longer name; to remove it takes none
                continue
            doomed.append(path + DELETED_SUFFIX)
        self.is_deleted = True
        self._open_segments.discard(self)
        self._rename_indexes()
        return doomed

    def close(self) -> None:
        """Trims the indexes, and the .log where it was preallocated, and gives everything back.

        The indexes are synced where they may not be: after a clean stop they are trusted, whatever happens then.
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
        self._open_segments.discard(self)
        self.release()

    def __repr__(self) -> str:
        return f"LogSegment({self.path}, size={self.size})"
