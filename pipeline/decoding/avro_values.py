"""Avro, read by the schema it was written with into the one that the columns have.

| schema | column |
| --- | --- |
| boolean, int, long, float, double, bytes, string | boolean, int, bigint, float, double, binary, string |
| enum, fixed | string, binary |
| record, array, map | struct, array, map |
| decimal (of 38 digits at most), date | decimal, date |
| timestamp-millis, timestamp-micros; local-timestamp-* | timestamp; timestamp without time zone |
| uuid; time-millis, time-micros, timestamp-nanos | string; the number as it is |
| one of these or null | the same: every column may be null |
| any other union, recursion, a record without fields | string: JSON text |
| null alone | string: always null |
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from barnabas.pipeline.decoding.decoder import (
    Convert,
    Decoder,
    as_is,
    converted,
    json_text,
    map_items,
    sequence,
    structure,
)
from barnabas.pipeline.decoding.errors import MalformedValueError, SchemaError, UnknownSchemaError
from barnabas.pipeline.decoding.wire_format import split

Column = tuple[pa.DataType, Convert]
Texts = tuple[str, ...]
_JSON_TEXT: Final[Column] = (pa.string(), json_text)
_PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
    "null": pa.string(),  # table files cannot hold a column without a type
}
_LOGICAL: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_MAX_DECIMAL_DIGITS: Final = 38


class Parsed(NamedTuple):
    """A schema as fastavro wants it, and the types that have names, by these."""

    schema: Any
    named: Mapping[str, Any]


def avro_decoder(
    schema: Texts, *, registry_framing: bool = False, writers: Mapping[int, Texts] | None = None
) -> Decoder:
    """A decoder for the last text of each schema; the others are the types that it refers to. Raises SchemaError."""
    reader = parsed_schema(schema)
    kind, convert = _Columns(reader.named).column(reader.schema)
    if not registry_framing:
        return Decoder(kind, lambda payload: converted(convert, _read(payload, reader.schema, reader.schema)))
    known = {schema_id: parsed_schema(texts).schema for schema_id, texts in (writers or {}).items()}
    return Decoder(kind, partial(_decode_framed, known, reader.schema, convert))


def parsed_schema(texts: Texts) -> Parsed:
    """Parses a schema, keeping only logical types that have a column type. Raises SchemaError."""
    named: dict[str, Any] = {}
    parsed = None
    try:
        for text in texts:
            parsed = fastavro.parse_schema(_plain(json.loads(text)), named_schemas=named)
    except (ValueError, SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise SchemaError(f"this is no Avro schema: {error!r}") from error
    return Parsed(_with_names(parsed, named), named)


def _with_names(schema: Any, named: Mapping[str, Any]) -> Any:
    """A schema that fastavro can read with, when it is not a record and refers to types in other texts."""
    if isinstance(schema, list):
        return [_with_names(one, named) for one in schema]
    if isinstance(schema, str):
        if schema not in named:
            return schema
        schema = named[schema]
    return {**schema, "__fastavro_parsed": True, "__named_schemas": named}


def _plain(schema: Any) -> Any:
    """The schema without logical types that have no column type: a uuid stays a string, a time of day a number."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = schema.get("logicalType") in _LOGICAL or _is_decimal(schema)
    plain = {key: value for key, value in schema.items() if kept or key != "logicalType"}
    for nested in ("type", "items", "values"):
        if nested in plain:
            plain[nested] = _plain(plain[nested])
    if "fields" in plain:
        plain["fields"] = [{**one, "type": _plain(one["type"])} for one in plain["fields"]]
    return plain


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    return (
        schema.get("logicalType") == "decimal" and 0 < int(schema.get("precision", 0)) <= _MAX_DECIMAL_DIGITS
    )


def _decode_framed(known: Mapping[int, Any], reader: Any, convert: Convert, value: bytes) -> object:
    schema_id, payload = split(value)
    if schema_id not in known:
        raise UnknownSchemaError(schema_id)
    return converted(convert, _read(payload, known[schema_id], reader))


def _read(payload: bytes, writer: Any, reader: Any) -> Any:
    stream = io.BytesIO(payload)
    found = fastavro.schemaless_reader(stream, writer, None if reader is writer else reader)
    if left := len(payload) - stream.tell():
        raise MalformedValueError(f"{left} bytes are left over behind the value")
    return found


class _Columns:
    """Types of Arrow for a schema that fastavro has parsed: named types are written out once and named afterwards."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._open: list[str] = []

    def column(self, schema: Any) -> Column:
        """The column for the values of a schema."""
        if isinstance(schema, list):
            return self._union([one for one in schema if one != "null"])
        if isinstance(schema, str):
            return self._by_name(schema)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.column(kind)
        if schema.get("logicalType") in _LOGICAL:
            return _LOGICAL[schema["logicalType"]], as_is
        if _is_decimal(schema):
            return pa.decimal128(schema["precision"], schema.get("scale", 0)), as_is
        return self._by_kind(kind, schema)

    def _by_kind(self, kind: str, schema: Mapping[str, Any]) -> Column:
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "array":
                item, convert = self.column(schema["items"])
                return pa.list_(item), sequence(convert)
            case "map":
                item, convert = self.column(schema["values"])
                return pa.map_(pa.string(), item), map_items(convert)
        return self._by_name(kind)

    def _by_name(self, name: str) -> Column:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name], as_is
        if name in self._open:
            return _JSON_TEXT
        return self.column(self._named[name])

    def _record(self, schema: Mapping[str, Any]) -> Column:
        self._open.append(schema["name"])
        try:
            return structure({one["name"]: self.column(one["type"]) for one in schema["fields"]})
        finally:
            self._open.pop()

    def _union(self, choices: list[Any]) -> Column:
        return self.column(choices[0]) if len(choices) == 1 else _JSON_TEXT
