"""Entries of .index and .timeindex files for `dump-log`, looked up and checked as Kafka's index classes do."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cli.tools.dump_log_batches import RawBatch, info, raw_batches

if TYPE_CHECKING:
    from storage.env import File

MAX_INT32: Final = 0x7FFFFFFF
OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
_WARM_BYTES: Final = 8192


class UnreadableError(Exception):
    """A file as a whole cannot be dumped; the message says why."""


class OffsetEntries:
    """The entries of an .index, with Kafka's look-up: on one that is not in order it finds what Kafka finds."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = len(data) // OFFSET_ENTRY.size

    def entry(self, slot: int) -> tuple[int, int]:
        """(offset, position)."""
        relative, position = OFFSET_ENTRY.unpack_from(self._data, slot * OFFSET_ENTRY.size)
        return self._base_offset + relative, position

    def check_sanity(self, path: str) -> None:
        """What decides at the start of a broker whether the index is built anew. Raises UnreadableError."""
        last_offset, _ = self.entry(self._count - 1)
        if last_offset < self._base_offset:
            raise UnreadableError(
                f"Corrupt index found, index file ({os.path.abspath(path)}) has non-zero size but the last offset is "
                f"{last_offset} which is less than the base offset {self._base_offset}"
            )
        _check_whole(self._data, OFFSET_ENTRY.size, path)

    def lookup(self, offset: int) -> int:
        """The position at which the search for an offset begins."""
        if not self._count:
            return 0
        hot = max(0, self._count - 1 - _WARM_BYTES // OFFSET_ENTRY.size)
        if self.entry(hot)[0] < offset:
            low, high = hot, self._count - 1
        elif self.entry(0)[0] > offset:
            return 0
        else:
            low, high = 0, hot
        while low < high:
            middle = (low + high + 1) >> 1
            found = self.entry(middle)[0]
            if found > offset:
                high = middle - 1
            elif found < offset:
                low = middle
            else:
                return self.entry(middle)[1]
        return self.entry(low)[1]


def check_time_index_sanity(data: bytes, base_offset: int, path: str) -> None:
    count = len(data) // TIME_ENTRY.size
    if count:
        first, _ = TIME_ENTRY.unpack_from(data)
        last, relative = TIME_ENTRY.unpack_from(data, (count - 1) * TIME_ENTRY.size)
        if last < first:
            raise UnreadableError(
                f"Corrupt time index found, time index file ({os.path.abspath(path)}) has non-zero size but the last "
                f"timestamp is {last} which is less than the first timestamp {first}"
            )
        if relative < 0:
            raise UnreadableError(
                f"Corrupt time index found, time index file ({os.path.abspath(path)}) has non-zero size but the last "
                f"offset is {base_offset + relative} which is less than the first offset {base_offset}"
            )
    _check_whole(data, TIME_ENTRY.size, path)


def _check_whole(data: bytes, entry_size: int, path: str) -> None:
    if len(data) % entry_size:
        raise UnreadableError(
            f"{os.path.abspath(path)} has {len(data)} bytes, which is no multiple of {entry_size}"
        )


def last_offset_at(log: File, position: int, max_message_size: int) -> int:
    """The last offset of the batch at `position`. Raises UnreadableError, CorruptRecordError."""
    found = next(_batches_from(log, position, max_message_size), None)
    if found is None:
        raise UnreadableError(
            f"it points to position {position} of the log, where no batch of at most {max_message_size} bytes begins"
        )
    return info(found).last_offset


def batch_reaching(log: File, position: int, offset: int) -> RawBatch | None:
    return next((batch for batch in _batches_from(log, position) if info(batch).last_offset >= offset), None)


def _batches_from(log: File, position: int, limit: int = MAX_INT32) -> Iterator[RawBatch]:
    size = log.size()
    if not 0 <= position <= size:
        raise UnreadableError(f"it points to position {position} of a log of {size} bytes")
    return raw_batches(log, min(position + limit, size), position)
