"""The schema registry's wire format: a zero byte and the schema's id before the payload.

    00 00 00 00 2a  <payload>                  Avro and JSON: id 42
    00 00 00 00 2a  00  <payload>              Protobuf: the first message of its file
    00 00 00 00 2a  04 02 00  <payload>        Protobuf: the first message within the second of the file

A Protobuf message is named by the path of indexes that leads to it, a zigzag varint for how many there are and one for
each; the path [0], which is nearly every one, is the single byte 00.
"""

from __future__ import annotations

import struct

from barnabas.pipeline.decoding.errors import MalformedValueError

MAGIC = 0
HEADER_BYTES = 5
_MAX_DEPTH = (
    32  # of messages within messages: more than real messages nest, and few enough to reject garbage soon
)


def split(value: bytes) -> tuple[int, bytes]:
    """Splits a value into the schema's id and the rest. Raises MalformedValueError where the value does not begin
    so."""
    if len(value) < HEADER_BYTES:
        raise MalformedValueError(
            f"{len(value)} bytes, and the registry's wire format begins with {HEADER_BYTES}"
        )
    magic, schema_id = struct.unpack_from(">bi", value)
    if magic != MAGIC:
        raise MalformedValueError(
            f"the first byte is {magic}, and in the registry's wire format it is {MAGIC}"
        )
    if schema_id < 0:
        raise MalformedValueError(f"the schema's id is {schema_id}, and no registry has one below 0")
    return schema_id, value[HEADER_BYTES:]


def join(schema_id: int, payload: bytes) -> bytes:
    """The inverse of `split`."""
    return struct.pack(">bi", MAGIC, schema_id) + payload


def split_indexes(value: bytes) -> tuple[list[int], bytes]:
    """The path of a Protobuf message within its file and the message's bytes. MalformedValueError."""
    count, position = _varint(value, 0)
    if count == 0:
        return [0], value[position:]
    if not 0 < count <= _MAX_DEPTH:
        raise MalformedValueError(f"{count} message indexes, and there are 1 to {_MAX_DEPTH}")
    indexes = []
    for _ in range(count):
        index, position = _varint(value, position)
        indexes.append(index)
    return indexes, value[position:]


def _varint(value: bytes, position: int) -> tuple[int, int]:
    """A zigzag number of at most 32 bits and where it ends."""
    number = 0
    for shift in range(0, 35, 7):
        if position >= len(value):
            raise MalformedValueError("the message indexes are cut off")
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise MalformedValueError("a message index is longer than 32 bits")
