"""Responses on their way out: chunks that could not be sent at once, and records, which are still on the disk.

Records go from their file to the socket as the socket takes them (sendfile), so that a client that fetches 50 MiB
and reads slowly costs the broker nothing. Without a descriptor, and where they are so few that a system call of
their own costs more than a copy, they are read, a piece at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from barnabas.broker.network.transport import MORE_COMES, Transport
from barnabas.protocol.wire import Chunk, RecordsChunk

PIECE_BYTES = 256 * 1024
"""About how much is read or put together at once."""

TURN_BYTES = 1024 * 1024
"""About how much one connection sends before the others get a turn."""

SENDFILE_BYTES: Final = 16 * 1024
"""From here on sendfile is cheaper than reading and sending."""

_MIN_SLICE_BYTES = 16 * 1024


class RecordsGoneError(Exception):
    """Records of a response that has begun cannot be read any more: their file was truncated, or the disk failed.

    The connection closes.
    """


_Slice = Callable[[int, int], RecordsChunk]
"""A part of records: from a position on, so many bytes."""


class _File(Protocol):
    """An open file; its descriptor is None once it is closed."""

    def fileno(self) -> int | None: ...


class _FileSlice:
    """Records that lie in an open file."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: _File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size


class SendQueue:
    """Chunks in the order in which they are sent."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: deque[Chunk | _FileSlice] = deque()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def put(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._chunks.append(chunk if chunk.__class__ is bytes else _in_file(chunk) or chunk)

    def clear(self) -> None:
        self._chunks.clear()

    def send(self, transport: Transport) -> int:
        """Sends what the transport takes, and returns how many bytes. The rest waits for the next turn.

        Raises RecordsGoneError, or OSError if the peer has gone.
        """
        chunks = self._chunks
        sent = 0
        while chunks and sent < TURN_BYTES:
            first = chunks[0]
            if isinstance(first, _FileSlice):
                count = _send_file(transport, first, TURN_BYTES - sent)
                whole = not first.size
                if whole:
                    chunks.popleft()
            else:
                pieces = self.take()
                data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                count = _send(transport, data, MORE_COMES if chunks else 0)
                whole = count == len(data)
                if not whole:
                    chunks.appendleft(memoryview(data)[count:])
            sent += count
            if not whole:
                break
        return sent

    def take(self) -> list[bytes | memoryview]:
        """The next chunks from memory, about PIECE_BYTES; more only where a chunk cannot be divided.

        Raises RecordsGoneError.
        """
        pieces: list[bytes | memoryview] = []
        room = PIECE_BYTES
        chunks = self._chunks
        while chunks and room > 0 and not isinstance(chunks[0], _FileSlice):
            chunk = chunks.popleft()
            if isinstance(chunk, (bytes, memoryview)):
                pieces.append(chunk)
                room -= len(chunk)
            else:
                assert not isinstance(chunk, _FileSlice)
                slice_of: _Slice | None = getattr(chunk, "slice", None)
                if chunk.size > room and slice_of is not None:
                    chunk = self._divide(chunk.size, slice_of, room)
                pieces.append(_read(chunk))
                room -= chunk.size
        return pieces

    def _divide(self, size: int, slice_of: _Slice, room: int) -> RecordsChunk:
        first = min(max(room, _MIN_SLICE_BYTES), size)
        if first < size:
            self._chunks.appendleft(slice_of(first, size - first))
        return slice_of(0, first)


def _in_file(chunk: Chunk) -> _FileSlice | None:
    """The chunk's place in its file, if it is to be sent by sendfile."""
    if isinstance(chunk, (bytes, memoryview)) or chunk.size < SENDFILE_BYTES:
        return None
    file: _File | None = getattr(chunk, "file", None)
    if file is None or file.fileno() is None:
        return None
    return _FileSlice(file, chunk.position, chunk.size)  # type: ignore[attr-defined]  # a FileRecords, as it has a file


def _send(transport: Transport, data: bytes | memoryview, flags: int) -> int:
    try:
        return transport.send(data, flags)
    except (BlockingIOError, InterruptedError):
        return 0


def _send_file(transport: Transport, part: _FileSlice, most: int) -> int:
    """Sends from the beginning of `part`, and removes what was sent from it."""
    descriptor = part.file.fileno()
    if descriptor is None:
        raise RecordsGoneError(f"the file of {part.size} bytes of records was closed under them")
    try:
        count = transport.send_file(descriptor, part.position, min(part.size, most))
    except (BlockingIOError, InterruptedError):
        return 0
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        raise RecordsGoneError(f"{part.size} bytes of records cannot be read: {error}") from error
    if not count:
        raise RecordsGoneError(f"{part.size} bytes of records are missing: the log was truncated under them")
    part.position += count
    part.size -= count
    return count


def _read(chunk: RecordsChunk) -> bytes:
    try:
        data = chunk.read()
    except OSError as error:
        raise RecordsGoneError(f"{chunk!r} cannot be read: {error}") from error
    if len(data) != chunk.size:
        raise RecordsGoneError(f"{chunk!r} gave {len(data)} bytes: the log was truncated under it")
    return data
