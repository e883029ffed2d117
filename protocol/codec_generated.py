"""The codec as generated Python: what an install without a C compiler runs, and what the tests hold the engine against.

The first use of a (message, version) writes its code out of the construct in `protocol.reference` and compiles it,
which takes about a millisecond. The source can be seen with `decoder_source` and `encoder_source`.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from protocol import codec_errors as wrong
from protocol.codec_engine import INLINE_RECORDS_BYTES, UNBOUNDED
from protocol.codec_reader import ReaderSource
from protocol.codec_writer import WriterSource
from protocol.errors import ProtocolError
from protocol.reference import layout, struct_layout
from protocol.wire import MAX_UNSIGNED_VARINT, Encoded, unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema import Message, Struct
    from protocol.wire import Chunk, Frame

    Decoder = Callable[[Frame, int, int], tuple[Message, int]]
    Encoder = Callable[[Any, list[Chunk]], None]


def make_decoder(message_type: type[Message], version: int, most: int = UNBOUNDED) -> Decoder:
    """See `codec.decoder`."""
    title = f"{message_type.__name__} v{version}"

    @cache
    def compiled(
        *, lenient: bool, views: bool
    ) -> Callable[[Frame, int, int, list[int]], tuple[Message, int]]:
        source = ReaderSource(layout(message_type, version), lenient=lenient, views=views)
        return source.compiled("read", f"decoder of {title}", _READING)

    read_bytes = compiled(lenient=False, views=False)

    def decode_at(buffer: Frame, position: int, end: int) -> tuple[Message, int]:
        if end != len(buffer):
            buffer = buffer[:end]  # the generated code relies on the buffer ending where the message must
        views = type(buffer) is memoryview
        read = compiled(lenient=False, views=True) if views else read_bytes
        try:
            try:
                return read(buffer, position, end, [most])
            except UnicodeDecodeError:
                return compiled(lenient=True, views=views)(buffer, position, end, [most])
        except (IndexError, struct.error) as error:
            raise wrong.cut_off(title, end - position) from error
        except ProtocolError as error:
            raise ProtocolError(f"{title}: {error}") from error

    return decode_at


def make_encoder(message_type: type[Message], version: int) -> Encoder:
    """See `codec.encoder`."""
    title = f"{message_type.__name__} v{version}"
    write = WriterSource(layout(message_type, version)).compiled("write", f"encoder of {title}", _WRITING)

    def encode_to(message: Message, chunks: list[Chunk]) -> None:
        try:
            write(message, chunks)
        except ValueError as error:
            raise ValueError(f"{title}: {error}") from error
        except (struct.error, TypeError, AttributeError) as error:
            raise wrong.explained(message, error, version) from error

    return encode_to


def make_struct_encoder(message_type: type[Message], cls: type[Struct], version: int) -> Encoder:
    """The same for a struct of the message, its errors without a title."""
    source = WriterSource(struct_layout(message_type, cls, version))
    return source.compiled("write", f"encoder of {cls.__name__} v{version}", _WRITING)


def decoder_source(message_type: type[Message], version: int) -> str:
    """The Python source of the decoder."""
    return ReaderSource(layout(message_type, version)).text


def encoder_source(message_type: type[Message], version: int) -> str:
    """The Python source of the encoder."""
    return WriterSource(layout(message_type, version)).text


# What the generated decoders call when something is not the usual case.


def _long_varint(buffer: Frame, position: int, first: int) -> tuple[int, int]:
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
    raise wrong.long_varint()


def _varint(buffer: Frame, position: int) -> tuple[int, int]:
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else _long_varint(buffer, position + 1, first)


def _tag_count(buffer: Frame, position: int, end: int, room: list[int]) -> tuple[int, int]:
    count, position = _varint(buffer, position)
    if count * 2 > end - position:
        raise wrong.too_many("tagged fields", count, end - position)
    room[0] -= count
    if room[0] < 0:
        raise wrong.too_much("tagged fields")
    return count, position


def _tag_header(buffer: Frame, position: int, end: int) -> tuple[int, int, int]:
    """The tag, where its value begins and where it ends."""
    tag, position = _varint(buffer, position)
    size, position = _varint(buffer, position)
    if size > end - position:
        raise wrong.short(f"tag {tag}", size, end - position)
    return tag, position, position + size


def _unknown_tags(buffer: Frame, position: int, end: int, room: list[int]) -> tuple[dict[int, bytes], int]:
    unknown = {}
    count, position = _tag_count(buffer, position, end, room)
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
    if isinstance(records, (bytes, memoryview)) and len(records) < INLINE_RECORDS_BYTES:
        out += records
        return out
    chunks.append(bytes(out))
    chunks.append(records)
    return bytearray()


_READING: dict[str, Any] = {
    "bad_marker": wrong.bad_marker,
    "long_varint": _long_varint,
    "misplaced_tag": wrong.misplaced_tag,
    "new": object.__new__,
    "null": wrong.null,
    "short": wrong.short,
    "tag_count": _tag_count,
    "tag_header": _tag_header,
    "too_long": wrong.too_long,
    "too_many": wrong.too_many,
    "too_much": wrong.too_much,
    "unknown_tags": _unknown_tags,
    "unpack_from": struct.unpack_from,
    "wrong_size": wrong.wrong_size,
}

_WRITING: dict[str, Any] = {
    "encoded": Encoded,
    "known_tag": wrong.known_tag,
    "not_carried": wrong.not_carried,
    "pack": struct.pack,
    "put_records": _put_records,
    "put_tags": _put_tags,
    "put_varint": _put_varint,
    "records_size": _records_size,
    "too_long_to_write": wrong.too_long_to_write,
    "wrong_uuid": wrong.wrong_uuid,
}
