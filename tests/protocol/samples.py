"""Messages with random contents, derived from the schema: every type, every version, edges of every range.

A sample only holds what its version can carry, so that it must survive encoding and decoding unchanged.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from random import Random
from typing import Any, TypeVar

import barnabas.protocol.messages
from barnabas.protocol.schema import Field, Message, Struct
from barnabas.protocol.wire import ZERO_UUID

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Struct)

INTEGER_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
CHARACTERS = "abcXYZ019._-$ \u00e9\u00df\u20ac\u6f22\U0001f30d\x00"
FLOATS = (0.0, 1.0, -2.5, 1e300, 5e-324, float("inf"))


@cache
def message_types() -> tuple[type[Message], ...]:
    """Every message there is, in the order of module and declaration."""
    modules = [
        importlib.import_module(f"barnabas.protocol.messages.{module.name}")
        for module in pkgutil.iter_modules(barnabas.protocol.messages.__path__)
    ]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    )


@cache
def every_version() -> tuple[tuple[type[Message], int], ...]:
    """Every message in every version."""
    return tuple(
        (message, version)
        for message in message_types()
        for version in range(message.versions.low, message.versions.high + 1)
    )


def version_id(value: object) -> str:
    """A readable name for a test parameter."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


def random_message(rng: Random, message_type: type[M], version: int) -> M:
    """A message with random contents, some of them unknown tagged fields where the version has tags."""
    return _struct(rng, message_type, version, message_type.flexible_versions.has(version))


def _struct(rng: Random, cls: type[S], version: int, flexible: bool) -> S:
    values: dict[str, Any] = {}
    for field in cls.fields:
        if not field.versions.has(version):
            continue
        if field.tagged.has(version) and rng.random() < 0.5:
            continue
        values[field.name] = _value(rng, field, version, flexible)
    if flexible and rng.random() < 0.1:
        values["unknown_tagged_fields"] = _unknown_tags(rng, {field.tag for field in cls.fields})
    return cls(**values)


def _value(rng: Random, field: Field, version: int, flexible: bool) -> Any:
    if field.nullable.has(version) and rng.random() < 0.2:
        return None
    if field.is_array:
        return [_element(rng, field, version, flexible) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _element(rng, field, version, flexible)


def _element(rng: Random, field: Field, version: int, flexible: bool) -> Any:
    if field.struct is not None:
        return _struct(rng, field.struct, version, flexible)
    return random_primitive(rng, field.type)


def random_primitive(rng: Random, type_name: str) -> Any:
    """A value of a primitive type, with the edges of its range more likely."""
    if type_name in INTEGER_BITS:
        return _integer(rng, INTEGER_BITS[type_name], signed=not type_name.startswith("u"))
    if type_name == "bool":
        return rng.random() < 0.5
    if type_name == "float64":
        return rng.choice(FLOATS)
    if type_name == "uuid":
        return rng.choice((ZERO_UUID, rng.randbytes(16)))
    if type_name == "string":
        return "".join(rng.choices(CHARACTERS, k=_length(rng)))
    return rng.randbytes(_length(rng))


def _integer(rng: Random, bits: int, signed: bool) -> int:
    low = -(1 << bits - 1) if signed else 0
    high = low + (1 << bits) - 1
    return rng.choice((low, high, 0, 1, min(127, high), rng.randint(low, high)))


def _length(rng: Random) -> int:
    """Mostly short; sometimes on both sides of the length whose varint takes a second byte."""
    return rng.choice((126, 127, 128, 300)) if rng.random() < 0.03 else rng.randrange(12)


def _unknown_tags(rng: Random, known: set[int]) -> dict[int, bytes]:
    tags = {rng.choice((rng.randrange(40), rng.randrange(2**31))) for _ in range(rng.randrange(1, 4))}
    return {tag: rng.randbytes(_length(rng)) for tag in sorted(tags - known)}
