"""Answers on their way out: what the transport has not been given yet, records still on the disk.

Records are read when there is room to send them, a piece at a time, so that a client that fetches 50 MiB
and reads slowly costs the broker one piece, not 50 MiB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from protocol.wire import Chunk, RecordsChunk

PIECE_BYTES = 256 * 1024
"""About how much the transport is given at once."""

_MIN_SLICE_BYTES = 16 * 1024


class RecordsGoneError(Exception):
    """Records that an answer has promised cannot be read any more: their file was truncated. The connection closes."""


@runtime_checkable
class _Sliceable(Protocol):
    """Records that can be read in parts."""

    size: int

    def slice(self, position: int, size: int) -> RecordsChunk: ...


class SendQueue:
    """Chunks in the order in which they are sent."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def put(self, chunks: Iterable[Chunk]) -> None:
        self._chunks.extend(chunks)

    def clear(self) -> None:
        self._chunks.clear()

    def take(self) -> list[bytes | memoryview]:
        """What to send next: one piece, which is larger only where a chunk cannot be divided.

        Raises RecordsGoneError, or OSError if the disk fails.
        """
        pieces: list[bytes | memoryview] = []
        room = PIECE_BYTES
        chunks = self._chunks
        while chunks and room > 0:
            chunk = chunks.popleft()
            if isinstance(chunk, bytes | memoryview):
                pieces.append(chunk)
                room -= len(chunk)
            else:
                if chunk.size > room and isinstance(chunk, _Sliceable):
                    chunk = self._divide(chunk, room)
                pieces.append(_read(chunk))
                room -= chunk.size
        return pieces

    def _divide(self, chunk: _Sliceable, room: int) -> RecordsChunk:
        first = min(max(room, _MIN_SLICE_BYTES), chunk.size)
        if first < chunk.size:
            self._chunks.appendleft(chunk.slice(first, chunk.size - first))
        return chunk.slice(0, first)


def _read(chunk: RecordsChunk) -> bytes:
    data = chunk.read()
    if len(data) != chunk.size:
        raise RecordsGoneError(f"{chunk!r} gave {len(data)} bytes: the log was truncated under it")
    return data
