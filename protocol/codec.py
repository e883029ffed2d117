"""Bytes to messages and back.

The first use of a (message, version) makes its program, one step a field, out of the declaration (codec_program.py);
from then on a call is a dictionary look-up and a run of the program by codec_engine.py. The engine is compiled where a
C compiler was present at installation, and the same source runs as Python elsewhere.

Bytes that cannot be decoded raise ProtocolError and nothing else; a message that the version cannot carry raises
ValueError, since the caller is at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from barnabas.protocol import codec_program
from barnabas.protocol.codec_engine import UNBOUNDED
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.schema import Struct
    from barnabas.protocol.wire import Chunk, Frame

    Decoder = Callable[[Frame, int, int], tuple[Message, int]]
    Encoder = Callable[[Any, list[Chunk]], None]

M = TypeVar("M", bound=Message)

MAX_ELEMENTS = 1_000_000
"""The most elements in a message of a client: several times the partitions of a large cluster, and a few hundred MiB of
objects."""

_decoders: dict[tuple[type[Message], int, int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decoder(
    message_type: type[M], version: int, max_elements: int = UNBOUNDED
) -> Callable[[Frame, int, int], tuple[M, int]]:
    """The function (buffer, position, end) -> (message, position after it).

    The buffer is bytes, or a memoryview of bytes. A records field of the message is a memoryview of the
    buffer, everything else a copy. The function raises ProtocolError for bytes that cannot be decoded, and
    for a message with more than `max_elements` elements of arrays and tagged fields, all together: this bounds
    the memory of requests, where one byte can become an object of a hundred.
    Raises ValueError for a version that does not exist.
    """
    key = (message_type, version, max_elements)
    found = _decoders.get(key)
    if found is None:
        found = _decoders[key] = codec_program.make_decoder(*key)
    return cast("Callable[[Frame, int, int], tuple[M, int]]", found)


def encoder(message_type: type[M], version: int) -> Callable[[M, list[Chunk]], None]:
    """The function (message, chunks), which appends the bytes of the message to `chunks`, in one piece or
    more.

    It raises ValueError with the name of the field if the version cannot carry a value; `chunks` may have
    some pieces by then. Raises ValueError for a version that does not exist.
    """
    found = _encoders.get((message_type, version))
    if found is None:
        found = _encoders[message_type, version] = codec_program.make_encoder(message_type, version)
    return found


def element_encoder(
    message_type: type[Message], element_type: type[Struct], version: int
) -> Callable[[Struct], Encoded]:
    """Encodes structs of `element_type` before the message whose array will hold the result in place of the struct.

    For responses that repeat most elements. Raises ValueError if the version cannot carry a value.
    """
    write = codec_program.make_struct_encoder(message_type, element_type, version)

    def encode_element(element: Struct) -> Encoded:
        chunks: list[Chunk] = []
        write(element, chunks)
        return Encoded(join_chunks(chunks))

    return encode_element


def decode(message_type: type[M], version: int, data: bytes | bytearray | memoryview) -> M:
    """Decodes all of `data`. Raises ProtocolError if it is not such a message, or has bytes after it."""
    buffer = bytes(data) if isinstance(data, bytearray) else data
    message, position = decoder(message_type, version)(buffer, 0, len(buffer))
    if position != len(buffer):
        excess = len(buffer) - position
        raise ProtocolError(f"{message_type.__name__} v{version}: {excess} bytes too many")
    return message


def encode(message: Message, version: int) -> bytes:
    """The bytes of `message`, records included. Raises ValueError if the version cannot carry it."""
    chunks: list[Chunk] = []
    encoder(type(message), version)(message, chunks)
    return join_chunks(chunks)


def join_chunks(chunks: list[Chunk]) -> bytes:
    """The chunks in one piece; reads RecordsChunks."""
    if len(chunks) == 1 and isinstance(chunks[0], bytes):
        return chunks[0]  # nearly every message without records
    return b"".join(chunk if isinstance(chunk, (bytes, memoryview)) else chunk.read() for chunk in chunks)
