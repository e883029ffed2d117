"""Requests and responses as bytes, behind their sizes."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey, request_header_version, response_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message


def sized(data: bytes) -> bytes:
    """Behind its size."""
    return len(data).to_bytes(4, "big") + data


def request(body: Message, version: int, correlation_id: int = 7) -> bytes:
    """A request without its size."""
    assert body.api_key is not None
    header = RequestHeader(
        request_api_key=body.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="client",
    )
    return encode(header, request_header_version(ApiKey(body.api_key), version)) + encode(body, version)


def response(body: Message, version: int, correlation_id: int = 7) -> bytes:
    """A response without its size."""
    assert body.api_key is not None
    header = ResponseHeader(correlation_id=correlation_id)
    return encode(header, response_header_version(ApiKey(body.api_key), version)) + encode(body, version)
