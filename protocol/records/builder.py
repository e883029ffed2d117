"""Batches of format v2 built from records, byte for byte as Kafka's MemoryRecordsBuilder builds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.compression import CompressionType, compress
from barnabas.protocol.records.layout import (
    CONTROL_MASK,
    CRC_POSITION,
    CRC_START,
    DELETE_HORIZON_MASK,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from barnabas.protocol.records.record import Record, encode_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.protocol.records.record import RecordLike


def build_batch(
    records: Sequence[RecordLike],
    *,
    base_offset: int | None = None,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """One batch of `records`, each a Record or (key, value, timestamp, headers).

    Records that have an offset keep it; the others, and all tuples, get the one after the record before.
    `base_offset` is by default the first record's offset, or 0. `last_offset_delta` is given where the batch
    reaches further than its last record, as batches do that the log cleaner wrote. Raises ValueError for no
    records at all and for offsets that do not grow.
    """
    numbered, base = _numbered(records, base_offset)
    last_delta = numbered[-1].offset - base if last_offset_delta is None else last_offset_delta
    base_timestamp = numbered[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    appended = timestamp_type == TimestampType.LOG_APPEND_TIME
    payload = encode_records(numbered, base, base_timestamp)
    if compression:
        payload = compress(compression, payload, level)
    attributes = int(compression)
    attributes |= TIMESTAMP_TYPE_MASK if appended else 0
    attributes |= TRANSACTIONAL_MASK if is_transactional else 0
    attributes |= CONTROL_MASK if is_control else 0
    attributes |= 0 if delete_horizon_ms is None else DELETE_HORIZON_MASK
    batch = bytearray(RECORD_BATCH_OVERHEAD + len(payload))
    HEADER.pack_into(
        batch,
        0,
        base,
        len(batch) - LOG_OVERHEAD,
        partition_leader_epoch,
        MAGIC_V2,
        0,
        attributes,
        last_delta,
        base_timestamp,
        log_append_time if appended else max(record.timestamp for record in numbered),
        producer_id,
        producer_epoch,
        base_sequence,
        len(numbered),
    )
    batch[RECORD_BATCH_OVERHEAD:] = payload
    crc = crc32c(memoryview(batch)[CRC_START:])
    batch[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")
    return bytes(batch)


def _numbered(records: Sequence[RecordLike], base_offset: int | None) -> tuple[list[Record], int]:
    """The records with an offset each, and the base offset."""
    if not records:
        raise ValueError("a batch is built of one record at least")
    numbered: list[Record] = []
    first = records[0]
    if base_offset is None:
        base_offset = first.offset if isinstance(first, Record) and first.offset >= 0 else 0
    next_offset = base_offset
    for given in records:
        record = given if isinstance(given, Record) else Record(*given)
        if record.offset < 0:
            record = Record(record.key, record.value, record.timestamp, record.headers, next_offset)
        elif record.offset < next_offset:
            raise ValueError(f"offset {record.offset} follows {next_offset - 1}: offsets must grow")
        next_offset = record.offset + 1
        numbered.append(record)
    return numbered, base_offset
