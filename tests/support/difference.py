"""Describes the differences of two messages field by field, and compares messages by some fields only."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.protocol.schema import Struct


class Like:
    """Stands for any struct with these fields; other fields are ignored."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields

    def __repr__(self) -> str:
        return f"Like({', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"


def differences(expected: object, actual: object, path: str = "") -> Iterator[str]:
    """A line for each place where `actual` differs from `expected`."""
    if isinstance(expected, Like):
        for name, value in expected.fields.items():
            if hasattr(actual, name):
                yield from differences(value, getattr(actual, name), f"{path}.{name}")
            else:
                yield f"{path}.{name}: expected {value!r}, got {actual!r}"
    elif isinstance(expected, Struct) and isinstance(actual, Struct) and expected.fields is actual.fields:
        for field in expected.fields:
            name = field.name
            yield from differences(getattr(expected, name), getattr(actual, name), f"{path}.{name}")
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(expected) != len(actual):
            yield f"{path}: expected {len(expected)} items, got {len(actual)}: {actual!r}"
        else:
            for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
                yield from differences(one, other, f"{path}[{index}]")
    elif expected != actual:
        yield f"{path}: expected {expected!r}, got {_readable(actual)!r}"


def _readable(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value
