"""Makes the programs of codec_engine from the declaration of a message (`protocol.layout`)."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from barnabas.protocol import codec_engine as engine
from barnabas.protocol.layout import message_layout, struct_layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.schema import Field, Message, Struct
    from barnabas.protocol.wire import Chunk, Frame

_INTEGERS = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}
"""The widths of the integers in bytes."""

_OTHERS = {"bool": ("?", 1), "float64": ("d", 8), "uuid": ("u", 16)}
"""The kind and the width of the other values of fixed width."""

_PREFIXED = {"string": "s", "bytes": "y", "records": "r"}


def make_decoder(
    message_type: type[Message], version: int, most: int = engine.UNBOUNDED
) -> Callable[[Frame, int, int], tuple[Message, int]]:
    """See `codec.decoder`."""
    title = f"{message_type.__name__} v{version}"
    return engine.Decoder(_program(message_type, version), title, most).decode_at


def make_encoder(message_type: type[Message], version: int) -> Callable[[Message, list[Chunk]], None]:
    """See `codec.encoder`."""
    title = f"{message_type.__name__} v{version}"
    explain = partial(_explained, version=version)
    return engine.Encoder(_program(message_type, version), title, explain).encode_to


def make_struct_encoder(
    message_type: type[Message], cls: type[Struct], version: int
) -> Callable[[Struct, list[Chunk]], None]:
    """The same for a struct of the message."""
    program: engine.Program = struct_layout(_STEPS, message_type, cls, version)
    return engine.Encoder(program, f"{cls.__name__} v{version}", _unexplained).encode_to


def _explained(message: Message, error: Exception, version: int) -> ValueError:
    """The error of the construct for the same message, which names the field that the engine failed to encode."""
    from barnabas.protocol.reference import (
        build,
    )  # imports construct, which the server needs for nothing else

    try:
        build(message, version)
    except ValueError as explanation:
        return explanation
    except (TypeError, AttributeError):
        pass  # a value of a wrong type: the first error is as good as this one
    return ValueError(f"{type(message).__name__} v{version}: {error}")


def _unexplained(element: Struct, error: Exception) -> ValueError:
    return ValueError(f"{type(element).__name__}: {error}")


@cache
def _program(message_type: type[Message], version: int) -> engine.Program:
    made: engine.Program = message_layout(_STEPS, message_type, version)
    return made


class _Steps:
    """The vocabulary of `protocol.layout` in steps and programs."""

    def fixed(self, path: str, type_name: str) -> engine.Step:
        if type_name in _INTEGERS:
            width, is_signed = _INTEGERS[type_name], type_name.startswith("int")
            return engine.Step("i", path, smallest=width, width=width, is_signed=is_signed)
        kind, width = _OTHERS[type_name]
        return engine.Step(kind, path, smallest=width, width=width)

    def prefixed(self, path: str, type_name: str, compact: bool, nullable: bool) -> engine.Step:
        smallest = 1 if compact else 2 if type_name == "string" else 4
        return engine.Step(_PREFIXED[type_name], path, smallest=smallest, compact=compact, nullable=nullable)

    def array(
        self, path: str, element: engine.Step | engine.Program, compact: bool, nullable: bool
    ) -> engine.Step:
        step = engine.Step("a", path, smallest=1 if compact else 4, compact=compact, nullable=nullable)
        step.element = self._as_step(path, element)
        return step

    def nullable_struct(self, path: str, struct: engine.Program, is_tagged: bool) -> engine.Step:
        step = engine.Step("n", path, smallest=1, compact=is_tagged, nullable=True)
        step.program = struct
        return step

    def struct(
        self,
        path: str,
        cls: type[Struct],
        version: int,
        *,
        members: list[tuple[Field, engine.Step | engine.Program]],
        absent: list[Field],
        known: list[tuple[Field, engine.Step | engine.Program]] | None,
        misplaced: frozenset[int],
    ) -> engine.Program:
        def placed(entries: list[tuple[Field, engine.Step | engine.Program]]) -> tuple[engine.Step, ...]:
            return tuple(
                self._as_step(path + field.name, value).place(cls, field) for field, value in entries
            )

        return engine.Program(
            cls,
            version,
            path,
            members=placed(members),
            absent=tuple(
                engine.Step("?", path + field.name, smallest=0).place(cls, field) for field in absent
            ),
            tags=None if known is None else placed(known),
            misplaced=misplaced,
        )

    def _as_step(self, path: str, value: engine.Step | engine.Program) -> engine.Step:
        if isinstance(value, engine.Step):
            return value
        step = engine.Step("m", path, smallest=value.smallest)
        step.program = value
        return step


_STEPS = _Steps()
