"""What the two halves of the compiler share: the source that they write, and the fusing of fixed-width
fields.
"""

from __future__ import annotations

from functools import cache
from struct import Struct as Packing
from typing import TYPE_CHECKING, Any

from construct.core import Bytes, FormatField

from protocol.reference import BOOLEAN, COMPACT_LENGTH, NullableStruct, Prefixed, StructOf

if TYPE_CHECKING:
    from collections.abc import Callable

    from construct.core import Construct


SMALL = 16
"""Arrays of fixed-width elements that are shorter find their `struct` in a list: most hold a few replicas."""


class Source:
    """Python source on its way: finished functions, the lines of the next one, constants that they name."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.lines: list[str] = []
        self.depth = 0
        self.scope: dict[str, Any] = {}
        self._names: dict[int | str, str] = {}
        self._serial = 0

    def put(self, *lines: str) -> None:
        """Appends lines at the present depth."""
        self.lines += ["    " * self.depth + line for line in lines]

    def function(self, header: str, emit: Callable[[], None]) -> None:
        """Finishes a function: `emit` puts its body, whatever else is being written just now."""
        outer, depth = self.lines, self.depth
        self.lines, self.depth = [], 1
        emit()
        self.finished += [header, *self.lines]
        self.lines, self.depth = outer, depth

    def fresh(self, stem: str) -> str:
        """A name that is not in use: `stem` and a number."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def constant(self, stem: str, value: Any, key: int | str | None = None) -> str:
        """A name for `value` in the compiled code; the same again for the same `key` (its identity, if
        none).
        """
        key = id(value) if key is None else key
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self.fresh(stem)
            self.scope[name] = value
        return name

    def literal(self, value: Any) -> str:
        """An expression for the default of a field."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        return "[]" if value == [] else self.constant("default", value)

    @property
    def text(self) -> str:
        """The finished functions."""
        return "\n".join(self.finished) + "\n"

    def compiled(self, name: str, title: str, runtime: dict[str, Any]) -> Callable[..., Any]:
        """The function `name`; the code sees the functions in `runtime` and the constants."""
        namespace = {**runtime, **self.scope}
        exec(compile(self.text, f"<{title}>", "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function


def fixed_format(value: Construct) -> str | None:
    """The format of a fixed-width construct for the struct module ("16s" for a UUID), None for all others."""
    if isinstance(value, FormatField):
        return str(value.fmtstr[1:])
    if isinstance(value, Bytes):
        return f"{value.length}s"
    return "?" if value is BOOLEAN else None


def minimum_size(value: Construct) -> int:
    """The fewest bytes that `value` can be."""
    fixed = fixed_format(value)
    if fixed is not None:
        return packing([fixed]).size
    if isinstance(value, Prefixed):
        return 1 if value.length is COMPACT_LENGTH else int(value.length.length)
    if isinstance(value, StructOf):
        return sum(minimum_size(member) for _, member in value.members) + (value.tagged is not None)
    assert isinstance(value, NullableStruct), value
    return 1


def packing(formats: list[str]) -> Packing:
    """The struct that reads or writes these fields in one call."""
    return Packing(">" + "".join(formats))


@cache
def small_packings(fixed: str) -> list[Packing]:
    """The structs of 0 to SMALL - 1 fields of one format."""
    return [Packing(f">{count}{fixed}") for count in range(SMALL)]
