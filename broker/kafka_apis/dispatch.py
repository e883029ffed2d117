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

from barnabas.broker.broker import Broker
from barnabas.broker.kafka_apis import handlers
from barnabas.broker.kafka_apis.error_places import ErrorPlaces, error_places, errors_in
from barnabas.broker.network.in_flight import Answer, Response
from barnabas.broker.pending import Pending
from barnabas.broker.request import (
    CLOSE_CONNECTION,
    REGISTRY,
    ApiHandler,
    ConnectionInfo,
    NoResponse,
    RequestContext,
)
from barnabas.config.catalogue.server import UNSTABLE_API_VERSIONS_ENABLE
from barnabas.protocol.api_keys import (
    ApiKey,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from barnabas.protocol.codec import MAX_ELEMENTS, decoder, encoder
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import Frame
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Chunk

logger = logging.getLogger("barnabas.network")

_COUNT_ERRORS: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""Their handlers count the errors of partitions, which they know anyway."""

_REQUEST_START: Final = struct.Struct(">hhi")
_NO_TAGS: Final = b"\0"
_MOST_REMEMBERED_BYTES: Final = 256
"""A header that is longer is decoded each time: what a client makes the broker remember is bounded."""


class RequestTimes(Protocol):
    """What the metrics want to know of one API's requests; times in seconds."""

    def record(self, version: int, local_s: float, remote_s: float) -> None: ...


class RequestProbe(Protocol):
    """What the metrics want to know of requests."""

    def times(self, api: str) -> RequestTimes: ...
    def request_failed(self, api: str, error: str, count: int = 1) -> None: ...
    def request_refused(self, reason: str) -> None: ...


class _Route:
    """Everything about one API key in one version."""

    __slots__ = (
        "api",
        "api_key",
        "decode_body",
        "decode_header",
        "encode",
        "error_places",
        "flexible_header",
        "handle",
        "has_error_code",
        "response_type",
        "times",
        "version",
    )

    def __init__(self, handler: ApiHandler, version: int) -> None:
        api_key = handler.key
        self.api = api_key.name
        self.api_key = api_key
        self.version = version
        self.handle = handler.handle
        self.decode_header = decoder(RequestHeader, request_header_version(api_key, version), MAX_ELEMENTS)
        self.decode_body = decoder(request_type(api_key), version, MAX_ELEMENTS)
        self.response_type = response_type(api_key)
        self.has_error_code = hasattr(self.response_type, "error_code")
        places = [] if api_key in _COUNT_ERRORS else error_places(self.response_type)
        self.error_places: list[ErrorPlaces] = places
        self.encode = encoder(self.response_type, version)
        self.flexible_header = response_header_version(api_key, version) == 1
        self.times: RequestTimes | None = None  # until the first is answered


class _Greeting:
    """How one client's requests of one API and version begin, beside their number; it is decoded once.

    `header` are the bytes of the header that follow the number. A header tells its own length, so a request that has
    the same bytes there has the same header.
    """

    __slots__ = ("context", "end", "header", "route")

    def __init__(self, route: _Route, context: RequestContext, header: bytes) -> None:
        self.route = route
        self.context = context
        self.header = header
        self.end = _REQUEST_START.size + len(header)


class KafkaApis:
    """Dispatches requests to the handlers in the registry."""

    def __init__(self, broker: Broker, probe: RequestProbe, now: Callable[[], float]) -> None:
        handlers.register_all()
        self._broker = broker
        self._probe = probe
        self._now = now
        self._routes: dict[tuple[int, int], _Route] = {}

    def handle(self, connection: ConnectionInfo, frame: Frame) -> Answer:
        """Answers one request (a frame without its size). Raises ProtocolError when the connection has to close."""
        started = self._now()
        greeting: _Greeting | None = connection.greetings.get(bytes(frame[:4]))
        if greeting is None or frame[8 : greeting.end] != greeting.header or len(frame) < _REQUEST_START.size:
            greeting = self._greet(connection, frame)
            if greeting is None:
                return _unsupported_api_versions(bytes(frame[4:8]))
        route = greeting.route
        request, _ = route.decode_body(frame, greeting.end, len(frame))
        response = route.handle(self._broker, greeting.context, request)
        handled = self._now()
        if response.__class__ is route.response_type:  # by far the most frequent case
            (route.times or self._times(route)).record(route.version, handled - started, 0.0)
            return self._answer(route, bytes(frame[4:8]), response)
        if isinstance(response, Pending):
            return self._answer_later(route, bytes(frame[4:8]), response, started, handled)
        assert isinstance(response, NoResponse), f"{route.api} was answered by {type(response)}"
        self._times(route).record(route.version, handled - started, 0.0)
        return response

    def _answer_later(
        self,
        route: _Route,
        number: bytes,
        response: Pending[Message | NoResponse],
        started: float,
        handled: float,
    ) -> Pending[Response]:
        return response.then(lambda message: self._answer_late(route, number, message, started, handled))

    def _answer_late(
        self, route: _Route, number: bytes, response: Message | NoResponse, started: float, handled: float
    ) -> Response:
        """Called by whoever completes the response, who must not suffer for a bug in how it is encoded."""
        self._times(route).record(route.version, handled - started, self._now() - handled)
        if isinstance(response, NoResponse):
            return response
        try:
            return self._answer(route, number, response)
        except Exception:
            logger.exception("a bug: the answer to %s cannot be encoded", route.api)
            return CLOSE_CONNECTION

    def _answer(self, route: _Route, number: bytes, response: Message) -> list[Chunk]:
        """The answer's bytes: response header, which is the request's number, and body, without the size in front."""
        if route.has_error_code and (code := response.error_code):  # type: ignore[attr-defined]  # it has
            self._probe.request_failed(route.api, ErrorCode(code).name)
        if route.error_places:
            for code in errors_in(response, route.error_places):
                self._probe.request_failed(route.api, ErrorCode(code).name)
        out: list[Chunk] = [number + _NO_TAGS if route.flexible_header else number]
        route.encode(response, out)
        return out

    def _times(self, route: _Route) -> RequestTimes:
        """What has counted the API's requests since the first was answered."""
        times = route.times
        if times is None:
            times = route.times = self._probe.times(route.api)
        return times

    def _greet(self, connection: ConnectionInfo, frame: Frame) -> _Greeting | None:
        """Decodes a header, and remembers it; None for ApiVersions in a version that is not known.

        Raises ProtocolError.
        """
        if len(frame) < _REQUEST_START.size:
            raise ProtocolError(f"a request of {len(frame)} bytes has no room for its header")
        api_key, version, _ = _REQUEST_START.unpack_from(frame)
        route = self._routes.get((api_key, version)) or self._find_route(api_key, version)
        if route is None:
            return None
        header, end = route.decode_header(frame, 0, len(frame))
        context = RequestContext(connection, route.api_key, version, header.client_id)
        greeting = _Greeting(route, context, bytes(frame[_REQUEST_START.size : end]))
        if len(greeting.header) <= _MOST_REMEMBERED_BYTES:
            connection.greetings[bytes(frame[:4])] = greeting
        return greeting

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
        route = self._routes[api_key, version] = _Route(handler, version)
        return route


def _unsupported_api_versions(number: bytes) -> list[Chunk]:
    """The answer that lets a client from the future fall back: version 0, naming the range of ApiVersions itself."""
    low, high = REGISTRY[ApiKey.API_VERSIONS].advertised
    entry = ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
    out: list[Chunk] = [number]
    encoder(ApiVersionsResponse, 0)(
        ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry]), out
    )
    return out
