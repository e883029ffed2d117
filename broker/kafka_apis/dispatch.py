"""KafkaApis: from the bytes of one request to the bytes of its response.

Each API key and version has one route, made at its first use: the handler with the codecs that its version
needs. A request with no route closes the connection, as in Kafka, with one exception: the broker answers ApiVersions in
a version from the future in version 0, with the range that it serves (KIP-511). Source: kafka.server.KafkaApis.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Final

from barnabas.broker.broker import Broker, Forwarded, Forwarder
from barnabas.broker.kafka_apis import handlers
from barnabas.broker.kafka_apis.api_checks import guarded
from barnabas.broker.kafka_apis.error_places import ErrorPlaces, error_places, errors_in
from barnabas.broker.network.in_flight import Answer, MeteredAnswer, Response
from barnabas.broker.pending import Pending
from barnabas.broker.probes import FETCH_FOLLOWER, ApiTimes, RequestProbe
from barnabas.broker.quotas.request_meter import RequestMeter
from barnabas.broker.request import (
    CLOSE_CONNECTION,
    REGISTRY,
    ApiHandler,
    ConnectionInfo,
    NoResponse,
    RequestContext,
)
from barnabas.broker.security.auth_helper import AuthHelper
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
"""Their handlers count the errors of partitions themselves."""

_REQUEST_START: Final = struct.Struct(">hhi")
_NO_TAGS: Final = b"\0"
_MAX_CACHED_BYTES: Final = 256
"""A longer header is decoded each time, so that the memory a client can make the broker use is bounded."""


class _Route:
    """Everything about one API key in one version."""

    def __init__(
        self,
        handler: ApiHandler,
        version: int,
        forwarder: Forwarder | None,
        counted_as: str = "",
        *,
        auth: AuthHelper | None = None,
    ) -> None:
        """`counted_as` is the name in the probe, by default that of the key. With `auth` the API's gates are asked."""
        api_key = handler.key
        self.api = counted_as or api_key.name
        self.api_key = api_key
        self.version = version
        self.handle = handler.handle if auth is None else guarded(handler.handle, api_key, auth)
        self.forwarder = forwarder if handler.forwardable else None
        self.is_plain = self.forwarder is None
        """Its requests are answered here, and while no client has quotas."""
        self.decode_header = decoder(RequestHeader, request_header_version(api_key, version), MAX_ELEMENTS)
        self.decode_body = decoder(request_type(api_key), version, MAX_ELEMENTS)
        self.response_type = response_type(api_key)
        self.has_error_code = hasattr(self.response_type, "error_code")
        self.has_throttle_time = hasattr(self.response_type, "throttle_time_ms")
        places = [] if api_key in _COUNT_ERRORS else error_places(self.response_type)
        self.error_places: list[ErrorPlaces] = places
        self.encode = encoder(self.response_type, version)
        self.flexible_header = response_header_version(api_key, version) == 1
        self.times: ApiTimes | None = None  # until the first is answered


class _CachedHeader:
    """The decoded header of a client's requests of one API and version, all but the correlation id.

    `header` are the bytes of the header after the correlation id. A header determines its own length, so a request
    with the same bytes there has the same header.
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
        self._follower_routes: dict[int, _Route] = {}
        """Of Fetch, by version, for the followers of a cluster's member."""
        self._is_metered = False
        broker.quotas.on_change.append(self._quotas_changed)
        self._quotas_changed()

    def handle(self, connection: ConnectionInfo, frame: Frame) -> Answer:
        """Answers one request (a frame without its size). Raises ProtocolError when the connection has to close."""
        if connection.principal is None:
            raise RuntimeError("a request of a client that has not logged in")
        return self.answer(connection, frame)

    def answer(self, connection: ConnectionInfo, frame: Frame) -> Answer:
        """The same without a look at who asks: for `handle`, and for what a client may ask before it has logged in."""
        started = self._now()
        cached: _CachedHeader | None = connection.cached_headers.get(bytes(frame[:4]))
        if cached is None or frame[8 : cached.end] != cached.header or len(frame) < _REQUEST_START.size:
            cached = self._parse_header(connection, frame)
            if cached is None:
                return _unsupported_api_versions(bytes(frame[4:8]))
        route = cached.route
        request, _ = route.decode_body(frame, cached.end, len(frame))
        if not route.is_plain:
            return self._handle_otherwise(route, cached.context, request, bytes(frame), started)
        response = route.handle(self._broker, cached.context, request)
        handled = self._now()
        if response.__class__ is route.response_type:  # by far the most frequent case
            (route.times or self._times(route)).record(route.version, handled - started, 0.0)
            return self._answer(route, bytes(frame[4:8]), response)
        if isinstance(response, Pending):
            return self._answer_later(route, bytes(frame[4:8]), response, started, handled)
        assert isinstance(response, NoResponse), f"{route.api} was answered by {type(response)}"
        self._times(route).record(route.version, handled - started, 0.0)
        return response

    def _handle_otherwise(
        self, route: _Route, context: RequestContext, request: Message, frame: bytes, started: float
    ) -> Answer:
        """Handles a request that the controller answers, or while clients have quotas."""
        if not self._is_metered:
            return self._forward(route, context, request, frame, started)
        if context.connection.principal is None and route.api_key is ApiKey.API_VERSIONS:
            versions: Message = route.handle(self._broker, context, request)
            self._times(route).record(route.version, self._now() - started, 0.0)
            return self._answer(route, frame[4:8], versions)  # before a login, it is charged to no client
        meter = self._broker.quotas.meter(context, len(frame), started)
        context = context.metered(meter)
        answer: Message | Forwarded | NoResponse | Pending[Message | Forwarded | NoResponse]
        if route.forwarder is None:
            answer = route.handle(self._broker, context, request)
        else:
            answer = route.forwarder.forward(self._broker, context, request, frame)
        handled = self._now()
        meter.handled_s = handled - started
        number = frame[4:8]
        if isinstance(answer, Pending):
            later = answer.then(
                lambda result: self._answer_metered_late(route, number, result, meter, handled)
            )
            return MeteredAnswer(later, meter) if meter.is_limited else later
        self._times(route).record(route.version, handled - started, 0.0)
        return self._answer_metered(route, number, answer, meter)

    def _answer_metered_late(
        self,
        route: _Route,
        number: bytes,
        result: Message | Forwarded | NoResponse,
        meter: RequestMeter,
        handled: float,
    ) -> Response:
        """As `_answer_late`."""
        self._times(route).record(route.version, meter.handled_s or 0.0, self._now() - handled)
        try:
            return self._answer_metered(route, number, result, meter)
        except Exception:
            logger.exception("a bug: the response to %s cannot be encoded", route.api)
            return CLOSE_CONNECTION

    def _answer_metered(
        self, route: _Route, number: bytes, result: Message | Forwarded | NoResponse, meter: RequestMeter
    ) -> Response:
        """Charges the request, and says in the response how long its client is throttled."""
        answer: list[Chunk] | NoResponse
        if isinstance(result, NoResponse):
            throttle_ms = meter.settle(route.api_key, without_response=True)
            answer = result
        elif isinstance(result, Forwarded):
            response = result.response
            throttle_ms = meter.settle_forwarded(getattr(response, "throttle_time_ms", 0))
            if throttle_ms == getattr(response, "throttle_time_ms", throttle_ms):
                self._count_errors(route, response)
                answer = [result.data]
            else:
                answer = self._answer_throttled(route, number, response, throttle_ms)
        else:
            throttle_ms = meter.settle(route.api_key)
            answer = self._answer_throttled(route, number, result, throttle_ms)
        if throttle_ms:
            self._broker.quotas.throttled(route.api, throttle_ms)
        return MeteredAnswer(answer, meter, throttle_ms) if meter.is_limited or throttle_ms else answer

    def _answer_throttled(
        self, route: _Route, number: bytes, response: Message, throttle_ms: int
    ) -> list[Chunk]:
        """As `_answer`; the response, which may be a constant of its handler, is left as it was."""
        if not throttle_ms or not route.has_throttle_time:
            return self._answer(route, number, response)
        before, response.throttle_time_ms = response.throttle_time_ms, throttle_ms  # type: ignore[attr-defined]  # it has
        try:
            return self._answer(route, number, response)
        finally:
            response.throttle_time_ms = before  # type: ignore[attr-defined]  # it has

    def _quotas_changed(self) -> None:
        """The first client has got a quota, or the last one has lost it."""
        self._is_metered = self._broker.quotas.is_active
        for route in (*self._routes.values(), *self._follower_routes.values()):
            route.is_plain = route.forwarder is None and not self._is_metered

    def _forward(
        self, route: _Route, context: RequestContext, request: Message, frame: bytes, started: float
    ) -> Pending[Response]:
        """Has the cluster's controller answer the request; its response is passed on as it comes."""
        assert route.forwarder is not None
        forwarded = route.forwarder.forward(self._broker, context, request, frame)
        handled = self._now()
        return forwarded.then(lambda result: self._answer_late(route, frame[4:8], result, started, handled))

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
        self,
        route: _Route,
        number: bytes,
        response: Message | Forwarded | NoResponse,
        started: float,
        handled: float,
    ) -> Response:
        """Runs in the code that completes the response, which must not fail for a bug in encoding it."""
        self._times(route).record(route.version, handled - started, self._now() - handled)
        if isinstance(response, NoResponse):
            return response
        try:
            if isinstance(response, Forwarded):
                self._count_errors(route, response.response)
                return [response.data]
            return self._answer(route, number, response)
        except Exception:
            logger.exception("a bug: the response to %s cannot be encoded", route.api)
            return CLOSE_CONNECTION

    def _answer(self, route: _Route, number: bytes, response: Message) -> list[Chunk]:
        """The bytes of the response: its header, which is the request's number, and body, without the size in front."""
        if route.error_places or (route.has_error_code and response.error_code):  # type: ignore[attr-defined]  # it has
            self._count_errors(route, response)
        out: list[Chunk] = [number + _NO_TAGS if route.flexible_header else number]
        route.encode(response, out)
        return out

    def _count_errors(self, route: _Route, response: Message) -> None:
        if route.has_error_code and (code := response.error_code):  # type: ignore[attr-defined]  # it has
            self._probe.request_failed(route.api, ErrorCode(code).name)
        if route.error_places:
            for code in errors_in(response, route.error_places):
                self._probe.request_failed(route.api, ErrorCode(code).name)

    def _times(self, route: _Route) -> ApiTimes:
        """The counters of the API's requests, added with the first response."""
        times = route.times
        if times is None:
            times = route.times = self._probe.times(route.api)
        return times

    def _parse_header(self, connection: ConnectionInfo, frame: Frame) -> _CachedHeader | None:
        """Decodes a header, and caches it; None for ApiVersions in an unknown version.

        Raises ProtocolError.
        """
        if len(frame) < _REQUEST_START.size:
            raise ProtocolError(f"a request of {len(frame)} bytes has no room for its header")
        api_key, version, _ = _REQUEST_START.unpack_from(frame)
        route = self._routes.get((api_key, version)) or self._find_route(api_key, version)
        if route is None:
            return None
        header, end = route.decode_header(frame, 0, len(frame))
        if route.api_key is ApiKey.FETCH and self._broker.forwarder is not None:
            route = self._fetch_route(route, frame, end)
        context = RequestContext(connection, route.api_key, version, header.client_id)
        cached = _CachedHeader(route, context, bytes(frame[_REQUEST_START.size : end]))
        if len(cached.header) <= _MAX_CACHED_BYTES:
            connection.cached_headers[bytes(frame[:4])] = cached
        return cached

    def _fetch_route(self, route: _Route, frame: Frame, end: int) -> _Route:
        """The route of the fetches with this header, which are a follower's or a consumer's: a follower has connections
        of its own.

        Raises ProtocolError.
        """
        request, _ = route.decode_body(frame, end, len(frame))
        if request.replica_id < 0 and request.replica_state.replica_id < 0:  # type: ignore[attr-defined]  # it has
            return route
        known = self._follower_routes.get(route.version)
        if known is None:
            known = self._follower_routes[route.version] = self._route(
                REGISTRY[route.api_key], route.version, None, FETCH_FOLLOWER
            )
        return known

    def _find_route(self, api_key: int, version: int) -> _Route | None:
        """Makes the route; None for an ApiVersions request in an unknown version. Raises ProtocolError."""
        forwarder = self._broker.forwarder
        handler = REGISTRY.get(api_key)
        if handler is None and forwarder is not None:
            handler = forwarder.handlers.get(api_key)
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
        route = self._routes[api_key, version] = self._route(handler, version, forwarder)
        return route

    def _route(
        self, handler: ApiHandler, version: int, forwarder: Forwarder | None, counted_as: str = ""
    ) -> _Route:
        """A route as the authorizer and the quotas of this broker have it."""
        route = _Route(handler, version, forwarder, counted_as, auth=self._broker.auth)
        route.is_plain = route.forwarder is None and not self._is_metered
        return route


def _unsupported_api_versions(number: bytes) -> list[Chunk]:
    """The response by which a newer client falls back: version 0, with the range of ApiVersions itself."""
    low, high = REGISTRY[ApiKey.API_VERSIONS].advertised
    entry = ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high)
    out: list[Chunk] = [number]
    encoder(ApiVersionsResponse, 0)(
        ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry]), out
    )
    return out
