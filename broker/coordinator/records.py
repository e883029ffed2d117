"""The records of __consumer_offsets and __transaction_state: CoordinatorRecord, the types of records, and RecordSerde.

    key    int16 type (the `api_key` of the key's message) | message, always in version 0
    value  int16 version | message; absent for a record that deletes what the key names

The group "g" at generation 0 has the key

    00 02 00 01 67
    |     |     "g"
    |     length 1
    type 2: a classic group

Source: CoordinatorRecord and CoordinatorRecordSerde in org.apache.kafka.coordinator.common.runtime,
CoordinatorRecordType of the group coordinator and of the transaction coordinator, TransactionLog.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Final

from barnabas.protocol.codec import decoder, encode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages import group_state, share_group_state, streams_group_state, transaction_state
from barnabas.protocol.schema import Message

RecordTypes = tuple[tuple[type[Message], type[Message]], ...]

_KEY: Final = "Key"


def _records_of(*modules: ModuleType) -> RecordTypes:
    """Pairs GroupMetadataKey with GroupMetadataValue, and so on."""
    return tuple(
        (key, getattr(module, f"{name.removesuffix(_KEY)}Value"))
        for module in modules
        for name, key in vars(module).items()
        if name.endswith(_KEY)
    )


GROUP_RECORDS: Final = _records_of(group_state, share_group_state, streams_group_state)
OFFSET_KEY_TYPES: Final = frozenset(
    {group_state.LegacyOffsetCommitKey.api_key, group_state.OffsetCommitKey.api_key}
)
"""Key types of committed offsets; all others of __consumer_offsets are of groups."""

TRANSACTION_RECORDS: Final = _records_of(transaction_state)


class CoordinatorRecord:
    """A key and its new `value`, encoded in `version` of its message; None deletes the key."""

    __slots__ = ("key", "value", "version")

    def __init__(self, key: Message, value: Message | None, version: int = 0) -> None:
        self.key = key
        self.value = value
        self.version = version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoordinatorRecord) and (self.key, self.value, self.version) == (
            other.key,
            other.value,
            other.version,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CoordinatorRecord({self.key!r}, {self.value!r}, version={self.version})"


def tombstone(key: Message) -> CoordinatorRecord:
    """The record that deletes what `key` names."""
    return CoordinatorRecord(key, None)


_INT16: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0

Parse = Callable[[bytes, int, int], tuple[Message, int]]


class UnknownRecordTypeError(Exception):
    """A key of a type that a later version has brought; `type` is its number."""

    def __init__(self, type_: int) -> None:
        super().__init__(f"record type {type_} is not known")
        self.type = type_


class UnreadableRecordError(Exception):
    """A record whose bytes do not fit its type."""


class RecordSerde:
    """The records of one topic, by the messages of their keys, each with that of its value."""

    def __init__(self, records: RecordTypes) -> None:
        self._types = {key.api_key: (key, value) for key, value in records if key.api_key is not None}
        self._keys: dict[int, Parse] = {}
        self._parsers: dict[tuple[int, int], Parse] = {}

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """The bytes of key and value. Raises ValueError for a value that its version cannot hold."""
        key, value = record.key, record.value
        assert key.api_key in self._types, f"{key!r} is not a key of this topic"
        key_bytes = _INT16.pack(key.api_key) + encode(key, _KEY_VERSION)
        if value is None:
            return key_bytes, None
        return key_bytes, _INT16.pack(record.version) + encode(value, record.version)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord:
        """Raises UnknownRecordTypeError and UnreadableRecordError."""
        if key is None or len(key) < _INT16.size:
            raise UnreadableRecordError(f"{key!r} is not a key")
        (kind,) = _INT16.unpack_from(key)
        try:
            message = (self._keys.get(kind) or self._key_parser(kind))(key, _INT16.size, len(key))[0]
            if value is None:
                return CoordinatorRecord(message, None)
            if len(value) < _INT16.size:
                raise UnreadableRecordError(f"{value!r} is not a value of record type {kind}")
            (version,) = _INT16.unpack_from(value)
            parse = self._parsers.get((kind, version)) or self._value_parser(kind, version)
            return CoordinatorRecord(message, parse(value, _INT16.size, len(value))[0], version)
        except ProtocolError as error:
            raise UnreadableRecordError(f"a record of type {kind} cannot be read: {error}") from error

    def _key_parser(self, kind: int) -> Parse:
        if kind not in self._types:
            raise UnknownRecordTypeError(kind)
        parse = self._keys[kind] = decoder(self._types[kind][0], _KEY_VERSION)
        return parse

    def _value_parser(self, kind: int, version: int) -> Parse:
        message = self._types[kind][1]
        low, high = message.versions
        if not low <= version <= high:
            raise UnreadableRecordError(
                f"a record of type {kind} has a value of version {version}; {low} to {high} are known"
            )
        parse = self._parsers[kind, version] = decoder(message, version)
        return parse
