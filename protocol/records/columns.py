# cython: annotation_typing=False, wraparound=False, boundscheck=False, initializedcheck=False
"""Records as columns in Apache Arrow's layout: readers of whole logs make no object for each record.

Of each record its offset, timestamp, key, value and headers. Numbers lie one after the other, as int64; bytes lie in
one buffer for all rows, with where each row ends in int32 (`Binary`), so that Arrow takes every buffer as it stands:

    columns = RecordColumns()
    for batch in batches(chunk):
        with unpacked(batch.compression_type, batch.payload(), bound) as payload:
            columns.add(payload, batch.record_count, batch.base_offset, batch.base_timestamp)
    pyarrow.Array.from_buffers(pyarrow.binary(), columns.row_count, [
        pyarrow.py_buffer(buffer) for buffer in (keys.validity, keys.ends, keys.data)], keys.null_count)

with `keys = columns.keys`. Headers stay as they are on the wire: few readers want them, and `record.decode_headers`
reads those of a row.

This module runs as Python, or compiled by Cython with the types of columns.pxd (`COMPILED`).
`record.validate_records` checks the bytes first: bounds are not checked here.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.records.record import validate_records

if TYPE_CHECKING:
    from collections.abc import Callable

    Buffer = bytes | bytearray | memoryview
    Allocate = Callable[[int], Buffer]

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

_COMPILED = COMPILED
_MAX_INT64 = (1 << 63) - 1
_MAX_INT32 = (1 << 31) - 1
_MOST_MS = _MAX_INT64 // 1000
_LEAST_MS = -_MOST_MS
_MASK32 = (1 << 32) - 1
_MASK64 = (1 << 64) - 1


class Binary(NamedTuple):
    """A column of bytes: row i is `data[ends[i]:ends[i + 1]]`, and null where bit i of `validity` is 0.

    `ends` has one int32 more than there are rows. Bits count from the lowest of each byte.
    """

    ends: memoryview
    data: memoryview
    validity: memoryview
    null_count: int

    def row(self, index: int) -> bytes | None:
        """The bytes of one row."""
        if not self.validity[index >> 3] >> (index & 7) & 1:
            return None
        return bytes(self.data[self.ends[index] : self.ends[index + 1]])


class BinaryBuilder:
    """A `Binary` that grows, or empty if the caller does not want it."""

    def __init__(
        self, row_capacity: int, byte_capacity: int, allocate: Allocate = bytearray, *, is_wanted: bool = True
    ) -> None:
        self.size: int = 0
        self.null_count: int = 0
        self.is_wanted: bool = is_wanted
        self._allocate: Allocate = allocate
        self._ends = memoryview(array("i", bytes(4 * (row_capacity + 1))))
        self._validity = memoryview(bytearray(row_capacity + 7 >> 3))
        self._data = memoryview(allocate(byte_capacity))

    def _grow_rows(self, rows: int, row_capacity: int) -> None:
        ends = memoryview(array("i", bytes(4 * (row_capacity + 1))))
        ends[: rows + 1] = self._ends[: rows + 1]
        validity = memoryview(bytearray(row_capacity + 7 >> 3))
        validity[: rows + 7 >> 3] = self._validity[: rows + 7 >> 3]
        self._ends, self._validity = ends, validity

    def _make_room(self, size: int) -> None:
        """Raises ValueError if the ends exceed int32."""
        if not self.is_wanted:
            return
        if self.size + size > _MAX_INT32:
            raise ValueError(f"{self.size + size} bytes are too many for one column")
        if self.size + size > len(self._data):
            data = memoryview(self._allocate(max(2 * len(self._data), self.size + size)))
            data[: self.size] = self._data[: self.size]
            self._data = data

    def _add(self, row: int, source: bytes, start: int, length: int) -> None:
        """Adds one row, null where the length is below 0; for the bytes there must be room."""
        if not self.is_wanted:
            return
        if length < 0:
            self.null_count += 1
        else:
            at = self.size
            if _COMPILED:
                copy_bytes(self._data, at, source, start, length)  # type: ignore[name-defined]  # noqa: F821
            else:
                self._data[at : at + length] = source[start : start + length]
            self.size = at + length
            self._validity[row >> 3] |= 1 << (row & 7)
        self._ends[row + 1] = self.size

    def column(self, rows: int) -> Binary:
        """The column, not copied. Raises ValueError if it was not requested."""
        if not self.is_wanted:
            raise ValueError("this column was left out")
        return Binary(
            memoryview(self._ends)[: rows + 1],
            memoryview(self._data)[: self.size],
            memoryview(self._validity)[: rows + 7 >> 3],
            self.null_count,
        )


class RecordColumns:
    """Rows of records, of one batch or many. Its properties are valid until the next `add`."""

    def __init__(
        self,
        row_capacity: int = 4096,
        byte_capacity: int = 1 << 20,
        allocate: Allocate = bytearray,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
    ) -> None:
        """With room for so many rows, and so many bytes of values; more is made as it is needed.

        Of keys, values and headers those that are False are checked and left out: their properties raise.

        `allocate` gives the memory for keys, values and headers, writable and with whatever in it: who makes one column
        after the other has pages that were used already, where new ones cost more than what is written into them.
        """
        self.row_count: int = 0
        self._row_capacity: int = max(row_capacity, 1)
        self._offsets = memoryview(array("q", bytes(8 * self._row_capacity)))
        self._timestamps = memoryview(array("q", bytes(8 * self._row_capacity)))
        self._header_counts = memoryview(array("i", bytes(4 * self._row_capacity)))
        self._keys: BinaryBuilder = BinaryBuilder(self._row_capacity, 1024, allocate, is_wanted=keys)
        self._values: BinaryBuilder = BinaryBuilder(
            self._row_capacity, byte_capacity if values else 1, allocate, is_wanted=values
        )
        self._headers: BinaryBuilder = BinaryBuilder(self._row_capacity, 1024, allocate, is_wanted=headers)

    @property
    def offsets(self) -> memoryview:
        """int64."""
        return memoryview(self._offsets)[: self.row_count]

    @property
    def timestamps(self) -> memoryview:
        """int64, ms; -1 for none."""
        return memoryview(self._timestamps)[: self.row_count]

    def timestamps_in_us(self) -> memoryview:
        """int64, microseconds; -1,000 for none. Raises OverflowError for a time that has no such number."""
        scaled = memoryview(array("q", bytes(8 * self.row_count)))
        _in_us(scaled, self._timestamps, self.row_count)
        return scaled

    @property
    def header_counts(self) -> memoryview:
        """int32."""
        return memoryview(self._header_counts)[: self.row_count]

    @property
    def keys(self) -> Binary:
        """Null for records without one."""
        return self._keys.column(self.row_count)

    @property
    def values(self) -> Binary:
        """Null for tombstones."""
        return self._values.column(self.row_count)

    @property
    def headers(self) -> Binary:
        """As on the wire, without their count; never null. See `record.decode_headers`."""
        return self._headers.column(self.row_count)

    def add(  # noqa: PLR0917
        self,
        payload: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        log_append_time: int | None = None,
        first_offset: int = 0,
        end_offset: int = _MAX_INT64,
    ) -> None:
        """Adds the records of an uncompressed payload with offsets from `first_offset` on and below `end_offset`.

        Their timestamps are `log_append_time` where that is given. Raises InvalidRecordError when the payload is not
        exactly `record_count` well-formed records, and ValueError when a column would have 2 GiB; then none is added.
        """
        appended = log_append_time is not None
        start = base_timestamp if log_append_time is None else log_append_time
        validate_records(payload, record_count, 0 if appended else base_timestamp)
        if not 0 <= base_offset <= _MAX_INT64 - _MAX_INT32:
            raise InvalidRecordError(f"a base offset of {base_offset} is not possible")
        self._make_room(record_count, len(payload))
        if _COMPILED:
            add_span(self, payload, record_count, base_offset, start, appended, first_offset, end_offset)  # type: ignore[name-defined]  # noqa: F821
        else:
            self._add(bytes(payload), record_count, base_offset, start, appended, first_offset, end_offset)

    def _make_room(self, rows: int, size: int) -> None:
        """For so many rows with so many bytes, wherever in them these lie."""
        for builder in (self._keys, self._values, self._headers):
            builder._make_room(size)
        if self.row_count + rows > self._row_capacity:
            capacity = max(2 * self._row_capacity, self.row_count + rows)
            self._offsets = _grown(self._offsets, "q", self.row_count, capacity)
            self._timestamps = _grown(self._timestamps, "q", self.row_count, capacity)
            self._header_counts = _grown(self._header_counts, "i", self.row_count, capacity)
            for builder in (self._keys, self._values, self._headers):
                builder._grow_rows(self.row_count, capacity)
            self._row_capacity = capacity

    def _add(  # noqa: PLR0917
        self,
        data: bytes,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        appended: bool,
        first_offset: int,
        end_offset: int,
    ) -> None:
        position = 0
        row = self.row_count
        for _ in range(record_count):
            length, position = _number(data, position, 32)
            stop = position + length
            timestamp_delta, position = _number(data, position + 1, 64)
            offset_delta, position = _number(data, position, 32)
            offset = base_offset + offset_delta
            if first_offset <= offset < end_offset:
                self._offsets[row] = offset
                self._timestamps[row] = base_timestamp if appended else base_timestamp + timestamp_delta
                length, position = _number(data, position, 32)
                self._keys._add(row, data, position, length)
                position += max(length, 0)
                length, position = _number(data, position, 32)
                self._values._add(row, data, position, length)
                position += max(length, 0)
                length, position = _number(data, position, 32)
                self._header_counts[row] = length
                self._headers._add(row, data, position, stop - position)
                row += 1
            position = stop
        self.row_count = row


def _in_us(scaled: memoryview, timestamps: memoryview, count: int) -> int:
    for row in range(count):
        timestamp = timestamps[row]
        if not _LEAST_MS <= timestamp <= _MOST_MS:
            raise OverflowError(f"{timestamp} ms are too many for 64 bits of microseconds")
        scaled[row] = timestamp * 1000
    return 0


def find_record(  # noqa: PLR0917
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    least_offset: int,
    least_timestamp: int,
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record of a payload that has these at the least; no record is made for it.

    Raises InvalidRecordError when the payload is not exactly `record_count` well-formed records.
    """
    validate_records(payload, record_count, base_timestamp)
    if _COMPILED:
        return find_in(payload, record_count, base_offset, base_timestamp, least_offset, least_timestamp)  # type: ignore[name-defined,no-any-return]  # noqa: F821
    return _find(bytes(payload), record_count, base_offset, base_timestamp, least_offset, least_timestamp)


def _find(  # noqa: PLR0917
    data: bytes,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    least_offset: int,
    least_timestamp: int,
) -> tuple[int, int] | None:
    position = 0
    for _ in range(record_count):
        length, position = _number(data, position, 32)
        stop = position + length
        timestamp_delta, position = _number(data, position + 1, 64)
        offset_delta, position = _number(data, position, 32)
        if base_timestamp + timestamp_delta >= least_timestamp and base_offset + offset_delta >= least_offset:
            return base_offset + offset_delta, base_timestamp + timestamp_delta
        position = stop
    return None


def _grown(numbers: memoryview, kind: str, used: int, capacity: int) -> memoryview:
    """The same numbers with room for `capacity` of them."""
    grown = memoryview(array(kind, bytes((8 if kind == "q" else 4) * capacity)))
    grown[:used] = memoryview(numbers)[:used]
    return grown


def _number(data: bytes, position: int, max_bits: int) -> tuple[int, int]:
    """A zigzag varint that `validate_records` has read without complaint, and the position after it."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if shift > 27:
        raw &= _MASK32 if max_bits == 32 else _MASK64
    return (raw >> 1) ^ -(raw & 1), position
