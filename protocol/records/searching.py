# cython: annotation_typing=False, wraparound=False, boundscheck=False, initializedcheck=False
"""The two loops of every lookup: through the entries of a sparse index, and from there through the batch headers.

This module runs as Python, or compiled by Cython with the types of searching.pxd (`COMPILED`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.protocol.records.layout import (
    ENTRY_HEADER_BYTES,
    LAST_OFFSET_DELTA_POSITION,
    LEGACY_OVERHEAD_V0,
    LEGACY_TIMESTAMP_POSITION,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_END,
    MAX_TIMESTAMP_POSITION,
    RECORD_BATCH_OVERHEAD,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    Bytes: TypeAlias = bytes | bytearray

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

ANY_TIME = -(1 << 63)
"""A `least_timestamp` that every batch has."""

_PREFIX = ENTRY_HEADER_BYTES
_TO_TIMESTAMP = MAX_TIMESTAMP_END
_LEGACY_OVERHEAD = LOG_OVERHEAD + LEGACY_OVERHEAD_V0
_MAX_INT32 = (1 << 31) - 1
_LOW_32 = (1 << 32) - 1


def count_at_most(entries: Any, low: int, high: int, entry_bytes: int, target: int) -> int:
    """Where in the slots from `low` to `high` the first entry is whose first field is above `target`; `high` if none.

    `entries` is an index's memory, of entries of 8 bytes that begin with an int32, or of 12 that begin with an int64;
    they increase.
    """
    if high * entry_bytes > len(entries):
        raise ValueError(f"{high} entries of {entry_bytes} bytes in {len(entries)}")
    return _count(entries, low, high, entry_bytes, target)


def seek(chunk: Bytes, at: int, target_offset: int, least_timestamp: int) -> tuple[int, int, int, int]:
    """The first batch from `at` on that ends at `target_offset` or after and is at least as young as the timestamp.

    (where in the chunk, size, last offset, max timestamp). Only headers need to be in the chunk. The size is 0 where
    the chunk ends first, and -1 where what begins there cannot be a batch.
    """
    if at < 0:
        raise ValueError(f"position {at}")
    return _seek(chunk, len(chunk), at, target_offset, least_timestamp)


def _count(entries: Any, low: int, high: int, entry_bytes: int, target: int) -> int:
    while low < high:
        middle = (low + high) >> 1
        at = middle * entry_bytes
        value = entries[at] << 24 | entries[at + 1] << 16 | entries[at + 2] << 8 | entries[at + 3]
        if value > _MAX_INT32:
            value = value - _LOW_32 - 1
        if entry_bytes == 12:
            rest = entries[at + 4] << 24 | entries[at + 5] << 16 | entries[at + 6] << 8 | entries[at + 7]
            value = value << 32 | rest & _LOW_32
        if value <= target:
            low = middle + 1
        else:
            high = middle
    return low


def _seek(
    data: Bytes, length: int, at: int, target_offset: int, least_timestamp: int
) -> tuple[int, int, int, int]:
    while at + _PREFIX <= length:
        size = _int32(data, at + LENGTH_POSITION) + LOG_OVERHEAD
        magic = data[at + MAGIC_POSITION]
        if magic > 2 or size < (RECORD_BATCH_OVERHEAD if magic == 2 else _LEGACY_OVERHEAD + 8 * magic):
            return at, -1, -1, -1
        if at + (_TO_TIMESTAMP if magic == 2 else _LEGACY_OVERHEAD) > length:
            break
        last_offset = _int64(data, at)
        timestamp = -1
        if magic == 2:
            last_offset += _int32(data, at + LAST_OFFSET_DELTA_POSITION)
            timestamp = _int64(data, at + MAX_TIMESTAMP_POSITION)
        elif magic == 1:
            timestamp = _int64(data, at + LEGACY_TIMESTAMP_POSITION)
        if last_offset >= target_offset and timestamp >= least_timestamp:
            return at, size, last_offset, timestamp
        at += size
    return at, 0, -1, -1


def _int32(data: Bytes, at: int) -> int:
    raw = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return raw - _LOW_32 - 1 if raw > _MAX_INT32 else raw


def _int64(data: Bytes, at: int) -> int:
    return _int32(data, at) << 32 | _int32(data, at + 4) & _LOW_32
