# cython: annotation_typing=False
"""A record batch of format v2 as a view of its bytes.

    offset  size  field
         0     8  base offset              stamped by the broker, outside the CRC
         8     4  batch length             of everything after this field
        12     4  partition leader epoch   stamped by the broker, outside the CRC
        16     1  magic                    2; byte 16 is the magic in the older formats too
        17     4  CRC-32C                  of byte 21 to the end
        21     2  attributes               bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                           6 delete horizon set
        23     4  last offset delta
        27     8  base timestamp           ms; the delete horizon where bit 6 is set
        35     8  max timestamp            ms
        43     8  producer id              -1 for none
        51     2  producer epoch
        53     4  base sequence
        57     4  record count
        61        records, compressed as one block when the codec says so

Kafka's DefaultRecordBatch. Reading the header checks length and magic and nothing else: call
`ensure_valid()` for the checksum and `validate_records()` for the records.

This module runs as Python, or compiled by Cython with the types of batch.pxd (`COMPILED`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.compression import CompressionType, decompress, unpacked
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    DecompressedTooLargeError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.layout import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_POSITION,
    CRC_START,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    DELETE_HORIZON_MASK,
    ENTRY_HEADER,
    HEADER,
    KNOWN_ATTRIBUTES_MASK,
    LEADER_PREFIX,
    LEGACY_OVERHEAD_V0,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MAX_SEQUENCE,
    MAX_TIMESTAMP_POSITION,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from barnabas.protocol.records.record import RecordsSummary, decode_records, validate_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.protocol.records.record import Record

    Buffer = bytes | bytearray | memoryview

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

__all__ = [
    "ATTRIBUTES_POSITION",
    "COMPRESSION_MASK",
    "CONTROL_MASK",
    "CRC_POSITION",
    "CRC_START",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "DELETE_HORIZON_MASK",
    "ENTRY_HEADER",
    "HEADER",
    "LEGACY_OVERHEAD_V0",
    "LOG_OVERHEAD",
    "MAGIC_V0",
    "MAGIC_V1",
    "MAGIC_V2",
    "MAX_SEQUENCE",
    "MAX_TIMESTAMP_POSITION",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "RECORD_BATCH_OVERHEAD",
    "TIMESTAMP_TYPE_MASK",
    "TRANSACTIONAL_MASK",
    "CompressionType",
    "CorruptRecordError",
    "DecompressedTooLargeError",
    "InvalidRecordError",
    "RecordBatch",
    "RecordsSummary",
    "TimestampType",
    "UnsupportedCompressionError",
    "build_batch",
    "entry_header",
    "increment_sequence",
    "stamp",
    "stamp_max_timestamp",
]

_BASE_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")

SMALL_BATCH_BYTES = 4096
"""A batch up to this size is written in one piece: copying it costs less than a second buffer in the system call."""

# The same once more, as numbers that the compiled class need not look up.
_MAGIC = MAGIC_V2
_OVERHEAD = RECORD_BATCH_OVERHEAD
_LENGTH_END = LOG_OVERHEAD
_LEADER_PREFIX_BYTES = MAGIC_POSITION
_SMALL = SMALL_BATCH_BYTES
_CRC_START = CRC_START
_COMPRESSED = COMPRESSION_MASK


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers go back to 0 after 2^31 - 1."""
    return (sequence + increment) & MAX_SEQUENCE


def entry_header(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """(offset, size in bytes, magic) of the entry at `position`, of any format, from its first 17 bytes.

    The offset is the first one of a v2 batch and the last one of a v0 or v1 entry; the size is that of the
    whole entry.
    Raises CorruptRecordError for a magic that does not exist and for a length that the format cannot have.
    """
    offset, length, _, magic = ENTRY_HEADER.unpack_from(buffer, position)
    if magic > MAGIC_V2:
        raise CorruptRecordError(
            f"magic {magic} at position {position}, offset {offset}: no such record format"
        )
    least = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD if magic == MAGIC_V2 else LEGACY_OVERHEAD_V0 + 8 * magic
    if length < least:
        raise CorruptRecordError(
            f"length {length} at position {position}, offset {offset}: format v{magic} needs {least} at least"
        )
    return offset, length + LOG_OVERHEAD, magic


class RecordBatch:
    """One batch of format v2 inside `buffer`.

    With `header_only` the buffer needs to hold no more than the header's 61 bytes, as when a file is walked;
    the CRC, the payload and the records cannot be asked for then.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_in_bytes",
    )
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0, *, header_only: bool = False) -> None:
        """Raises CorruptRecordError unless a v2 batch begins there that ends within the buffer."""
        self._read(buffer, position, header_only)

    def _read(self, buffer: Buffer, position: int, header_only: bool) -> None:
        left = len(buffer) - position
        if left < _OVERHEAD or position < 0:
            raise CorruptRecordError(f"{left} bytes are too few for a record batch")
        if COMPILED:
            length = read_header(self, buffer, position)  # type: ignore[name-defined]  # noqa: F821
        else:
            (
                self.base_offset,
                length,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = HEADER.unpack_from(buffer, position)
        self.buffer: Buffer = buffer
        self.position: int = position
        self.size_in_bytes: int = length + _LENGTH_END
        if self.magic != _MAGIC:
            raise CorruptRecordError(f"magic {self.magic} at position {position}: not a v2 record batch")
        if length < _OVERHEAD - _LENGTH_END:
            raise CorruptRecordError(f"a record batch at position {position} claims a length of {length}")
        if length > left - _LENGTH_END and not header_only:
            raise CorruptRecordError(
                f"a record batch at position {position} claims a length of {length}, "
                f"{left - _LENGTH_END} bytes are left"
            )

    @property
    def last_offset(self) -> int:
        """The offset of the last record that was in the batch when it was written."""
        base_offset = self.base_offset  # a Python number, which a damaged header does not make overflow
        return base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after `last_offset`."""
        base_offset = self.base_offset
        return base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 where the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression_type(self) -> CompressionType:
        """The codec of the payload; raises UnsupportedCompressionError for a number that has none."""
        return CompressionType.of(self.attributes & COMPRESSION_MASK)

    @property
    def is_compressed(self) -> bool:
        """Whether the payload is compressed."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        if self.attributes & TIMESTAMP_TYPE_MASK:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """Whether its records are control records of the broker."""
        return self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The delete horizon, in the place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    def claims(self) -> tuple[int, int, int, int, int, int, int]:
        """(size in bytes, attributes, last offset delta, record count, max timestamp, producer id, base sequence): what
        is asked of every batch that is to be appended, in one go.
        """
        return (
            self.size_in_bytes,
            self.attributes,
            self.last_offset_delta,
            self.record_count,
            self.max_timestamp,
            self.producer_id,
            self.base_sequence,
        )

    def is_valid_crc(self) -> bool:
        """Whether the stored checksum is that of the bytes."""
        return self._crc_of_bytes() == self.crc

    def _crc_of_bytes(self) -> int:
        if COMPILED:
            return crc_of(self, crc32c)  # type: ignore[name-defined,no-any-return]  # noqa: F821
        return crc32c(self._from(_CRC_START))

    def ensure_valid(self) -> None:
        """Raises CorruptRecordError unless the checksum is right."""
        if self._crc_of_bytes() != self.crc:
            raise CorruptRecordError(
                f"the batch at offset {self.base_offset} ({self.size_in_bytes} bytes) claims CRC "
                f"{self.crc:#010x}, and its bytes have another"
            )

    def _from(self, start: int) -> memoryview:
        """The bytes of the batch from the `start`-th on."""
        position = self.position
        return memoryview(self.buffer)[position + start : position + self.size_in_bytes]

    def stamped(self, base_offset: int, partition_leader_epoch: int) -> tuple[Buffer, ...]:
        """Gives the batch the offset and the epoch that the leader decides; the bytes of that, in pieces.

        What it is a view of is left as it is: the first 16 bytes are new, and the rest is a slice, or a copy where
        the batch is small.
        """
        self.base_offset = base_offset
        self.partition_leader_epoch = partition_leader_epoch
        if COMPILED and self.size_in_bytes <= _SMALL:
            return (stamped_copy(self),)  # type: ignore[name-defined]  # noqa: F821
        prefix = LEADER_PREFIX.pack(base_offset, self.size_in_bytes - _LENGTH_END, partition_leader_epoch)
        rest = self._from(_LEADER_PREFIX_BYTES)
        return (prefix + rest,) if self.size_in_bytes <= _SMALL else (prefix, rest)

    def payload(self) -> memoryview:
        """The records as stored, compressed or not."""
        return self._from(_OVERHEAD)

    def uncompressed_payload(
        self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    ) -> bytes | memoryview:
        """The records uncompressed.

        Raises CorruptRecordError when that is not possible within the bound, and UnsupportedCompressionError.
        """
        payload = self._from(_OVERHEAD)
        if not self.attributes & _COMPRESSED:
            return payload
        return decompress(self.compression_type, payload, max_decompressed_bytes)

    def validate_records(
        self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    ) -> RecordsSummary:
        """Checks every record; see `record.validate_records`."""
        if self.attributes & _COMPRESSED:
            with unpacked(self.compression_type, self._from(_OVERHEAD), max_decompressed_bytes) as payload:
                return validate_records(payload, self.record_count, self.base_timestamp)
        if COMPILED:
            return validated(self)  # type: ignore[name-defined,no-any-return]  # noqa: F821
        return validate_records(self._from(_OVERHEAD), self.record_count, self.base_timestamp)

    def records(self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """The records with their offsets, timestamps and sequence numbers.

        Raises CorruptRecordError and UnsupportedCompressionError when the payload cannot be unpacked,
        InvalidRecordError when it holds no such records.
        """
        payload = self.uncompressed_payload(max_decompressed_bytes)
        return iter(
            decode_records(
                payload,
                self.record_count,
                self.base_offset,
                self.base_timestamp,
                log_append_time=self.max_timestamp if self.attributes & TIMESTAMP_TYPE_MASK else None,
                base_sequence=self.base_sequence,
            )
        )

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}..{self.last_offset}, {self.record_count} records, "
            f"{self.size_in_bytes} bytes, attributes {self.attributes:#x}, "
            f"leader epoch {self.partition_leader_epoch}, producer {self.producer_id}/{self.producer_epoch}, "
            f"sequence {self.base_sequence})"
        )


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, partition_leader_epoch: int
) -> None:
    """Writes base offset and leader epoch into a v2 batch; the CRC covers neither."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + LOG_OVERHEAD, partition_leader_epoch)


def stamp_max_timestamp(
    buffer: bytearray | memoryview, position: int, timestamp_type: TimestampType, max_timestamp: int
) -> None:
    """Writes timestamp type and max timestamp into a v2 batch, and the CRC that follows from them.

    Kafka's setMaxTimestamp: nothing is touched where both are right already, and attributes that do not exist are
    cleared where one is not.
    """
    (attributes,) = _INT16.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    (current,) = _INT64.unpack_from(buffer, position + MAX_TIMESTAMP_POSITION)
    type_bit = TIMESTAMP_TYPE_MASK if timestamp_type == 1 else 0
    if attributes & TIMESTAMP_TYPE_MASK == type_bit and current == max_timestamp:
        return
    wanted = attributes & KNOWN_ATTRIBUTES_MASK & ~TIMESTAMP_TYPE_MASK | type_bit
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, wanted)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    (length,) = _INT32.unpack_from(buffer, position + LENGTH_POSITION)
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + LOG_OVERHEAD + length])
    _UINT32.pack_into(buffer, position + CRC_POSITION, crc)
