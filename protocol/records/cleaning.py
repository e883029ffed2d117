# cython: annotation_typing=False, wraparound=False, boundscheck=True, initializedcheck=False
"""The loops of log compaction over records: keys into a `KeyTable`, and retained records into new batches.

`map_records` and `map_plain_batches` store the last offset of each key. `RecordFilter` decides with that table for each
record, and writes the retained ones for the new segment.

This module runs as Python, or compiled by Cython with the types of cleaning.pxd (`COMPILED`). An index
beyond the buffer raises IndexError, which finds most bad lengths.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.compression import CompressionType, compress, unpacked
from barnabas.protocol.records.errors import CorruptRecordError, InvalidRecordError
from barnabas.protocol.records.layout import (
    ATTRIBUTES_LOW_POSITION,
    BASE_TIMESTAMP_POSITION,
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_POSITION,
    CRC_START,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    DELETE_HORIZON_MASK,
    HEADER,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_BATCH_OVERHEAD,
    RECORD_COUNT_POSITION,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)

if TYPE_CHECKING:
    from barnabas.protocol.records.key_table import KeyTable

    Buffer = bytes | bytearray | memoryview

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

_PAST_THE_END = "the records run past the end of the batch"
_MASK64 = 0xFFFFFFFFFFFFFFFF
_MASK32 = 0xFFFFFFFF
_SIGN_32 = 0x80000000
_TWO_TO_32 = 0x100000000
_TRANSACTIONAL_OR_CONTROL = TRANSACTIONAL_MASK | CONTROL_MASK
_MAX_UNPACKED_BYTES = DEFAULT_MAX_DECOMPRESSED_BYTES
_GROWTH_OF_A_RECORD = 14  # its size and its timestamp delta may both need more bytes than before


class KeyMapper:
    """Stores the keys of records with offsets from `first_offset` on and below `end_offset` in a table.

    It stops where the table has `max_entries` already: then `is_full` is set, and `table.latest_offset` is how far it
    came. `messages_read` goes on over all calls.
    """

    def __init__(self, table: KeyTable, *, first_offset: int, end_offset: int, max_entries: int) -> None:
        self.table: KeyTable = table
        self.first_offset: int = first_offset
        self.end_offset: int = end_offset
        self.max_entries: int = max_entries
        self.messages_read: int = 0
        self.is_full: bool = False

    def map_records(self, payload: Buffer, record_count: int, base_offset: int) -> None:
        """Takes an uncompressed payload. Raises InvalidRecordError."""
        data = payload if COMPILED else bytes(payload)
        try:
            self._map(data, 0, len(payload), record_count, base_offset)
        except IndexError:
            raise InvalidRecordError(_PAST_THE_END) from None

    def map_plain_batches(self, chunk: bytes, position: int) -> int:
        """Takes whole v2 batches from `position` on that are neither control batches nor transactional; returns the
        position of the first that is not such a one, or for which there was no room.

        Raises CorruptRecordError, InvalidRecordError, UnsupportedCompressionError.
        """
        try:
            return self._map_plain(chunk, memoryview(chunk), position)
        except IndexError:
            raise InvalidRecordError(_PAST_THE_END) from None

    def _map_plain(self, data: bytes, view: memoryview, position: int) -> int:
        end = len(data)
        while True:
            size = _plain_batch_size(data, position, end)
            if size == 0:
                return position
            _check_crc(data, view, position, size)
            base_offset = _int64(data, position)
            count = _int32(data, position + RECORD_COUNT_POSITION)
            start, stop = position + RECORD_BATCH_OVERHEAD, position + size
            codec = data[position + ATTRIBUTES_LOW_POSITION] & COMPRESSION_MASK
            if codec:
                with unpacked(CompressionType.of(codec), view[start:stop], _MAX_UNPACKED_BYTES) as payload:
                    is_taken = self._map(payload, 0, len(payload), count, base_offset)
            else:
                is_taken = self._map(data, start, stop, count, base_offset)
            if not is_taken:
                return position
            last_offset = base_offset + _int32(data, position + LAST_OFFSET_DELTA_POSITION)
            if last_offset >= self.first_offset:
                self.table.latest_offset = last_offset
            position += size

    def _map(self, data: Buffer, position: int, end: int, record_count: int, base_offset: int) -> bool:
        """False if the table is full."""
        for index in range(record_count):
            length, position = _number(data, position, 32)
            stop = position + length
            if length < 0 or stop > end:
                raise InvalidRecordError(f"record {index} claims {length} of {end - position} bytes")
            position = _skip_number(data, position + 1)
            offset_delta, position = _number(data, position, 32)
            key_length, position = _number(data, position, 32)
            if key_length >= 0:
                if position + key_length > stop:
                    raise InvalidRecordError(f"the key of record {index} runs past its end")
                offset = base_offset + offset_delta
                if self.first_offset <= offset < self.end_offset:
                    if self.table.size >= self.max_entries:
                        self.is_full = True
                        return False
                    self.table._put(data, position, position + key_length, offset)
            position = stop
            self.messages_read += 1
        if position != end or record_count < 0:
            raise InvalidRecordError(f"{end - position} bytes are left after {record_count} records")
        return True


class RecordFilter:
    """Copies the retained records of batches into `output`: Kafka's MemoryRecords.filterTo with the cleaner's rules.

    A record stays that is newer than the table knows of, or whose key has no later one; a record without a value only
    until the delete horizon of its batch. `horizon_ms` is the one that batches get which have none yet: the time of
    the cleaning, `now_ms`, and delete.retention.ms (KIP-534); below 0 they get none. `last_data_offsets` has for each
    producer the offset of its last data: the batch that ends there stays when all its records go, empty, and so does
    the one that ends before `upper_bound_offset`.

    What was written is `taken()`; `appended` are (last offset, size, max timestamp) of its batches. The counters
    `messages_read`, `messages_kept` and `invalid_messages` go on over all calls. `has_tombstone`: whether one of the
    records chosen last has no value.
    """

    def __init__(
        self,
        table: KeyTable,
        *,
        now_ms: int,
        horizon_ms: int,
        upper_bound_offset: int,
        last_data_offsets: dict[int, int],
        output_bytes: int,
    ) -> None:
        self.table: KeyTable = table
        self.latest_offset: int = table.latest_offset
        self.now_ms: int = now_ms
        self.horizon_ms: int = horizon_ms
        self.upper_bound_offset: int = upper_bound_offset
        self.last_data_offsets: dict[int, int] = last_data_offsets
        self.messages_read: int = 0
        self.messages_kept: int = 0
        self.invalid_messages: int = 0
        self.appended: list[tuple[int, int, int]] = []
        self.written: int = 0
        self._output_bytes: int = output_bytes
        self._use(bytearray(output_bytes))
        self._starts = memoryview(array("i", bytes(4096)))
        self.has_tombstone: bool = False
        self._max_timestamp: int = -1

    # -- output --

    def taken(self) -> memoryview:
        """The bytes written since `clear`; valid until the next call."""
        return self._view[: self.written]

    def clear(self) -> None:
        """Drops the written bytes; a buffer that has grown returns to its size."""
        self.written = 0
        self.appended = []
        if len(self._out) > 2 * self._output_bytes:
            self._use(bytearray(self._output_bytes))

    def _use(self, output: bytearray) -> None:
        self._view = memoryview(output)  # for whole batches
        self._out = self._view  # for single bytes: typed, when compiled

    def _make_room(self, size: int) -> None:
        if self.written + size > len(self._out):
            grown = bytearray(max(2 * len(self._out), self.written + size))
            grown[: self.written] = self._view[: self.written]
            self._use(grown)

    def append_batch(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Copies a batch unchanged."""
        size = len(batch)
        self._make_room(size)
        self._view[self.written : self.written + size] = batch
        self.written += size
        self.appended.append((last_offset, size, max_timestamp))

    # -- batches --

    def filter_plain_batches(self, chunk: bytes, position: int) -> int:
        """Filters whole v2 batches from `position` on that are neither control batches nor transactional; returns the
        position of the first that is not such a one.

        Stops early once the output is larger than it was meant to be. Raises CorruptRecordError, InvalidRecordError,
        UnsupportedCompressionError.
        """
        try:
            return self._filter_plain(chunk, memoryview(chunk), position)
        except IndexError:
            raise InvalidRecordError(_PAST_THE_END) from None

    def _filter_plain(self, data: bytes, view: memoryview, position: int) -> int:
        end = len(data)
        while self.written <= self._output_bytes:
            size = _plain_batch_size(data, position, end)
            if size == 0:
                return position
            _check_crc(data, view, position, size)
            start, stop = position + RECORD_BATCH_OVERHEAD, position + size
            batch = view[position:stop]
            codec = data[position + ATTRIBUTES_LOW_POSITION] & COMPRESSION_MASK
            if codec:
                with unpacked(CompressionType.of(codec), view[start:stop], _MAX_UNPACKED_BYTES) as payload:
                    self._filter_batch(data, position, payload, 0, len(payload), batch)
            else:
                self._filter_batch(data, position, data, start, stop, batch)
            position = stop
        return position

    def _filter_batch(  # noqa: PLR0917
        self, data: bytes, position: int, source: Buffer, start: int, end: int, batch: memoryview
    ) -> None:
        """Filters the batch whose header is at `position` of `data`, and whose records are source[start:end]."""
        base_offset = _int64(data, position)
        count = _int32(data, position + RECORD_COUNT_POSITION)
        has_horizon = data[position + ATTRIBUTES_LOW_POSITION] & DELETE_HORIZON_MASK != 0
        keeps_deletes = not has_horizon or self.now_ms < _int64(data, position + BASE_TIMESTAMP_POSITION)
        kept = self._select(source, start, end, count, base_offset, keeps_deletes, True)
        last_offset = base_offset + _int32(data, position + LAST_OFFSET_DELTA_POSITION)
        if kept == 0:
            if self.stays_empty(_int64(data, position + PRODUCER_ID_POSITION), last_offset):
                self.write_empty(batch)
        elif kept == count and (has_horizon or not self.has_tombstone):
            self.append_batch(batch, last_offset, _int64(data, position + MAX_TIMESTAMP_POSITION))
        else:
            codec = data[position + ATTRIBUTES_LOW_POSITION] & COMPRESSION_MASK
            self._write_rebuilt(source, batch, kept, codec, self.has_tombstone)

    def filter_records(
        self, payload: Buffer, record_count: int, base_offset: int, keeps_deletes: bool, by_key: bool
    ) -> int:
        """Chooses the records of an uncompressed payload that stay, all when not `by_key`; returns how many.

        `rebuild` then makes a batch of them. Raises InvalidRecordError.
        """
        data = payload if COMPILED else bytes(payload)
        try:
            return self._select(data, 0, len(payload), record_count, base_offset, keeps_deletes, by_key)
        except IndexError:
            raise InvalidRecordError(_PAST_THE_END) from None

    def stays_empty(self, producer_id: int, last_offset: int) -> bool:
        """Whether a data batch without records stays: its producer's last one, or the last one of the cleaning."""
        if last_offset + 1 == self.upper_bound_offset:
            return True
        return producer_id >= 0 and self.last_data_offsets.get(producer_id, -1) == last_offset

    def write_empty(self, batch: Buffer) -> None:
        """Writes the header of a v2 batch without records, codec and delete horizon."""
        fields = list(HEADER.unpack_from(batch))
        self._make_room(RECORD_BATCH_OVERHEAD)
        fields[1] = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD
        fields[5] &= TIMESTAMP_TYPE_MASK | _TRANSACTIONAL_OR_CONTROL
        fields[7] = -1
        fields[12] = 0
        self._write_header(fields, self.written + RECORD_BATCH_OVERHEAD)

    def rebuild(self, payload: Buffer, batch: Buffer, kept: int, sets_horizon: bool) -> None:
        """Rewrites the v2 `batch` with the records of its uncompressed `payload` that were chosen last."""
        data = payload if COMPILED else bytes(payload)
        self._write_rebuilt(
            data, memoryview(batch), kept, batch[ATTRIBUTES_LOW_POSITION] & COMPRESSION_MASK, sets_horizon
        )

    # -- records --

    def _select(  # noqa: PLR0912, PLR0917 (the hot loop: one function on purpose)
        self,
        data: Buffer,
        position: int,
        end: int,
        record_count: int,
        base_offset: int,
        keeps_deletes: bool,
        by_key: bool,
    ) -> int:
        """Stores in `_starts` where the retained records begin; returns how many."""
        kept = 0
        self.has_tombstone = False
        for index in range(record_count):
            start = position
            length, position = _number(data, position, 32)
            stop = position + length
            if length < 0 or stop > end:
                raise InvalidRecordError(f"record {index} claims {length} of {end - position} bytes")
            position = _skip_number(data, position + 1)
            offset_delta, position = _number(data, position, 32)
            key_length, key = _number(data, position, 32)
            position = key
            if key_length > 0:
                position += key_length
            value_length, position = _number(data, position, 32)
            if position > stop or value_length > stop - position:
                raise InvalidRecordError(f"key or value of record {index} run past its end")
            if by_key and base_offset + offset_delta <= self.latest_offset:
                if key_length < 0:
                    self.invalid_messages += 1
                    stays = False
                elif value_length < 0 and not keeps_deletes:
                    stays = False
                else:
                    stays = self.table._get(data, key, key + key_length) <= base_offset + offset_delta
            else:
                stays = True
            if stays:
                if kept == len(self._starts):
                    self._grow_starts()
                self._starts[kept] = start
                kept += 1
                if value_length < 0:
                    self.has_tombstone = True
            position = stop
        if position != end or record_count < 0:
            raise InvalidRecordError(f"{end - position} bytes are left after {record_count} records")
        self.messages_read += record_count
        self.messages_kept += kept
        return kept

    def _grow_starts(self) -> None:
        grown = array("i", bytes(8 * len(self._starts)))
        memoryview(grown)[: len(self._starts)] = self._starts
        self._starts = memoryview(grown)

    def _write_rebuilt(
        self, data: Buffer, batch: memoryview, kept: int, codec: int, sets_horizon: bool
    ) -> None:
        """Writes the header and the chosen records, whose timestamps count from a new base.

        That is the delete horizon where there is one, otherwise the time of the first record that is left. As Kafka's
        MemoryRecordsBuilder does it: base offset, last offset and what is known of the producer stay.
        """
        sets_horizon = sets_horizon and self.horizon_ms >= 0
        fields = list(HEADER.unpack_from(batch))
        attributes = fields[5]
        old_base, max_timestamp = fields[7], fields[8]
        appended = attributes & TIMESTAMP_TYPE_MASK != 0
        if attributes & DELETE_HORIZON_MASK:
            new_base = old_base
        elif sets_horizon:
            new_base = self.horizon_ms
        elif appended:
            new_base = max_timestamp
        else:
            new_base = old_base + _timestamp_delta(data, self._starts[0])
        unpacked_bytes = len(data) if codec else len(batch)
        self._make_room(RECORD_BATCH_OVERHEAD + unpacked_bytes + _GROWTH_OF_A_RECORD * kept)
        at = self.written + RECORD_BATCH_OVERHEAD
        # Under LogAppendTime every record has the batch's time, regardless of its delta.
        shift = max_timestamp - new_base if appended else old_base - new_base
        stop = self._copy_records(data, self._out, at, kept, shift, appended)
        if codec:
            packed = compress(CompressionType.of(codec), bytes(self._view[at:stop]))
            self._make_room(RECORD_BATCH_OVERHEAD + len(packed))
            stop = at + len(packed)
            self._view[at:stop] = packed
        fields[1] = stop - self.written - LOG_OVERHEAD
        fields[5] = attributes & 0x3F | (
            DELETE_HORIZON_MASK if sets_horizon or attributes & DELETE_HORIZON_MASK else 0
        )
        fields[7] = new_base
        if not appended:
            fields[8] = max(new_base + self._max_timestamp, -1)
        fields[12] = kept
        self._write_header(fields, stop)

    def _write_header(self, fields: list[int], stop: int) -> None:
        """The header before a payload that ends at `stop`, and its checksum; the batch is then written."""
        start = self.written
        HEADER.pack_into(self._view, start, *fields)
        fields[4] = crc32c(self._view[start + CRC_START : stop])
        HEADER.pack_into(self._view, start, *fields)
        self.written = stop
        self.appended.append((fields[0] + fields[6], stop - start, fields[8]))

    def _copy_records(  # noqa: PLR0917
        self, data: Buffer, out: memoryview, at: int, kept: int, shift: int, appended: bool
    ) -> int:
        """Copies the chosen records to `at` with new timestamp deltas; returns where they end.

        `_max_timestamp` is then the greatest of these deltas. The offset deltas count from the same base as before.
        """
        greatest = -(1 << 62)
        for index in range(kept):
            length, position = _number(data, self._starts[index], 32)
            stop = position + length
            delta, position = _number(data, position + 1, 64)
            delta = shift if appended else delta + shift
            if delta > greatest:  # noqa: PLR1730 (a call of max costs more)
                greatest = delta
            at = _write_number(out, at, 1 + _number_bytes(delta) + stop - position)
            out[at] = 0
            at = _write_number(out, at + 1, delta)
            out[at : at + stop - position] = data[position:stop]
            at += stop - position
        self._max_timestamp = greatest
        return at


# -- numbers --


def _plain_batch_size(data: Buffer, position: int, end: int) -> int:
    """The size of the batch at `position`; 0 unless it is whole, v2, no control batch and not transactional."""
    if end - position < RECORD_BATCH_OVERHEAD or data[position + MAGIC_POSITION] != 2:
        return 0
    if data[position + ATTRIBUTES_LOW_POSITION] & _TRANSACTIONAL_OR_CONTROL:
        return 0
    size = _int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
    if size < RECORD_BATCH_OVERHEAD or size > end - position:
        return 0
    return size


def _check_crc(data: Buffer, view: memoryview, position: int, size: int) -> None:
    """Raises CorruptRecordError unless the checksum is right: damaged bytes must not get a new, valid one."""
    if (
        crc32c(view[position + CRC_START : position + size])
        != _int32(data, position + CRC_POSITION) & _MASK32
    ):
        raise CorruptRecordError(
            f"the batch at offset {_int64(data, position)} ({size} bytes) does not have the checksum it claims"
        )


def _int32(data: Buffer, at: int) -> int:
    number = data[at]
    number = number << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return (number ^ _SIGN_32) - _SIGN_32


def _int64(data: Buffer, at: int) -> int:
    low = _int32(data, at + 4) & _MASK32
    return _int32(data, at) * _TWO_TO_32 + low


# The next two return a position beyond the buffer if it ends too early or the number is invalid: compiled, a check for
# an exception after each of these calls would take longer than the calls. The caller checks the position.


def _number(data: Buffer, position: int, max_bits: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 or 64 bits, and the position after it."""
    end = len(data)
    raw = shift = 0
    while position < end and shift < max_bits:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK32 if max_bits == 32 else _MASK64
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    return 0, end + 1


def _skip_number(data: Buffer, position: int) -> int:
    """The position after a varint."""
    end = len(data)
    while position < end:
        position += 1
        if data[position - 1] < 0x80:
            return position
    return end + 1


def _timestamp_delta(data: Buffer, start: int) -> int:
    """That of the record that begins at `start`."""
    _, position = _number(data, start, 32)
    delta, _ = _number(data, position + 1, 64)
    return delta


def _number_bytes(number: int) -> int:
    """The size of a number as a zigzag varint."""
    raw = ((number << 1) ^ (number >> 63)) & _MASK64
    count = 1
    while raw > 0x7F:
        raw >>= 7
        count += 1
    return count


def _write_number(out: memoryview, at: int, number: int) -> int:
    """Writes a number as a zigzag varint; returns the position after it."""
    raw = ((number << 1) ^ (number >> 63)) & _MASK64
    while raw > 0x7F:
        out[at] = raw & 0x7F | 0x80
        raw >>= 7
        at += 1
    out[at] = raw
    return at + 1
