"""Message sets (formats v0 and v1) rebuilt as record batches of format v2, as a broker stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.records.batch import RecordBatch, stamp
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.records.layout import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TimestampType,
)
from barnabas.protocol.records.legacy import LegacyEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.protocol.records.record import Buffer, Record


class _Run:
    """Messages that become one v2 batch; `log_append_time` is None where producers set the timestamps."""

    def __init__(self, compression: CompressionType, log_append_time: int | None) -> None:
        self.compression = compression
        self.log_append_time = log_append_time
        self.records: list[Record] = []

    def build(self, next_offset: int | None, partition_leader_epoch: int) -> bytes:
        """The batch, numbered from `next_offset`, or with the offsets that the records have when that is None."""
        if next_offset is not None:
            for offset, record in enumerate(self.records, next_offset):
                record.offset = offset
        create_time = self.log_append_time is None
        try:
            return build_batch(
                self.records,
                compression=self.compression,
                timestamp_type=TimestampType.CREATE_TIME if create_time else TimestampType.LOG_APPEND_TIME,
                log_append_time=NO_TIMESTAMP if self.log_append_time is None else self.log_append_time,
                partition_leader_epoch=partition_leader_epoch,
            )
        except ValueError as error:
            raise InvalidRecordError(f"the message set cannot become a v2 batch: {error}") from None


def up_convert(
    buffer: Buffer,
    *,
    base_offset: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """The message set in `buffer` as v2 batches with the same keys, values, timestamps and codecs.

    Messages that are not compressed and follow each other become one batch, each wrapper becomes one; v2 batches
    among them stay as they are. With `base_offset` everything is numbered from there, as on a first append;
    without it offsets are kept. Checksums are checked. Raises what reading raises, and InvalidRecordError for
    offsets that do not grow.
    """
    parts: list[bytes] = []
    next_offset = base_offset
    for run in _runs(buffer, max_decompressed_bytes):
        if isinstance(run, _Run):
            parts.append(run.build(next_offset, partition_leader_epoch))
            count = len(run.records)
        else:
            copy = bytearray(run.buffer[run.position : run.position + run.size_in_bytes])
            stamp(copy, 0, run.base_offset if next_offset is None else next_offset, partition_leader_epoch)
            parts.append(bytes(copy))
            count = run.last_offset_delta + 1
        next_offset = None if next_offset is None else next_offset + count
    return b"".join(parts)


def _runs(buffer: Buffer, max_decompressed_bytes: int) -> Iterator[_Run | RecordBatch]:
    """What becomes one batch each, in order."""
    run: _Run | None = None
    for entry in batches(buffer):
        entry.ensure_valid()
        is_legacy = isinstance(entry, LegacyEntry)
        appended = entry.max_timestamp if entry.timestamp_type == TimestampType.LOG_APPEND_TIME else None
        # A run goes on only with plain messages whose timestamps come from where its own do.
        goes_on = run and is_legacy and not entry.is_compressed and run.compression == CompressionType.NONE
        if run and not (goes_on and run.log_append_time == appended):
            yield run
            run = None
        if not isinstance(entry, LegacyEntry):
            yield entry
            continue
        run = run or _Run(entry.compression_type, appended)
        run.records += entry.records(max_decompressed_bytes, check_inner=True)
    if run:
        yield run
