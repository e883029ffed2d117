"""The primitive types of the wire that several modules need: UUIDs, unsigned varints, chunks of a frame.

Multi-byte integers are big-endian everywhere. The layouts of strings, arrays and tagged fields are in
`protocol.reference`; the server encodes and decodes them with `protocol.codec`.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Protocol, TypeAlias

from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Uuid: TypeAlias = bytes
"""Sixteen bytes, most significant first: topic ids, directory ids, member ids of KIP-848."""

ZERO_UUID: Uuid = bytes(16)
"""The value for "no id" (`Uuid.ZERO_UUID`)."""

_RESERVED_PREFIX = bytes(15)
_RESERVED_COUNT = 100

MAX_UNSIGNED_VARINT = 0xFFFFFFFF
MAX_UNSIGNED_VARINT_BYTES = 5


class RecordsChunk(Protocol):
    """Record data that is read when it is sent, usually a slice of a segment file."""

    @property
    def size(self) -> int:
        """The length in bytes; it precedes the records, so it must not change."""

    def read(self) -> bytes:
        """The records themselves, exactly `size` bytes."""


Frame: TypeAlias = bytes | memoryview
"""A request or response without its size. Small ones are bytes, large ones a view of the receive buffer."""

Chunk: TypeAlias = bytes | memoryview | RecordsChunk
"""A piece of an encoded message; the pieces in order are the message."""


class Encoded(bytes):
    """Elements of an array of structs that are already encoded for a version; see `element_encoder`."""

    __slots__ = ()


class EncodedArray:
    """Several encoded elements in one piece, in place of the list in a message: it has their count and their bytes."""

    __slots__ = ("_count", "data")

    def __init__(self, count: int, data: Encoded) -> None:
        self._count = count
        self.data = data

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Encoded]:
        return iter((self.data,))


def uuid_to_string(uuid: Uuid) -> str:
    """The text of a UUID in Kafka: 22 characters of URL-safe base64 without padding."""
    return b2a_base64(uuid, newline=False)[:22].replace(b"+", b"-").replace(b"/", b"_").decode("ascii")


def uuid_from_string(text: str) -> Uuid:
    """The UUID that `text` names, with or without padding. Raises ValueError for anything else."""
    if len(text) > 24 or not text.isascii():
        raise ValueError(f"{text[:24]!r} is not a UUID: too long, or not ASCII")
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        uuid = a2b_base64(standard + "==", strict_mode=True)
    except Base64Error as error:
        raise ValueError(f"{text!r} is not a UUID in URL-safe base64: {error}") from None
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a UUID: it holds {len(uuid)} bytes and not 16")
    return uuid


def is_reserved_uuid(uuid: Uuid) -> bool:
    """Whether Kafka keeps this id for a meaning of its own (`Uuid.RESERVED`: the hundred lowest)."""
    return uuid.startswith(_RESERVED_PREFIX) and uuid[15] < _RESERVED_COUNT


def random_uuid(random_bytes: Callable[[int], bytes]) -> Uuid:
    """A version 4 UUID out of `random_bytes(16)`; drawn again while reserved or its text starts with '-'.

    The text must not start with a dash because it is used as an argument of command line tools.
    """
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = bytes(raw)
        if not is_reserved_uuid(uuid) and not uuid_to_string(uuid).startswith("-"):
            return uuid


def unsigned_varint(value: int) -> bytes:
    """`value` (0 to 2^32 - 1) in groups of seven bits, lowest first, the high bit set on all but the last."""
    if not 0 <= value <= MAX_UNSIGNED_VARINT:
        raise ValueError(f"an unsigned varint holds 0 to {MAX_UNSIGNED_VARINT}, not {value}")
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_unsigned_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The unsigned varint at `position` and the position after it.

    Raises ProtocolError if the data ends too early, or the value needs more than 32 bits.
    """
    value = 0
    for index in range(MAX_UNSIGNED_VARINT_BYTES):
        if position + index >= len(data):
            raise ProtocolError(f"the varint at byte {position} is cut off")
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if value > MAX_UNSIGNED_VARINT:
                break
            return value, position + index + 1
    raise ProtocolError(f"the varint at byte {position} needs more than 32 bits")
