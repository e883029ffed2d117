"""LogValidator: what a batch must satisfy to be appended by a leader, and the offsets and timestamps it is given.

A batch that needs nothing changed is not copied: its first 16 bytes, which carry what the leader decides (base
offset, leader epoch), are made anew, and the rest is the client's own bytes. It is copied when its timestamps have
to be set, and rebuilt only when the topic's compression.type differs from the producer's. Message sets of the older
formats are converted to v2 first.
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
"""No time from 1970 on is so long ago."""

_ANY_TIME: Final = (-(1 << 63), (1 << 63) - 1)
_CLIENT: Final = (
    AppendOrigin.CLIENT
)  # a member of an enum is looked up slowly, and this is asked of each batch


def most_unpacked_bytes(max_message_bytes: int) -> int:
    """How much a compressed batch may unpack to: a multiple of max.message.bytes, or the floor, and never more than
    who reads the log takes (compaction, searches by time). Kafka knows no such bound. What unpacks to more is
    RecordTooLargeError: on MESSAGE_TOO_LARGE producers give up at once, or split the batch (Java, kafka-python).
    """
    bound = max(max_message_bytes * UNPACKED_RATIO, UNPACKED_BYTES_FLOOR)
    return min(bound, DEFAULT_MAX_DECOMPRESSED_BYTES)


class ValidatedRecords:
    """What is to be written: `buffers` are `size` bytes together; `batches` have the offsets they get in the log.

    `of_producers` are those of `batches` that an idempotent or transactional producer wrote. `first_offset` and
    `max_timestamp` (ms, -1 for none) are those of all batches together.
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
        """Takes a batch whose `base_offset`, `max_timestamp` and size are those it will have in the log."""
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
        """The same, for somebody who has asked the batch already."""
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
    """The rules of one log, drawn from its configuration; made anew when that changes."""

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
        self._compression: CompressionType | None = None  # None: as the producer has it
        self._level: int | None = None
        if config.compression_type == "uncompressed":
            self._compression = CompressionType.NONE
        elif config.compression_type != "producer":
            self._compression = CompressionType.of_label(config.compression_type)
            self._level = getattr(config, f"compression_{config.compression_type}_level", None)

    def validate(
        self, records: Buffer, next_offset: int, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> ValidatedRecords:
        """Checks every batch and every record in it, and numbers them from `next_offset` on.

        Raises CorruptRecordError, InvalidRecordError (and those of `storage.errors` that are one),
        InvalidTimestampError, RecordTooLargeError and UnsupportedCompressionError; then nothing is to be written.
        """
        result = ValidatedRecords(next_offset, now_ms if self._log_append_time else NO_TIMESTAMP)
        try:
            if len(records) > MAGIC_POSITION and records[MAGIC_POSITION] == MAGIC_V2:
                # One batch and nothing else, as nearly every append is.
                batch = RecordBatch(records)
                if batch.size_in_bytes == len(records):
                    if origin is _CLIENT and batch.base_offset != 0:
                        self._refuse_base_offset(batch)
                    self._take(batch, result, leader_epoch, origin, now_ms)
                    return result
            for batch in self._split(records, origin, result):
                self._take(batch, result, leader_epoch, origin, now_ms)
        except DecompressedTooLargeError as error:  # on CORRUPT_MESSAGE producers would send it again
            raise RecordTooLargeError(f"a record batch for {self._name}: {error}") from error
        return result

    def _take(
        self,
        batch: RecordBatch,
        result: ValidatedRecords,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
    ) -> None:
        """Checks a batch and adds it to the result: first what its header claims, then the bytes, then the records."""
        size, attributes, last_offset_delta, count, max_timestamp, producer_id, sequence = batch.claims()
        if size > self._max_message_bytes:
            self._refuse_size(batch)
        batch.ensure_valid()
        if count <= 0 or last_offset_delta != count - 1:
            self._refuse_count(batch)
        if origin is _CLIENT and (attributes & CONTROL_MASK or sequence < 0 <= producer_id):
            self._refuse_client_batch(batch)
        summary = batch.validate_records(self._max_unpacked_bytes)
        if summary.offset_gap_index >= 0:
            self._refuse_gap(summary.offset_gap_index)
        newest_timestamp = max(summary.max_timestamp, NO_TIMESTAMP)  # Kafka's search for it begins there
        lacks_key = self._is_compacted and summary.null_key_index >= 0
        claims_time = attributes & TIMESTAMP_TYPE_MASK
        if self._log_append_time:
            if lacks_key or claims_time:
                self._raise_record_errors(batch, *_ANY_TIME)
        else:
            youngest, first_timestamp = now_ms + self._after_max_ms, summary.min_timestamp
            if claims_time:  # it says that all of its records have this one
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
            raise InvalidRecordError(f"there is no record batch in what was to be appended to {self._name}")
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
            self._refuse_base_offset(found[0])
        return [entry for entry in found if isinstance(entry, RecordBatch)]

    def _up_convert(self, records: Buffer) -> bytes:
        from barnabas.protocol.records.up_conversion import up_convert

        return up_convert(records, base_offset=0, max_decompressed_bytes=self._max_unpacked_bytes)

    def _has_other_codec(self, attributes: int) -> bool:
        """Whether the topic wants a batch with these attributes compressed in another way; markers stay plain."""
        source = attributes & COMPRESSION_MASK
        return source != self._compression and bool(source or not attributes & CONTROL_MASK)

    # -- what a batch is refused for; each raises --

    def _refuse_base_offset(self, batch: "RecordBatch | LegacyEntry") -> None:
        """Offsets are the broker's to give (asked of format v2 only, as in Kafka)."""
        raise InvalidRecordError(
            f"a record batch for {self._name} with base offset {batch.base_offset}; a producer's is 0"
        )

    def _refuse_size(self, batch: RecordBatch) -> None:
        raise RecordTooLargeError(
            f"a record batch of {batch.size_in_bytes} bytes for {self._name}; "
            f"max.message.bytes allows {self._max_message_bytes}"
        )

    def _refuse_count(self, batch: RecordBatch) -> None:
        raise InvalidOffsetOrSequenceError(
            f"a record batch for {self._name} with {batch.record_count} records and a last offset delta of "
            f"{batch.last_offset_delta}"
        )

    def _refuse_client_batch(self, batch: RecordBatch) -> None:
        if batch.attributes & CONTROL_MASK:
            raise InvalidOffsetOrSequenceError(
                f"a control batch for {self._name}; clients may not write those"
            )
        raise InvalidOffsetOrSequenceError(
            f"sequence {batch.base_sequence} of producer {batch.producer_id} for {self._name}"
        )

    def _refuse_gap(self, index: int) -> None:
        message = f"record {index} of a batch for {self._name} has an offset that is not {index}"
        raise InvalidRecordError(message, [(index, message)])

    def _raise_record_errors(self, batch: RecordBatch, oldest: int, youngest: int) -> None:
        """Names each record that has no key and needs one, or else a time that it may not have.

        A batch that claims the time of its append is put right where the topic has CreateTime and it says a time;
        otherwise every record of it is at fault. Where times are, the error is about them, as Kafka has it; and so are
        the words by which tools know it.
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

    # -- batches that are not written as they came --

    def _restamp(
        self, batch: RecordBatch, newest_timestamp: int, offset: int, leader_epoch: int, now_ms: int
    ) -> bytearray:
        """A copy with timestamps as the topic has them: the time of the append, or the true maximum."""
        data = bytearray(memoryview(batch.buffer)[batch.position : batch.position + batch.size_in_bytes])
        stamp(data, 0, offset, leader_epoch)
        if self._log_append_time:
            stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, now_ms)
        else:
            stamp_max_timestamp(data, 0, TimestampType.CREATE_TIME, newest_timestamp)
        return data

    def _rebuild(self, batch: RecordBatch, offset: int, leader_epoch: int, now_ms: int) -> bytes:
        """The batch compressed as the topic wants it. Raises RecordTooLargeError when that made it too large."""
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
