"""Message sets: the record formats v0 and v1, which old log segments still hold and very old clients sent.

    offset  size  field
         0     8  offset            the last one inside, for a wrapper
         8     4  message size      of everything after this field
        12     4  CRC-32            of byte 16 to the end
        16     1  magic             0 or 1
        17     1  attributes        bits 0-2 codec; v1: bit 3 timestamp type
        18     8  timestamp         v1 only, ms
               4  key length        -1 for null
                  key
               4  value length      -1 for null
                  value

With a codec in the attributes the entry is a wrapper, and its value a compressed message set. In v0 the offsets
inside are those of the log; in v1 they count from 0 and the wrapper has the last one's. The timestamp of a
wrapper with LogAppendTime applies to all its messages. Kafka's AbstractLegacyRecordBatch and LegacyRecord.

Key "k", value "v" as v1 at offset 3, created at 5 ms:

    00 00 00 00 00 00 00 03  00 00 00 18  7f dc 1d ec  01  00  00 00 00 00 00 00 00 05
    00 00 00 01 6b  00 00 00 01 76
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

from barnabas.protocol.records.batch import RecordBatch, entry_header
from barnabas.protocol.records.compression import CompressionType, decompress, lz4_with_right_checksum
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.layout import (
    COMPRESSION_MASK,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    ENTRY_HEADER,
    ENTRY_HEADER_BYTES,
    LEGACY_OVERHEAD_V0,
    LEGACY_TIMESTAMP_POSITION,
    LOG_OVERHEAD,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TimestampType,
)
from barnabas.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.protocol.records.record import Buffer

_CRC = struct.Struct(">I")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_CRC_POSITION = 12
_CRC_START = 16
_ATTRIBUTES_POSITION = 17


class LegacyEntry:
    """One entry of a message set inside `buffer`: a message, or a wrapper with several.

    It has the attributes of a RecordBatch, so that a log can hold both; these formats have no producers, transactions
    or leader epochs.
    """

    __slots__ = (
        "attributes",
        "buffer",
        "crc",
        "last_offset",
        "magic",
        "max_timestamp",
        "position",
        "size_in_bytes",
    )

    partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    has_producer_id = False
    is_transactional = False
    is_control = False
    delete_horizon_ms: int | None = None

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Raises CorruptRecordError unless a v0 or v1 entry begins there that ends within the buffer."""
        left = len(buffer) - position
        if left < LOG_OVERHEAD + LEGACY_OVERHEAD_V0:
            raise CorruptRecordError(f"{left} bytes are too few for an entry of a message set")
        offset, length, _, magic = ENTRY_HEADER.unpack_from(buffer, position)
        if magic > MAGIC_V1:
            raise CorruptRecordError(f"magic {magic} at position {position}: not an entry of a message set")
        if not LEGACY_OVERHEAD_V0 + 8 * magic <= length <= left - LOG_OVERHEAD:
            raise CorruptRecordError(
                f"length {length} at position {position}: {left - LOG_OVERHEAD} bytes are left"
            )
        self.buffer: Buffer = buffer
        self.position: int = position
        self.size_in_bytes: int = length + LOG_OVERHEAD
        self.last_offset: int = offset
        self.magic: int = magic
        self.crc: int = _CRC.unpack_from(buffer, position + _CRC_POSITION)[0]
        self.attributes: int = buffer[position + _ATTRIBUTES_POSITION]
        self.max_timestamp: int = NO_TIMESTAMP
        if magic == MAGIC_V1:
            (self.max_timestamp,) = _INT64.unpack_from(buffer, position + LEGACY_TIMESTAMP_POSITION)

    @property
    def next_offset(self) -> int:
        """The offset after `last_offset`."""
        return self.last_offset + 1

    @property
    def base_offset(self) -> int:
        """The first offset; decompresses a wrapper (raises what `records` raises)."""
        if not self.is_compressed:
            return self.last_offset
        return next(self.records()).offset

    @property
    def last_offset_delta(self) -> int:
        """The last offset minus the first; raises what `base_offset` raises."""
        return self.last_offset - self.base_offset

    @property
    def record_count(self) -> int:
        """The maximal number of messages; a compacted wrapper has fewer. Raises what `base_offset` raises."""
        return self.last_offset_delta + 1

    @property
    def compression_type(self) -> CompressionType:
        """The codec; raises UnsupportedCompressionError for one that these formats do not have."""
        codec = CompressionType.of(self.attributes & COMPRESSION_MASK)
        if codec == CompressionType.ZSTD:
            raise UnsupportedCompressionError(f"zstd does not exist in format v{self.magic}")
        return codec

    @property
    def is_compressed(self) -> bool:
        """Whether this is a wrapper."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """The type of the timestamp; v0 has none."""
        if self.magic == MAGIC_V0:
            return TimestampType.NO_TIMESTAMP_TYPE
        if self.attributes & TIMESTAMP_TYPE_MASK:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    def is_valid_crc(self) -> bool:
        """Whether the stored checksum is that of the bytes."""
        end = self.position + self.size_in_bytes
        return crc32(memoryview(self.buffer)[self.position + _CRC_START : end]) == self.crc

    def ensure_valid(self) -> None:
        """Raises CorruptRecordError unless the checksum is right."""
        if not self.is_valid_crc():
            raise CorruptRecordError(
                f"the message at offset {self.last_offset} ({self.size_in_bytes} bytes) claims CRC {self.crc:#010x}, "
                "and its bytes have another"
            )

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """The message's key and value; raises CorruptRecordError when their lengths do not fit in it."""
        key, position = self._sized(self.position + LEGACY_TIMESTAMP_POSITION + 8 * self.magic)
        value, _ = self._sized(position)
        return key, value

    def _sized(self, position: int) -> tuple[bytes | None, int]:
        end = self.position + self.size_in_bytes
        if position + 4 > end:
            raise CorruptRecordError(f"the message at offset {self.last_offset} ends before its value")
        (length,) = _INT32.unpack_from(self.buffer, position)
        position += 4
        if length < 0:
            return None, position
        if length > end - position:
            raise CorruptRecordError(
                f"the message at offset {self.last_offset} claims a key or value of {length} of {end - position} bytes"
            )
        return bytes(self.buffer[position : position + length]), position + length

    def records(
        self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES, *, check_inner: bool = False
    ) -> Iterator[Record]:
        """The message itself, or those in the wrapper; `check_inner` checks the checksums of those too.

        Raises CorruptRecordError and UnsupportedCompressionError if they cannot be decompressed, InvalidRecordError
        for an invalid entry in a wrapper.
        """
        if not self.is_compressed:
            key, value = self.key_and_value()
            return iter([Record(key, value, self.max_timestamp, [], self.last_offset)])
        return iter(self._unwrap(max_decompressed_bytes, check_inner))

    def inner_entries(
        self, max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    ) -> list[LegacyEntry | RecordBatch]:
        """The entries of a wrapper as stored: offsets and timestamps are not yet those of the log.

        Raises what `records` raises.
        """
        codec = self.compression_type
        _, payload = self.key_and_value()
        if payload is None:
            raise InvalidRecordError(f"the wrapper at offset {self.last_offset} has no value")
        if codec == CompressionType.LZ4 and self.magic == MAGIC_V0:
            payload = lz4_with_right_checksum(payload)
        return _entries(decompress(codec, payload, max_decompressed_bytes))

    def _unwrap(self, max_decompressed_bytes: int, check: bool) -> list[Record]:
        records = [self._inner(entry, check) for entry in self.inner_entries(max_decompressed_bytes)]
        if not records:
            raise InvalidRecordError(f"the wrapper at offset {self.last_offset} is empty")
        # Some versions of librdkafka send 0 as the wrapper's offset; their offsets then count from 0 too.
        if self.magic == MAGIC_V1 and self.last_offset != 0:
            base_offset = self.last_offset - records[-1].offset
            if base_offset < 0:
                raise InvalidRecordError(
                    f"the wrapper's offset {self.last_offset} is below the last one inside, {records[-1].offset}"
                )
            for record in records:
                record.offset += base_offset
        return records

    def _inner(self, entry: object, check: bool) -> Record:
        if not isinstance(entry, LegacyEntry) or entry.magic != self.magic:
            raise InvalidRecordError(
                f"the v{self.magic} wrapper at offset {self.last_offset} holds another format"
            )
        if entry.is_compressed:
            raise InvalidRecordError(f"the wrapper at offset {self.last_offset} holds another wrapper")
        if check:
            entry.ensure_valid()
        key, value = entry.key_and_value()
        appended = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        return Record(
            key, value, self.max_timestamp if appended else entry.max_timestamp, [], entry.last_offset
        )

    def __repr__(self) -> str:
        return (
            f"LegacyEntry(v{self.magic}, last offset {self.last_offset}, {self.size_in_bytes} bytes, "
            f"attributes {self.attributes:#x})"
        )


def _entries(payload: Buffer) -> list[LegacyEntry | RecordBatch]:
    """As `entries.batches` has them; that module knows this one, so that this one cannot ask it."""
    found: list[LegacyEntry | RecordBatch] = []
    position, end = 0, len(payload)
    while end - position >= ENTRY_HEADER_BYTES:
        _, size, magic = entry_header(payload, position)
        if size > end - position:
            break
        found.append(RecordBatch(payload, position) if magic == MAGIC_V2 else LegacyEntry(payload, position))
        position += size
    return found
