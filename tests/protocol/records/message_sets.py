"""Builds message sets v0 and v1 as old producers and brokers wrote them; Barnabas itself only reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

from barnabas.protocol.records.compression import CompressionType, compress, lz4_descriptor_end, xxh32

Message = tuple[bytes | None, bytes | None, int]


def message(
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    offset: int = 0,
    timestamp: int = -1,
    attributes: int = 0,
) -> bytes:
    """One entry of a message set."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    body += _sized(key) + _sized(value)
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body


def message_set(
    messages: Sequence[Message],
    *,
    magic: int,
    base_offset: int = 0,
    compression: CompressionType = CompressionType.NONE,
    log_append_time: int | None = None,
) -> bytes:
    """Messages at consecutive offsets, in a wrapper when there is a codec; the last offset is the wrapper's."""
    first = 0 if compression and magic == 1 else base_offset
    plain = b"".join(
        message(
            key,
            value,
            magic=magic,
            offset=offset,
            timestamp=timestamp if log_append_time is None or compression else log_append_time,
            attributes=0 if log_append_time is None or compression else 8,
        )
        for offset, (key, value, timestamp) in enumerate(messages, first)
    )
    if not compression:
        return plain
    payload = compress(compression, plain)
    if compression == CompressionType.LZ4 and magic == 0:
        payload = with_broken_checksum(payload)
    return message(
        None,
        payload,
        magic=magic,
        offset=base_offset + len(messages) - 1,
        timestamp=max(timestamp for _, _, timestamp in messages)
        if log_append_time is None
        else log_append_time,
        attributes=compression | (0 if log_append_time is None else 8),
    )


def with_broken_checksum(frame: bytes) -> bytes:
    """An LZ4 frame as the clients of v0 wrote it: its header checksum covers the magic number too."""
    end = lz4_descriptor_end(frame)
    return frame[:end] + bytes([xxh32(frame[:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
