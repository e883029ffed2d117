# cython: annotation_typing=False, language_level=3
"""Runs the program of a message: decodes it from a frame, and encodes it.

A program is the layout (`protocol.layout`) of one version in a form that is quick to walk, one `Step` a field;
codec_program.py makes it. The server uses this for all messages: compiled with the types of codec_engine.pxd, or as
Python if no C compiler was present. `COMPILED` is true for the former.

Safety: every length and count is compared with the remaining bytes before it is used, and a count alone allocates
nothing. An element of one byte can become an object of a hundred; so elements are counted too, up to the limit of the
decoder. Direct memory access is confined to codec_c.pxd, which codec_plain.py replaces in Python.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any

import barnabas.protocol.codec_plain as raw  # compiled, this is the cimport of the same name
from barnabas.protocol import codec_errors as wrong
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.wire import Encoded

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field, Struct
    from barnabas.protocol.wire import Chunk, Frame

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

INLINE_RECORDS_BYTES = 2048
"""Shorter records in memory are copied into the chunk before them, for fewer writes to the socket."""

UNBOUNDED = sys.maxsize
"""As many elements as the bytes can hold."""

_INLINE_BYTES = INLINE_RECORDS_BYTES
_MAX_STRING_BYTES = 0x7FFF
_MAX_LENGTH = 0x7FFFFFFF
_FLOAT = struct.Struct(">d")


class Step:
    """One field, or the element of an array.

    `kind` is its type: "i" an integer of `width` bytes, "?" a boolean, "d" a float, "u" a UUID, "s" a string, "y"
    bytes, "r" records, "a" an array of `element`, "m" a struct by `program`, "n" one that may be null. `compact` is
    the notation of the length (for "n": of the marker), `smallest` the minimal size of the value in bytes.
    `slot` is the place of the field in the struct, `default` the value of an absent or tagged one: a new list
    each time if `fresh`.
    """

    __slots__ = (
        "compact",
        "default",
        "element",
        "fresh",
        "ignorable",
        "is_signed",
        "kind",
        "name",
        "nullable",
        "path",
        "program",
        "slot",
        "smallest",
        "tag",
        "width",
    )

    def __init__(
        self,
        kind: str,
        path: str,
        *,
        smallest: int,
        width: int = 0,
        is_signed: bool = False,
        compact: bool = False,
        nullable: bool = False,
    ) -> None:
        self.kind: str = kind
        self.path: str = path
        self.width: int = width
        self.is_signed: bool = is_signed
        self.compact: bool = compact
        self.nullable: bool = nullable
        self.smallest: int = smallest
        self.element: Any = None
        self.program: Any = None

    def place(self, cls: type[Struct], field: Field) -> Step:
        """Assigns the step to a field of `cls`."""
        self.name: str = field.name
        self.slot: Any = raw.slot_of(cls, field.name)
        self.default: Any = field.make_default()
        self.fresh: bool = isinstance(self.default, list)
        self.ignorable: bool = field.ignorable
        self.tag: int = field.tag
        return self


class Program:
    """A struct in one version: its fields in the order of the wire, those it cannot carry, and its tags.

    `tags` is None where the version is not flexible. `misplaced` are the tags of other versions.
    """

    __slots__ = (
        "absent",
        "cls",
        "members",
        "misplaced",
        "path",
        "smallest",
        "tags",
        "unknown_slot",
        "version",
    )

    def __init__(
        self,
        cls: type[Struct],
        version: int,
        path: str,
        *,
        members: tuple[Step, ...],
        absent: tuple[Step, ...],
        tags: tuple[Step, ...] | None,
        misplaced: frozenset[int],
    ) -> None:
        self.cls = cls
        self.version: int = version
        self.path: str = path
        self.members = members
        self.absent = absent
        self.tags = tags
        self.misplaced = misplaced
        self.smallest: int = sum(step.smallest for step in members) + (tags is not None)
        self.unknown_slot: Any = raw.slot_of(cls, "unknown_tagged_fields")


class Reader:
    """A position in a frame; decodes from there on, at most `room` elements and tagged fields."""

    __slots__ = ("data", "end", "frame", "position", "room", "view")

    def __init__(self, frame: Frame, position: int, end: int, room: int) -> None:
        self.frame = frame
        self.room: int = room
        self.data = raw.start_of(frame)
        self.end: int = min(end, len(frame))
        self.position: int = position
        self.view: Any = None
        if position < 0:
            raise IndexError(position)

    def _advance(self, size: int) -> int:
        """The position of the next `size` bytes, which are skipped. Raises IndexError if fewer are left."""
        at = self.position
        if size > self.end - at:
            raise IndexError(size)
        self.position = at + size
        return at

    def _varint(self) -> int:
        at = self._advance(1)
        byte = self.data[at]
        if byte < 0x80:
            return byte
        value = byte & 0x7F
        shift = 7
        while shift < 35:
            at = self._advance(1)
            byte = self.data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
            shift += 7
        raise wrong.long_varint()

    def _length(self, step: Step) -> int:
        """A length or count; -1 for null. Raises ProtocolError if the field is not nullable."""
        if step.compact:
            length = self._varint() - 1
        elif step.kind == "s":
            length = raw.signed_at(self.data, self._advance(2), 2)
        else:
            length = raw.signed_at(self.data, self._advance(4), 4)
        if length >= 0:
            return length
        if not step.nullable:
            raise wrong.null(step.path)
        return -1

    def _value(self, step: Step) -> Any:
        kind = step.kind
        if kind == "i":
            # `_advance` inlined: most fields are integers, and the call is a fifth of the cost of one in Python.
            at = self.position
            stop = at + step.width
            if stop > self.end:
                raise IndexError(stop)
            self.position = stop
            if step.is_signed:
                return raw.signed_at(self.data, at, step.width)
            return raw.unsigned_at(self.data, at, step.width)
        if kind in ("s", "y", "r"):
            return self._blob(step)
        if kind == "a":
            return self._array(step)
        if kind == "m":
            return self.struct(step.program)
        return self._rarer_value(step)

    def _rarer_value(self, step: Step) -> Any:
        kind = step.kind
        if kind == "n":
            return self._nullable_struct(step)
        at = self._advance(step.width)
        if kind == "?":
            return self.data[at] != 0
        data = raw.data_between(self.data, at, at + step.width)
        return data if kind == "u" else _FLOAT.unpack(data)[0]

    def _blob(self, step: Step) -> Any:
        length = self._length(step)
        if length < 0:
            return None
        at = self.position
        if step.kind == "s" and length > _MAX_STRING_BYTES:
            raise wrong.too_long(step.path, length)
        if length > self.end - at:
            raise wrong.short(step.path, length, self.end - at)
        stop = at + length
        self.position = stop
        if step.kind == "s":
            return raw.text_between(self.data, at, stop)
        if step.kind == "y":
            return raw.data_between(self.data, at, stop)
        if self.view is None:
            self.view = memoryview(self.frame)
        return self.view[at:stop]

    def _array(self, step: Step) -> Any:
        count = self._length(step)
        if count < 0:
            return None
        element = step.element
        left = self.end - self.position
        if count > left // element.smallest:
            raise wrong.too_many(step.path, count, left)
        self._count(step.path, count)
        elements: list[Any] = []
        for _ in range(count):
            elements.append(self._value(element))  # noqa: PERF401 - compiled, an append is cheaper than a closure
        return elements

    def _count(self, path: str, count: int) -> None:
        if count > self.room:
            raise wrong.too_much(path)
        self.room -= count

    def _nullable_struct(self, step: Step) -> Any:
        if step.compact:
            marker = self._varint()
            if marker > _MAX_LENGTH + 1:
                raise wrong.bad_marker(step.path, marker)
            return self.struct(step.program) if marker else None
        at = self._advance(1)
        return None if self.data[at] > 127 else self.struct(step.program)

    def struct(self, program: Program) -> Any:
        """A struct. Raises IndexError where the frame is cut off, ProtocolError for all else that is wrong."""
        message = raw.new(program.cls)
        for step in program.members:
            raw.set_slot(message, step.slot, self._value(step))
        for step in program.absent:
            raw.set_slot(message, step.slot, [] if step.fresh else step.default)
        if program.tags is None:
            raw.set_slot(message, program.unknown_slot, None)
            return message
        for step in program.tags:
            raw.set_slot(message, step.slot, [] if step.fresh else step.default)
        at = self._advance(1)
        if self.data[at] == 0:
            raw.set_slot(message, program.unknown_slot, None)
        else:
            self.position = at
            raw.set_slot(message, program.unknown_slot, self._tagged_fields(message, program))
        return message

    def _tagged_fields(self, message: Any, program: Program) -> Any:
        """Sets those that the version knows, and returns the others."""
        unknown: dict[int, bytes] = {}
        count = self._varint()
        left = self.end - self.position
        if count > left // 2:
            raise wrong.too_many("tagged fields", count, left)
        self._count("tagged fields", count)
        for _ in range(count):
            tag = self._varint()
            size = self._varint()
            left = self.end - self.position
            if size > left:
                raise wrong.short(f"tag {tag}", size, left)
            stop = self.position + size
            for step in program.tags or ():
                if step.tag == tag:
                    raw.set_slot(message, step.slot, self._value(step))
                    if self.position != stop:
                        raise wrong.wrong_size(step.path, tag, self.position - stop)
                    break
            else:
                if tag in program.misplaced:
                    raise wrong.misplaced_tag(tag)
                unknown[tag] = raw.data_between(self.data, self.position, stop)
                self.position = stop
        return unknown or None


class Writer:
    """Collects encoded bytes: the finished chunks, and the buffer after them."""

    __slots__ = ("buffer", "chunks")

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks
        self.buffer = raw.new_buffer()

    def __dealloc__(self) -> None:
        raw.free_buffer(self.buffer)

    def _varint(self, value: int) -> None:
        while value > 0x7F:
            raw.put_byte(self.buffer, value & 0x7F | 0x80)
            value >>= 7
        raw.put_byte(self.buffer, value)

    def _length(self, step: Step, length: int) -> None:
        """A length or count; -1 for null."""
        if length < 0 and not step.nullable:
            raise TypeError(f"{step.path} is null where no null can be")
        if length > _MAX_LENGTH:
            raise OverflowError(f"{step.path} has a length of {length}")
        if step.compact:
            self._varint(length + 1)
        elif step.kind == "s":
            raw.put_unsigned(self.buffer, length & 0xFFFF, 2)
        else:
            raw.put_unsigned(self.buffer, length & 0xFFFFFFFF, 4)

    def _value(self, step: Step, value: Any) -> None:
        kind = step.kind
        if kind == "i":
            raw.put_number(self.buffer, value, step.width, step.is_signed)
        elif kind == "s":
            self._text(step, value)
        elif kind in ("y", "r"):
            self._data(step, value)
        elif kind == "a":
            self._array(step, value)
        elif kind == "m":
            self.struct(step.program, value)
        else:
            self._rarer_value(step, value)

    def _rarer_value(self, step: Step, value: Any) -> None:
        kind = step.kind
        if kind == "n":
            self._nullable_struct(step, value)
        elif kind == "?":
            raw.put_number(self.buffer, value, 1, True)
        elif kind == "u":
            if len(value) != 16:
                raise wrong.wrong_uuid(value)
            raw.put_data(self.buffer, value)
        else:
            raw.put_data(self.buffer, _FLOAT.pack(value))

    def _text(self, step: Step, value: Any) -> None:
        if value is None:
            self._length(step, -1)
            return
        size = raw.text_size(value)
        if size > _MAX_STRING_BYTES:
            raise wrong.too_long_to_write(step.path, size)
        self._length(step, size)
        raw.put_text(self.buffer, value)

    def _data(self, step: Step, value: Any) -> None:
        if value is None:
            self._length(step, -1)
            return
        if step.kind == "y":
            self._length(step, len(value))
            raw.put_data(self.buffer, value)
            return
        in_memory = isinstance(value, (bytes, memoryview))
        size = memory_size(value) if in_memory else value.size
        self._length(step, size)
        if in_memory and size < _INLINE_BYTES:
            raw.put_data(self.buffer, value)
        elif size:
            self.chunks.append(raw.take(self.buffer))
            self.chunks.append(value)

    def _array(self, step: Step, value: Any) -> None:
        if value is None:
            self._length(step, -1)
            return
        self._length(step, len(value))
        element = step.element
        for item in value:
            if type(item) is Encoded:
                raw.put_data(self.buffer, item)
            else:
                self._value(element, item)

    def _nullable_struct(self, step: Step, value: Any) -> None:
        if value is None:
            raw.put_byte(self.buffer, 0 if step.compact else 255)
        else:
            raw.put_byte(self.buffer, 1)
            self.struct(step.program, value)

    def struct(self, program: Program, message: Any) -> None:
        """A struct. Raises ValueError if the version cannot carry it; TypeError, AttributeError, OverflowError and
        struct.error for a value that its field cannot have.
        """
        own = type(message) is program.cls
        for step in program.absent:
            if not step.ignorable:
                value = raw.get_slot(message, step.slot) if own else getattr(message, step.name)
                if value is not step.default and value != step.default:
                    raise wrong.not_carried(step.path, program.version)
        for step in program.members:
            self._value(step, raw.get_slot(message, step.slot) if own else getattr(message, step.name))
        unknown = raw.get_slot(message, program.unknown_slot) if own else message.unknown_tagged_fields
        if program.tags is None:
            if unknown:
                raise wrong.not_carried(f"{program.path}unknown_tagged_fields", program.version)
            return
        if not unknown:
            for step in program.tags:
                value = raw.get_slot(message, step.slot) if own else getattr(message, step.name)
                if value is not step.default and value != step.default:
                    break
            else:
                raw.put_byte(self.buffer, 0)
                return
        self._tagged_fields(program, message, unknown)

    def _tagged_fields(self, program: Program, message: Any, unknown: Any) -> None:
        entries = dict(unknown or ())
        for step in program.tags or ():
            if step.tag in entries:
                raise wrong.known_tag(step.tag, step.path)
            value = getattr(message, step.name)
            if value is not step.default and value != step.default:
                inner = Writer([])
                inner._value(step, value)
                entries[step.tag] = raw.take(inner.buffer)
        self._varint(len(entries))
        for tag, data in sorted(entries.items()):
            self._varint(tag)
            self._varint(len(data))
            raw.put_data(self.buffer, data)

    def finish(self) -> None:
        """Makes a chunk of the remaining bytes."""
        data = raw.take(self.buffer)
        if data:
            self.chunks.append(data)


def memory_size(data: Any) -> int:
    """The size in bytes."""
    return data.nbytes if isinstance(data, memoryview) else len(data)


class Decoder:
    """Decodes one message in one version, of at most `most` elements."""

    __slots__ = ("most", "program", "title")

    def __init__(self, program: Program, title: str, most: int) -> None:
        self.program = program
        self.title = title
        self.most: int = most

    def decode_at(self, frame: Frame, position: int, end: int) -> tuple[Any, int]:
        """The message at `position`, and the position after it; see `codec.decoder`."""
        reader = None
        try:
            reader = Reader(frame, position, end, self.most)
            message = reader.struct(self.program)
        except IndexError as error:
            raise wrong.cut_off(self.title, end - position) from error
        except ProtocolError as error:
            raise ProtocolError(f"{self.title}: {error}") from error
        return message, reader.position


class Encoder:
    """Writes one message, or one struct, in one version."""

    __slots__ = ("explain", "program", "title")

    def __init__(self, program: Program, title: str, explain: Any) -> None:
        self.program = program
        self.title = title
        self.explain = explain

    def encode_to(self, message: Any, chunks: list[Chunk]) -> None:
        """Appends the bytes of `message` to `chunks`; see `codec.encoder`."""
        writer = Writer(chunks)
        try:
            writer.struct(self.program, message)
        except ValueError as error:
            raise ValueError(f"{self.title}: {error}") from error
        except (struct.error, TypeError, AttributeError, OverflowError) as error:
            raise self.explain(message, error) from error
        writer.finish()
