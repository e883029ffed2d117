"""A blocking client connection with our own codec, which sends the same requests to Apache Kafka and to Barnabas."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from barnabas.protocol.api_keys import request_header_version, response_header_version, response_type
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message

M = TypeVar("M", bound=Message)

RESPONSE_TIMEOUT_S = 30.0


class ClosedError(Exception):
    """The broker closed the connection before it sent the whole response."""


class BrokerConnection:
    """Connects to one broker at the first request, and again at the next one after the broker closed the connection."""

    def __init__(self, host: str, port: int, client_id: str = "dialogue") -> None:
        self.address = (host, port)
        self.client_id = client_id
        self.timeout_s = RESPONSE_TIMEOUT_S
        """The timeout of a response; takes effect when the next socket opens."""
        self.source: str | None = None
        """The address from which the next socket connects; None for any."""
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def request(self, request: Message, version: int) -> Message:
        """Sends a request and returns the response. Raises ClosedError when the broker closes the connection."""
        self.send(request, version)
        return self.receive(request, version)

    def send(self, request: Message, version: int) -> None:
        """Sends a request without waiting for its response."""
        self.send_frame(self._payload(request, version))

    def send_all(self, requests: Sequence[Message], version: int) -> None:
        """Sends several requests with one write."""
        payloads = [self._payload(request, version) for request in requests]
        framed = b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)
        self._connected().sendall(framed)

    def _payload(self, request: Message, version: int) -> bytes:
        assert request.api_key is not None
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        head = encode(header, request_header_version(request.api_key, version))
        return head + encode(request, version)

    def receive(self, request: Message, version: int) -> Message:
        """Receives the next response, and decodes it as the one to `request`."""
        assert request.api_key is not None
        frame = self.read_frame()
        header_version = response_header_version(request.api_key, version)
        size = len(encode(ResponseHeader(), header_version))
        return decode(response_type(request.api_key), version, frame[size:])

    def send_frame(self, payload: bytes) -> None:
        """Sends any bytes with their size in front. Raises ClosedError."""
        try:
            self._connected().sendall(struct.pack(">i", len(payload)) + payload)
        except ConnectionError as error:
            self.close()
            raise ClosedError from error

    def read_frame(self) -> bytes:
        """Returns the next frame without its size. Raises ClosedError when the broker closes first."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(
                self.address,
                timeout=self.timeout_s,
                source_address=None if self.source is None else (self.source, 0),
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._connected().recv(size - len(data))
            except ConnectionError:
                part = b""
            if not part:
                self.close()
                raise ClosedError(f"after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    def __enter__(self) -> BrokerConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
