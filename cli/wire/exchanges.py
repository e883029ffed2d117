"""The frames of a captured connection: requests, and each response with the API and version of its request."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from barnabas.cli.wire.frames import REQUEST, RESPONSE, Frame, decode_request, decode_response
from barnabas.cli.wire.inputs import is_plausible_request
from barnabas.cli.wire.walking import Wrong
from barnabas.protocol.api_keys import ApiKey, request_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.cli.wire.tcp import Address, Connection, Direction, Piece

    Requests = dict[int, list[tuple[ApiKey, int]]]
    """By correlation id the API and version of each request; a client that counts from 0 again uses an id twice."""

MAX_FRAME_BYTES: Final = 1 << 30
PACKETS_TRIED: Final = 50
_INT32 = struct.Struct(">i")
_TLS_RECORDS: Final = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


def frames_of(connection: Connection, *, port: int | None = None, with_records: bool = False) -> list[Frame]:
    """All frames of a connection in the order of their times; those of one time, requests first."""
    client = client_of(connection, port)
    server = connection.other(client)
    sent: Requests = {}
    requests = list(_frames(connection.directions[client], REQUEST, _begins_with_request))
    for frame in requests:
        frame.connection = f"{client} > {server}"
        if not frame.wrongs:
            decode_request(frame, with_records=with_records)
            _remember(sent, frame)
    responses = list(
        _frames(connection.directions[server], RESPONSE, lambda data, at: _int32(data, at + 4) in sent)
    )
    for frame in responses:
        frame.connection = f"{server} > {client}"
        if not frame.wrongs:
            _decode_response(frame, sent, with_records)
    return sorted([*requests, *responses], key=lambda frame: (frame.time is not None, frame.time or 0.0))


def client_of(connection: Connection, port: int | None) -> Address:
    """The end that sends requests: by the given port, the SYN, the bytes that were sent, or the ports."""
    first, second = connection.ends
    if port is not None and {first.port, second.port} != {port} and port in {first.port, second.port}:
        return second if first.port == port else first
    if connection.client is not None:
        return connection.client
    requests = {end: _requests_at_the_beginning(connection.directions[end]) for end in connection.ends}
    return max(connection.ends, key=lambda end: (requests[end], end.port, end == second))


def _requests_at_the_beginning(direction: Direction) -> int:
    """How many of the first packets begin with a whole request."""
    starts = [(piece.data, start) for piece in direction.pieces() for start, _ in piece.times]
    return sum(_begins_with_request(data, start) for data, start in starts[:PACKETS_TRIED])


def _begins_with_request(data: bytes, start: int) -> bool:
    """Whether a whole request without a fault begins there. Its first bytes alone are not enough: a correlation id in a
    response looks like an API key and a version.
    """
    begin = start + _INT32.size
    if not is_plausible_request(data[begin : begin + 4]):
        return False
    size = _int32(data, start)
    return (
        0 <= size <= len(data) - begin
        and not decode_request(Frame(REQUEST, data[begin : begin + size])).wrongs
    )


def _remember(sent: Requests, frame: Frame) -> None:
    if frame.api is None or frame.version is None or frame.correlation_id is None:
        return
    if request_type(frame.api).versions.has(frame.version):
        sent.setdefault(frame.correlation_id, []).append((frame.api, frame.version))


def _decode_response(frame: Frame, sent: Requests, with_records: bool) -> None:
    if len(frame.data) < 4:
        found = f"{len(frame.data)} bytes and then the end"
        frame.wrongs.append(Wrong(0, "header.correlation_id", "int32 of 4 bytes", found))
        return
    frame.correlation_id = _int32(frame.data, 0)
    requests = sent.get(frame.correlation_id)
    if requests is None:
        expected = "the correlation id of a request that was captured"
        frame.wrongs.append(Wrong(0, "header.correlation_id", expected, str(frame.correlation_id)))
        return
    frame.api, frame.version = requests.pop(0) if len(requests) > 1 else requests[0]
    decode_response(frame, with_records=with_records)


# ---- the stream of one direction, cut into frames


def _frames(direction: Direction, kind: str, begins: Callable[[bytes, int], bool]) -> Iterator[Frame]:
    """The frames, not decoded yet. After a gap, and where the beginning was not captured, it looks for the next one."""
    end = None if direction.first is None else 0
    for piece in direction.pieces():
        position, note = 0, ""
        if end is not None and piece.start > end:
            found = f"{piece.start - end} were not captured"
            wrong = Wrong(0, "(stream)", "the bytes before this place", found)
            yield Frame(kind, b"", end, wrongs=[wrong], time=piece.time_at(0))
        if piece.start != end:
            position = _next_frame(piece, begins)
            if position:
                note = f"the capture begins within a frame: {position} bytes before it were left out"
        for frame in _frames_in(piece, position, kind):
            frame.note, note = note, ""
            yield frame
        end = piece.start + len(piece.data)


def _next_frame(piece: Piece, begins: Callable[[bytes, int], bool]) -> int:
    """Where in the piece a packet begins with a frame; 0 if none does."""
    for start, _ in piece.times:
        is_long_enough = len(piece.data) - start >= 8
        if is_long_enough and 4 <= _int32(piece.data, start) <= MAX_FRAME_BYTES and begins(piece.data, start):
            return start
    return 0


def _frames_in(piece: Piece, position: int, kind: str) -> Iterator[Frame]:
    data = piece.data
    while position < len(data):
        frame = Frame(kind, b"", piece.start + position, time=piece.time_at(position))
        left = len(data) - position - _INT32.size
        if left < 0:
            found = f"{left + _INT32.size} bytes and then the end"
            frame.data, frame.wrongs = (
                data[position:],
                [Wrong(0, "(size)", "the size of a frame, 4 bytes", found)],
            )
            yield frame
            return
        size = _int32(data, position)
        is_tls = data[position : position + 2] in _TLS_RECORDS
        if is_tls or not 0 <= size <= MAX_FRAME_BYTES:
            found = f"{size}; this looks like TLS, which cannot be decoded here" if is_tls else str(size)
            wrong = Wrong(0, "(size)", f"the size of a {kind}, 0 to {MAX_FRAME_BYTES}", found)
            frame.data, frame.wrongs = data[position : position + 64], [wrong]
            yield frame
            return
        begin = position + _INT32.size
        position = begin + size
        frame.base, frame.data = piece.start + begin, data[begin:position]
        if size > left:
            frame.wrongs = [Wrong(left, "(frame)", f"a frame of {size} bytes", f"{left} bytes of it")]
        yield frame


def _int32(data: bytes, position: int) -> int:
    value: int = _INT32.unpack_from(data, position)[0]
    return value
