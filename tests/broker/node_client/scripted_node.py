"""The peer of a NodeClient in tests: reads its requests and writes responses, over a fake wire or a real socket."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from barnabas.broker.node_client.address import NodeAddress
from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    request_type,
    response_header_version,
)
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message


def all_versions() -> ApiVersionsResponse:
    """The response of a node that serves what this one knows."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key, min_version=known_versions(key).low, max_version=known_versions(key).high
            )
            for key in ApiKey
        ]
    )


def response_frame(key: int, version: int, correlation_id: int, response: Message) -> bytes:
    """A response with its size in front."""
    header = encode(ResponseHeader(correlation_id=correlation_id), response_header_version(key, version))
    body = encode(response, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


def parse_requests(stream: bytes) -> list[tuple[RequestHeader, Message]]:
    """The requests in a stream of whole frames."""
    found = []
    while stream:
        size = int.from_bytes(stream[:4])
        frame, stream = stream[4 : 4 + size], stream[4 + size :]
        assert len(frame) == size, "half a request"
        key, version = struct.unpack_from(">hh", frame)
        header, position = decoder(RequestHeader, request_header_version(key, version))(frame, 0, len(frame))
        found.append((header, decode(request_type(key), version, frame[position:])))
    return found


class ScriptedNode:
    """Opens connections for a client; the test is the peer of each of them, the last one first."""

    def __init__(self) -> None:
        self.opened: list[NodeAddress] = []
        self.cancelled = 0
        self._protocol: asyncio.BufferedProtocol | None = None
        self._failed: Callable[[str], object] = lambda reason: None
        self._written = bytearray()
        self.is_aborted = False
        self.receive_buffer_bytes: int | None = None
        """As the last connection was opened."""
        self.socket_options: list[tuple[int, int, int]] = []
        """Level, option and value, as they were set."""

    # -- Open, Opening, Wire and the socket of the Wire --

    def open(
        self,
        address: NodeAddress,
        receive_buffer_bytes: int,
        protocol: asyncio.BufferedProtocol,
        failed: Callable[[str], object],
    ) -> ScriptedNode:
        self.opened.append(address)
        self.receive_buffer_bytes = receive_buffer_bytes
        self._protocol, self._failed = protocol, failed
        self.is_aborted = False
        self._written.clear()
        return self

    def cancel(self) -> None:
        self.cancelled += 1

    def write(self, data: bytes) -> None:
        assert not self.is_aborted
        self._written += data

    def abort(self) -> None:
        self.is_aborted = True

    def get_extra_info(self, name: str) -> ScriptedNode | None:
        return self if name == "socket" else None

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.socket_options.append((level, option, value))

    # -- for the test --

    def accept(self) -> None:
        """Accepts the connection."""
        assert self._protocol is not None
        self._protocol.connection_made(self)  # type: ignore[arg-type]  # as far as the client needs it

    def refuse(self) -> None:
        self._failed("connection refused")

    def hang_up(self) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(None)

    def requests(self) -> list[tuple[RequestHeader, Message]]:
        """What the client has sent since the last call."""
        sent = parse_requests(bytes(self._written))
        self._written.clear()
        return sent

    def send(self, data: bytes, pieces: int | None = None) -> None:
        """Sends bytes, in pieces of so many bytes."""
        assert self._protocol is not None
        at = 0
        while at < len(data) and not self.is_aborted:
            place = memoryview(self._protocol.get_buffer(-1))
            count = min(len(place), len(data) - at, pieces or len(data))
            place[:count] = data[at : at + count]
            self._protocol.buffer_updated(count)
            at += count

    def respond(self, header: RequestHeader, response: Message, pieces: int | None = None) -> None:
        key, version = header.request_api_key, header.request_api_version
        self.send(response_frame(key, version, header.correlation_id, response), pieces)

    def negotiate(self, versions: ApiVersionsResponse | None = None) -> None:
        """Accepts the connection and answers its ApiVersions request."""
        self.accept()
        ((header, request),) = self.requests()
        assert isinstance(request, ApiVersionsRequest)
        self.respond(header, versions or all_versions())
