"""Decodes a column of values into a column of structures, with the reason for each value that cannot be decoded."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from barnabas.pipeline.decoding.decoder import Decoder
from barnabas.pipeline.decoding.errors import MalformedValueError, UnknownSchemaError
from barnabas.pipeline.decoding.spec import DecodingSpec

MALFORMED: Final = "malformed"
UNKNOWN_SCHEMA: Final = "unknown schema"
_MAX_DETAIL: Final = 500  # characters: some libraries repeat the whole value in their error texts


def decoder_of(spec: DecodingSpec) -> Decoder:
    """The decoder that a spec describes. SchemaError where its schema cannot be used."""
    match spec.value_format:
        case "json":
            from barnabas.pipeline.decoding.json_values import json_decoder

            return json_decoder(spec.schema[-1], registry_framing=spec.registry_framing)
        case "avro":
            from barnabas.pipeline.decoding.avro_values import avro_decoder

            return avro_decoder(spec.schema, registry_framing=spec.registry_framing, writers=spec.writers)
        case "protobuf":
            from barnabas.pipeline.decoding.protobuf_values import protobuf_decoder

            return protobuf_decoder(
                spec.schema, spec.message, registry_framing=spec.registry_framing, writers=spec.writers
            )


@lru_cache(maxsize=8)
def _cached_decoder(spec_line: str) -> Decoder:
    """Caches decoders: an executor's process decodes many batches by one spec."""
    return decoder_of(DecodingSpec.from_json(spec_line))


def result_type(decoder: Decoder) -> pa.DataType:
    """The type of `decode_column`'s rows: `data` is null where the value is null or a reason is given."""
    return pa.struct(
        [("data", decoder.type), ("reason", pa.string()), ("detail", pa.string()), ("schema_id", pa.int32())]
    )


def decode_column(spec_line: str, values: pa.Array) -> pa.StructArray:
    """Decodes binary values by `DecodingSpec.to_json()`; rows as in `result_type`."""
    decoder = _cached_decoder(spec_line)
    rows = [_decoded(decoder, value) for value in values.to_pylist()]
    data = _array(decoder.type, rows)
    reasons, details, ids = (pa.array([row[at] for row in rows], kind) for at, kind in _REST)
    kind = result_type(decoder)
    return pa.StructArray.from_arrays([data, reasons, details, ids], fields=list(kind))


Row = list[Any]
"""data, reason, detail, schema id."""
_REST: Final = ((1, pa.string()), (2, pa.string()), (3, pa.int32()))


def _decoded(decoder: Decoder, value: bytes | None) -> Row:
    if value is None:
        return [None, None, None, None]
    try:
        return [decoder.decode(value), None, None, None]
    except UnknownSchemaError as error:
        return [None, UNKNOWN_SCHEMA, str(error), error.schema_id]
    except MalformedValueError as error:
        return [None, MALFORMED, _cut(str(error)), None]
    except Exception as error:  # fastavro raises any kind of exception for garbage
        return [None, MALFORMED, _cut(f"{type(error).__name__}: {error}"), None]


def _cut(text: str) -> str:
    """Shortens a text and escapes surrogates."""
    return text[:_MAX_DETAIL].encode("utf-8", "backslashreplace").decode()


def _array(kind: pa.DataType, rows: list[Row]) -> pa.Array:
    """The decoded column. A value that no column can hold (a number beyond bigint, half a surrogate pair) is
    malformed."""
    try:
        return pa.array([row[0] for row in rows], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        for row in rows:
            _test(kind, row)
        return pa.array([row[0] for row in rows], kind)


def _test(kind: pa.DataType, row: Row) -> None:
    try:
        pa.array([row[0]], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        row[:3] = [None, MALFORMED, _cut(f"{kind} cannot hold it: {error}")]
