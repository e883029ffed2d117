"""Wrappers of formats v0 and v1 built anew, as the log cleaner leaves them; the layout is described in legacy.py.

Nothing else writes these formats: the cleaner keeps the format of a segment, as Kafka's MemoryRecordsBuilder does.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from zlib import crc32

from protocol.records.compression import CompressionType, compress, lz4_descriptor_end, xxh32
from protocol.records.layout import MAGIC_V0, MAGIC_V1, NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.records.legacy import LegacyEntry
    from protocol.records.record import Record

_OFFSET_AND_SIZE = struct.Struct(">qiI")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_NULL = _INT32.pack(-1)


def rebuild_wrapper(wrapper: LegacyEntry, records: Sequence[Record]) -> tuple[bytes, int]:
    """A wrapper of the same format and codec that holds only `records`, and its greatest timestamp (ms, -1 in v0).

    Its offset is that of the last record; in v1 those inside count from the first one.
    """
    appended = wrapper.timestamp_type == TimestampType.LOG_APPEND_TIME
    flags = TIMESTAMP_TYPE_MASK if appended else 0
    base_offset = records[0].offset if wrapper.magic == MAGIC_V1 else 0
    plain = b"".join(
        _message(
            wrapper.magic, flags, record.offset - base_offset, record.timestamp, (record.key, record.value)
        )
        for record in records
    )
    max_timestamp = NO_TIMESTAMP
    if wrapper.magic == MAGIC_V1:
        max_timestamp = wrapper.max_timestamp if appended else max(record.timestamp for record in records)
    codec = wrapper.compression_type
    packed = compress(codec, plain)
    if wrapper.magic == MAGIC_V0 and codec == CompressionType.LZ4:
        packed = _with_old_checksum(packed)
    return _message(
        wrapper.magic, flags | codec, records[-1].offset, max_timestamp, (None, packed)
    ), max_timestamp


def _message(
    magic: int, attributes: int, offset: int, timestamp: int, contents: tuple[bytes | None, bytes | None]
) -> bytes:
    time = _INT64.pack(timestamp) if magic == MAGIC_V1 else b""
    body = b"".join((bytes((magic, attributes)), time, *_sized(contents[0]), *_sized(contents[1])))
    return _OFFSET_AND_SIZE.pack(offset, 4 + len(body), crc32(body)) + body


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if data is None else (_INT32.pack(len(data)), data)


def _with_old_checksum(frame: bytes) -> bytes:
    """An LZ4 frame whose header checksum covers the magic number too, as readers of v0 expect it."""
    end = lz4_descriptor_end(frame)
    return frame[:end] + bytes((xxh32(frame[:end]) >> 8 & 0xFF,)) + frame[end + 1 :]
