"""The common part of the three formats: a decoder, and conversions of nested values for Arrow."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

Convert = Callable[[Any], Any]
"""Converts a format library's value to one that Arrow accepts for a type; never called with None."""


class Decoder(NamedTuple):
    """The column's type, and a payload's value for it. `decode` raises MalformedValueError, UnknownSchemaError, and
    whatever else its library raises over bytes that it does not understand."""

    type: pa.DataType
    decode: Callable[[bytes], object]


def converted(convert: Convert, value: Any) -> object:
    """Converts a whole value, which may be null where its schema allows it."""
    return None if value is None else convert(value)


def as_is(value: Any) -> Any:
    """The conversion for values that Arrow accepts as the library returns them."""
    return value


def json_text(value: Any) -> str:
    """The value as JSON, for schemas without a column type; bytes in base64."""
    return json.dumps(value, default=_not_in_json)


def _not_in_json(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def structure(columns: Mapping[str, tuple[pa.DataType, Convert]]) -> tuple[pa.DataType, Convert]:
    """A struct of these columns from a mapping; missing entries are null. Without columns it is JSON text."""
    if not columns:
        return pa.string(), json_text  # table files cannot hold a struct without fields
    converts = [(name, convert) for name, (_, convert) in columns.items()]

    def convert_all(value: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, convert in converts:
            item = value.get(name)
            found[name] = None if item is None else convert(item)
        return found

    return pa.struct([(name, kind) for name, (kind, _) in columns.items()]), convert_all


def sequence(convert: Convert) -> Convert:
    """A list whose values are converted one by one."""
    return lambda values: [None if one is None else convert(one) for one in values]


def map_items(convert: Convert) -> Convert:
    """A mapping's entries, in the form that Arrow accepts."""
    return lambda values: [(key, None if one is None else convert(one)) for key, one in values.items()]
