# cython: annotation_typing=False
"""The entries of a log or of a request in any format: record batches, and entries of message sets.

This module runs as it stands, and Cython compiles it as well: a loop over small batches spends much of its time here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.records.batch import RecordBatch, entry_header
from barnabas.protocol.records.layout import ENTRY_HEADER_BYTES, MAGIC_V2
from barnabas.protocol.records.legacy import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.protocol.records.record import Buffer

COMPILED: bool = not __file__.endswith((".py", ".pyc"))


def batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch | LegacyEntry]:
    """The whole batches in `buffer`, one after the other, and the entries of message sets.

    An incomplete entry at the end is left out. Raises CorruptRecordError at a magic that does not exist and at a
    length that the format cannot have.
    """
    end = len(buffer)
    while end - position >= ENTRY_HEADER_BYTES:
        _, size, magic = entry_header(buffer, position)
        if size > end - position:
            return
        yield RecordBatch(buffer, position) if magic == MAGIC_V2 else LegacyEntry(buffer, position)
        position += size
