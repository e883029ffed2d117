"""Record batches in requests and responses: replaces producer ids, and describes batches for comparison."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.protocol.records.layout import CRC_POSITION, CRC_START, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD

PRODUCER_ID: Final = 43
_INT64 = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")


def with_producer_ids(records: bytes, known: Mapping[Any, Any]) -> bytes:
    """The batches with the producer ids that `known` maps to. A right checksum stays right, a wrong one wrong."""
    data = bytearray(records)
    position = 0
    while position + RECORD_BATCH_OVERHEAD <= len(data):
        (length,) = _LENGTH.unpack_from(data, position + 8)
        end = position + LOG_OVERHEAD + length
        if length < 0 or end > len(data):
            end = len(data)
        (producer_id,) = _INT64.unpack_from(data, position + PRODUCER_ID)
        other = known.get(producer_id)
        if other is not None:
            _exchange(data, position, end, other)
        position = max(end, position + RECORD_BATCH_OVERHEAD)
    return bytes(data)


def _exchange(data: bytearray, position: int, end: int, producer_id: int) -> None:
    (crc,) = _CRC.unpack_from(data, position + CRC_POSITION)
    error = crc ^ crc32c(bytes(data[position + CRC_START : end]))
    _INT64.pack_into(data, position + PRODUCER_ID, producer_id)
    crc = crc32c(bytes(data[position + CRC_START : end]))
    _CRC.pack_into(data, position + CRC_POSITION, crc ^ error)


def plain(data: bytes) -> list[object]:
    """The size, and all fields of each batch but the checksum; unreadable batches as bytes."""
    shown: list[object] = [len(data)]
    try:
        shown += [_plain(each) if isinstance(each, RecordBatch) else repr(each) for each in batches(data)]
    except CorruptRecordError as error:
        shown += [type(error).__name__, data.hex()]
    return shown


def _plain(batch: RecordBatch) -> dict[str, object]:
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "leader_epoch": batch.partition_leader_epoch,
        "attributes": batch.attributes,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "records": batch.record_count,
        "is_valid": batch.is_valid_crc(),
        "payload": bytes(batch.payload()).hex(),
    }
