# mypy: allow-subclassing-any
"""The layout of every message: its declaration and a version give a `construct` Struct.

This is the readable definition of the wire, and the oracle that the codec is tested against: it parses and
builds the same objects as `protocol.codec`, ten times slower. `barnabas wire` shows and explains messages
with it; the server uses it only to name the field of a message that it failed to encode.

All types have lengths in common: a length precedes the data, and -1 means null. Before the
first flexible version it is an int16 (strings) or an int32 (all others), from then on an unsigned varint of
the length plus one ("compact", KIP-482), so that null is a zero byte.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from construct.core import (
    Adapter,
    Bytes,
    Construct,
    ConstructError,
    FormatField,
    StreamError,
    StringError,
    Struct,
    ValidationError,
    stream_read,
    stream_write,
)

from barnabas.protocol import layout as layouts
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.wire import MAX_UNSIGNED_VARINT, MAX_UNSIGNED_VARINT_BYTES, unsigned_varint

if TYPE_CHECKING:
    from barnabas.protocol import schema
    from barnabas.protocol.schema import Field, Message

    Stream = io.BytesIO

MAX_STRING_BYTES = 0x7FFF
MAX_LENGTH = 0x7FFFFFFF
UNKNOWN = "unknown_tagged_fields"


class UnsignedVarint(Construct):
    """Groups of seven bits, lowest first, the high bit set on all but the last; at most 32 bits in all."""

    def _parse(self, stream: Stream, context: Any, path: str) -> int:
        value = 0
        for index in range(MAX_UNSIGNED_VARINT_BYTES):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        else:
            raise ValidationError("a varint of more than 32 bits", path=path)
        if value > MAX_UNSIGNED_VARINT:
            raise ValidationError("a varint of more than 32 bits", path=path)
        return value

    def _build(self, obj: int, stream: Stream, context: Any, path: str) -> int:
        data = unsigned_varint(obj)
        stream_write(stream, data, len(data), path)
        return obj


class CompactLength(Construct):
    """A length plus one as an unsigned varint, so that null (-1) is a zero byte."""

    def _parse(self, stream: Stream, context: Any, path: str) -> int:
        length = int(VARINT._parsereport(stream, context, path)) - 1
        if length > MAX_LENGTH:
            raise ValidationError(f"a length of {length}", path=path)
        return length

    def _build(self, obj: int, stream: Stream, context: Any, path: str) -> int:
        VARINT._build(obj + 1, stream, context, path)
        return obj


class Boolean(Construct):
    """One byte, true unless it is zero; written as 0 or 1."""

    def _parse(self, stream: Stream, context: Any, path: str) -> bool:
        return bool(stream_read(stream, 1, path) != b"\x00")

    def _build(self, obj: bool, stream: Stream, context: Any, path: str) -> bool:
        if obj is None:
            raise ValidationError("null where no null can be", path=path)
        stream_write(stream, b"\x01" if obj else b"\x00", 1, path)
        return obj


VARINT = UnsignedVarint()
COMPACT_LENGTH = CompactLength()
BOOLEAN = Boolean()
UUID = Bytes(16)
INT16 = FormatField(">", "h")
INT32 = FormatField(">", "l")

FIXED_WIDTH: dict[str, Construct] = {
    "bool": BOOLEAN,
    "int8": FormatField(">", "b"),
    "int16": INT16,
    "uint16": FormatField(">", "H"),
    "int32": INT32,
    "uint32": FormatField(">", "L"),
    "int64": FormatField(">", "q"),
    "float64": FormatField(">", "d"),
    "uuid": UUID,
}


class Prefixed(Construct):
    """A value after its length; `length` is the notation, `nullable` says whether it may be -1."""

    def __init__(self, length: Construct, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    def _parse_length(self, stream: Stream, context: Any, path: str) -> int:
        """The length, -1 for null. As in Kafka, every negative length is null."""
        length = int(self.length._parsereport(stream, context, path))
        if length >= 0:
            return length
        if not self.nullable:
            raise ValidationError("null where no null can be", path=path)
        return -1

    def _build_length(self, length: int, stream: Stream, context: Any, path: str) -> None:
        if length < 0 and not self.nullable:
            raise ValidationError("null where no null can be", path=path)
        self.length._build(length, stream, context, path)


class KafkaString(Prefixed):
    """UTF-8 after its length in bytes, which is 32,767 at most in either notation.

    Invalid UTF-8 is decoded as U+FFFD, as Java's String does, so that a client id in another charset is no error.
    """

    def __init__(self, compact: bool, nullable: bool) -> None:
        super().__init__(COMPACT_LENGTH if compact else INT16, nullable)

    def _parse(self, stream: Stream, context: Any, path: str) -> str | None:
        length = self._parse_length(stream, context, path)
        if length < 0:
            return None
        if length > MAX_STRING_BYTES:
            raise StringError(f"a string of {length} bytes", path=path)
        return str(stream_read(stream, length, path), "utf-8", "replace")

    def _build(self, obj: str | None, stream: Stream, context: Any, path: str) -> str | None:
        data = None if obj is None else obj.encode()
        if data is not None and len(data) > MAX_STRING_BYTES:
            raise StringError(f"a string of {len(data)} bytes", path=path)
        self._build_length(-1 if data is None else len(data), stream, context, path)
        stream_write(stream, data or b"", len(data or b""), path)
        return obj


class KafkaBytes(Prefixed):
    """Bytes after their length."""

    def __init__(self, compact: bool, nullable: bool) -> None:
        super().__init__(COMPACT_LENGTH if compact else INT32, nullable)

    def _parse(self, stream: Stream, context: Any, path: str) -> Any:
        length = self._parse_length(stream, context, path)
        return None if length < 0 else bytes(stream_read(stream, length, path))

    def _build(self, obj: Any, stream: Stream, context: Any, path: str) -> Any:
        self._build_length(-1 if obj is None else len(obj), stream, context, path)
        stream_write(stream, bytes(obj or b""), len(obj or b""), path)
        return obj


class Records(KafkaBytes):
    """Record batches: bytes on this layer; a RecordsChunk is read when they are encoded."""

    def _parse(self, stream: Stream, context: Any, path: str) -> memoryview | None:
        data = super()._parse(stream, context, path)
        return None if data is None else memoryview(data)

    def _build(self, obj: Any, stream: Stream, context: Any, path: str) -> Any:
        data = obj if obj is None or isinstance(obj, bytes | bytearray | memoryview) else obj.read()
        super()._build(data, stream, context, path)
        return obj


class KafkaArray(Prefixed):
    """Elements after their count, which is rejected at once if the remaining bytes cannot hold them."""

    def __init__(self, element: Construct, compact: bool, nullable: bool) -> None:
        super().__init__(COMPACT_LENGTH if compact else INT32, nullable)
        self.element = element

    def _parse(self, stream: Stream, context: Any, path: str) -> list[Any] | None:
        count = self._parse_length(stream, context, path)
        if count < 0:
            return None
        if count > len(stream.getbuffer()) - stream.tell():
            raise StreamError(f"{count} elements in fewer bytes", path=path)
        return [self.element._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: list[Any] | None, stream: Stream, context: Any, path: str) -> list[Any] | None:
        self._build_length(-1 if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj


class NullableStruct(Construct):
    """A struct after a marker that says whether it is present.

    Among the other fields the marker is an int8, below zero for null and 1 when written. In a tagged field it is an
    unsigned varint, 0 for null and 1 when written: the same as a compact length that is -1 or 0.
    """

    def __init__(self, struct: Construct, is_tagged: bool) -> None:
        super().__init__()
        self.struct = struct
        self.marker = COMPACT_LENGTH if is_tagged else FIXED_WIDTH["int8"]
        self.present = 0 if is_tagged else 1

    def _parse(self, stream: Stream, context: Any, path: str) -> Any:
        if self.marker._parsereport(stream, context, path) < 0:
            return None
        return self.struct._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Stream, context: Any, path: str) -> Any:
        self.marker._build(-1 if obj is None else self.present, stream, context, path)
        if obj is not None:
            self.struct._build(obj, stream, context, path)
        return obj


class Tagged(NamedTuple):
    """A field that is only sent if it differs from its default."""

    field: Field
    value: Construct


class TaggedFields(Construct):
    """Their count, then each as tag, size in bytes and value, in ascending order of tags (KIP-482).

    Tags are decoded in any order, and the last one of repeated tags counts, as in Kafka. A tag that the message
    declares for other versions only (`misplaced`) is an error in both. A size that does not match the value is an
    error here, while Kafka ignores it.
    """

    def __init__(self, known: dict[int, Tagged], misplaced: frozenset[int]) -> None:
        super().__init__()
        self.known = known
        self.misplaced = misplaced

    def _parse(self, stream: Stream, context: Any, path: str) -> dict[str, Any]:
        values: dict[str, Any] = {
            entry.field.name: entry.field.make_default() for entry in self.known.values()
        }
        unknown: dict[int, bytes] = {}
        for _ in range(VARINT._parsereport(stream, context, path)):
            tag = VARINT._parsereport(stream, context, path)
            data = stream_read(stream, VARINT._parsereport(stream, context, path), path)
            if tag in self.misplaced:
                raise ValidationError(f"tag {tag} does not belong to this version", path=path)
            if tag in self.known:
                field, value = self.known[tag]
                values[field.name] = _parse_whole(value, data, context, f"{path} -> {field.name}")
            else:
                unknown[tag] = data
        values[UNKNOWN] = unknown or None
        return values

    def _build(self, obj: schema.Struct, stream: Stream, context: Any, path: str) -> schema.Struct:
        entries = dict(obj.unknown_tagged_fields or {})
        for tag, (field, value) in self.known.items():
            if tag in entries:
                raise ValidationError(f"tag {tag} is {field.name}, and not unknown", path=path)
            if getattr(obj, field.name) != field.make_default():
                entries[tag] = _build_alone(
                    value, getattr(obj, field.name), context, f"{path} -> {field.name}"
                )
        VARINT._build(len(entries), stream, context, path)
        for tag, data in sorted(entries.items()):
            VARINT._build(tag, stream, context, path)
            VARINT._build(len(data), stream, context, path)
            stream_write(stream, data, len(data), path)
        return obj


class StructOf(Adapter):
    """The fields of `cls` that a version has, one after the other, as an object of `cls`.

    `absent` are the fields that the version cannot carry: they get their defaults when the struct is read,
    and must have them when it is written, unless they are ignorable. `tagged` is None where the version is
    not flexible.
    """

    def __init__(
        self,
        cls: type[schema.Struct],
        members: list[tuple[Field, Construct]],
        absent: list[Field],
        tagged: TaggedFields | None,
        version: int,
    ) -> None:
        named = [field.name / value for field, value in members]
        if tagged is not None:
            named.append("tagged_fields" / tagged)
        super().__init__(Struct(*named))
        self.cls = cls
        self.members = members
        self.absent = absent
        self.tagged = tagged
        self.version = version

    def _decode(self, container: Any, context: Any, path: str) -> schema.Struct:
        values = {field.name: container[field.name] for field, _ in self.members}
        if self.tagged is not None:
            values.update(container["tagged_fields"])
        return self.cls(**values)

    def _encode(self, obj: schema.Struct | None, context: Any, path: str) -> dict[str, Any]:
        if obj is None:
            raise ValidationError("null where no null can be", path=path)
        for field in self.absent:
            if not field.ignorable and getattr(obj, field.name) != field.make_default():
                raise ValidationError(f"{field.name} cannot be sent in version {self.version}", path=path)
        if self.tagged is None and obj.unknown_tagged_fields:
            raise ValidationError(f"{UNKNOWN} cannot be sent in version {self.version}", path=path)
        values = {field.name: getattr(obj, field.name) for field, _ in self.members}
        values["tagged_fields"] = obj
        return values


def _parse_whole(value: Construct, data: bytes, context: Any, path: str) -> Any:
    stream = io.BytesIO(data)
    parsed = value._parsereport(stream, context, path)
    if stream.tell() != len(data):
        raise StreamError(f"{len(data) - stream.tell()} bytes too many", path=path)
    return parsed


def _build_alone(value: Construct, obj: Any, context: Any, path: str) -> bytes:
    stream = io.BytesIO()
    value._build(obj, stream, context, path)
    return stream.getvalue()


class _Constructs:
    """The vocabulary of `protocol.layout` in constructs."""

    def fixed(self, _path: str, type_name: str) -> Construct:
        return FIXED_WIDTH[type_name]

    def prefixed(self, _path: str, type_name: str, compact: bool, nullable: bool) -> Construct:
        return {"string": KafkaString, "bytes": KafkaBytes, "records": Records}[type_name](compact, nullable)

    def array(self, _path: str, element: Construct, compact: bool, nullable: bool) -> Construct:
        return KafkaArray(element, compact, nullable)

    def nullable_struct(self, _path: str, struct: Construct, is_tagged: bool) -> Construct:
        return NullableStruct(struct, is_tagged)

    def struct(
        self,
        _path: str,
        cls: type[schema.Struct],
        version: int,
        *,
        members: list[tuple[Field, Construct]],
        absent: list[Field],
        known: list[tuple[Field, Construct]] | None,
        misplaced: frozenset[int],
    ) -> StructOf:
        tagged = None
        if known is not None:
            tagged = TaggedFields({field.tag: Tagged(field, value) for field, value in known}, misplaced)
        return StructOf(cls, members, absent, tagged, version)


_CONSTRUCTS = _Constructs()


@cache
def layout(message_type: type[Message], version: int) -> StructOf:
    """The layout of this version of a message. Raises ValueError for a version that does not exist."""
    made: StructOf = layouts.message_layout(_CONSTRUCTS, message_type, version)
    return made


def struct_layout(message_type: type[Message], cls: type[schema.Struct], version: int) -> StructOf:
    """The layout of a struct of a message."""
    made: StructOf = layouts.struct_layout(_CONSTRUCTS, message_type, cls, version)
    return made


def parse(message_type: type[Message], version: int, data: bytes) -> Message:
    """Decodes all of `data`. Raises ProtocolError if it is not such a message."""
    stream = io.BytesIO(data)
    try:
        message: Message = layout(message_type, version).parse_stream(stream)
    except ConstructError as error:
        raise ProtocolError(f"{message_type.__name__} v{version}: {error}") from error
    if stream.tell() != len(data):
        raise ProtocolError(f"{message_type.__name__} v{version}: {len(data) - stream.tell()} bytes too many")
    return message


def build(message: Message, version: int) -> bytes:
    """The bytes of `message`. Raises ValueError if the version cannot carry it."""
    try:
        data: bytes = layout(type(message), version).build(message)
    except ConstructError as error:
        raise ValueError(f"{type(message).__name__} v{version}: {error}") from error
    return data
