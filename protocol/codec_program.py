"""Makes the programs that codec_engine runs, out of the constructs in `protocol.reference`."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from protocol import codec_engine as engine
from protocol import codec_errors as wrong
from protocol.codec_source import fixed_format, minimum_size
from protocol.reference import (
    COMPACT_LENGTH,
    KafkaArray,
    KafkaBytes,
    KafkaString,
    NullableStruct,
    Records,
    StructOf,
    layout,
    struct_layout,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from construct.core import Construct

    from protocol.schema import Message, Struct
    from protocol.wire import Chunk, Frame

_INTEGERS = {"b": 1, "h": 2, "H": 2, "l": 4, "L": 4, "q": 8}
"""How wide they are, by construct's name of the format."""


def make_decoder(
    message_type: type[Message], version: int
) -> Callable[[Frame, int, int], tuple[Message, int]]:
    """See `codec.decoder`."""
    return engine.Decoder(_program(message_type, version), f"{message_type.__name__} v{version}").decode_at


def make_encoder(message_type: type[Message], version: int) -> Callable[[Message, list[Chunk]], None]:
    """See `codec.encoder`."""
    title = f"{message_type.__name__} v{version}"
    explain = partial(wrong.explained, version=version)
    return engine.Encoder(_program(message_type, version), title, explain).encode_to


def make_struct_encoder(
    message_type: type[Message], cls: type[Struct], version: int
) -> Callable[[Struct, list[Chunk]], None]:
    """The same for a struct of the message."""
    program = _struct(struct_layout(message_type, cls, version), "")
    return engine.Encoder(program, f"{cls.__name__} v{version}", _unexplained).encode_to


def _unexplained(element: Struct, error: Exception) -> ValueError:
    return ValueError(f"{type(element).__name__}: {error}")


@cache
def _program(message_type: type[Message], version: int) -> engine.Program:
    return _struct(layout(message_type, version), "")


def _struct(struct: StructOf, path: str) -> engine.Program:
    members = [_step(value, path + field.name).place(struct.cls, field) for field, value in struct.members]
    absent = [engine.Step("?", path + field.name).place(struct.cls, field) for field in struct.absent]
    tags, misplaced = None, frozenset[int]()
    if struct.tagged is not None:
        misplaced = struct.tagged.misplaced
        tags = tuple(
            _step(value, path + field.name).place(struct.cls, field)
            for field, value in struct.tagged.known.values()
        )
    return engine.Program(
        struct.cls,
        struct.version,
        path,
        members=tuple(members),
        absent=tuple(absent),
        tags=tags,
        misplaced=misplaced,
    )


def _step(value: Construct, path: str) -> engine.Step:
    fixed = fixed_format(value)
    if fixed is not None:
        step = _fixed(fixed, path)
    elif isinstance(value, StructOf):
        step = engine.Step("m", path)
        step.program = _struct(value, f"{path}.")
    elif isinstance(value, NullableStruct):
        step = engine.Step("n", path, compact=value.marker is COMPACT_LENGTH, nullable=True)
        step.program = _struct(value.struct, f"{path}.")
    else:
        step = engine.Step(
            _prefixed(value), path, compact=value.length is COMPACT_LENGTH, nullable=value.nullable
        )
        if isinstance(value, KafkaArray):
            step.element = _step(value.element, path)
    step.smallest = minimum_size(value)
    return step


def _fixed(fixed: str, path: str) -> engine.Step:
    if fixed in _INTEGERS:
        return engine.Step("i", path, width=_INTEGERS[fixed], is_signed=fixed.islower())
    if fixed == "16s":
        return engine.Step("u", path, width=16)
    return engine.Step(fixed, path, width=8 if fixed == "d" else 1)


def _prefixed(value: Construct) -> str:
    for cls, kind in ((KafkaArray, "a"), (Records, "r"), (KafkaBytes, "y"), (KafkaString, "s")):
        if isinstance(value, cls):
            return kind
    raise AssertionError(value)
