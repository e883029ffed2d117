"""JSON by a JSON Schema (drafts 4, 6 and 7): the whole schema is checked, and its types are the columns.

| schema | column |
| --- | --- |
| integer, number, boolean, string | bigint, double, boolean, string |
| string with format date-time, date | timestamp, date |
| object with properties | struct |
| object with additionalProperties only, or patternProperties that are the same | map |
| array with items | array |
| one of these or null | the same: every column may be null |
| anything else (other unions, recursion) | string: the JSON text |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Final, NoReturn

import fastjsonschema
import pyarrow as pa

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
from barnabas.pipeline.decoding.errors import MalformedValueError, SchemaError
from barnabas.pipeline.decoding.wire_format import split

JsonSchema = Mapping[str, Any] | bool
Column = tuple[pa.DataType, Convert]
_JSON_TEXT: Final[Column] = (pa.string(), json_text)


def json_decoder(schema_text: str, *, registry_framing: bool = False) -> Decoder:
    """SchemaError where the text is no JSON Schema."""
    try:
        schema = json.loads(schema_text)
        reject = dict.fromkeys(("http", "https", "file", "ftp"), _reject_remote)
        validate = fastjsonschema.compile(schema, handlers=reject, use_default=False)
    except (ValueError, fastjsonschema.JsonSchemaDefinitionException) as error:
        raise SchemaError(f"this is not a usable JSON Schema: {error}") from error
    kind, convert = _Columns(schema).column(schema)
    decode = partial(_decode, validate, convert)
    return Decoder(kind, (lambda value: decode(split(value)[1])) if registry_framing else decode)


def _reject_remote(uri: str) -> NoReturn:
    raise SchemaError(f"the schema refers to {uri}, and only references within it are followed")


def _decode(validate: Callable[[Any], Any], convert: Convert, payload: bytes) -> object:
    try:
        value = json.loads(payload.decode(), parse_constant=_reject_constant)
        validate(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise MalformedValueError(error.message) from error
    except RecursionError as error:
        raise MalformedValueError("nested too deeply") from error
    except ValueError as error:  # no UTF-8, no JSON, or a number that is too long
        raise MalformedValueError(f"not JSON: {error}") from error
    return converted(convert, value)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's, not JSON's")


class _Columns:
    """Types of Arrow for a schema with its definitions."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._open: list[str] = []
        """References being followed: one that occurs within itself has no type."""

    def column(self, schema: JsonSchema) -> Column:
        """The column for the values of a (sub)schema."""
        if isinstance(schema, bool):
            return _JSON_TEXT
        if "$ref" in schema:
            return self._referred(schema["$ref"])
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices:
            return self._only([one for one in choices if not _is_null(one)])
        kinds = schema.get("type", _kinds_of(schema.get("enum", [])))
        kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
        return self._typed(kinds[0], schema) if len(kinds) == 1 else _JSON_TEXT

    def _only(self, choices: list[JsonSchema]) -> Column:
        return self.column(choices[0]) if len(choices) == 1 else _JSON_TEXT

    def _typed(self, kind: str, schema: Mapping[str, Any]) -> Column:
        if kind == "string":
            return _STRINGS.get(schema.get("format", ""), (pa.string(), as_is))
        if kind == "array" and isinstance(schema.get("items"), Mapping):
            item, convert = self.column(schema["items"])
            return pa.list_(item), sequence(convert)
        if kind == "object":
            return self._object(schema)
        return _SCALARS.get(kind, _JSON_TEXT)

    def _object(self, schema: Mapping[str, Any]) -> Column:
        if properties := schema.get("properties"):
            columns = {name: self.column(one) for name, one in properties.items()}
            return structure(columns)
        rest = schema.get("additionalProperties")
        # Properties of a pattern have their own schema: one map can hold only those of the same type.
        others = schema.get("patternProperties", {}).values()
        if isinstance(rest, Mapping) and all(other == rest for other in others):
            item, convert = self.column(rest)
            return pa.map_(pa.string(), item), map_items(convert)
        return _JSON_TEXT

    def _referred(self, reference: str) -> Column:
        if reference in self._open:
            return _JSON_TEXT
        self._open.append(reference)
        try:
            return self.column(self._lookup(reference))
        finally:
            self._open.pop()

    def _lookup(self, reference: str) -> JsonSchema:
        found: Any = self._root
        if not reference.startswith("#"):
            _reject_remote(reference)
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise SchemaError(f"the schema refers to {reference}, which it does not have")
            found = found[key]
        checked: JsonSchema = found
        return checked


def _is_null(schema: JsonSchema) -> bool:
    """Whether the schema allows null alone; it may also have a title, for example."""
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _kinds_of(values: list[object]) -> list[str]:
    return ["string"] if values and all(isinstance(one, str) for one in values) else []


def _integer(value: Any) -> int:
    return int(value)  # 5.0 is an integer in JSON Schema


def _timestamp(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value.upper())  # RFC 3339 has t and z as well, Python has not
    except ValueError as error:
        raise MalformedValueError(f"{value!r} is not a time") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _date(value: str) -> date:
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise MalformedValueError(f"{value!r} is not a date") from error


_STRINGS: Final[dict[str, Column]] = {
    "date-time": (pa.timestamp("us", "UTC"), _timestamp),
    "date": (pa.date32(), _date),
}
_SCALARS: Final[dict[str, Column]] = {
    "integer": (pa.int64(), _integer),
    "number": (pa.float64(), float),
    "boolean": (pa.bool_(), as_is),
}
