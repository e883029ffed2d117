"""Login: the SASL login of this node at another one, as bytes: requests and responses, no sockets (KIP-43, KIP-152)."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.api_keys import ApiKey, request_header_version, response_header_version
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.framing import Frame, size_prefix
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.security.errors import SaslClientError
from barnabas.security.sasl_client import SaslClient

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
"""What every broker since Kafka 2.2 has."""
ROUNDS: Final = 8
"""More than any mechanism needs."""


class Login:
    """One login. Raises SaslClientError where the node rejects it, ProtocolError for what is no response."""

    def __init__(self, client: SaslClient, client_id: str) -> None:
        self.is_complete = False
        self._client = client
        self._client_id = client_id
        self._correlation_id = 0
        self._has_mechanism = False

    @property
    def blocks(self) -> bool:
        """Whether `receive` may wait for others, so that it has to run in a thread."""
        return self._client.blocks

    def begin(self) -> bytes:
        """The bytes that open the login."""
        body = encode(SaslHandshakeRequest(mechanism=self._client.mechanism), HANDSHAKE_VERSION)
        return self._request(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, body)

    def receive(self, frame: Frame) -> bytes | None:
        """The bytes to send next; None when the login is complete."""
        if not self._has_mechanism:
            self._chosen(self._body(frame, ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION))
            return self._authenticate(self._client.initial())
        body = self._body(frame, ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION)
        answer = decode(SaslAuthenticateResponse, AUTHENTICATE_VERSION, body)
        _check(answer.error_code, answer.error_message)
        message = self._client.respond(bytes(answer.auth_bytes))
        if message is None:
            self.is_complete = True
            return None
        if self._correlation_id > ROUNDS:
            raise SaslClientError("the node comes to no end")
        return self._authenticate(message)

    def _chosen(self, body: Frame) -> None:
        answer = decode(SaslHandshakeResponse, HANDSHAKE_VERSION, body)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            theirs = ", ".join(answer.mechanisms) or "none"
            raise SaslClientError(f"the node has no {self._client.mechanism}, but {theirs}")
        _check(answer.error_code, None)
        self._has_mechanism = True

    def _authenticate(self, message: bytes) -> bytes:
        body = encode(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION)
        return self._request(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, body)

    def _request(self, key: ApiKey, version: int, body: bytes) -> bytes:
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        payload = encode(header, request_header_version(key, version)) + body
        return size_prefix(len(payload)) + payload

    def _body(self, frame: Frame, key: ApiKey, version: int) -> Frame:
        decode_header = decoder(ResponseHeader, response_header_version(key, version))
        header, position = decode_header(frame, 0, len(frame))
        if header.correlation_id != self._correlation_id:
            raise SaslClientError(
                f"the node answers request {header.correlation_id}, not {self._correlation_id}"
            )
        return frame[position:]


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        known = code in ErrorCode._value2member_map_
        raise SaslClientError(message or (ErrorCode(code).text if known else f"error {code}"))
