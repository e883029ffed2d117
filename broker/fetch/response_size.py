"""ResponseSize: how many bytes a Fetch response will have, without encoding it.

A quota is charged with a response before it is clear whether the response is sent. The sizes of the parts that are
always there are those of encoded samples, so that the schema is the only description of the layout. What consumers
rarely get (tagged fields) is encoded to be measured. Source: FetchResponse.sizeOf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.protocol.codec import encoder
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.wire import Chunk

_FLEXIBLE_SINCE: Final = 12
_IDS_SINCE: Final = 13
_BITS_A_BYTE: Final = 7
"""Of an unsigned varint."""

_PLAIN: Final = FetchResponse.PartitionData()
_NO_EPOCH: Final = _PLAIN.diverging_epoch
_NO_LEADER: Final = _PLAIN.current_leader
_NO_SNAPSHOT: Final = _PLAIN.snapshot_id


class ResponseSize:
    """The sizes of one version, in bytes."""

    def __init__(self, version: int) -> None:
        self._encode = encoder(FetchResponse, version)
        self._is_flexible = version >= _FLEXIBLE_SINCE
        self._has_names = version < _IDS_SINCE
        topic = FetchResponse.FetchableTopicResponse
        aborted = FetchResponse.AbortedTransaction()
        self._empty = self._encoded([])
        self._topic = self._encoded([topic()]) - self._empty
        self._partition = self._encoded_partition(_PLAIN)
        self._aborted = (
            self._encoded_partition(FetchResponse.PartitionData(aborted_transactions=[aborted]))
            - self._partition
        )

    def of(self, topics: Sequence[FetchResponse.FetchableTopicResponse]) -> int:
        """The size of a response with these topics and nothing else."""
        size = self._empty + self._more_for_length(len(topics))
        for topic in topics:
            partitions = topic.partitions
            size += self._topic + self._more_for_length(len(partitions))
            if self._has_names:
                name_bytes = len(topic.topic.encode())
                size += name_bytes + self._more_for_length(name_bytes)
            for data in partitions:
                size += self._of_partition(data)
        return size

    def _of_partition(self, data: FetchResponse.PartitionData) -> int:
        if self._is_flexible and not (
            data.diverging_epoch is _NO_EPOCH
            and data.current_leader is _NO_LEADER
            and data.snapshot_id is _NO_SNAPSHOT
        ):
            return self._encoded_partition(data)
        size, aborted, records = self._partition, data.aborted_transactions, data.records
        if aborted:
            size += len(aborted) * self._aborted + self._more_for_length(len(aborted))
        if records is not None:
            records_bytes = _length(records)
            size += records_bytes + self._more_for_length(records_bytes)
        return size

    def _more_for_length(self, length: int) -> int:
        """By how much the length in front of something is longer than that of nothing, which is one byte or fixed."""
        return ((length + 1).bit_length() - 1) // _BITS_A_BYTE if self._is_flexible else 0

    def _encoded_partition(self, data: FetchResponse.PartitionData) -> int:
        topic = FetchResponse.FetchableTopicResponse(partitions=[data])
        return self._encoded([topic]) - self._topic - self._empty

    def _encoded(self, topics: list[FetchResponse.FetchableTopicResponse]) -> int:
        chunks: list[Chunk] = []
        self._encode(FetchResponse(responses=topics), chunks)
        return sum(map(_length, chunks))


def _length(chunk: Chunk) -> int:
    return len(chunk) if isinstance(chunk, (bytes, memoryview)) else chunk.size


_sizes: Final[dict[int, ResponseSize]] = {}


def response_size(version: int) -> ResponseSize:
    """The sizes of a version."""
    found = _sizes.get(version)
    if found is None:
        found = _sizes[version] = ResponseSize(version)
    return found
