"""The frames of a captured connection: requests, and each response with the API and version of its request."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.cli.wire.frames import REQUEST, RESPONSE, Frame, decode_request, decode_response
from barnabas.cli.wire.inputs import is_plausible_request
from barnabas.cli.wire.tree import Wrong
from barnabas.protocol.api_keys import ApiKey, request_type

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from barnabas.cli.wire.tcp import Address, Connection, Piece

MAX_FRAME_BYTES: Final = 1 << 30
PACKETS_TRIED: Final = 50
_SIZE = struct.Struct(">i")
_TLS_RECORDS: Final = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


class _Raw(NamedTuple):
    """A frame that was cut out of a stream, or what stands where one should be."""

    start: int
    data: bytes
    time: float | None
    wrong: Wrong | None = None
    note: str = ""


class _Asked(NamedTuple):
    api: ApiKey
    version: int


def frames_of(connection: Connection, *, port: int | None = None, with_records: bool = False) -> list[Frame]:
    """All frames of a connection in the order of their times; those of one time, requests first."""
    client = client_of(connection, port)
    server = connection.other(client)
    requests = list(_requests(connection, client, with_records))
    asked = {
        frame.correlation_id: _Asked(frame.api, frame.version)
        for frame in requests
        if frame.api is not None
        and frame.version is not None
        and frame.correlation_id is not None
        and request_type(frame.api).versions.has(frame.version)
    }
    responses = list(_responses(connection, server, asked, requests, with_records))
    found = [*requests, *responses]
    for frame in found:
        ends = (client, server) if frame.direction == REQUEST else (server, client)
        frame.connection = f"{ends[0]} > {ends[1]}"
    return sorted(found, key=lambda frame: (frame.time is not None, frame.time or 0.0))


def client_of(connection: Connection, port: int | None) -> Address:
    """The end that sends requests: by the given port, by who opened the connection, by what was sent, by the ports."""
    first, second = connection.ends
    if port is not None and {first.port, second.port} != {port} and port in {first.port, second.port}:
        return second if first.port == port else first
    if connection.client is not None:
        return connection.client
    asked = {end: _requests_found(connection.directions[end].pieces()) for end in connection.ends}
    if asked[first] != asked[second]:
        return first if asked[first] > asked[second] else second
    return first if first.port > second.port else second


def _requests_found(pieces: list[Piece]) -> int:
    """How many of the first packets begin with a whole request."""
    starts = [(piece, start) for piece in pieces for start, _ in piece.times][:PACKETS_TRIED]
    return sum(_begins_with_request(piece.data, start) for piece, start in starts)


def _begins_with_request(data: bytes, start: int) -> bool:
    """Whether a whole request without a fault stands there. Its first bytes alone would say too little: a correlation
    id in a response looks like an API key and a version.
    """
    if not is_plausible_request(data[start + _SIZE.size : start + 2 * _SIZE.size]):
        return False
    (size,) = _SIZE.unpack_from(data, start)
    begin = start + _SIZE.size
    return 0 <= size <= len(data) - begin and not decode_request(data[begin : begin + size]).wrongs


def _requests(connection: Connection, client: Address, with_records: bool) -> Iterator[Frame]:
    direction = connection.directions[client]
    pieces = direction.pieces()
    for raw in _cut(pieces, REQUEST, direction.first is not None, None):
        if raw.wrong is not None:
            yield Frame(REQUEST, raw.data, raw.start, wrongs=[raw.wrong], time=raw.time, note=raw.note)
            continue
        frame = decode_request(raw.data, raw.start, with_records=with_records)
        frame.time, frame.note = raw.time, raw.note
        yield frame


def _responses(
    connection: Connection,
    server: Address,
    asked: dict[int, _Asked],
    requests: list[Frame],
    with_records: bool,
) -> Iterator[Frame]:
    """`asked` holds the latest request of a correlation id; those before it are found by their order."""
    repeated = _in_order(requests, asked)
    direction = connection.directions[server]
    for raw in _cut(direction.pieces(), RESPONSE, direction.first is not None, asked):
        frame = _response(raw, asked, repeated, with_records)
        frame.time, frame.note = raw.time, raw.note or frame.note
        yield frame


def _in_order(requests: list[Frame], asked: dict[int, _Asked]) -> dict[int, list[_Asked]]:
    """The requests of each correlation id, latest first: a client that counts from 0 again uses one twice."""
    found: dict[int, list[_Asked]] = {}
    for frame in reversed(requests):
        if frame.correlation_id in asked and frame.api is not None and frame.version is not None:
            found.setdefault(frame.correlation_id, []).append(_Asked(frame.api, frame.version))
    return found


def _response(
    raw: _Raw, asked: dict[int, _Asked], in_order: dict[int, list[_Asked]], with_records: bool
) -> Frame:
    frame = Frame(RESPONSE, raw.data, raw.start)
    if raw.wrong is not None:
        frame.wrongs.append(raw.wrong)
        return frame
    if len(raw.data) < 4:
        found = f"{len(raw.data)} bytes and then the end"
        frame.wrongs.append(Wrong(0, "header.correlation_id", "int32 of 4 bytes", found))
        return frame
    (correlation_id,) = _SIZE.unpack_from(raw.data)
    frame.correlation_id = correlation_id
    waiting = in_order.get(correlation_id)
    request = waiting.pop() if waiting else asked.get(correlation_id)
    if request is None:
        expected = "the correlation id of a request that was captured"
        frame.wrongs.append(Wrong(0, "header.correlation_id", expected, str(correlation_id)))
        return frame
    return decode_response(raw.data, *request, raw.start, with_records=with_records)


def _cut(
    pieces: list[Piece], direction: str, from_start: bool, asked: Container[int] | None
) -> Iterator[_Raw]:
    """Cuts a direction into frames. Behind a gap, and where the beginning was not captured, it looks for the next."""
    end = 0
    for number, piece in enumerate(pieces):
        if piece.start > end:
            missing = Wrong(
                0, "(stream)", "the bytes before this place", f"{piece.start - end} were not captured"
            )
            yield _Raw(end, b"", piece.time_at(0), missing)
        position = 0
        if piece.start > end or (number == 0 and not from_start):
            position = _resumed(piece, direction, asked)
            if position:
                note = f"the capture begins within a frame: {position} bytes before it were left out"
                yield from _noted(_frames_in(piece, position, direction), note)
                end = piece.start + len(piece.data)
                continue
        yield from _frames_in(piece, position, direction)
        end = piece.start + len(piece.data)


def _noted(frames: Iterator[_Raw], note: str) -> Iterator[_Raw]:
    first = next(frames, None)
    if first is not None:
        yield first._replace(note=note)
    yield from frames


def _resumed(piece: Piece, direction: str, asked: Container[int] | None) -> int:
    """Where in the piece a packet begins with a frame; 0 where none does."""
    for start, _ in piece.times:
        begin = piece.data[start : start + 16]
        if len(begin) < 8 or not 4 <= _SIZE.unpack_from(begin)[0] <= MAX_FRAME_BYTES:
            continue
        if direction == REQUEST and _begins_with_request(piece.data, start):
            return start
        if direction == RESPONSE and asked is not None and _SIZE.unpack_from(begin, 4)[0] in asked:
            return start
    return 0


def _frames_in(piece: Piece, position: int, direction: str) -> Iterator[_Raw]:
    while position < len(piece.data):
        left = len(piece.data) - position
        time = piece.time_at(position)
        start = piece.start + position
        if left < _SIZE.size:
            wrong = Wrong(0, "(size)", "the size of a frame, 4 bytes", f"{left} bytes and then the end")
            yield _Raw(start, piece.data[position:], time, wrong)
            return
        (size,) = _SIZE.unpack_from(piece.data, position)
        is_tls = piece.data[position : position + 2] in _TLS_RECORDS
        if is_tls or not 0 <= size <= MAX_FRAME_BYTES:
            found = f"{size}; this looks like TLS, which cannot be read here" if is_tls else str(size)
            wrong = Wrong(0, "(size)", f"the size of a {direction}, 0 to {MAX_FRAME_BYTES}", found)
            yield _Raw(start, piece.data[position : position + 64], time, wrong)
            return
        begin = position + _SIZE.size
        if size > left - _SIZE.size:
            wrong = Wrong(
                left - _SIZE.size, "(frame)", f"a frame of {size} bytes", f"{left - _SIZE.size} bytes of it"
            )
            yield _Raw(piece.start + begin, piece.data[begin:], time, wrong)
            return
        yield _Raw(piece.start + begin, piece.data[begin : begin + size], time)
        position = begin + size
