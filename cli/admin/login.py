"""The SASL login of the client, over any exchange of requests (KIP-43, KIP-152)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
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

Exchange = Callable[[ApiKey, int, bytes], bytes]
"""Sends a request in a version and returns the body of its response."""


def log_in(client: SaslClient, exchange: Exchange) -> None:
    """Logs in. Raises SaslClientError, and what `exchange` raises."""
    body = encode(SaslHandshakeRequest(mechanism=client.mechanism), HANDSHAKE_VERSION)
    chosen = decode(
        SaslHandshakeResponse, HANDSHAKE_VERSION, exchange(ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, body)
    )
    if chosen.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise SaslClientError(
            f"the broker has no {client.mechanism}, but {', '.join(chosen.mechanisms) or 'none'}"
        )
    _check(chosen.error_code, None)
    message: bytes | None = client.initial()
    for _ in range(ROUNDS):
        assert message is not None
        body = encode(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION)
        frame = exchange(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, body)
        answer = decode(SaslAuthenticateResponse, AUTHENTICATE_VERSION, frame)
        _check(answer.error_code, answer.error_message)
        message = client.respond(answer.auth_bytes)
        if message is None:
            return
    raise SaslClientError("the broker comes to no end")


def _check(code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        known = code in ErrorCode._value2member_map_
        raise SaslClientError(message or (ErrorCode(code).text if known else f"error {code}"))
