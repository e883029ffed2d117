"""KafkaApis: from the bytes of one request to the bytes of its answer.

For each API key and version there is one route, made at its first use: the handler with the codecs that its version
needs. What no route exists for ends the connection, as it does in Kafka, with one exception: ApiVersions in a version
from the future is answered in version 0 with the range that would do (KIP-511). Source: kafka.server.KafkaApis.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final, Protocol

from broker import handlers
from broker.request import (
    CLOSE_CONNECTION,
    REGISTRY,
    ApiHandler,
    ConnectionInfo,
    NoResponse,
    Pending,
    RequestContext,
)
from broker.services import Broker
from config.catalogue.server import UNSTABLE_API_VERSIONS_ENABLE
from protocol.api_keys import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from protocol.codec import decoder, encoder
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.headers import RequestHeader
from protocol.schema import Message
from protocol.wire import Chunk

LateAnswer = list[Chunk] | NoResponse
Answer = list[Chunk] | Pending[LateAnswer] | NoResponse

logger = logging.getLogger("barnabas.network")

_REQUEST_START: Final = struct.Struct(">hhi")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = struct.Struct(">iB")


class RequestProbe(Protocol):
    """What the metrics want to know of requests; times in seconds on the monotonic clock."""

    def request_completed(
        self, api: str, version: int, started: float, handled: float, answered: float | None = None
    ) -> None: ...
    def request_failed(self, api: str, error: str, count: int = 1) -> None: ...
    def request_refused(self, reason: str) -> None: ...


class _Route:
    """Everything about one API key in one version."""

    __slots__ = ("api_key", "decode_body", "decode_header", "encode", "flexible_header", "handler", "version")

    def __init__(self, handler: ApiHandler, api_key: ApiKey, version: int) -> None:
        self.handler = handler
        self.api_key = api_key
        self.version = version
        self.decode_header = decoder(RequestHeader, request_header_version(api_key, version))
        self.decode_body = decoder(request_type(api_key), version)
        self.encode = encoder(response_type(api_key), version)
        self.flexible_header = response_header_version(api_key, version) == 1

    def chunks(self, correlation_id: int, response: Message) -> list[Chunk]:
        """The answer's bytes: response header and body, without the size in front."""
        out: list[Chunk]
        if self.flexible_header:
            out = [_CORRELATION_ID_AND_NO_TAGS.pack(correlation_id, 0)]
        else:
            out = [_CORRELATION_ID.pack(correlation_id)]
        self.encode(response, out)
        return out


class KafkaApis:
    """Dispatches requests to the handlers in the registry."""

    def __init__(self, broker: Broker, probe: RequestProbe, now: Callable[[], float]) -> None:
        handlers.register_all()
        self._broker = broker
        self._probe = probe
        self._now = now
        self._routes: dict[tuple[int, int], _Route] = {}

    def handle(self, connection: ConnectionInfo, frame: bytes) -> Answer:
        """Answers one request (a frame without its size). Raises ProtocolError when the connection has to close."""
        if len(frame) < _REQUEST_START.size:
            raise ProtocolError(f"a request of {len(frame)} bytes has no room for its header")
        started = self._now()
        api_key, version, correlation_id = _REQUEST_START.unpack_from(frame)
        route = self._routes.get((api_key, version))
        if route is None:
            route = self._find_route(api_key, version)
            if route is None:
                return _unsupported_api_versions(correlation_id)
        end = len(frame)
        header, position = route.decode_header(frame, 0, end)
        request, _ = route.decode_body(frame, position, end)
        context = RequestContext(connection, route.api_key, version, correlation_id, header.client_id)
        response = route.handler.handle(self._broker, context, request)
        handled = self._now()
        if isinstance(response, Pending):
            return response.then(
                lambda message: self._answer_late(route, correlation_id, message, started, handled)
            )
        self._probe.request_completed(route.api_key.name, version, started, handled)
        if isinstance(response, NoResponse):
            return response
        return self._answer(route, correlation_id, response)

    def _answer_late(
        self,
        route: _Route,
        correlation_id: int,
        response: Message | NoResponse,
        started: float,
        handled: float,
    ) -> LateAnswer:
        """Called by whoever completes the response, who must not suffer for a bug in how it is encoded."""
        self._probe.request_completed(route.api_key.name, route.version, started, handled, self._now())
        if isinstance(response, NoResponse):
            return response
        try:
            return self._answer(route, correlation_id, response)
        except Exception:
            logger.exception("a bug: the answer to %s cannot be encoded", route.api_key.name)
            return CLOSE_CONNECTION

    def _answer(self, route: _Route, correlation_id: int, response: Message) -> list[Chunk]:
        code = getattr(response, "error_code", 0)
        if code:
            self._probe.request_failed(route.api_key.name, ErrorCode(code).name)
        return route.chunks(correlation_id, response)

    def _find_route(self, api_key: int, version: int) -> _Route | None:
        """The route, made now; None for an ApiVersions request whose version is not known. Raises ProtocolError."""
        handler = REGISTRY.get(api_key)
        if handler is None:
            self._probe.request_refused("unknown api key")
            raise ProtocolError(f"API key {api_key} is not served here")
        low, high = handler.served(with_unstable=self._broker.config[UNSTABLE_API_VERSIONS_ENABLE])
        if not low <= version <= high:
            if api_key == ApiKey.API_VERSIONS:
                return None
            self._probe.request_refused("unsupported version")
            raise ProtocolError(
                f"{handler.key.name} is served in versions {low} to {high}, and the request is in version {version}"
            )
        route = self._routes[api_key, version] = _Route(handler, handler.key, version)
        return route


def _unsupported_api_versions(correlation_id: int) -> list[Chunk]:
    """The answer that lets a client from the future fall back: version 0, naming the range of ApiVersions itself."""
    low, high = REGISTRY[ApiKey.API_VERSIONS].advertised
    entry = ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
    out: list[Chunk] = [_CORRELATION_ID.pack(correlation_id)]
    encoder(ApiVersionsResponse, 0)(
        ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry]), out
    )
    return out
