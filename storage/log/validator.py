"""LogValidator: the rules for a batch that a leader appends, and the offsets and timestamps that it assigns.

A batch that needs no change is not copied: only its first 16 bytes, with the base offset and leader epoch that the
leader sets, are new. It is copied when its timestamps must be set, and rebuilt when the topic's compression.type
differs from the producer's. Message sets of the older formats are converted to v2 first.
"""

from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    MAGIC_V2,
    TIMESTAMP_TYPE_MASK,
    CompressionType,
    DecompressedTooLargeError,
    InvalidRecordError,
    RecordBatch,
    TimestampType,
    build_batch,
    stamp,
    stamp_max_timestamp,
)
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.layout import MAGIC_POSITION, NO_TIMESTAMP
from barnabas.storage.env import Buffer
from barnabas.storage.errors import (
    InvalidMagicError,
    InvalidOffsetOrSequenceError,
    InvalidTimestampError,
    MissingKeyError,
    RecordTooLargeError,
)
from barnabas.storage.offsets import AppendOrigin

if TYPE_CHECKING:
    from barnabas.config.log_config import LogConfig
    from barnabas.protocol.records.legacy import LegacyEntry
    from barnabas.storage.segment.segment import AppendedBatch

UNPACKED_BYTES_FLOOR: Final = 64 * 1024 * 1024
UNPACKED_RATIO: Final = 64
"""See `most_unpacked_bytes`."""

_EVERY_AGE_MS: Final = 1 << 60
"""Longer than the time since 1970."""

_ANY_TIME: Final = (-(1 << 63), (1 << 63) - 1)
_CLIENT: Final = AppendOrigin.CLIENT  # a lookup of an enum member is slow, and every batch needs it


def most_unpacked_bytes(max_message_bytes: int) -> int:
    """The limit for the uncompressed size of a batch: a multiple of max.message.bytes, at least the floor, and never
    more than readers of the log accept (compaction, searches by time). Kafka has no such limit. A larger batch raises
    RecordTooLargeError: on MESSAGE_TOO_LARGE producers fail at once, or split the batch (Java, kafka-python).
    """
    bound = max(max_message_bytes * UNPACKED_RATIO, UNPACKED_BYTES_FLOOR)
    return min(bound, DEFAULT_MAX_DECOMPRESSED_BYTES)


class ValidatedRecords:
    """The batches of one append: `buffers`, of `size` bytes together, and `batches` with their offsets in the log.

    `of_producers` are those of idempotent or transactional producers. `first_offset` and `max_timestamp` (ms, -1 for
    none) are those of all batches.
    """

    __slots__ = (
        "appended",
        "batches",
        "buffers",
        "conversion_count",
        "first_offset",
        "log_append_time_ms",
        "max_timestamp",
        "next_offset",
        "of_producers",
        "record_count",
        "size",
    )

    def __init__(self, next_offset: int, log_append_time_ms: int = NO_TIMESTAMP) -> None:
        self.buffers: list[Buffer] = []
        self.size = 0
        self.batches: list[RecordBatch] = []
        self.of_producers: list[RecordBatch] = []
        self.appended: list[AppendedBatch] = []
        self.log_append_time_ms = log_append_time_ms
        self.first_offset = self.next_offset = next_offset
        self.max_timestamp = NO_TIMESTAMP
        self.record_count = 0
        self.conversion_count = 0

    def add_batch(self, batch: RecordBatch, buffers: tuple[Buffer, ...]) -> None:
        """Adds a batch with the `base_offset`, `max_timestamp` and size that it has in the log."""
        base_offset = batch.base_offset
        self.add(
            batch,
            buffers,
            base_offset,
            base_offset + batch.last_offset_delta,
            batch.size_in_bytes,
            batch.record_count,
            batch.max_timestamp,
            batch.producer_id,
        )

    def add(  # noqa: PLR0917 (every append adds one)
        self,
        batch: RecordBatch,
        buffers: tuple[Buffer, ...],
        base_offset: int,
        last_offset: int,
        size: int,
        record_count: int,
        timestamp: int,
        producer_id: int,
    ) -> None:
        """`add_batch` for a caller that has read the fields already."""
        if not self.batches:
            self.first_offset = base_offset
        self.buffers += buffers
        self.batches.append(batch)
        if producer_id >= 0:
            self.of_producers.append(batch)
        self.appended.append((last_offset, size, timestamp))
        self.size += size
        self.record_count += record_count
        self.next_offset = last_offset + 1
        self.max_timestamp = max(self.max_timestamp, timestamp)


class LogValidator:
    """The rules of one log, from its configuration; replaced when that changes."""

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_compression",
        "_has_oldest",
        "_is_compacted",
        "_level",
        "_log_append_time",
        "_max_message_bytes",
        "_max_unpacked_bytes",
        "_name",
    )

    def __init__(self, name: str, config: "LogConfig") -> None:
        self._name = name
        self._max_message_bytes = config.max_message_bytes
        self._max_unpacked_bytes = most_unpacked_bytes(config.max_message_bytes)
        self._is_compacted = config.compact
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._has_oldest = self._before_max_ms < _EVERY_AGE_MS
        self._compression: CompressionType | None = None  # None: that of the producer
        self._level: int | None = None
        if config.compression_type == "uncompressed":
            self._compression = CompressionType.NONE
        elif config.compression_type != "producer":
            self._compression = CompressionType.of_label(config.compression_type)
            self._level = getattr(config, f"compression_{config.compression_type}_level", None)

    def validate(
        self, records: Buffer, next_offset: int, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> ValidatedRecords:
        """Checks every batch and record, and assigns offsets from `next_offset` on.

        Raises CorruptRecordError, InvalidRecordError (and its subclasses in `storage.errors`), InvalidTimestampError,
        RecordTooLargeError and UnsupportedCompressionError; then nothing may be written.
        """
        result = ValidatedRecords(next_offset, now_ms if self._log_append_time else NO_TIMESTAMP)
        try:
            if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] == MAGIC_V2:
                # A single batch, as in nearly every append.
                batch = RecordBatch(records)
                if batch.size_in_bytes == len(records):
                    if origin is _CLIENT and batch.base_offset != 0:
                        self._reject_base_offset(batch)
                    self._add_valid(batch, result, leader_epoch, origin, now_ms)
                    return result
            for batch in self._split(records, origin, result):
                self._add_valid(batch, result, leader_epoch, origin, now_ms)
        except DecompressedTooLargeError as error:  # on CORRUPT_MESSAGE producers would send it again
            raise RecordTooLargeError(f"a record batch for {self._name}: {error}") from error
        return result

    def _add_valid(
        self,
        batch: RecordBatch,
        result: ValidatedRecords,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
    ) -> None:
        """Checks the header, the checksum and the records of a batch, and adds it to the result."""
        size, attributes, last_offset_delta, count, max_timestamp, producer_id, sequence = batch.claims()
        if size > self._max_message_bytes:
            self._reject_size(batch)
        batch.ensure_valid()
        if count <= 0 or last_offset_delta != count - 1:
            self._reject_count(batch)
        if origin is _CLIENT and (attributes & CONTROL_MASK or sequence < 0 <= producer_id):
            self._reject_client_batch(batch)
        summary = batch.validate_records(self._max_unpacked_bytes)
        if summary.offset_gap_index >= 0:
            self._reject_gap(summary.offset_gap_index)
        newest_timestamp = max(summary.max_timestamp, NO_TIMESTAMP)  # Kafka's search for it begins there
        lacks_key = self._is_compacted and summary.null_key_index >= 0
        claims_time = attributes & TIMESTAMP_TYPE_MASK
        if self._log_append_time:
            if lacks_key or claims_time:
                self._raise_record_errors(batch, *_ANY_TIME)
        else:
            youngest, first_timestamp = now_ms + self._after_max_ms, summary.min_timestamp
            if claims_time:  # then all of its records have the max timestamp
                first_timestamp = max_timestamp
                newest_timestamp = max(max_timestamp, NO_TIMESTAMP)
            is_out = newest_timestamp > youngest or (
                (self._has_oldest or first_timestamp < 0) and first_timestamp < now_ms - self._before_max_ms
            )
            if lacks_key or is_out or (claims_time and max_timestamp == NO_TIMESTAMP):
                self._raise_record_errors(batch, now_ms - self._before_max_ms, youngest)
        offset = result.next_offset
        if self._compression is not None and self._has_other_codec(attributes):
            data = self._rebuild(batch, offset, leader_epoch, now_ms)
            result.add_batch(RecordBatch(data), (data,))
            result.conversion_count += count
        elif not (claims_time or self._log_append_time) and max_timestamp == newest_timestamp:
            pieces = batch.stamped(offset, leader_epoch)
            last_offset = offset + last_offset_delta
            result.add(batch, pieces, offset, last_offset, size, count, max_timestamp, producer_id)
        else:
            copy = self._restamp(batch, newest_timestamp, offset, leader_epoch, now_ms)
            result.add_batch(RecordBatch(copy), (copy,))

    def _split(self, records: Buffer, origin: AppendOrigin, result: ValidatedRecords) -> list[RecordBatch]:
        """The batches of an append that is not a single one of format v2."""
        found = list(batches(records))
        if not found:
            raise InvalidRecordError(f"there is no record batch in an append to {self._name}")
        if any(entry.magic != found[0].magic for entry in found):
            raise InvalidMagicError(f"batches of different formats in one append to {self._name}")
        if found[0].magic != MAGIC_V2:
            found = list(batches(self._up_convert(records)))
            result.conversion_count = sum(
                entry.record_count for entry in found if isinstance(entry, RecordBatch)
            )
        elif len(found) > 1 and origin is _CLIENT:
            raise InvalidRecordError(f"{len(found)} record batches for {self._name}; a producer may send one")
        elif origin is _CLIENT and found[0].base_offset != 0:
            self._reject_base_offset(found[0])
        return [entry for entry in found if isinstance(entry, RecordBatch)]

    def _up_convert(self, records: Buffer) -> bytes:
        from barnabas.protocol.records.up_conversion import up_convert

        return up_convert(records, base_offset=0, max_decompressed_bytes=self._max_unpacked_bytes)

    def _has_other_codec(self, attributes: int) -> bool:
        """Whether the topic needs another codec for a batch with these attributes; markers stay uncompressed."""
        source = attributes & COMPRESSION_MASK
        return source != self._compression and bool(source or not attributes & CONTROL_MASK)

    # -- rejections; each raises --

    def _reject_base_offset(self, batch: "RecordBatch | LegacyEntry") -> None:
        """The broker assigns offsets (checked for format v2 only, as in Kafka)."""
        raise InvalidRecordError(
            f"a record batch for {self._name} with base offset {batch.base_offset}; a producer's is 0"
        )

    def _reject_size(self, batch: RecordBatch) -> None:
        raise RecordTooLargeError(
            f"a record batch of {batch.size_in_bytes} bytes for {self._name}; "
            f"max.message.bytes allows {self._max_message_bytes}"
        )

    def _reject_count(self, batch: RecordBatch) -> None:
        raise InvalidOffsetOrSequenceError(
            f"a record batch for {self._name} with {batch.record_count} records and a last offset delta of "
            f"{batch.last_offset_delta}"
        )

    def _reject_client_batch(self, batch: RecordBatch) -> None:
        if batch.attributes & CONTROL_MASK:
            raise InvalidOffsetOrSequenceError(
                f"a control batch for {self._name}; clients may not write those"
            )
        raise InvalidOffsetOrSequenceError(
            f"sequence {batch.base_sequence} of producer {batch.producer_id} for {self._name}"
        )

    def _reject_gap(self, index: int) -> None:
        message = f"record {index} of a batch for {self._name} has an offset that is not {index}"
        raise InvalidRecordError(message, [(index, message)])

    def _raise_record_errors(self, batch: RecordBatch, oldest: int, youngest: int) -> None:
        """Raises an error that lists the records without a required key, and those with an invalid timestamp.

        In a batch of type LogAppendTime every record is invalid, unless the topic has CreateTime and the batch a max
        timestamp. Timestamps take precedence over keys, as in Kafka, whose texts tools recognize.
        """
        lacking: list[tuple[int, str]] = []
        untimely: list[tuple[int, str]] = []
        for index, record in enumerate(batch.records(self._max_unpacked_bytes)):
            if self._is_compacted and record.key is None:
                lacking.append(
                    (
                        index,
                        f"Compacted topic cannot accept message without key in topic partition {self._name}",
                    )
                )
            elif not self._log_append_time and record.timestamp != NO_TIMESTAMP:
                if not oldest <= record.timestamp <= youngest:
                    message = f"Timestamp {record.timestamp} of message with offset {index} is out of range."
                    limits = f"The timestamp should be within [{oldest}, {youngest}]"
                    untimely.append((index, f"{message} {limits}"))
            elif batch.attributes & TIMESTAMP_TYPE_MASK:
                untimely.append(
                    (
                        index,
                        f"Invalid timestamp type in message {index}: only a broker can know the time of the append",
                    )
                )
        errors = sorted(lacking + untimely)
        if untimely:
            raise InvalidTimestampError(
                "One or more records have been rejected due to invalid timestamp", errors
            )
        if lacking:
            count = f"{len(lacking)} record errors in total"
            raise MissingKeyError(
                f"One or more records have been rejected due to {count}: {lacking[0][1]}", errors
            )

    # -- batches that are changed --

    def _restamp(
        self, batch: RecordBatch, newest_timestamp: int, offset: int, leader_epoch: int, now_ms: int
    ) -> bytearray:
        """A copy with the topic's timestamp type: the time of the append, or the actual maximum."""
        data = bytearray(memoryview(batch.buffer)[batch.position : batch.position + batch.size_in_bytes])
        stamp(data, 0, offset, leader_epoch)
        if self._log_append_time:
            stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, now_ms)
        else:
            stamp_max_timestamp(data, 0, TimestampType.CREATE_TIME, newest_timestamp)
        return data

    def _rebuild(self, batch: RecordBatch, offset: int, leader_epoch: int, now_ms: int) -> bytes:
        """The batch with the topic's codec. Raises RecordTooLargeError if that makes it too large."""
        assert self._compression is not None
        records = [
            (record.key, record.value, record.timestamp, record.headers)
            for record in batch.records(self._max_unpacked_bytes)
        ]
        data = build_batch(
            records,
            base_offset=offset,
            compression=self._compression,
            level=self._level,
            timestamp_type=TimestampType.LOG_APPEND_TIME
            if self._log_append_time
            else TimestampType.CREATE_TIME,
            log_append_time=now_ms,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            partition_leader_epoch=leader_epoch,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
        if len(data) > self._max_message_bytes:
            raise RecordTooLargeError(
                f"a record batch for {self._name} has {len(data)} bytes once compressed with "
                f"{self._compression.label}; max.message.bytes allows {self._max_message_bytes}"
            )
        return data
