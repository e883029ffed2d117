"""Bytes to messages and back, as fast as code written by hand for each version.

The first use of a (message, version) compiles its code out of the construct in `protocol.reference`, which
takes about a millisecond; from then on it is a dictionary look-up and a call. The generated source of a
message can be seen with `decoder_source` and `encoder_source`.

Blame is divided as everywhere: bytes that are no such message raise ProtocolError and nothing else; a message
that the version cannot carry raises ValueError, for it is ours.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from protocol.errors import ProtocolError
from protocol.schema import Message
from protocol.wire import MAX_UNSIGNED_VARINT, Encoded, read_unsigned_varint, unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema import Struct
    from protocol.wire import Chunk

    Decoder = Callable[[bytes | memoryview, int, int], tuple[Message, int]]
    Encoder = Callable[[Any, list[Chunk]], None]

M = TypeVar("M", bound=Message)

_INLINE_RECORDS_BYTES = 2048
"""Records in memory that are shorter are copied into the chunk before them: fewer pieces for the socket."""

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decoder(message_type: type[M], version: int) -> Callable[[bytes | memoryview, int, int], tuple[M, int]]:
    """The function (buffer, position, end) -> (message, position after it).

    The buffer is bytes, or a memoryview of bytes. A records field of the message is a memoryview of the
    buffer, everything else a copy. The function raises ProtocolError for bytes that are no such message.
    Raises ValueError for a version that there is not.
    """
    found = _decoders.get((message_type, version))
    if found is None:
        found = _decoders[message_type, version] = _compile_decoder(message_type, version)
    return cast("Callable[[bytes | memoryview, int, int], tuple[M, int]]", found)


def encoder(message_type: type[M], version: int) -> Callable[[M, list[Chunk]], None]:
    """The function (message, chunks), which appends the bytes of the message to `chunks`, in one piece or
    more.

    It raises ValueError, naming the field, where the version cannot carry what is in the message; `chunks`
    may have got some pieces by then. Raises ValueError for a version that there is not.
    """
    found = _encoders.get((message_type, version))
    if found is None:
        found = _encoders[message_type, version] = _compile_encoder(message_type, version)
    return found


def element_encoder(
    message_type: type[Message], element_type: type[Struct], version: int
) -> Callable[[Struct], Encoded]:
    """Encodes structs of `element_type` ahead of the message in whose array they will stand, in place of the struct.

    For answers that are mostly the same each time. Raises ValueError for what the version cannot carry.
    """
    from protocol.codec_writer import WriterSource
    from protocol.reference import struct_layout

    source = WriterSource(struct_layout(message_type, element_type, version))
    write = source.compiled("write", f"encoder of {element_type.__name__} v{version}", _WRITING)

    def encode_element(element: Struct) -> Encoded:
        chunks: list[Chunk] = []
        write(element, chunks)
        return Encoded(join_chunks(chunks))

    return encode_element


def decode(message_type: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    """The message that all of `data` is. Raises ProtocolError where it is none, or more follows it."""
    buffer = bytes(data) if isinstance(data, bytearray) else data
    message, position = decoder(message_type, version)(buffer, 0, len(buffer))
    if position != len(buffer):
        excess = len(buffer) - position
        raise ProtocolError(f"{message_type.__name__} v{version}: {excess} bytes too many")
    return message


def encode(message: Message, version: int) -> bytes:
    """The bytes of `message`, records included. Raises ValueError where the version cannot carry it."""
    chunks: list[Chunk] = []
    encoder(type(message), version)(message, chunks)
    return join_chunks(chunks)


def join_chunks(chunks: list[Chunk]) -> bytes:
    """The chunks in one piece, those read that are elsewhere."""
    return b"".join(chunk if isinstance(chunk, (bytes, memoryview)) else chunk.read() for chunk in chunks)


def decoder_source(message_type: type[Message], version: int) -> str:
    """The Python source of the decoder."""
    from protocol.codec_reader import ReaderSource
    from protocol.reference import layout

    return ReaderSource(layout(message_type, version)).text


def encoder_source(message_type: type[Message], version: int) -> str:
    """The Python source of the encoder."""
    from protocol.codec_writer import WriterSource
    from protocol.reference import layout

    return WriterSource(layout(message_type, version)).text


def _compile_decoder(message_type: type[Message], version: int) -> Decoder:
    # construct is only imported for these two: it costs a process some 10 ms that reads no messages.
    from protocol.codec_reader import ReaderSource
    from protocol.reference import layout

    title = f"{message_type.__name__} v{version}"

    @cache
    def compiled(*, lenient: bool, views: bool) -> Decoder:
        source = ReaderSource(layout(message_type, version), lenient=lenient, views=views)
        return source.compiled("read", f"decoder of {title}", _READING)

    read_bytes = compiled(lenient=False, views=False)

    def decode_at(buffer: bytes | memoryview, position: int, end: int) -> tuple[Message, int]:
        if end != len(buffer):
            buffer = buffer[:end]  # the generated code relies on the buffer ending where the message must
        views = type(buffer) is memoryview
        read = compiled(lenient=False, views=True) if views else read_bytes
        try:
            try:
                return read(buffer, position, end)
            except UnicodeDecodeError:
                return compiled(lenient=True, views=views)(buffer, position, end)
        except (IndexError, struct.error) as error:
            raise ProtocolError(f"{title} is cut off: {end - position} bytes are too few") from error
        except ProtocolError as error:
            raise ProtocolError(f"{title}: {error}") from error

    return decode_at


def _compile_encoder(message_type: type[Message], version: int) -> Encoder:
    from protocol.codec_writer import WriterSource
    from protocol.reference import layout

    title = f"{message_type.__name__} v{version}"
    write = WriterSource(layout(message_type, version)).compiled("write", f"encoder of {title}", _WRITING)

    def encode_to(message: Message, chunks: list[Chunk]) -> None:
        try:
            write(message, chunks)
        except ValueError as error:
            raise ValueError(f"{title}: {error}") from error
        except (struct.error, TypeError, AttributeError) as error:
            raise _explained(message, version, error) from error

    return encode_to


def _explained(message: Message, version: int, error: Exception) -> ValueError:
    """Why the compiled code failed, in the words of the construct, which knows where in the message it was."""
    from protocol.reference import build

    try:
        build(message, version)
    except ValueError as explanation:
        return explanation
    except (TypeError, AttributeError):
        pass  # a value of another type than the field has: the first error says as much as this one
    return ValueError(f"{type(message).__name__} v{version}: {error}")


# What the generated decoders call when something is not the usual case.


def _long_varint(buffer: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte, already read, was `first`, and which goes on at `position`."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_UNSIGNED_VARINT:
                break
            return value, position
    raise ProtocolError("a varint needs more than 32 bits")


def _null(path: str) -> ProtocolError:
    return ProtocolError(f"{path} is null where no null can be")


def _short(path: str, length: int, left: int) -> ProtocolError:
    return ProtocolError(f"{path} claims {length} bytes and there are {left}")


def _too_long(path: str, length: int) -> ProtocolError:
    return ProtocolError(f"{path} claims {length} bytes, more than a string can have")


def _too_many(path: str, count: int, left: int) -> ProtocolError:
    return ProtocolError(f"{path} claims {count} elements in {left} bytes")


def _bad_marker(path: str, marker: int) -> ProtocolError:
    return ProtocolError(
        f"{path} has the marker {marker}, which says neither that it is there nor that it is not"
    )


def _wrong_size(path: str, tag: int, excess: int) -> ProtocolError:
    return ProtocolError(f"{path} (tag {tag}) and the size it claims differ by {abs(excess)} bytes")


def _misplaced_tag(tag: int) -> ProtocolError:
    return ProtocolError(f"tag {tag} does not belong to this version")


def _tag_count(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    count, position = read_unsigned_varint(buffer, position)
    if count * 2 > end - position:
        raise _too_many("tagged fields", count, end - position)
    return count, position


def _tag_header(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int, int]:
    """The tag, where its value begins and where it ends."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if size > end - position:
        raise _short(f"tag {tag}", size, end - position)
    return tag, position, position + size


def _unknown_tags(buffer: bytes | memoryview, position: int, end: int) -> tuple[dict[int, bytes], int]:
    unknown = {}
    count, position = _tag_count(buffer, position, end)
    for _ in range(count):
        tag, position, stop = _tag_header(buffer, position, end)
        unknown[tag] = bytes(buffer[position:stop])
        position = stop
    return unknown, position


# What the generated encoders call when something is not the usual case.


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_tags(out: bytearray, entries: dict[int, bytes | bytearray]) -> None:
    out += unsigned_varint(len(entries))
    for tag, value in sorted(entries.items()):
        out += unsigned_varint(tag) + unsigned_varint(len(value)) + value


def _records_size(records: Chunk) -> int:
    if isinstance(records, memoryview):
        return records.nbytes
    return len(records) if isinstance(records, bytes) else records.size


def _put_records(out: bytearray, records: Chunk, chunks: list[Chunk]) -> bytearray:
    """Writes records, either into `out` or as a chunk of their own; returns what takes the bytes after them."""
    if isinstance(records, (bytes, memoryview)) and len(records) < _INLINE_RECORDS_BYTES:
        out += records
        return out
    chunks.append(bytes(out))
    chunks.append(records)
    return bytearray()


def _not_carried(name: str, version: int) -> ValueError:
    return ValueError(f"{name} cannot be sent in version {version}, and does not have its default")


def _too_long_to_write(name: str, length: int) -> ValueError:
    return ValueError(f"{name} has {length} bytes, more than a string can have")


def _wrong_uuid(value: bytes) -> ValueError:
    return ValueError(f"a UUID has 16 bytes, {value!r} has {len(value)}")


def _known_tag(tag: int, name: str) -> ValueError:
    return ValueError(f"tag {tag} is {name}, and cannot be among the unknown ones")


_READING: dict[str, Any] = {
    "bad_marker": _bad_marker,
    "long_varint": _long_varint,
    "misplaced_tag": _misplaced_tag,
    "new": object.__new__,
    "null": _null,
    "short": _short,
    "tag_count": _tag_count,
    "tag_header": _tag_header,
    "too_long": _too_long,
    "too_many": _too_many,
    "unknown_tags": _unknown_tags,
    "unpack_from": struct.unpack_from,
    "wrong_size": _wrong_size,
}

_WRITING: dict[str, Any] = {
    "encoded": Encoded,
    "known_tag": _known_tag,
    "not_carried": _not_carried,
    "pack": struct.pack,
    "put_records": _put_records,
    "put_tags": _put_tags,
    "put_varint": _put_varint,
    "records_size": _records_size,
    "too_long_to_write": _too_long_to_write,
    "wrong_uuid": _wrong_uuid,
}
