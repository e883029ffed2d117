"""Requests and responses as bytes, behind their sizes."""

from __future__ import annotations

from barnabas.cli.wire import frames
from barnabas.cli.wire.frames import REQUEST, RESPONSE, Frame
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


def decode_request(data: bytes, base: int = 0, *, with_records: bool = False) -> Frame:
    """The frame of a request whose first byte is the `base`-th."""
    return frames.decode_request(Frame(REQUEST, data, base), with_records=with_records)


def decode_response(data: bytes, api: ApiKey, version: int, *, with_records: bool = False) -> Frame:
    """The frame of a response to a request of this API and version."""
    return frames.decode_response(Frame(RESPONSE, data, 0, api, version), with_records=with_records)
