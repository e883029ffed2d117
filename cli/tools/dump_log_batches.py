"""Batches of a .log or .checkpoint file for `dump-log`, walked and read as Kafka's FileLogInputStream does.

That is more forgiving than the broker's own reading: a magic that does not exist, a CRC that is wrong or a length that
no format has are shown as they stand, as long as there is a next batch to be found.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from protocol.records.batch import RecordBatch
from protocol.records.checksum import crc32c
from protocol.records.compression import CompressionType
from protocol.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.records.layout import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_START,
    DELETE_HORIZON_MASK,
    ENTRY_HEADER,
    HEADER,
    LEGACY_OVERHEAD_V0,
    LOG_OVERHEAD,
    MAGIC_V0,
    MAGIC_V2,
    MAX_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from protocol.records.legacy import LegacyEntry
from protocol.records.record import decode_records
from storage.env import File, read_fully

if TYPE_CHECKING:
    from protocol.records.record import Record

CHUNK_BYTES: Final = 1024 * 1024
_CODEC_LABELS: Final = tuple(codec.label for codec in CompressionType)
_LEGACY_HEADER: Final = struct.Struct(
    ">qiIbbq"
)  # offset, size, CRC, magic, attributes, timestamp (not in v0)
_LEGACY_CRC_START: Final = 16
_MAGIC_POSITION: Final = 16

UNREADABLE: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)
"""What reading the records of a batch may raise."""


class RawBatch(NamedTuple):
    """A whole batch, of `size` bytes, that begins at `at` in `buffer` and at `position` in its file."""

    buffer: bytes
    at: int
    position: int
    size: int
    magic: int


class BatchInfo(NamedTuple):
    """What a batch's header says. Of older formats only position to is_valid, last_offset being its one offset."""

    position: int
    size: int
    magic: int
    last_offset: int
    timestamp_type: str
    max_timestamp: int
    codec: str
    crc: int
    is_valid: bool
    base_offset: int = -1
    record_count: int = -1
    base_sequence: int = -1
    last_sequence: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    leader_epoch: int = -1
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None


def raw_batches(file: File, end: int, position: int = 0) -> Iterator[RawBatch]:
    """The batches from `position` on that lie wholly before `end`.

    Raises CorruptRecordError where the next one cannot be found.
    """
    start, chunk = position, b""
    while position < end - ENTRY_HEADER.size:
        at = position - start
        # Headers are read as v2 ones, whatever the batch is: it takes 61 bytes to look at one.
        if at + RECORD_BATCH_OVERHEAD > len(chunk):
            chunk, start, at = read_fully(file, CHUNK_BYTES, position), position, 0
            if len(chunk) < ENTRY_HEADER.size:
                return  # the file has been cut since
        _, length, _, magic = ENTRY_HEADER.unpack_from(chunk, at)
        if length < LEGACY_OVERHEAD_V0:
            raise CorruptRecordError(
                f"record size {length} at position {position} is smaller than the least there is, {LEGACY_OVERHEAD_V0}"
            )
        size = length + LOG_OVERHEAD
        if position + size > end:
            return
        if at + size > len(chunk):
            chunk, start, at = read_fully(file, max(size, CHUNK_BYTES), position), position, 0
            if len(chunk) < size:
                return
        yield RawBatch(chunk, at, position, size, magic if magic < 128 else magic - 256)
        position += size


def info(batch: RawBatch) -> BatchInfo:
    """The header, and whether the CRC is right. Raises CorruptRecordError, UnsupportedCompressionError."""
    return _info(batch) if batch.magic >= MAGIC_V2 else _legacy_info(batch)


def _info(batch: RawBatch) -> BatchInfo:
    buffer, at, position, size, magic = batch
    try:
        (
            base_offset,
            _,
            leader_epoch,
            _,
            crc,
            attributes,
            delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = HEADER.unpack_from(buffer, at)
    except struct.error:
        raise CorruptRecordError(
            f"the file ends within the header of the batch at position {position}"
        ) from None
    return BatchInfo(
        position,
        size,
        magic,
        base_offset + delta,
        "LogAppendTime" if attributes & TIMESTAMP_TYPE_MASK else "CreateTime",
        max_timestamp,
        _codec(attributes),
        crc,
        size >= RECORD_BATCH_OVERHEAD and crc32c(memoryview(buffer)[at + CRC_START : at + size]) == crc,
        base_offset,
        count,
        base_sequence,
        -1 if base_sequence == -1 else _increment_sequence(base_sequence, delta),
        producer_id,
        producer_epoch,
        leader_epoch,
        attributes & TRANSACTIONAL_MASK != 0,
        attributes & CONTROL_MASK != 0,
        base_timestamp if attributes & DELETE_HORIZON_MASK else None,
    )


def _increment_sequence(sequence: int, increment: int) -> int:
    """In the 32 bits of Java: numbers that cannot be come out as they do there."""
    if sequence > _int32(MAX_SEQUENCE - increment):
        return _int32(increment - (MAX_SEQUENCE - sequence) - 1)
    return _int32(sequence + increment)


def _int32(number: int) -> int:
    return (number + (1 << 31) & 0xFFFFFFFF) - (1 << 31)


def _legacy_info(batch: RawBatch) -> BatchInfo:
    buffer, at, position, size, magic = batch
    try:
        offset, _, crc, _, attributes, timestamp = _LEGACY_HEADER.unpack_from(buffer, at)
    except struct.error:  # a v0 entry may be shorter than the header of a v1 entry
        offset, _, crc, _, attributes, timestamp = _LEGACY_HEADER.unpack_from(
            buffer[at : at + size].ljust(26)
        )
    if magic == MAGIC_V0:
        timestamp_type, timestamp = "NoTimestampType", -1
    else:
        timestamp_type = "LogAppendTime" if attributes & TIMESTAMP_TYPE_MASK else "CreateTime"
    is_valid = crc32(memoryview(buffer)[at + _LEGACY_CRC_START : at + size]) == crc
    return BatchInfo(
        position, size, magic, offset, timestamp_type, timestamp, _codec(attributes), crc, is_valid
    )


def _codec(attributes: int) -> str:
    codec = attributes & COMPRESSION_MASK
    if codec >= len(_CODEC_LABELS):
        raise UnsupportedCompressionError(f"Unknown compression type id: {codec}")
    return _CODEC_LABELS[codec]


class LegacyCheck(NamedTuple):
    """Of a message of an older format, which has a checksum of its own."""

    is_valid: bool
    crc: int


def records(batch: RawBatch) -> Iterator[tuple[Record, LegacyCheck | None]]:
    """The records, each of an older format with its check. Raises one of UNREADABLE."""
    buffer, at, _, size, magic = batch
    if magic < MAGIC_V2:
        yield from _legacy_records(LegacyEntry(buffer, at))
        return
    if magic != MAGIC_V2:  # Kafka reads it as if it were right, and says only that the CRC is not
        buffer, at = bytearray(buffer[at : at + size]), 0  # type: ignore[assignment]
        buffer[_MAGIC_POSITION] = MAGIC_V2  # type: ignore[index]
    whole = RecordBatch(buffer, at)
    try:
        found = whole.records()
    except InvalidRecordError:
        if not whole.is_compressed:
            yield from ((record, None) for record in _readable_records(whole))
        raise
    yield from ((record, None) for record in found)


def _readable_records(batch: RecordBatch) -> Iterator[Record]:
    """The records before the first that cannot be read, of a batch where there is one."""
    payload = bytes(batch.payload())
    appended = batch.max_timestamp if batch.attributes & TIMESTAMP_TYPE_MASK else None
    position = 0
    for number in range(1, batch.record_count + 1):
        try:
            length, start = _varint(payload, position)
            position, start = start + length, position
            if length < 0 or position > len(payload):
                return
            (record,) = decode_records(
                payload[start:position],
                1,
                batch.base_offset,
                batch.base_timestamp,
                log_append_time=appended,
                base_sequence=batch.base_sequence,
            )
        except (InvalidRecordError, IndexError):
            return
        if number == batch.record_count and position < len(payload):
            return  # so far Kafka had read when it saw that more follows
        yield record


def _varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while shift < 35:
        raw |= (data[position] & 0x7F) << shift
        position += 1
        if data[position - 1] < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise InvalidRecordError("a variable-length number has more than 32 bits")


def _legacy_records(entry: LegacyEntry) -> Iterator[tuple[Record, LegacyCheck | None]]:
    if not entry.is_compressed:
        yield next(entry.records()), LegacyCheck(entry.is_valid_crc(), entry.crc)
        return
    for record, inner in zip(entry.records(), entry.inner_entries(), strict=True):
        yield record, LegacyCheck(inner.is_valid_crc(), inner.crc)
