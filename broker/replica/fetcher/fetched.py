"""FetchedPartition: what a response has for one partition, taken from it in slices.

A large answer is appended up to SLICE_BYTES at a time, so that the event loop runs between: an append checks every
batch's CRC. The slices are views of the response's frame. Source: AbstractFetcherThread.processFetchRequest.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.records.batch import entry_header
from barnabas.protocol.records.layout import ENTRY_HEADER_BYTES
from barnabas.protocol.wire import Chunk
from barnabas.storage.offsets import TopicPartition

_EPOCH: Final = Struct(">i")
_EPOCH_AT: Final = 12

SLICE_BYTES: Final = 1 << 20
"""A slice has no more, unless its first batch has."""


class FetchedPartition:
    """The data of one partition, and what was asked for: a response to anything else is not used."""

    __slots__ = ("_position", "_records", "data", "fetch_offset", "is_done", "key", "leader_epoch")

    def __init__(
        self, key: TopicPartition, data: FetchResponse.PartitionData, fetch_offset: int, leader_epoch: int
    ) -> None:
        self.key = key
        self.data = data
        self.fetch_offset = fetch_offset
        """Where the next slice begins: that of the request, and then the end of what was appended."""
        self.leader_epoch = leader_epoch
        self.is_done = False
        self._records = memoryview(_bytes_of(data.records))
        self._position = 0

    @property
    def left_bytes(self) -> int:
        return len(self._records) - self._position

    @property
    def is_untouched(self) -> bool:
        return not self._position

    def peek(self) -> memoryview:
        """The next whole batches of leader epochs up to the request's.

        Empty when none is left: a batch that is cut off at the end is of no use, and one of a later epoch is for the
        time when the metadata have said more (KAFKA-18723). Raises CorruptRecordError where a batch has no possible
        length.
        """
        records, start = self._records, self._position
        end = start
        while len(records) - end >= ENTRY_HEADER_BYTES:
            size = entry_header(records, end)[1]
            if size > len(records) - end or (end > start and end + size - start > SLICE_BYTES):
                break
            if _EPOCH.unpack_from(records, end + _EPOCH_AT)[0] > self.leader_epoch:
                break
            end += size
        return records[start:end]

    def consumed(self, size: int, next_offset: int) -> None:
        """`size` bytes from `peek` are in the log, which ends at `next_offset`."""
        self._position += size
        self.fetch_offset = next_offset


def _bytes_of(records: Chunk | None) -> bytes | memoryview:
    if records is None:
        return b""
    return records if isinstance(records, (bytes, memoryview)) else records.read()
