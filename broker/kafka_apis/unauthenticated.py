"""UnauthenticatedApis: what a client that has not logged in may be answered.

The whole of it is ApiVersions, and the error response to a request that comes in the middle of a login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    request_type,
    response_header_version,
)
from barnabas.protocol.codec import MAX_ELEMENTS, decoder, encoder
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.messages.headers import RequestHeader

if TYPE_CHECKING:
    from barnabas.broker.kafka_apis.dispatch import KafkaApis
    from barnabas.broker.request import ConnectionInfo
    from barnabas.protocol.framing import Frame
    from barnabas.protocol.wire import Chunk


MAX_ANSWERED_BYTES: Final = 4096
"""A larger request has no error response: to decode it would take the event loop up to a second, for a client that has
not logged in."""


class UnauthenticatedApis:
    """The doors of the authenticator."""

    def __init__(self, apis: KafkaApis) -> None:
        self._apis = apis

    def api_versions_before_login(self, connection: ConnectionInfo, frame: Frame) -> list[Chunk]:
        """The response to an ApiVersions request. Raises ProtocolError."""
        assert int.from_bytes(frame[:2], "big") == ApiKey.API_VERSIONS
        answer = self._apis.answer(connection, frame)
        assert isinstance(answer, list)
        return answer

    def reject_before_login(self, frame: Frame, error: ErrorCode, message: str) -> list[Chunk] | None:
        """The response in which all that a request asks for fails; None for APIs whose response has no place for it,
        and for a large request.

        Raises ProtocolError where the request cannot be decoded, or its version does not exist.
        """
        # not for a broker without logins
        from barnabas.broker.kafka_apis.error_responses import error_response, has_error_response

        key = ApiKey(int.from_bytes(frame[:2], "big"))
        version = int.from_bytes(frame[2:4], "big", signed=True)
        low, high = known_versions(key)
        if not low <= version <= high:
            raise ProtocolError(f"{key.name} has no version {version}")
        if len(frame) > MAX_ANSWERED_BYTES:
            return None
        _, end = decoder(RequestHeader, request_header_version(key, version), MAX_ELEMENTS)(
            frame, 0, len(frame)
        )
        request, _ = decoder(request_type(key), version, MAX_ELEMENTS)(frame, end, len(frame))
        if not has_error_response(request, version):
            return None
        response = error_response(request, version, error, message)
        number = bytes(frame[4:8])
        out: list[Chunk] = [number + b"\0" if response_header_version(key, version) else number]
        encoder(type(response), version)(response, out)
        return out
