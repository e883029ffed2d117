"""Hypothesis strategies for messages, derived from the schema: what a version can carry, and nothing else."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from barnabas.protocol.schema import Field, Message, Struct
from tests.protocol.samples import INTEGER_BITS, every_version

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
LONG_TEXT = st.builds(
    lambda character, count: character * count, st.sampled_from("a\u00e9\u6f22"), st.integers(120, 140)
)
BLOB = st.one_of(st.binary(max_size=20), st.builds(bytes, st.integers(120, 140)))


@cache
def messages_of(message_type: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Messages of one type that this version carries without loss."""
    return _structs(message_type, version, message_type.flexible_versions.has(version))


def messages() -> st.SearchStrategy[tuple[Message, int]]:
    """Messages of every type, each with its version."""
    return st.sampled_from(every_version()).flatmap(
        lambda pair: st.tuples(messages_of(*pair), st.just(pair[1]))
    )


def _structs(cls: type[Struct], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    values: dict[str, st.SearchStrategy[Any]] = {
        field.name: _values(field, version, flexible) for field in cls.fields if field.versions.has(version)
    }
    if flexible:
        values["unknown_tagged_fields"] = _unknown_tags(frozenset(field.tag for field in cls.fields))
    return st.builds(cls, **values)


def _values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    strategy = _elements(field, version, flexible)
    if field.is_array:
        strategy = st.lists(strategy, max_size=3)
    if field.nullable.has(version):
        strategy = st.none() | strategy
    if field.tagged.has(version):
        strategy = st.builds(field.make_default) | strategy
    return strategy


def _elements(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return _structs(field.struct, version, flexible)
    return primitives(field.type)


@cache
def primitives(type_name: str) -> st.SearchStrategy[Any]:
    """Values of a primitive type; no NaN, because it does not equal itself."""
    if type_name in INTEGER_BITS:
        bits = INTEGER_BITS[type_name]
        low = 0 if type_name.startswith("u") else -(1 << bits - 1)
        return st.integers(low, low + (1 << bits) - 1)
    strategies: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": TEXT | LONG_TEXT,
        "bytes": BLOB,
        "records": BLOB,
    }
    return strategies[type_name]


@cache
def _unknown_tags(known: frozenset[int]) -> st.SearchStrategy[dict[int, bytes] | None]:
    tags = st.integers(0, 2**32 - 1).filter(lambda tag: tag not in known)
    return st.none() | st.dictionaries(tags, BLOB, min_size=1, max_size=2)
