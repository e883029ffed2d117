"""What `dump-log` checks of the entries of .index and .timeindex files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from barnabas.cli.tools.dump_log_batches import FileBatch, file_batches
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.index import OffsetIndex, TimeIndex

if TYPE_CHECKING:
    from barnabas.storage.env import File

MAX_INT32: Final = 0x7FFFFFFF


def check_sanity(data: bytes, index: type[OffsetIndex | TimeIndex]) -> None:
    """What Kafka checks at a start to decide whether an index is built anew. Raises CorruptIndexError."""
    size = index.ENTRY.size
    if len(data) % size:
        raise CorruptIndexError(f"it has {len(data)} bytes, which is no multiple of {size}")
    if not data:
        return
    first, last = index.ENTRY.unpack_from(data), index.ENTRY.unpack_from(data, len(data) - size)
    if index is TimeIndex and (last[0] < first[0] or last[1] < 0):
        raise CorruptIndexError("its last entry lies before its first")
    if index is OffsetIndex and last[0] < 0:
        raise CorruptIndexError("its last entry lies before the base offset of the segment")


def last_offset_at(log: File, position: int, max_message_size: int) -> int:
    """The last offset of the batch at `position`. Raises CorruptIndexError, CorruptRecordError."""
    found = next(_batches_from(log, position, max_message_size), None)
    if found is None:
        raise CorruptIndexError(
            f"it points to position {position} of the log, where no batch of at most {max_message_size} bytes begins"
        )
    return found.entry.last_offset


def batch_reaching(log: File, position: int, offset: int) -> FileBatch | None:
    """The first batch from `position` on that ends at `offset` or later."""
    return next((found for found in _batches_from(log, position) if found.entry.last_offset >= offset), None)


def _batches_from(log: File, position: int, limit: int = MAX_INT32) -> Iterator[FileBatch]:
    size = log.size()
    if not 0 <= position <= size:
        raise CorruptIndexError(f"it points to position {position} of a log of {size} bytes")
    return file_batches(log, min(position + limit, size), position)
