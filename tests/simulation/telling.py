"""The trace as text: messages without fields that are zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from barnabas.protocol.schema import Message, Struct
from tests.simulation.clock import START_S

LONG = 24
"""The greatest length of bytes that is shown."""

_NOTHING: Final[tuple[Any, ...]] = (None, 0, -1, "", b"", [], False, bytes(16))


def line(what: tuple[Any, ...]) -> str:
    """Formats one line of the trace."""
    when, *rest = what
    return f"{when - START_S:10.4f} " + " ".join(map(words, rest))


def lines(trace: Iterable[tuple[Any, ...]], count: int) -> str:
    """Formats the last lines of it."""
    return "\n".join(line(what) for what in list(trace)[-count:])


def words(value: Any) -> str:
    """Formats a value; of a message only fields that are not zero."""
    if isinstance(value, Message | Struct):
        said = (
            f"{field.name}={words(getattr(value, field.name))}"
            for field in type(value).fields
            if getattr(value, field.name) not in _NOTHING
        )
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, list):
        return "[" + ", ".join(map(words, value)) + "]"
    if isinstance(value, bytes | memoryview):
        return repr(value) if isinstance(value, bytes) and len(value) <= LONG else f"<{len(value)} bytes>"
    return str(value)
