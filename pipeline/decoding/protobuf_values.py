"""Protobuf by the descriptors of its files, as `protoc --include_imports --descriptor_set_out=FILE` writes them.

| field | column |
| --- | --- |
| int32, sint32, sfixed32; int64, sint64, sfixed64, uint32, fixed32 | int; bigint |
| uint64, fixed64 | decimal(20) |
| float, double, bool, string, bytes | float, double, boolean, string, binary |
| enum | string: its name, or its number where the schema has none |
| message, repeated, map | struct, array, map |
| google.protobuf.Timestamp | timestamp |
| recursion, a message without fields | string: JSON text |

A field that can be absent (optional, in a oneof, a message) is null then; others have Protobuf's default. Fields that
the schema does not have are left out, as Protobuf intends; so much garbage is a valid message.
"""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from barnabas.pipeline.decoding.decoder import Convert, Decoder, as_is, map_items, sequence
from barnabas.pipeline.decoding.errors import MalformedValueError, SchemaError, UnknownSchemaError
from barnabas.pipeline.decoding.wire_format import split, split_indexes

Column = tuple[pa.DataType, Convert]
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_OF_GOOGLE: Final = re.compile(r"google/(protobuf|type)/\w+\.proto")
_UINT64: Final[Column] = (pa.decimal128(20), as_is)
_FD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final[dict[int, Column]] = {
    _FD.TYPE_INT32: (pa.int32(), as_is),
    _FD.TYPE_SINT32: (pa.int32(), as_is),
    _FD.TYPE_SFIXED32: (pa.int32(), as_is),
    _FD.TYPE_INT64: (pa.int64(), as_is),
    _FD.TYPE_SINT64: (pa.int64(), as_is),
    _FD.TYPE_SFIXED64: (pa.int64(), as_is),
    _FD.TYPE_UINT32: (pa.int64(), as_is),
    _FD.TYPE_FIXED32: (pa.int64(), as_is),
    _FD.TYPE_UINT64: _UINT64,
    _FD.TYPE_FIXED64: _UINT64,
    _FD.TYPE_FLOAT: (pa.float32(), as_is),
    _FD.TYPE_DOUBLE: (pa.float64(), as_is),
    _FD.TYPE_BOOL: (pa.bool_(), as_is),
    _FD.TYPE_STRING: (pa.string(), as_is),
    _FD.TYPE_BYTES: (pa.binary(), as_is),
}


def files_of_descriptor_set(data: bytes) -> tuple[str, ...]:
    """The texts of a `DecodingSpec` for what protoc wrote. SchemaError."""
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise SchemaError(f"this is nothing that protoc --descriptor_set_out has written: {error}") from error
    if not found.file:
        raise SchemaError("there is no file in these descriptors")
    return tuple(base64.b64encode(file.SerializeToString()).decode() for file in found.file)


def named_file(text: str, name: str) -> str:
    """A registry's file by the name that others import it by, which is not always the one in the file. SchemaError."""
    file = _file(text)
    file.name = name
    return base64.b64encode(file.SerializeToString()).decode()


def _file(text: str) -> Any:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except (ValueError, DecodeError) as error:
        raise SchemaError(f"this is no Protobuf file descriptor in base64: {text[:100]!r}") from error


def protobuf_decoder(
    files: tuple[str, ...],
    message: str,
    *,
    registry_framing: bool = False,
    writers: Mapping[int, tuple[str, ...]] | None = None,
) -> Decoder:
    """A decoder for the message of that full name; without a name, for the only one of the last file. Raises
    SchemaError."""
    parsed = [_file(text) for text in files]
    name = message or _only_message(parsed[-1])
    pool = descriptor_pool.DescriptorPool()
    try:
        _add_known(pool, parsed)
        for file in parsed:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError as error:
        raise SchemaError(f"there is no message {name} in these descriptors: {error}") from error
    except (TypeError, ValueError) as error:
        raise SchemaError(f"these descriptors do not make a whole: {error}") from error
    kind, convert = _Columns().message(descriptor)
    parse = message_factory.GetMessageClass(descriptor).FromString
    if registry_framing:
        known = {schema_id: _messages(_file(texts[-1])) for schema_id, texts in (writers or {}).items()}
        return Decoder(kind, partial(_decode_framed, known, descriptor.full_name, parse, convert))
    return Decoder(kind, partial(_decode, parse, convert))


def _add_known(pool: Any, files: Sequence[Any]) -> None:
    """Adds imported files that Google's packages contain: a registry leaves such files out."""
    own = {file.name for file in files}
    for name in sorted({name for file in files for name in file.dependency} - own):
        if not _OF_GOOGLE.fullmatch(name):
            continue
        try:
            module = importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
        except ImportError:
            continue  # the pool's error names the missing file
        known = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        _add_known(pool, [known])
        pool.Add(known)


def _only_message(file: descriptor_pb2.FileDescriptorProto) -> str:
    names = [one.name for one in file.message_type]
    if len(names) != 1:
        raise SchemaError(
            f"{file.name} has the messages {', '.join(names) or 'none'}: say which one is meant"
        )
    return f"{file.package}.{names[0]}" if file.package else names[0]


def _messages(file: Any) -> dict[tuple[int, ...], str]:
    """The full names of a file's messages, by the paths of indexes that lead to them."""
    found: dict[tuple[int, ...], str] = {}

    def add(messages: Sequence[Any], path: tuple[int, ...], scope: str) -> None:
        for index, one in enumerate(messages):
            found[*path, index] = f"{scope}{one.name}"
            add(one.nested_type, (*path, index), f"{scope}{one.name}.")

    add(file.message_type, (), f"{file.package}." if file.package else "")
    return found


def _decode(parse: Callable[[bytes], Any], convert: Convert, payload: bytes) -> object:
    try:
        return convert(parse(payload))
    except DecodeError as error:
        raise MalformedValueError(f"not this Protobuf message: {error}") from error


def _decode_framed(
    known: Mapping[int, Mapping[tuple[int, ...], str]],
    expected: str,
    parse: Callable[[bytes], Any],
    convert: Convert,
    value: bytes,
) -> object:
    schema_id, rest = split(value)
    if schema_id not in known:
        raise UnknownSchemaError(schema_id)
    indexes, payload = split_indexes(rest)
    found = known[schema_id].get(tuple(indexes))
    if found != expected:
        raise MalformedValueError(
            f"its indexes {indexes} are those of {found or 'no message'} in the schema {schema_id}, not of {expected}"
        )
    return _decode(parse, convert, payload)


class _Columns:
    """Types of Arrow for descriptors."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def message(self, descriptor: Any) -> Column:
        """The column for a message."""
        if descriptor.full_name == _TIMESTAMP:
            return pa.timestamp("us", "UTC"), _to_datetime
        if descriptor.full_name in self._open:
            return pa.string(), _to_json
        self._open.append(descriptor.full_name)
        try:
            columns = [(field, *self._field(field)) for field in descriptor.fields]
        finally:
            self._open.pop()
        if not columns:
            return pa.string(), _to_json  # table files cannot hold a struct without fields
        getters = [(field.name, field.has_presence, convert) for field, _, convert in columns]
        return pa.struct([(field.name, kind) for field, kind, _ in columns]), partial(_to_dict, getters)

    def _field(self, field: Any) -> Column:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            item, convert = self._one(value)
            return pa.map_(self._one(key)[0], item), map_items(convert)
        kind, convert = self._one(field)
        return (pa.list_(kind), sequence(convert)) if field.is_repeated else (kind, convert)

    def _one(self, field: Any) -> Column:
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            return pa.string(), lambda number: names.get(number, str(number))
        return _SCALARS[field.type]


def _to_dict(getters: list[tuple[str, bool, Convert]], message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, has_presence, convert in getters:
        absent = has_presence and not message.HasField(name)
        found[name] = None if absent else convert(getattr(message, name))
    return found


def _to_datetime(timestamp: Any) -> Any:
    try:
        return timestamp.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise MalformedValueError(f"{timestamp.seconds} s is outside the calendar") from error


def _to_json(message: Any) -> str:
    return str(json_format.MessageToJson(message, indent=None))
