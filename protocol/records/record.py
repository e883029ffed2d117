# cython: annotation_typing=False, wraparound=False, boundscheck=True, initializedcheck=False
"""The loop over the records inside a batch of format v2: check them, decode them, build them.

    record: size varint | attributes int8 | timestamp delta varlong | offset delta varint
            | key length varint, key | value length varint, value | header count varint, headers
    header: key length varint, key | value length varint, value

Varints are zigzag; a length below zero means null. Kafka's DefaultRecord.

Key "k", no value, no headers, at the batch's base offset and 5 ms after its base timestamp:

    0e 00 0a 00 02 6b 01 00
    |  |  |  |  |  |  |  0 headers
    |  |  |  |  |  |  value length -1: null
    |  |  |  |  |  "k"
    |  |  |  |  key length 1
    |  |  |  offset delta 0
    |  |  timestamp delta 5
    |  attributes, of which none are defined
    size: 7 bytes follow

This module runs as Python, or compiled by Cython with the types of record.pxd (`COMPILED`). Validation reads by address
and checks every bound itself; in decoding an index beyond the buffer raises IndexError, which finds most bad lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.records.errors import InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview
    Header: TypeAlias = tuple[str, bytes | None]
    RecordLike: TypeAlias = "Record | tuple[bytes | None, bytes | None, int, Sequence[Header]]"

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

_MIN_INT64 = -(1 << 63)
_MAX_INT64 = (1 << 63) - 1
_MAX_INT32 = (1 << 31) - 1
_MASK32 = (1 << 32) - 1
_MASK64 = (1 << 64) - 1
_LEAST_SIZE = 6
"""Of a record: attributes, two deltas, the lengths of no key and no value, no headers."""
_PAST_THE_END = "the records run past the end of the batch"
_NO_END = "a record does not end where its size says"


class Record:
    """One record. `headers` are (key, value) in their order; `timestamp` is in milliseconds, -1 for none.

    `offset` and `sequence` are -1 where nothing has assigned them.
    """

    __slots__ = ("headers", "key", "offset", "sequence", "timestamp", "value")

    def __init__(
        self,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp: int = -1,
        headers: Sequence[Header] = (),
        offset: int = -1,
        *,
        sequence: int = -1,
    ) -> None:
        self.key: bytes | None = key
        self.value: bytes | None = value
        self.timestamp: int = timestamp
        self.headers: Sequence[Header] = headers
        self.offset: int = offset
        self.sequence: int = sequence

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and list(self.headers) == list(other.headers)
            and self.sequence == other.sequence
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={list(self.headers)!r}, sequence={self.sequence})"
        )


class RecordsSummary:
    """The result of `validate_records`; an index counts from the first record, -1 means none.

    `min_timestamp` and `max_timestamp` in ms (both -1 for no records), `max_timestamp_index` the first record
    that has the latter, `null_key_index` the first record without a key (compacted topics reject those),
    `offset_gap_index` the first record whose offset delta is not its index (batches of clients have no gaps,
    those of the log cleaner do).
    """

    __slots__ = (
        "max_timestamp",
        "max_timestamp_index",
        "min_timestamp",
        "null_key_index",
        "offset_gap_index",
        "record_count",
    )

    def __init__(self) -> None:
        self.record_count: int = 0
        self.min_timestamp: int = -1
        self.max_timestamp: int = -1
        self.max_timestamp_index: int = -1
        self.null_key_index: int = -1
        self.offset_gap_index: int = -1


def validate_records(payload: Buffer, record_count: int, base_timestamp: int) -> RecordsSummary:
    """Reads every record of an uncompressed payload without building any.

    Raises InvalidRecordError when the payload is not exactly `record_count` well-formed records.
    """
    if COMPILED:
        return _validated(payload, record_count, base_timestamp)  # type: ignore[name-defined,no-any-return]  # noqa: F821
    # Plain Python reads bytes faster than memoryviews.
    return validate_span(bytes(payload), len(payload), record_count, base_timestamp)


def validate_span(data: bytes, end: int, record_count: int, base_timestamp: int) -> RecordsSummary:
    """`validate_records` of the first `end` bytes; compiled, it reads by address, for compiled callers."""
    summary = RecordsSummary()
    if record_count < 0:
        raise InvalidRecordError(f"a record count of {record_count} is not possible")
    if record_count == 0:
        return summary
    summary.record_count = record_count
    min_delta, max_delta = _scan(data, end, record_count, summary)
    least, most = _MIN_INT64, _MAX_INT64
    if base_timestamp < 0:
        least -= base_timestamp
    else:
        most -= base_timestamp
    if min_delta < least or max_delta > most:
        raise InvalidRecordError(
            f"a timestamp is out of range: {base_timestamp} and {max_delta} or {min_delta}"
        )
    summary.min_timestamp = base_timestamp + min_delta
    summary.max_timestamp = base_timestamp + max_delta
    return summary


def decode_records(
    payload: Buffer,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    *,
    log_append_time: int | None = None,
    base_sequence: int = -1,
) -> list[Record]:
    """The records of an uncompressed payload.

    Their timestamps are `log_append_time` where that is given. Raises InvalidRecordError when the payload is
    not exactly `record_count` well-formed records.
    """
    if record_count < 0:
        raise InvalidRecordError(f"a record count of {record_count} is not possible")
    start = base_timestamp if log_append_time is None else 0
    try:
        records = _decode(bytes(payload), record_count, base_offset, start)
    except IndexError:
        raise InvalidRecordError("the records run past the end of the batch") from None
    if log_append_time is not None:
        for record in records:
            record.timestamp = log_append_time
    if base_sequence >= 0:
        for record in records:
            record.sequence = (base_sequence + record.offset - base_offset) & _MAX_INT32
    return records


def decode_headers(data: bytes, count: int) -> list[Header]:
    """The headers of one record, without the count that stands before them. Raises InvalidRecordError."""
    headers: list[Header] = []
    try:
        position = _decode_headers(data, 0, count, headers)
    except IndexError:
        position = -1
    if position != len(data):
        raise InvalidRecordError(f"{len(data)} bytes are not {count} headers")
    return headers


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The payload for records that have their offsets, none of them below `base_offset`.

    Raises ValueError for an offset or a timestamp that is too far from the base.
    """
    parts: list[bytes] = []
    for record in records:
        timestamp_delta = record.timestamp - base_timestamp
        offset_delta = record.offset - base_offset
        if not (0 <= offset_delta <= _MAX_INT32 and _MIN_INT64 <= timestamp_delta <= _MAX_INT64):
            raise ValueError(
                f"offset {record.offset}, timestamp {record.timestamp} cannot be in a batch that starts at "
                f"offset {base_offset}, timestamp {base_timestamp}"
            )
        body = [b"\0", _zigzag(timestamp_delta), _zigzag(offset_delta)]
        key = record.key
        body += (b"\x01",) if key is None else (_zigzag(len(key)), key)
        value = record.value
        body += (b"\x01",) if value is None else (_zigzag(len(value)), value)
        headers = record.headers
        if headers:
            _encode_headers(body, headers)
        else:
            body.append(b"\0")
        encoded = b"".join(body)
        parts += (_zigzag(len(encoded)), encoded)
    return b"".join(parts)


def _encode_headers(parts: list[bytes], headers: Sequence[Header]) -> None:
    parts.append(_zigzag(len(headers)))
    for name, value in headers:
        key = name.encode()
        parts += (_zigzag(len(key)), key)
        parts += (b"\x01",) if value is None else (_zigzag(len(value)), value)


_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))


def _zigzag(number: int) -> bytes:
    """A signed number of at most 64 bits as a zigzag varint."""
    raw = (number << 1) ^ (number >> 63)
    if raw < 0x80:
        return _ONE_BYTE[raw]
    if raw < 0x4000:
        return (raw & 0x7F | 0x80 | raw >> 7 << 8).to_bytes(2, "little")
    groups = bytearray()
    while raw >= 0x80:
        groups.append(raw & 0x7F | 0x80)
        raw >>= 7
    groups.append(raw)
    return bytes(groups)


# -- the hot loops: one function each on purpose, to avoid calls --


def _long_varint(data: bytes, position: int, end: int, raw: int, max_bits: int) -> tuple[int, int]:
    """The rest of a varint, of which `raw` is the first byte or the first two, and the position after it.

    Not yet zigzag-decoded. Bits beyond 32 or 64 are dropped, as Kafka's ByteUtils does.
    """
    shift = 7 if raw < 0x100 else 14
    raw &= (1 << shift) - 1
    while True:
        if position >= end:
            raise InvalidRecordError(_PAST_THE_END)
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw & (_MASK32 if max_bits == 32 else _MASK64), position
        shift += 7
        if shift >= max_bits:
            raise InvalidRecordError(f"a variable-length number has more than {max_bits} bits")


def _scan(  # noqa: C901, PLR0912, PLR0915
    data: bytes, end: int, record_count: int, summary: RecordsSummary
) -> tuple[int, int]:
    """(min and max timestamp delta); the indexes go into the summary.

    A record must have room for its minimal size, and so must its rest before each number that follows a number of any
    length: two bytes of every number but the last one can then be read without another check.
    """
    position = index = 0
    min_delta = _MAX_INT64
    max_delta = _MIN_INT64
    max_index = null_key_index = offset_gap_index = -1
    while index < record_count:
        if position >= end:
            raise InvalidRecordError(_PAST_THE_END)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            if position >= end:
                raise InvalidRecordError(_PAST_THE_END)
            raw = raw & 0x7F | data[position] << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = _long_varint(data, position, end, raw, 32)
        number = (raw >> 1) ^ -(raw & 1)
        stop = position + number
        if number < _LEAST_SIZE or stop > end:
            raise InvalidRecordError(f"record {index} claims {number} of {end - position} bytes")
        raw = data[position + 1]  # skips the attributes, of which none are defined
        position += 2
        if raw > 0x7F:
            raw = raw & 0x7F | data[position] << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = _long_varint(data, position, stop, raw, 64)
        number = (raw >> 1) ^ -(raw & 1)
        if number > max_delta:
            max_delta = number
            max_index = index
        if number < min_delta:  # noqa: PLR1730 (a call of min costs more than the rest of the line)
            min_delta = number
        if stop - position < 4:
            raise InvalidRecordError(_NO_END)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw = raw & 0x7F | data[position] << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = _long_varint(data, position, stop, raw, 32)
        if raw != index + index and offset_gap_index < 0:
            offset_gap_index = index
        if stop - position < 3:
            raise InvalidRecordError(_NO_END)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = _long_varint(data, position, stop, raw, 32)
        if not raw & 1:
            position += raw >> 1
        elif null_key_index < 0:
            null_key_index = index
        if stop - position < 2:
            raise InvalidRecordError(_NO_END)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw = raw & 0x7F | data[position] << 7
            position += 1
            if raw > 0x3FFF:
                raw, position = _long_varint(data, position, stop, raw, 32)
        if not raw & 1:
            position += raw >> 1
        if position >= stop:
            raise InvalidRecordError(_NO_END)
        raw = data[position]
        position += 1
        if raw:
            position = _skip_headers(data, position, stop, raw)
        if position != stop:
            raise InvalidRecordError(f"record {index} does not end where its size says")
        index += 1
    if position != end:
        raise InvalidRecordError(f"{end - position} bytes are left after {record_count} records")
    summary.max_timestamp_index = max_index
    summary.null_key_index = null_key_index
    summary.offset_gap_index = offset_gap_index
    return min_delta, max_delta


def _skip_headers(data: bytes, position: int, end: int, raw: int) -> int:
    """The position after the headers, whose count begins with the byte `raw`; no farther than `end`."""
    if raw > 0x7F:
        raw, position = _long_varint(data, position, end, raw, 32)
    left = (raw >> 1) ^ -(raw & 1)
    if not 0 <= left <= end - position:
        raise InvalidRecordError(f"a header count of {left} is not possible")
    while left:
        if position >= end:
            raise InvalidRecordError(_NO_END)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = _long_varint(data, position, end, raw, 32)
        if raw & 1:
            raise InvalidRecordError("a header has no key")
        position += raw >> 1
        if position >= end:
            raise InvalidRecordError(_NO_END)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = _long_varint(data, position, end, raw, 32)
        if not raw & 1:
            position += raw >> 1
        left -= 1
    return position


def _number(data: bytes, position: int, max_bits: int) -> tuple[int, int]:
    """A varint of at most 32 or 64 bits, zigzag-decoded, and the position after it."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= max_bits:
            raise InvalidRecordError(f"a variable-length number has more than {max_bits} bits")
    if shift > 27:
        raw &= (1 << 32) - 1 if max_bits == 32 else (1 << 64) - 1
    return (raw >> 1) ^ -(raw & 1), position


def _decode(data: bytes, record_count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    """The records with their offsets and timestamps."""
    records: list[Record] = []
    position = 0
    end = len(data)
    for _ in range(record_count):
        length, position = _number(data, position, 32)
        stop = position + length
        if length < 0 or stop > end:
            raise InvalidRecordError(
                f"record {len(records)} claims {length} bytes, {end - position} are left"
            )
        timestamp_delta, position = _number(data, position + 1, 64)
        timestamp = base_timestamp + timestamp_delta
        if not _MIN_INT64 <= timestamp <= _MAX_INT64:
            raise InvalidRecordError(f"timestamp {timestamp} of record {len(records)} is out of range")
        offset_delta, position = _number(data, position, 32)
        key = value = None
        length, position = _number(data, position, 32)
        if length >= 0:
            key = data[position : position + length]
            position += length
        length, position = _number(data, position, 32)
        if length >= 0:
            value = data[position : position + length]
            position += length
        headers: list[Header] = []
        length, position = _number(data, position, 32)
        if length:
            position = _decode_headers(data, position, length, headers)
        if position != stop:
            raise InvalidRecordError(f"record {len(records)} does not end where its size says")
        records.append(Record(key, value, timestamp, headers, base_offset + offset_delta))
    if position != end and record_count:
        raise InvalidRecordError(f"{end - position} bytes are left after {record_count} records")
    return records


def _decode_headers(data: bytes, position: int, left: int, headers: list[Header]) -> int:
    """Appends the headers, `left` of them, and returns the position after them."""
    if not 0 <= left <= len(data) - position:
        raise InvalidRecordError(f"a header count of {left} is not possible")
    while left:
        length, position = _number(data, position, 32)
        if length < 0:
            raise InvalidRecordError("a header has no key")
        key = data[position : position + length].decode("utf-8", "replace")
        position += length
        value = None
        length, position = _number(data, position, 32)
        if length >= 0:
            value = data[position : position + length]
            position += length
        headers.append((key, value))
        left -= 1
    return position
