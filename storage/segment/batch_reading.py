"""Batches read from a file in pieces, into memory that is used again: new pages cost as much as what goes into them."""

from collections.abc import Iterator
from typing import Final

from barnabas.protocol.records.batch import CorruptRecordError, RecordBatch, entry_header
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.layout import ENTRY_HEADER_BYTES
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.env import File, read_into

Batch = RecordBatch | LegacyEntry

PIECE_BYTES: Final = 256 * 1024
"""The bytes of one read: they stay in a core's own cache until they are decoded, which is a tenth faster."""


class Pieces:
    """A buffer for one piece of a file at a time, which grows for a larger batch."""

    def __init__(self, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = max(piece_bytes, ENTRY_HEADER_BYTES)
        self._view = memoryview(bytearray(self._piece_bytes))

    def batches(self, file: File, position: int, end: int) -> Iterator[Batch]:
        """The batches from `position`, where one begins, to `end`; each is valid until the next is requested.

        Checksums are not checked. Raises CorruptRecordError at the first bytes that are no whole batch.
        """
        while position < end:
            wanted = min(self._piece_bytes, end - position)
            length = read_into(file, self._view[:wanted], position)
            if length < ENTRY_HEADER_BYTES:
                raise CorruptRecordError(
                    f"{end - position} bytes at position {position} are too few for a batch"
                )
            _, size, _ = entry_header(self._view)
            if size > length:
                length = self._complete(file, position, length, size, end)
            for batch in batches(self._view[:length]):
                yield batch
                position += batch.size_in_bytes

    def _complete(self, file: File, position: int, length: int, size: int, end: int) -> int:
        """Reads the rest of a batch that is larger than a piece."""
        if size <= end - position:
            if size > len(self._view):
                view = memoryview(bytearray(size))
                view[:length] = self._view[:length]
                self._view = view
            length += read_into(file, self._view[length:size], position + length)
        if length < size:
            raise CorruptRecordError(
                f"a batch at position {position} claims {size} of {min(length, end - position)} bytes"
            )
        return length
