"""Connections to brokers, for many sequences in one event loop."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, Final, Protocol

from barnabas.protocol.api_keys import request_header_version, response_header_version, response_type
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.schema import Message

CLIENT_ID: Final = "differential"
BEHIND: Final = -1
"""Replaces the version of a request whose response only shows that the one before it is done."""

_SIZE = struct.Struct(">i")

Answer = Message | str
"""A message, or a text in place of one: "closed", "nothing" (acks=0), "unreadable ..."."""


class Connection(Protocol):
    """A connection, for the player."""

    async def send(self, request: Message, version: int) -> asyncio.Future[Answer]:
        """Sends a request, after reconnecting when the connection is closed; the future gets the response."""

    def close(self) -> None:
        """Closes the connection."""


class Endpoint(Protocol):
    """The address of a broker, for the player."""

    def connect(self) -> Connection:
        """A new connection."""


class SocketEndpoint:
    """A port of this machine on which a broker listens."""

    def __init__(self, port: int) -> None:
        self.port = port

    def connect(self) -> SocketConnection:
        return SocketConnection(self.port)


class SocketConnection(asyncio.Protocol):
    """One TCP connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport: Any = None
        self._received = bytearray()
        self._in_flight: deque[tuple[Message, int, asyncio.Future[Answer]]] = deque()
        self._loop = asyncio.get_running_loop()

    async def send(self, request: Message, version: int) -> asyncio.Future[Answer]:
        if self._transport is None:
            await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        if isinstance(request, ProduceRequest) and request.acks == 0:
            self._write(request, version)
            request, version = ApiVersionsRequest(), BEHIND  # its response shows that the Produce is done
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._in_flight.append((request, version, future))
        self._write(request, max(version, 0))
        return future

    def _write(self, request: Message, version: int) -> None:
        assert request.api_key is not None
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=1,
            client_id=CLIENT_ID,
        )
        head = encode(header, request_header_version(request.api_key, version))
        payload = head + encode(request, version)
        self._transport.write(_SIZE.pack(len(payload)) + payload)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._received.clear()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        while self._in_flight:
            future = self._in_flight.popleft()[2]
            if not future.done():
                future.set_result("closed")

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = _SIZE.unpack_from(self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            request, version, future = self._in_flight.popleft()
            if not future.done():
                future.set_result(_answer(request, version, frame))


def _answer(request: Message, version: int, frame: bytes) -> Answer:
    if version == BEHIND:
        return "nothing"
    assert request.api_key is not None
    size = len(encode(ResponseHeader(), response_header_version(request.api_key, version)))
    try:
        return decode(response_type(request.api_key), version, frame[size:])
    except ProtocolError as error:
        return f"unreadable: {error}"
