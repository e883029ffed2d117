"""SegmentFiles: the files of one segment, from the first to the last: .log and indexes, opened, built anew, renamed.

The half of `LogSegment` that appending and reading stand on; it is of no use alone.
"""

import logging
from contextlib import suppress

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.protocol.records.scanning import NOBODY, SegmentScanner
from barnabas.storage.env import Env, File, remove_if_exists, sync_path
from barnabas.storage.errors import CorruptIndexError, is_no_space
from barnabas.storage.offsets import NO_LEADER_EPOCH
from barnabas.storage.segment.batch_pass import SegmentPass
from barnabas.storage.segment.index import OffsetIndex, TimeIndex
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
from barnabas.storage.segment.txn_index import TransactionIndex

logger = logging.getLogger("barnabas.storage")


class SegmentFiles:
    """What one segment has on the disk, and what of it is open."""

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

    def create_files(self, preallocate_bytes: int = 0, *, is_bare: bool = False) -> None:
        """Makes the files of this new, empty segment; what lay there under the same names goes. Raises OSError.

        `is_bare`: nothing lies there, as somebody knows.
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

    def share_open_segments(self, ring: OpenSegments) -> None:
        """Counts among the open segments of `ring` when it opens again; it is not open now."""
        assert self._file is None, f"{self} is open"
        self._open_segments = ring

    def paths_to_sync(self) -> list[str]:
        """The index files: what has to be synced, beside the .log, before the segment counts as safe and closed.

        Raises OSError where a full disk still keeps a transaction out of its index.
        """
        paths = [self._path(OFFSET_INDEX_SUFFIX), self._path(TIME_INDEX_SUFFIX)]
        if self._txn_index is not None:
            self._txn_index.write_pending()
        paths.append(self._path(TXN_INDEX_SUFFIX))  # perhaps there is none, or a truncation has emptied it
        return paths

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

    def rebuild_wrong_indexes(self, why: Exception) -> None:
        """Builds both anew because one of them was found missing, or not to be those of this .log."""
        logger.warning("the indexes of %s are built anew: %s", self.path, why)
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Builds offset and time index anew from the headers of the .log, and leaves them trimmed and synced.

        Raises CorruptRecordError where the .log is damaged so that batches cannot be told apart: an error of this log,
        as it is for whoever reads the batches, and not of the disk.
        """
        scan = self.new_scanner(check_crc=False)
        SegmentPass().run(self.file, self.size, scan)
        if scan.position < self.size:
            raise CorruptRecordError(
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

    def _take_indexes(self, scan: SegmentScanner) -> None:
        offset_index, time_index = self._new_indexes()
        offset_index.begin_bulk()
        offset_index.take_bulk(scan.offset_index)
        time_index.begin_bulk()
        time_index.take_bulk(scan.time_index)
        self._max_timestamp, self._offset_of_max_timestamp = scan.max_timestamp, scan.offset_of_max_timestamp
        self._bytes_since_last_index_entry = scan.bytes_since_index_entry
        self._trim_indexes()

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
