"""Metadata records in the log and in snapshots: a frame around each message.

    frame version  varint, 1
    record type    varint, the message's api key
    version        varint, of the message
    fields

The value of a record; its key is null. Source: org.apache.kafka.metadata.MetadataRecordSerde.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.versions import record_version
from barnabas.protocol.codec import decoder, encode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import read_unsigned_varint, unsigned_varint

FRAME_VERSION: Final = 1
_SHORT_PREFIX_BYTES: Final = 3
"""The prefix of a frame whose numbers are all below 128, as they are so far."""

Reader = Callable[[bytes, int, int], tuple[Message, int]]
_readers: dict[bytes, Reader] = {}  # by the first bytes of the frame: a start reads many records of few kinds


@cache
def record_types() -> dict[int, type[Message]]:
    """The metadata records, by type."""
    from barnabas.protocol.messages import cluster_records, topic_records

    found = (
        value
        for module in (cluster_records, topic_records)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    )
    return {message_type.api_key: message_type for message_type in found if message_type.api_key is not None}


def frame(record: Message, metadata_version: int) -> bytes:
    """A record with its frame, in the version of the metadata.version.

    Fields that the version does not have are dropped: the caller ensures that nothing depends on them.
    """
    return frame_as(record, record_version(record, metadata_version))


def frame_as(record: Message, version: int) -> bytes:
    """A record in this version, with its frame. Raises ValueError for an unknown version."""
    return _prefix(type(record), version) + encode(_reduced(record, version), version)


@cache
def _prefix(record_type: type[Message], version: int) -> bytes:
    assert record_type.api_key is not None, f"{record_type.__name__} is no metadata record"
    return b"".join(unsigned_varint(number) for number in (FRAME_VERSION, record_type.api_key, version))


@cache
def _missing_fields(record_type: type[Message], version: int) -> tuple[str, ...]:
    return tuple(field.name for field in record_type.fields if not field.versions.has(version))


def _reduced(record: Message, version: int) -> Message:
    """The record without the fields that `version` does not have; the record itself where it has all."""
    missing = _missing_fields(type(record), version)
    if not missing:
        return record
    kept = {field.name: getattr(record, field.name) for field in record.fields if field.name not in missing}
    return type(record)(**kept, unknown_tagged_fields=record.unknown_tagged_fields)


def unframe(value: bytes | None) -> Message:
    """The record in a frame. Raises MetadataLogError for an unknown or invalid record."""
    if value is None:
        raise MetadataLogError("a metadata record has no value")
    try:
        return _unframe(value)
    except (ProtocolError, IndexError) as error:
        raise MetadataLogError(f"a metadata record of {len(value)} bytes cannot be read: {error}") from error


def _unframe(value: bytes) -> Message:
    prefix = value[:_SHORT_PREFIX_BYTES]
    read, position = _readers.get(prefix), _SHORT_PREFIX_BYTES
    if read is None:
        read, position = _reader(value)
        if position == _SHORT_PREFIX_BYTES:
            _readers[prefix] = read
    message, end = read(value, position, len(value))
    if end != len(value):
        raise MetadataLogError(f"{type(message).__name__} is followed by {len(value) - end} bytes")
    return message


def _reader(value: bytes) -> tuple[Reader, int]:
    """The decoder of the message in a frame, and the position of the message."""
    frame_version, position = read_unsigned_varint(value, 0)
    api_key, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    message_type = record_types().get(api_key)
    if frame_version != FRAME_VERSION or message_type is None or not message_type.versions.has(version):
        raise MetadataLogError(_unknown(frame_version, api_key, version, message_type))
    return decoder(message_type, version), position


def _unknown(frame_version: int, api_key: int, version: int, message_type: type[Message] | None) -> str:
    if frame_version != FRAME_VERSION:
        return (
            f"a metadata record has frame version {frame_version}; {FRAME_VERSION} is the only one there is"
        )
    if message_type is None:
        return f"metadata record type {api_key} is not known to this broker; a newer one may have written it"
    return f"{message_type.__name__} has version {version}; this broker knows {message_type.versions}"
