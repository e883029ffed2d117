"""What was read out of bytes: a tree of fields, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Node:
    """A field, an element of an array, a record batch or a record. Offsets count from the first byte of the frame.

    `children` is None for a single value, whose `value` is then set. `is_read` is false for what could not be read.
    """

    name: str
    type: str
    start: int
    end: int
    value: Any = None
    children: list[Node] | None = None
    tag: int | None = None
    is_read: bool = True


@dataclass(slots=True, frozen=True)
class Wrong:
    """Bytes that are not what the layout wants at this place."""

    offset: int
    path: str
    expected: str
    found: str
