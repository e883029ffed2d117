"""The headers of requests and responses."""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string


class RequestHeader(Message, versions="1-2", flexible="2+"):
    """Before every request. Only its API key, version and correlation id never move."""

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string(versions="1+", nullable="1+", flexible="none")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """Before every response."""

    correlation_id: int = int32()
