"""Tests that the bounds from filters never exclude a matching row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from barnabas.pipeline.log_reading.planning import MAX_TIMESTAMP, MIN_TIMESTAMP
from barnabas.pipeline.spark.filters import Wanted, narrowed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class _Filter:
    attribute: tuple[str, ...]
    value: Any = None


def made(kind: str, name: str, value: Any) -> Any:
    """A filter of Spark's, recognised by its class's name."""
    return type(kind, (_Filter,), {})((name,), value)


@pytest.mark.parametrize(
    ("kind", "first", "end"),
    [
        ("EqualTo", 7, 8),
        ("GreaterThan", 8, None),
        ("GreaterThanOrEqual", 7, None),
        ("LessThan", 0, 7),
        ("LessThanOrEqual", 0, 8),
        ("StringContains", 0, None),
    ],
)
def test_offsets(kind: str, first: int, end: int | None) -> None:
    found = narrowed([made(kind, "offset", 7)])
    assert found == (
        Wanted(first_offset=first) if end is None else Wanted(first_offset=first, end_offset=end)
    )


@pytest.mark.parametrize(
    ("kind", "us", "first", "end"),
    [
        ("GreaterThan", 5000, 5, None),
        ("GreaterThanOrEqual", 5001, 6, None),
        ("LessThan", 5000, None, 6),
        ("LessThan", 5001, None, 6),
        ("LessThanOrEqual", 5999, None, 6),
        ("EqualTo", 5000, 5, 6),
    ],
)
def test_times(kind: str, us: int, first: int | None, end: int | None) -> None:
    """In ms, which records have."""
    at = EPOCH + timedelta(microseconds=us)
    for value in (at, at.replace(tzinfo=None)):
        found = narrowed([made(kind, "timestamp", value)])
        assert found.first_ms == (MIN_TIMESTAMP if first is None else first)
        assert found.end_ms == (MAX_TIMESTAMP if end is None else end)


def test_several_filters_hold_together() -> None:
    found = narrowed(
        [
            made("GreaterThan", "offset", 3),
            made("LessThan", "offset", 9),
            made("In", "topic", ("a", "b")),
            made("EqualTo", "topic", "b"),
            made("EqualTo", "partition", 1),
            made("EqualTo", "key", b"x"),
            _Filter(("headers", "key")),
        ]
    )
    assert found == Wanted(frozenset(["b"]), frozenset([1]), 4, 9)
    assert found.has("b", 1)
    assert not found.has("a", 1)
    assert not found.has("b", 0)
