"""Verification of the two sparse indexes of a segment against its batches, which are read in order.

It has a reader of its own: a fault in `storage.segment.index` must not hide the damage that it causes.
"""

import struct
from typing import Final

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ZERO_ENTRY: Final = bytes(_TIME_ENTRY.size)
MAX_PROBLEMS: Final = 20

Problem = tuple[str, str, int | None]
"""(what is wrong, what would be right, offset)."""


class _IndexCheck:
    """The common part of both indexes: entries, without zeros at the end."""

    def __init__(
        self, path: str, base_offset: int, data: bytes, entry: struct.Struct, may_have_room: bool
    ) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.unreported = 0  # that many more
        self.lag: tuple[str, str] | None = None  # what is missing at its end, and what would be right
        self.is_noticed = False  # by a start that does not read the .log
        self.is_all_reported = True
        self._base_offset = base_offset
        self._next = 0
        if len(data) % entry.size:
            self.is_noticed = True
            self._report(f"it has {len(data)} bytes", f"a multiple of {entry.size}", None)
        kept = len(data) // entry.size * entry.size
        if may_have_room:
            kept = min(kept, -(-len(data.rstrip(b"\0")) // entry.size) * entry.size)
        self._entries = self._in_order(list(entry.iter_unpack(data[:kept])), entry.size)

    def _in_order(self, entries: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
        """The entries that increase; reports those that do not."""
        kept: list[tuple[int, int]] = []
        for slot, entry in enumerate(entries):
            why = self._out_of_order(kept[-1] if kept else None, entry)
            if not why:
                kept.append(entry)
                continue
            blamed = entry
            if kept and not self._out_of_order(kept[-2] if len(kept) > 1 else None, entry):
                # It fits without the one before it, so that is the one that is wrong, and not all that follow it.
                blamed, kept[-1] = kept[-1], entry
                why = f"less than {self._text(entry)}, which follows it"
            self._report(f"entry {self._text(blamed)} near byte {slot * size} is out of order", why, blamed)
        return kept

    def _report(self, problem: str, expected: str, entry: tuple[int, int] | None) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((problem, expected, None if entry is None else self._offset_of(entry)))
        else:
            self.unreported += 1

    def _out_of_order(self, before: tuple[int, int] | None, entry: tuple[int, int]) -> str:
        raise NotImplementedError

    def _text(self, entry: tuple[int, int]) -> str:
        raise NotImplementedError

    def _offset_of(self, entry: tuple[int, int]) -> int:
        raise NotImplementedError

    def _wrong(self, entry: tuple[int, int], expected: str) -> None:
        self._report(f"it has an entry {self._text(entry)}", expected, entry)


class OffsetIndexCheck(_IndexCheck):
    """The .index: (relative offset, position) of the batch that begins there and ends with that offset."""

    def __init__(self, path: str, base_offset: int, data: bytes, is_active: bool) -> None:
        self._open: tuple[int, int] | None = None  # its position was right, its offset has not been seen yet
        super().__init__(path, base_offset, data, _OFFSET_ENTRY, is_active)

    def _out_of_order(self, before: tuple[int, int] | None, entry: tuple[int, int]) -> str:
        offset, position = before or (-1, -1)
        if entry[0] > offset and entry[1] > position:
            return ""
        return f"an offset beyond {self._base_offset + offset} and a position beyond {position}"

    def _text(self, entry: tuple[int, int]) -> str:
        return f"(offset {self._offset_of(entry)}, position {entry[1]})"

    def _offset_of(self, entry: tuple[int, int]) -> int:
        return self._base_offset + entry[0]

    def take(self, first: int, last: int, _max_timestamp: int, position: int) -> None:
        """Checks a batch against the entries that point to it or before it."""
        while self._next < len(self._entries) and self._entries[self._next][1] <= position:
            entry = self._entries[self._next]
            self._next += 1
            if entry[1] < position:
                if self.is_all_reported:
                    self._wrong(entry, f"the position of a batch; one begins at {position}")
            elif first > self._offset_of(entry):
                self._wrong(entry, f"offset {last}: the batch at that position has offsets {first} to {last}")
            else:
                self._close()
                self._open = entry
        if self._open is not None and last >= self._offset_of(self._open):
            if last != self._offset_of(self._open):
                self._wrong(self._open, f"the last offset of a batch; the one at {position} ends with {last}")
            self._open = None

    def _close(self) -> None:
        # Kafka before 4.0 gave an append of several batches the position of the first and the offset of the last.
        if self._open is not None and self.is_all_reported:
            self._wrong(self._open, "the last offset of a batch before the next entry")
        self._open = None

    def end(self, size: int, *, is_final: bool) -> None:
        """Reports entries that point beyond the .log, of `size` bytes."""
        for entry in self._entries[self._next :]:
            if self.is_all_reported:
                self._wrong(entry, f"a position within the .log, which has {size} bytes")
        if is_final:
            self._close()


class TimeIndexCheck(_IndexCheck):
    """The .timeindex: (timestamp, relative offset); no record up to that offset has a larger timestamp."""

    def __init__(self, path: str, base_offset: int, data: bytes, is_active: bool) -> None:
        self._youngest = -1
        # An entry for time 0 and the first offset is zeros, too: only the .log distinguishes it from preallocated room.
        self._may_begin_with_zeros = data.startswith(_ZERO_ENTRY)
        super().__init__(path, base_offset, data, _TIME_ENTRY, is_active)

    def _out_of_order(self, before: tuple[int, int] | None, entry: tuple[int, int]) -> str:
        timestamp, offset = before or (-1, 0)
        if entry[0] > timestamp and entry[1] >= offset:
            return ""
        return f"a timestamp beyond {timestamp} and an offset from {self._base_offset + offset} on"

    def _text(self, entry: tuple[int, int]) -> str:
        return f"(timestamp {entry[0]}, offset {self._offset_of(entry)})"

    def _offset_of(self, entry: tuple[int, int]) -> int:
        return self._base_offset + entry[1]

    def take(self, first: int, last: int, max_timestamp: int, _position: int) -> None:
        """Checks a batch against its entries."""
        is_youngest = max_timestamp > self._youngest
        self._youngest = max(self._youngest, max_timestamp)
        while self._next < len(self._entries) and self._offset_of(self._entries[self._next]) <= last:
            entry = self._entries[self._next]
            self._next += 1
            if not self.is_all_reported:
                continue
            if self._offset_of(entry) < first:
                self._wrong(entry, f"an offset that there is; the next batch begins with {first}")
            elif entry[0] != self._youngest:
                self._wrong(entry, f"timestamp {self._youngest}, the youngest up to that offset")
            elif not is_youngest:
                self._wrong(entry, "an offset before: that of the first batch with this timestamp")

    def end(self, _size: int, *, is_final: bool) -> None:
        """Reports entries without a batch, and a missing entry for the largest timestamp."""
        for entry in self._entries[self._next :]:
            if self.is_all_reported:
                self._wrong(entry, "an offset that there is; the .log ends before it")
        last = self._entries[-1][0] if self._entries else -1
        if last < 0 and self._youngest == 0 and self._may_begin_with_zeros:
            last = 0
        if is_final and self.is_all_reported and not self.problems and last < self._youngest:
            # One that is full cannot have it: that is, after segment.index.bytes was set lower.
            self.lag = f"its last entry is for timestamp {last}", f"the youngest, {self._youngest}"
