"""The sparse indexes of a segment: OffsetIndex (.index) and TimeIndex (.timeindex).

Both are a `SparseIndex`: fixed-size entries in a memory-mapped file. While the segment is active the file is
preallocated to segment.index.bytes (sparse, rounded down to whole entries) and ends in zeros; roll and close truncate
it to its entries. Nothing is mapped before the first search, so an idle partition costs neither maps nor descriptors
(CPython before 3.13 keeps one descriptor for each map), and neither does one that is only appended to and read at its
end. After a clean stop the file stays trimmed until the first append.

The map is for reading only. New entries are kept in memory and written TAIL_BYTES at a time, by ordinary writes, which
the map shows at once: on a full disk a store into a map kills the process (SIGBUS), and a write fails with ENOSPC.
Entries that a crash loses cost nothing, since the segment is recovered in any case.

No index has a checksum. Opening checks only that the length is whole entries and that the last entry is beyond the base
offset; after a crash the indexes of every segment that is recovered are rebuilt.
"""

import struct
from contextlib import closing
from typing import ClassVar, Final, Self

from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.protocol.records.searching import count_at_most
from barnabas.storage.env import Env, Mapping, read_fully, write_fully
from barnabas.storage.errors import CorruptIndexError, is_no_space

MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF
WARM_SECTION_BYTES: Final = 8192
TAIL_BYTES: Final = 4096
BULK_BYTES: Final = 65536


class SparseIndex:
    """The common part of .index and .timeindex: preallocation, map, entries, trimming, truncation."""

    __slots__ = (
        "_env",
        "_is_bulk",
        "_is_preallocated",
        "_map",
        "_tail",
        "base_offset",
        "entries",
        "full_at",
        "max_entries",
        "path",
    )

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, env: Env, path: str, base_offset: int, max_bytes: int, entries: int = 0) -> None:
        self._env = env
        self._map: Mapping | None = None
        self._is_preallocated = False
        self._is_bulk = False  # during a rebuild nothing is preallocated, and writes are larger
        self._tail = bytearray()  # the last entries, not written to the file yet
        self.path = path
        self.base_offset = base_offset
        self.entries = entries
        self.max_entries = max(max_bytes // self.ENTRY.size, 1)
        self.full_at = self.max_entries

    @property
    def size_in_bytes(self) -> int:
        """The bytes of the entries, without the preallocated rest."""
        return self.entries * self.ENTRY.size

    @property
    def is_full(self) -> bool:
        return self.entries >= self.full_at

    def preallocate(self) -> None:
        """Extends the file with zeros to its full length; creates it if missing."""
        self.unmap()
        with closing(self._env.open(self.path, create=True)) as file:
            file.truncate(self._written * self.ENTRY.size)
            file.truncate(self.max_entries * self.ENTRY.size)
        self._is_preallocated = True

    @property
    def _written(self) -> int:
        """The number of entries in the file."""
        return self.entries - len(self._tail) // self.ENTRY.size

    def _mapped(self) -> Mapping:
        """The map of the entries in the file."""
        if self._map is None:
            room = self.max_entries if self._is_preallocated else self._written
            self._map = self._env.map(self.path, room * self.ENTRY.size, write=False)
        return self._map

    def _fields(self, slot: int) -> tuple[int, int]:
        """The two fields of one entry."""
        at = slot - self._written
        if at >= 0:
            return self.ENTRY.unpack_from(self._tail, at * self.ENTRY.size)
        return self.ENTRY.unpack_from(self._mapped(), slot * self.ENTRY.size)

    def _write(self, entry: bytes) -> None:
        """Adds an entry. Raises OSError; then the index is unchanged."""
        tail = self._tail
        if len(tail) >= (BULK_BYTES if self._is_bulk else TAIL_BYTES):
            self._write_tail()
        elif not self._is_preallocated and not self._is_bulk:
            self.preallocate()  # opened after a clean stop, which trimmed it
        self._tail += entry
        self.entries += 1

    @classmethod
    def as_it_is(cls, env: Env, path: str, base_offset: int) -> Self:
        """The entries of a file that a broker may be writing, for reading only; empty without a file.

        Zeros at its end and a partial entry do not count. Nothing is mapped: access to a map of a file that was
        truncated kills the process. Raises OSError.
        """
        size = cls.ENTRY.size
        data = _before_the_room(env, path)
        used = -(-len(data.rstrip(b"\0")) // size) * size
        index = cls(env, path, base_offset, len(data))
        index.take_bulk(data[: min(used, len(data) // size * size)])
        return index

    def take_bulk(self, entries: bytes) -> None:
        """Sets all entries, which stay in memory until the index is trimmed."""
        self._tail = bytearray(entries)
        self.entries = len(entries) // self.ENTRY.size

    def begin_bulk(self) -> None:
        """Empties the index for a rebuild: until it is trimmed, entries are collected and written many at a time."""
        self.unmap()
        self._is_preallocated, self._is_bulk = False, True
        self.entries = 0
        self._tail.clear()
        try:
            file = self._env.open(self.path)
        except FileNotFoundError:
            return
        with closing(file):
            file.truncate(0)  # frees its blocks for the new index

    def clear(self) -> None:
        """Removes every entry, in memory and in the file; needs no room on the disk."""
        self.begin_bulk()
        self._is_bulk = False

    def _write_tail(self) -> None:
        """Writes the tail. Raises OSError; but during a rebuild, entries stay in memory when the disk is full."""
        if not self._is_preallocated:
            self.unmap()  # the map ends before the new entries
        try:
            with closing(self._env.open(self.path, create=True)) as file:
                write_fully(file, (self._tail,), self._written * self.ENTRY.size, len(self._tail))
        except OSError as error:
            if not (self._is_bulk and is_no_space(error)):
                raise
            return
        self._tail.clear()

    def drop_unwritten(self) -> None:
        """Drops the entries that could not be written for lack of room."""
        self.truncate_to_entries(self._written)

    def unmap(self) -> None:
        """Closes the map (and its descriptor); the next use maps again."""
        if self._map is not None:
            self._env.unmap(self._map)
            self._map = None

    @property
    def is_trimmed(self) -> bool:
        """Whether the file is as long as its entries: nothing was appended since it was opened or trimmed."""
        return not self._is_preallocated and not self._is_bulk and not self._tail

    def trim_to_valid_size(self) -> None:
        """Truncates the file to its entries, when no append will follow soon. Leaves it unmapped."""
        self._is_bulk = False
        if self._tail:
            self._write_tail()
        self.unmap()
        self._is_preallocated = False
        with closing(self._env.open(self.path, create=True)) as file:
            if file.size() != self.size_in_bytes:
                file.truncate(self.size_in_bytes)

    def reset(self) -> None:
        """Removes all entries."""
        self.truncate_to_entries(0)

    def truncate_to_entries(self, entries: int) -> None:
        """Keeps the first `entries`; the rest of the file reads as zeros again."""
        written = self._written
        if entries >= written:
            del self._tail[(entries - written) * self.ENTRY.size :]
            self.entries = min(entries, self.entries)
            return
        self._tail.clear()
        self.entries = entries
        if self._is_preallocated:
            self.preallocate()
        else:
            self.trim_to_valid_size()

    def renamed(self, path: str) -> None:
        """Follows a rename of the file."""
        self.path = path

    def _count_below(self, target: int) -> int:
        """The number of entries whose first field, which increases, is at or below `target`."""
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        tail = self._tail
        if tail and unpack(tail)[0] <= target:
            mapped: Mapping | bytearray = tail
            before, high = self._written, len(tail) // size
        else:
            before, high = 0, self._written
            if not high:
                return 0
            mapped = self._mapped()
        low = 0
        warm = high - WARM_SECTION_BYTES // size
        if warm > 0:
            # Most readers are near the end: their search stays within pages that are in memory anyway.
            if unpack(mapped, warm * size)[0] <= target:
                low = warm + 1
            else:
                high = warm
        return before + count_at_most(mapped, low, high, size, target)

    def _raise_corrupt(self, why: str) -> None:
        raise CorruptIndexError(f"{self.path}: {why}")


def _before_the_room(env: Env, path: str) -> bytes:
    """A file up to the first piece of zeros only, without most of the preallocated 10 MiB of an active segment."""
    try:
        file = env.open(path, write=False)
    except FileNotFoundError:
        return b""
    data = bytearray()
    with closing(file):
        while (piece := file.pread(BULK_BYTES, len(data))).count(0) < len(piece):
            data += piece
    return bytes(data)


def _valid_entries(env: Env, path: str, entry_size: int) -> int:
    """The number of entries by the length of the file, which includes a preallocated rest."""
    size = env.size(path)
    if size % entry_size:
        raise CorruptIndexError(f"{path} has {size} bytes, which is no multiple of {entry_size}")
    return size // entry_size


class OffsetIndex(SparseIndex):
    """.index: the positions of offsets in the .log.

    Format: entries of 8 bytes, big-endian, offsets increasing: the last offset of a batch relative to the base
    offset (int32), the byte position at which that batch begins (int32). In segment 4940:

        00 00 00 38  00 00 1f 80      the batch that ends at offset 4940 + 56 begins at byte 8064

    One entry for every index.interval.bytes of log. Unchecked beyond length and last offset; rebuilt from the .log.
    """

    __slots__ = ("_last_position", "last_offset")

    ENTRY = struct.Struct(">ii")

    def __init__(self, env: Env, path: str, base_offset: int, max_bytes: int, entries: int = 0) -> None:
        super().__init__(env, path, base_offset, max_bytes, entries)
        self.last_offset = base_offset
        self._last_position = 0

    @classmethod
    def load(cls, env: Env, path: str, base_offset: int, max_bytes: int) -> "OffsetIndex":
        """Opens an existing file of a closed segment. Raises CorruptIndexError, FileNotFoundError."""
        entries = _valid_entries(env, path, cls.ENTRY.size)
        index = cls(env, path, base_offset, max_bytes, entries)
        if entries:
            file = env.open(path, write=False)
            relative, position = cls.ENTRY.unpack(read_fully(file, 8, (entries - 1) * 8))
            file.close()
            if relative <= 0 or position < 0:
                index._raise_corrupt(
                    f"the last entry ({relative}, {position}) does not lie beyond the base offset"
                )
            index.last_offset, index._last_position = base_offset + relative, position
        return index

    def begin_bulk(self) -> None:
        super().begin_bulk()
        self.last_offset, self._last_position = self.base_offset, 0

    def take_bulk(self, entries: bytes) -> None:
        super().take_bulk(entries)
        if entries:
            relative, self._last_position = self.ENTRY.unpack_from(entries, len(entries) - self.ENTRY.size)
            self.last_offset = self.base_offset + relative

    def lookup(self, target_offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or below the target; (base offset, 0) if there is none."""
        if target_offset >= self.last_offset:
            return self.last_offset, self._last_position  # the usual case, without the map
        slot = self._count_below(target_offset - self.base_offset) if self.entries else 0
        return self.entry(slot - 1) if slot else (self.base_offset, 0)

    def first_after_position(self, position: int) -> tuple[int, int] | None:
        """(offset, position) of the first entry at or after a byte position; None if there is none."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if self.entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.entry(low) if low < self.entries else None

    def entry(self, slot: int) -> tuple[int, int]:
        """(offset, position) of one entry."""
        relative, position = self._fields(slot)
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        """Adds an entry. The caller ensures that the index is not full and that offsets increase."""
        if self.entries and offset <= self.last_offset:
            self._raise_corrupt(f"offset {offset} after {self.last_offset}")
        self._write(self.ENTRY.pack(offset - self.base_offset, position))
        self.last_offset, self._last_position = offset, position

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at and after `offset`."""
        if self.entries and offset <= self.last_offset:
            self.truncate_to_entries(self._count_below(offset - self.base_offset - 1))

    def truncate_to_entries(self, entries: int) -> None:
        super().truncate_to_entries(entries)
        last = self.entry(self.entries - 1) if self.entries else (self.base_offset, 0)
        self.last_offset, self._last_position = last


class TimeIndex(SparseIndex):
    """.timeindex: the offsets at which timestamps are reached.

    Format: entries of 12 bytes, big-endian: a timestamp in ms (int64), the last offset, relative to the base offset,
    of the batch that holds it (int32). No record before that offset is younger. Both columns increase. Example:

        00 00 01 a1 fd 74 f5 e2  00 00 00 38      up to offset base + 56 the youngest is of 1795253645794 ms

    An entry goes in with each entry of the offset index, if the segment has become younger, and one at roll and
    close, for which the last slot is kept free. Unchecked beyond length and last entry; rebuilt from the .log.
    """

    __slots__ = ("last_offset", "last_timestamp")

    ENTRY = struct.Struct(">qi")

    def __init__(self, env: Env, path: str, base_offset: int, max_bytes: int, entries: int = 0) -> None:
        super().__init__(env, path, base_offset, max_bytes, entries)
        self.full_at = self.max_entries - 1  # roll and close write into the last slot
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset

    @classmethod
    def load(cls, env: Env, path: str, base_offset: int, max_bytes: int) -> "TimeIndex":
        """Opens an existing file of a closed segment. Raises CorruptIndexError, FileNotFoundError."""
        entries = _valid_entries(env, path, cls.ENTRY.size)
        index = cls(env, path, base_offset, max_bytes, entries)
        if entries:
            file = env.open(path, write=False)
            timestamp, relative = cls.ENTRY.unpack(read_fully(file, 12, (entries - 1) * 12))
            file.close()
            # A preallocated file that was never trimmed ends in zeros.
            if relative < 0 or timestamp < 0 or (entries > 1 and timestamp == 0 and relative == 0):
                index._raise_corrupt(f"the last entry ({timestamp}, {relative}) cannot be")
            index.last_timestamp, index.last_offset = timestamp, base_offset + relative
        return index

    def begin_bulk(self) -> None:
        super().begin_bulk()
        self.last_timestamp, self.last_offset = NO_TIMESTAMP, self.base_offset

    def take_bulk(self, entries: bytes) -> None:
        super().take_bulk(entries)
        if entries:
            self.last_timestamp, relative = self.ENTRY.unpack_from(entries, len(entries) - self.ENTRY.size)
            self.last_offset = self.base_offset + relative

    @property
    def first_unwritten_offset(self) -> int | None:
        """The offset of the first entry that is not in the file."""
        return self.entry(self._written)[1] if self._tail else None

    def lookup(self, target_timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry at or below the target; (-1, base offset) if there is none."""
        if target_timestamp >= self.last_timestamp:
            return self.last_timestamp, self.last_offset
        slot = self._count_below(target_timestamp) if self.entries else 0
        return self.entry(slot - 1) if slot else (NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> tuple[int, int]:
        """(timestamp, offset) of one entry."""
        timestamp, relative = self._fields(slot)
        return timestamp, self.base_offset + relative

    def maybe_append(self, timestamp: int, offset: int, *, last_slot: bool = False) -> None:
        """Adds an entry if its timestamp is larger than the last; only roll and close may use the `last_slot`."""
        if timestamp <= self.last_timestamp or self.entries >= self.max_entries - (not last_slot):
            return
        if offset < self.last_offset:
            self._raise_corrupt(f"offset {offset} after {self.last_offset}")
        self._write(self.ENTRY.pack(timestamp, offset - self.base_offset))
        self.last_timestamp = timestamp
        self.last_offset = offset

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at and after `offset`."""
        keep = self.entries
        while keep and self.entry(keep - 1)[1] >= offset:
            keep -= 1
        self.truncate_to_entries(keep)

    def truncate_to_entries(self, entries: int) -> None:
        super().truncate_to_entries(entries)
        last = self.entry(self.entries - 1) if self.entries else (NO_TIMESTAMP, self.base_offset)
        self.last_timestamp, self.last_offset = last
