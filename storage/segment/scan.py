"""Iteration over the batch headers of a .log file, without reading the records.

It handles both formats: v2 record batches and the entries of older message sets begin with offset, length and magic
(`protocol.records.batch.entry_header`). A header has the last offset and the largest timestamp, which is all that
lookups need.
"""

import struct
from collections.abc import Iterator
from typing import Final

from barnabas.protocol.records.batch import MAGIC_V2, CorruptRecordError, entry_header
from barnabas.protocol.records.layout import (
    ENTRY_HEADER_BYTES,
    HEADER_TO_MAX_TIMESTAMP,
    LEGACY_TIMESTAMP_POSITION,
    MAX_TIMESTAMP_END,
    NO_TIMESTAMP,
)
from barnabas.protocol.records.searching import ANY_TIME, seek
from barnabas.storage.env import File, read_fully
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.offsets import NO_LEADER_EPOCH

SCAN_CHUNK_BYTES: Final = 4096
_LEGACY_TIMESTAMP: Final = struct.Struct(">q")


class BatchHeader:
    """The fields of a batch header at `position`. In older formats the base offset is the last offset."""

    __slots__ = ("base_offset", "last_offset", "leader_epoch", "magic", "max_timestamp", "position", "size")

    def __init__(self, buffer: bytes | memoryview, at: int, position: int) -> None:
        """Reads the header at `at` in the buffer. Raises CorruptRecordError, struct.error if it is incomplete."""
        self.position = position
        self.base_offset, self.size, self.magic = entry_header(buffer, at)
        if self.magic == MAGIC_V2:
            _, _, self.leader_epoch, _, _, _, delta, _, self.max_timestamp = (
                HEADER_TO_MAX_TIMESTAMP.unpack_from(buffer, at)
            )
            self.last_offset = self.base_offset + delta
            return
        self.last_offset = self.base_offset
        self.leader_epoch = NO_LEADER_EPOCH
        self.max_timestamp = NO_TIMESTAMP
        if self.magic == 1:
            (self.max_timestamp,) = _LEGACY_TIMESTAMP.unpack_from(buffer, at + LEGACY_TIMESTAMP_POSITION)

    @property
    def next_position(self) -> int:
        return self.position + self.size


def batch_headers(
    file: File, position: int, end: int, chunk_bytes: int = SCAN_CHUNK_BYTES
) -> Iterator[BatchHeader]:
    """The headers of the batches from `position` on that end at or before `end`. Raises CorruptRecordError."""
    chunk, start = b"", position
    while position + ENTRY_HEADER_BYTES <= end:
        at = position - start
        if at + MAX_TIMESTAMP_END > len(chunk):
            start, at = position, 0
            chunk = read_fully(file, min(chunk_bytes, end - position), position)
            if len(chunk) < min(MAX_TIMESTAMP_END, end - position):
                return  # the file is shorter than the caller believed
        try:
            header = BatchHeader(chunk, at, position)
        except struct.error:
            return  # the file ends within a header
        position += header.size
        if position > end:
            return
        yield header


def check_indexed_batch(file: File, position: int, end: int, least: int, most: int) -> None:
    """Raises CorruptIndexError unless a batch begins at `position` whose first offset is one of `least`..`most`.

    For an entry of an offset index, these are the base offset of the segment and the offset of the entry.
    """
    header = file.pread(ENTRY_HEADER_BYTES, position) if position + ENTRY_HEADER_BYTES <= end else b""
    try:
        offset, size, _ = entry_header(header)
    except (CorruptRecordError, struct.error):
        raise CorruptIndexError(f"no batch begins at byte {position}") from None
    if not least <= offset <= most or position + size > end:
        raise CorruptIndexError(f"offset {offset} at byte {position} where offset {most} ends")


def find_batch(
    file: File, position: int, end: int, target_offset: int, indexed: tuple[int, int] | None = None
) -> tuple[int, int, int] | None:
    """(position, size, last offset) of the first batch at or after `position` whose last offset reaches the target.

    None if there is none before `end`. Raises CorruptRecordError, and CorruptIndexError unless the first offset is
    within `indexed` (see `check_indexed_batch`).
    """
    found = seek_batch(file, position, end, target_offset, ANY_TIME, indexed=indexed)
    return None if found is None else found[:3]


def seek_batch(
    file: File,
    position: int,
    end: int,
    target_offset: int,
    least_timestamp: int,
    *,
    indexed: tuple[int, int] | None = None,
) -> tuple[int, int, int, int] | None:
    """`find_batch` for a batch that also has a minimum timestamp; its max timestamp is the fourth field.

    Creates no object for each header, since every fetch calls it.
    """
    if indexed is not None and position + ENTRY_HEADER_BYTES > end:
        raise CorruptIndexError(f"no batch begins at byte {position} of {end}")
    while position + ENTRY_HEADER_BYTES <= end:
        chunk = read_fully(file, min(SCAN_CHUNK_BYTES, end - position), position)
        if indexed is not None:
            _check_first(chunk, position, indexed)
            indexed = None
        at, size, last_offset, timestamp = seek(chunk, 0, target_offset, least_timestamp)
        if size > 0:
            position += at
            return (position, size, last_offset, timestamp) if position + size <= end else None
        if size < 0:
            entry_header(chunk, at)  # raises the error
        if at == 0:
            return None  # the file ends within the header
        position += at
    return None


def _check_first(chunk: bytes, position: int, indexed: tuple[int, int]) -> None:
    try:
        offset, _, _ = entry_header(chunk)
    except (CorruptRecordError, struct.error):
        raise CorruptIndexError(f"no batch begins at byte {position}") from None
    if not indexed[0] <= offset <= indexed[1]:
        raise CorruptIndexError(f"offset {offset} at byte {position} where offset {indexed[1]} ends")
