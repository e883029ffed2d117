"""Formats the trace as text, with messages without fields that are zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from barnabas.protocol.schema import Message, Struct
from tests.simulation.clock import START_S

MAX_SHOWN_BYTES = 24
"""Longer bytes are shown as their length."""

_ZERO: Final[tuple[Any, ...]] = (None, 0, -1, "", b"", [], False, bytes(16))


def format_line(line: tuple[Any, ...]) -> str:
    """Formats one line of the trace."""
    time_s, *values = line
    return f"{time_s - START_S:10.4f} " + " ".join(map(format_value, values))


def format_trace(trace: Iterable[tuple[Any, ...]], count: int) -> str:
    """Formats the last `count` lines of the trace."""
    return "\n".join(format_line(line) for line in list(trace)[-count:])


def format_value(value: Any) -> str:
    """Formats a value; of a message only fields that are not zero."""
    if isinstance(value, Message | Struct):
        fields = (
            f"{field.name}={format_value(getattr(value, field.name))}"
            for field in type(value).fields
            if getattr(value, field.name) not in _ZERO
        )
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, bytes | memoryview):
        is_short = isinstance(value, bytes) and len(value) <= MAX_SHOWN_BYTES
        return repr(value) if is_short else f"<{len(value)} bytes>"
    return str(value)
