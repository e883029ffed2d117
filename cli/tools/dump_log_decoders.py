"""Decoders of keys and values for `dump-log`: text, numbers, and records of Kafka's internal topics."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.cli.tools.java_text import decode_utf8
from barnabas.cli.tools.kafka_json import Bytes, dumps, to_json
from barnabas.protocol.codec import decoder
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.control import ControlRecordType, control_record_type, coordinator_epoch
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import read_unsigned_varint

if TYPE_CHECKING:
    from barnabas.protocol.records.record import Record

    BytesDecoder = Callable[[bytes], object]


class UndecodableError(Exception):
    """The chosen decoder cannot decode a record; the message has its offset and the reason."""


class Decoded(NamedTuple):
    """Key and value: text for Kafka's lines, or a tree with --json; None if absent."""

    key: object | None
    value: object | None


class Tree:
    """A decoded record: `tree` for --json; its text is the JSON that Kafka prints."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree

    def __str__(self) -> str:
        return dumps(self.tree)


Decoder = Callable[["Record"], Decoded]

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_INT16: Final = struct.Struct(">h")


# -- --key-decoder-class and --value-decoder-class --


def _number(layout: struct.Struct) -> BytesDecoder:
    def decode(data: bytes) -> int:
        if len(data) < layout.size:
            raise UndecodableError(f"{len(data)} bytes are too few for a number of {layout.size}")
        return int(layout.unpack_from(data)[0])

    return decode


DEFAULT_DECODER_CLASS: Final = "org.apache.kafka.tools.api.StringDecoder"
DECODER_CLASSES: Final[dict[str, BytesDecoder]] = {
    DEFAULT_DECODER_CLASS: decode_utf8,
    "org.apache.kafka.tools.api.IntegerDecoder": _number(_INT32),
    "org.apache.kafka.tools.api.LongDecoder": _number(_INT64),
    "org.apache.kafka.tools.api.DefaultDecoder": lambda data: data.hex(),
    "org.apache.kafka.common.serialization.StringDeserializer": decode_utf8,
    "org.apache.kafka.common.serialization.IntegerDeserializer": _number(_INT32),
    "org.apache.kafka.common.serialization.LongDeserializer": _number(_INT64),
    "kafka.serializer.StringDecoder": decode_utf8,
    "kafka.serializer.IntegerDecoder": _number(_INT32),
    "kafka.serializer.LongDecoder": _number(_INT64),
    "kafka.serializer.DefaultDecoder": lambda data: data.hex(),
}


def plain_decoder(key_class: str, value_class: str) -> Decoder:
    """A decoder of keys and values by the names of Java classes. Raises KeyError."""
    decode_key, decode_value = DECODER_CLASSES[key_class], DECODER_CLASSES[value_class]

    def decode(record: Record) -> Decoded:
        key, value = record.key, record.value
        try:
            return Decoded(
                None if key is None else decode_key(key), None if value is None else decode_value(value)
            )
        except UndecodableError as error:
            raise UndecodableError(f"cannot decode the record at offset {record.offset}: {error}") from None

    return decode


# -- records of coordinators: a version before key and value, that of the key being the type --


class _CoordinatorDecoder:
    """Keys and values of one internal topic."""

    def __init__(self, modules: Iterable[str]) -> None:
        found = list(_messages(modules))
        self._keys = {message.api_key: message for message in found if message.__name__.endswith("Key")}
        self._values = {message.api_key: message for message in found if message.__name__.endswith("Value")}

    def __call__(self, record: Record) -> Decoded:
        if record.key is None:
            raise UndecodableError(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            return self._decode(record.key, record.value, record.offset)
        except ProtocolError as error:
            return Decoded(f"Error at offset {record.offset}, skipping. {error}", None)

    def _decode(self, key: bytes, value: bytes | None, offset: int) -> Decoded:
        kind, key_rest = _version(key, "key")
        key_type = self._keys.get(kind)
        if key_type is None:
            return Decoded(f"Unknown record type {kind} at offset {offset}, skipping.", None)
        key_message = _read(key_type, 0, key_rest, "key")
        decoded_key = Tree({"type": str(kind), "data": to_json(key_message, 0)})
        if value is None:
            return Decoded(decoded_key, "<DELETE>")
        version, value_rest = _version(value, "value")
        message = _read(self._values[kind], version, value_rest, "value")
        return Decoded(
            decoded_key, Tree({"version": str(version), "data": self._value_json(message, version)})
        )

    def _value_json(self, message: Message, version: int) -> dict[str, Any]:
        tree = to_json(message, version)
        if type(message).__name__ == "GroupMetadataValue" and tree.get("protocolType") == "consumer":
            for member in tree["members"]:
                _unfold(member, "subscription", "ConsumerProtocolSubscription")
                _unfold(member, "assignment", "ConsumerProtocolAssignment")
        return tree


def _version(data: bytes, what: str) -> tuple[int, bytes]:
    if len(data) < 2:
        raise ProtocolError(f"Could not read version from {what}'s buffer.")
    return _INT16.unpack_from(data)[0], data[2:]


def _read(message_type: type[Message], version: int, data: bytes, what: str) -> Message:
    """The message at the beginning of `data`; bytes after it are ignored, as in Kafka."""
    try:
        return decoder(message_type, version)(data, 0, len(data))[0]
    except (ProtocolError, ValueError) as error:
        raise ProtocolError(
            f"Could not read record with version {version} from {what}'s buffer due to: {error}."
        ) from None


def _unfold(member: dict[str, Any], name: str, message_name: str) -> None:
    """Replaces the bytes of a classic consumer's protocol by the decoded message, if they can be decoded."""
    import barnabas.protocol.messages.consumer_protocol as messages

    data = member.get(name)
    if not isinstance(data, Bytes):
        return
    message_type: type[Message] = getattr(messages, message_name)
    try:
        version, rest = _version(data.data, name)
        # A newer version is decoded as the latest known one: fields are only added at the end.
        known = min(version, message_type.versions.high)
        member[name] = to_json(_read(message_type, known, rest, name), known)
    except ProtocolError:
        return


@cache
def _coordinator_decoder(*modules: str) -> _CoordinatorDecoder:
    return _CoordinatorDecoder(modules)


def offsets_decoder() -> Decoder:
    """__consumer_offsets."""
    return _coordinator_decoder("group_state", "share_group_state", "streams_group_state")


def transaction_log_decoder() -> Decoder:
    """__transaction_state."""
    return _coordinator_decoder("transaction_state")


def share_group_state_decoder() -> Decoder:
    """__share_group_state."""
    return _coordinator_decoder("share_coordinator_state")


# -- __cluster_metadata and __remote_log_metadata: frame version, type, version, message --


def cluster_metadata_decoder() -> Decoder:
    """__cluster_metadata and its snapshots; keys are ignored."""
    types = _framed_types("cluster_records", "topic_records")

    def decode(record: Record) -> Decoded:
        try:
            message, version = _unframe(record.value, types)
        except ProtocolError as error:
            return Decoded(None, f"Error at {record.offset}, skipping. {error}")
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(message).__name__).upper()
        return Decoded(None, _tree(name, message, version))

    return decode


def remote_log_metadata_decoder() -> Decoder:
    """__remote_log_metadata, as JSON where Kafka prints the text of its Java objects; keys are ignored."""
    types = _framed_types("remote_log_records")

    def decode(record: Record) -> Decoded:
        try:
            message, version = _unframe(record.value, types)
        except ProtocolError as error:
            return Decoded(None, f"Error at offset {record.offset}, skipping. {error}")
        return Decoded(None, _tree(type(message).__name__, message, version))

    return decode


def _tree(name: str, message: Message, version: int) -> Tree:
    return Tree({"type": name, "version": version, "data": to_json(message, version)})


def _messages(modules: Iterable[str]) -> Iterator[type[Message]]:
    """The messages that are declared in modules of protocol.messages."""
    for name in modules:
        for found in vars(import_module(f"barnabas.protocol.messages.{name}")).values():
            if isinstance(found, type) and issubclass(found, Message) and found is not Message:
                yield found


@cache
def _framed_types(*modules: str) -> dict[int, type[Message]]:
    return {message.api_key: message for message in _messages(modules) if message.api_key is not None}


def _unframe(value: bytes | None, types: dict[int, type[Message]]) -> tuple[Message, int]:
    """(message, version). Raises ProtocolError, with Kafka's words where it has some."""
    if value is None:
        raise ProtocolError("the record has no value")
    frame, position = _number_before(value, 0, "frame version")
    if frame == 0:
        raise ProtocolError(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
            "of KRaft in 2.8 to newer versions are not supported."
        )
    if frame != 1:
        raise ProtocolError(
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            "(only frame version 1 is supported)"
        )
    kind, position = _number_before(value, position, "type")
    version, position = _number_before(value, position, "version")
    message_type = types.get(kind)
    if message_type is None:
        raise ProtocolError(
            f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {kind}"
        )
    try:
        message, end = decoder(message_type, version)(value, position, len(value))
    except (ProtocolError, ValueError):
        raise ProtocolError(f"Failed to deserialize record with type {kind}") from None
    if end != len(value):
        raise ProtocolError(f"Found {len(value) - end} byte(s) of garbage after {kind}")
    return message, version


def _number_before(value: bytes, position: int, what: str) -> tuple[int, int]:
    try:
        number, position = read_unsigned_varint(value, position)
    except (ProtocolError, IndexError):
        raise ProtocolError(f"Error while reading {what}") from None
    if number > 0x7FFF:
        raise ProtocolError(f"Value for {what} was too large.")
    return number, position


# -- control records --


_CONTROL_MESSAGES: Final[dict[ControlRecordType, tuple[str, type[Message]]]] = {
    ControlRecordType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
    ControlRecordType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlRecordType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlRecordType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlRecordType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}


class Control(NamedTuple):
    """A control record: name and number of its type, the coordinator epoch of a marker, or the KRaft message."""

    name: str
    number: int
    coordinator_epoch: int | None = None
    label: str = ""
    data: dict[str, Any] | None = None

    def __str__(self) -> str:
        if self.coordinator_epoch is not None:
            return f" endTxnMarker: {self.name} coordinatorEpoch: {self.coordinator_epoch}"
        if self.data is not None:
            return f" {self.label} {dumps(self.data)}"
        return f" controlType: {self.name}({self.number})"


def control(record: Record) -> Control:
    """The decoded control record. Raises InvalidRecordError."""
    kind = control_record_type(record.key)
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return Control(kind.name, number, coordinator_epoch=coordinator_epoch(record.value))
    if kind not in _CONTROL_MESSAGES:
        return Control(kind.name, number)
    label, message_type = _CONTROL_MESSAGES[kind]
    message = _read_control(message_type, record)
    return Control(kind.name, number, label=label, data=to_json(message, getattr(message, "version", 0)))


def _read_control(message_type: type[Message], record: Record) -> Message:
    """Decoded as version 0, as in Kafka, which prints the version in their `version` field."""
    value = record.value or b""
    try:
        return decoder(message_type, 0)(value, 0, len(value))[0]
    except ProtocolError as error:
        raise InvalidRecordError(f"the control record at offset {record.offset}: {error}") from None
