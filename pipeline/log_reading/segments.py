"""A segment that is open for reading: finds offsets and timestamps in it, and its end.

Indexes are read as they are when they are needed, after the .log was opened: by then they may be those of a segment
that a compaction has put in its place. So an entry is compared with the batch that it points to; where they differ the
segment is read from its beginning, which finds the same, only later.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.scanning import SegmentScanner
from barnabas.protocol.records.searching import ANY_TIME
from barnabas.storage.env import Env, File
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.batch_pass import SegmentPass
from barnabas.storage.segment.batch_reading import Batch, Pieces
from barnabas.storage.segment.index import OffsetIndex, TimeIndex
from barnabas.storage.segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from barnabas.storage.segment.scan import seek_batch

_ONE_BATCH_BYTES: Final = 4096
_NO_ENTRIES: Final = 1 << 30
_TRIED: Final = 2


class ListedSegment(NamedTuple):
    """A segment by its file name; `suffix` is .swap where a compaction is about to put it in its place."""

    directory: str
    base_offset: int
    suffix: str = ""

    def path(self, kind: str = LOG_SUFFIX) -> str:
        """Its .log, or the file of another kind beside that."""
        return segment_path(self.directory, self.base_offset, kind) + self.suffix


class End(NamedTuple):
    """The end of a segment's complete batches: the offset after the last, and the byte."""

    offset: int
    position: int


class OpenedSegment:
    """One segment's .log, which stays readable when it is renamed or deleted, and its indexes."""

    def __init__(self, env: Env, listed: ListedSegment, file: File, size: int) -> None:
        self._env = env
        self._listed = listed
        self.file = file
        self.base_offset = listed.base_offset
        self.path = listed.path()
        self.size = size

    @cached_property
    def offset_index(self) -> OffsetIndex:
        """As it is now. Raises OSError."""
        return OffsetIndex.as_it_is(self._env, self._listed.path(OFFSET_INDEX_SUFFIX), self.base_offset)

    @cached_property
    def time_index(self) -> TimeIndex:
        """As it is now. Raises OSError."""
        return TimeIndex.as_it_is(self._env, self._listed.path(TIME_INDEX_SUFFIX), self.base_offset)

    def position_of(self, offset: int, least_timestamp: int = ANY_TIME) -> int | None:
        """The position of the first batch that ends at the offset or after and is young enough; None without one.

        Raises CorruptRecordError.
        """
        entry_offset, position = self.offset_index.lookup(offset)
        indexed = (self.base_offset, entry_offset) if position else None
        try:
            found = seek_batch(self.file, position, self.size, offset, least_timestamp, indexed=indexed)
        except (CorruptIndexError, CorruptRecordError):
            if not position:
                raise
            found = seek_batch(self.file, 0, self.size, offset, least_timestamp)
        return None if found is None else found[0]

    def ensure_passed(self, offset: int) -> None:
        """For an offset that `position_of` did not find: makes sure that all batches end before it and the file ends
        after them.

        A search ends at a batch that is cut off, as at the end of the file. A batch with a damaged length looks the
        same, and those behind it would be missing silently: this raises CorruptRecordError then.
        """
        end = self.find_end(check_crc=False)
        if end.offset > offset or end.position < self.size:
            raise CorruptRecordError(
                f"offset {offset} cannot be reached: batches are whole up to position {end.position} of {self.size}, "
                f"offset {end.offset}, or one before that claims more bytes than there are"
            )

    def slot_from(self, position: int) -> int:
        """The first entry of the offset index that points to a byte position or beyond; how many there are if none."""
        index = self.offset_index
        return bisect_left(range(index.entries), position, key=lambda slot: index.entry(slot)[1])

    def is_older_than(self, timestamp_ms: int) -> bool:
        """Whether all records of a closed segment are older; False where that is not known.

        A roll on a full disk closes a segment without its last times. What the time index lacks then lies behind the
        last entry of the offset index; nearly always there is just one batch.
        """
        last_time = self._last_entry(TIME_INDEX_SUFFIX, TimeIndex.ENTRY)
        if last_time is None or last_time[0] >= timestamp_ms:
            return False
        last_offset = self._last_entry(OFFSET_INDEX_SUFFIX, OffsetIndex.ENTRY)
        position = 0 if last_offset is None else last_offset[1]
        if position >= self.size:
            return False  # an index of another segment
        try:
            return seek_batch(self.file, position, self.size, self.base_offset, timestamp_ms) is None
        except CorruptRecordError:
            return False

    def _last_entry(self, suffix: str, entry: struct.Struct) -> tuple[int, int] | None:
        """The last entry of an index without preallocated space, as closed segments have it; None for all others.
        Planning calls it for each segment of a topic, and an index may have megabytes.
        """
        try:
            file = self._env.open(self._listed.path(suffix), write=False)
        except FileNotFoundError:
            return None
        entries = file.size() // entry.size
        data = file.pread(entry.size, (entries - 1) * entry.size) if entries else b""
        is_entry = len(data) == entry.size and any(data)
        found: tuple[int, int] | None = entry.unpack(data) if is_entry else None
        return found

    def batches(self, position: int) -> Iterator[Batch]:
        """The batches from a position on, where one begins; each is valid until the next is read.

        Raises CorruptRecordError for what is cut off at the end, too.
        """
        return Pieces().batches(self.file, position, self.size)

    def batch_at(self, position: int) -> Batch:
        """The batch that begins at a position. Raises CorruptRecordError."""
        return next(Pieces(_ONE_BATCH_BYTES).batches(self.file, position, self.size))

    def find_end(self, *, check_crc: bool = True) -> End:
        """The end of the last complete batch; a partial one after it, of a crash or an append in progress, is not read.

        From the last entry of the index on, or the one before, or from the beginning where they lead nowhere: what was
        being appended when the .log was opened may have its entry by now, and what came after that.
        """
        slot = self.slot_from(self.size)
        for position in (*(self.offset_index.entry(it)[1] for it in range(slot)[: -_TRIED - 1 : -1]), 0):
            found = self._scanned_end(position, check_crc=check_crc)
            if found.position > position:
                return found
        return End(self.base_offset, 0)

    def _scanned_end(self, position: int, *, check_crc: bool) -> End:
        scanner = self.new_scanner(check_crc=check_crc)
        SegmentPass().run(self.file, self.size, scanner, position=position)
        return End(scanner.next_offset, scanner.position)

    def new_scanner(self, **options: int) -> SegmentScanner:
        """A scanner for a pass over the segment that builds no indexes."""
        return SegmentScanner(
            self.base_offset,
            size=0,
            index_interval_bytes=_NO_ENTRIES,
            index_bytes=8,
            **options,  # type: ignore[arg-type]
        )

    def first_offset_of(self, timestamp_ms: int, start_offset: int) -> int | None:
        """The first offset from `start_offset` on whose record is at least as young; None without such a record.

        Raises CorruptRecordError, InvalidRecordError.
        """
        _, indexed = self.time_index.lookup(timestamp_ms - 1)
        position = self.position_of(max(indexed, start_offset), timestamp_ms)
        while position is not None:
            batch = self.batch_at(position)
            for record in batch.records():
                if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                    return record.offset
            following = seek_batch(
                self.file, position + batch.size_in_bytes, self.size, start_offset, timestamp_ms
            )
            position = None if following is None else following[0]
        return None


def open_segment(env: Env, listed: ListedSegment, most_bytes: int | None = None) -> OpenedSegment:
    """Opens a segment, or its first bytes. Raises FileNotFoundError when it is gone: the caller lists again."""
    file = env.open(listed.path(), write=False)
    size = file.size()
    return OpenedSegment(env, listed, file, size if most_bytes is None else min(size, most_bytes))
