"""ForwardingManager: passes requests of clients to the active controller, and its responses back, as bytes.

A request travels in an Envelope (KIP-590): its frame as it came, with the principal and the address of the client.

    what comes back                                  | result
    -------------------------------------------------+-------------------------------------------------------------
    an envelope without an error                     | the response's bytes, header and body
    an envelope with UNSUPPORTED_VERSION             | CLOSE_CONNECTION: the client connects and negotiates again
    another error, or nothing that can be understood | UNKNOWN_SERVER_ERROR
    nothing in 60 s                                  | REQUEST_TIMED_OUT

Source: kafka.server.ForwardingManagerImpl, EnvelopeUtils, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, DeadlineExpired, Submit
from barnabas.broker.pending import Pending
from barnabas.broker.probes import RecentTimes
from barnabas.broker.request import (
    CLOSE_CONNECTION,
    ConnectionInfo,
    KafkaPrincipal,
    NoResponse,
    RequestContext,
)
from barnabas.broker.security.principals import Naming, serialized_principal
from barnabas.protocol.api_keys import ApiKey, known_versions, request_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message, VersionRange

logger = logging.getLogger("barnabas.membership")

DEADLINE_MS: Final = 60_000
"""How long a request waits for a controller."""


class Controller(Protocol):
    """The parts of a ControllerChannel that are used here."""

    @property
    def submit(self) -> Submit: ...

    @property
    def is_connected(self) -> bool: ...

    def served(self, key: int) -> VersionRange | None: ...


ForwardResult = bytes | ErrorCode | NoResponse
"""A response with its header, or an error in place of one, or CLOSE_CONNECTION."""


class ForwardingProbe:
    """How requests of clients fare on the way to the controller. `clock` is monotonic, in seconds.

    `queue_length`: the requests that wait for their turn or for the response. Of those that are over, `queue` is the
    time until they were sent for the last time, and `remote` from then to the response; one that had no response in its
    time has spent all of that in the queue. Source: org.apache.kafka.server.metrics.ForwardingManagerMetrics.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.queue = RecentTimes()
        self.remote = RecentTimes()
        self.queue_length = 0
        self._clock = clock

    def began(self) -> _Journey:
        """A request has come."""
        self.queue_length += 1
        return _Journey(self, self._clock)


class _Journey:
    """One request on its way. The channel calls `sent`."""

    __slots__ = ("_began", "_clock", "_probe", "_sent")

    def __init__(self, probe: ForwardingProbe, clock: Callable[[], float]) -> None:
        self._probe = probe
        self._clock = clock
        self._began = self._sent = clock()

    def sent(self) -> None:
        self._sent = self._clock()

    def ended(self, result: Message | ChannelError) -> Message | ChannelError:
        """Counts the request, and returns the result."""
        probe = self._probe
        probe.queue_length -= 1
        if isinstance(result, DeadlineExpired):
            probe.queue.add(DEADLINE_MS / 1000)
        elif not isinstance(result, ChannelClosed):
            probe.queue.add(self._sent - self._began)
            probe.remote.add(self._clock() - self._sent)
        return result


class ForwardingManager:
    """Forwards requests over a channel of its own. Lives on the event loop. `clock` is monotonic, in seconds."""

    def __init__(self, channel: Controller, clock: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self.probe = ForwardingProbe(clock)

    def forward(self, frame: bytes, connection: ConnectionInfo) -> Pending[ForwardResult]:
        """Forwards a request, given as its frame without the size, in the name of its client."""
        journey = self.probe.began()
        sent = self._channel.submit(_envelope(frame, connection), deadline_ms=DEADLINE_MS, sent=journey.sent)
        return sent.then(lambda result: _unwrapped(journey.ended(result)))

    def create_topics(
        self, request: CreateTopicsRequest, context: RequestContext | None
    ) -> Pending[CreateTopicsResponse | str | None]:
        """Creates topics in the name of a client, or of this broker without one: SendCreateTopics."""
        if context is None:
            return self._channel.submit(request, deadline_ms=DEADLINE_MS).then(_response_or_reason)
        version = self._version(ApiKey.CREATE_TOPICS)
        header = RequestHeader(
            request_api_key=ApiKey.CREATE_TOPICS, request_api_version=version, client_id=context.client_id
        )
        head = encode(header, request_header_version(ApiKey.CREATE_TOPICS, version))
        envelope = _envelope(head + encode(request, version), context.connection)
        return self._channel.submit(envelope, deadline_ms=DEADLINE_MS).then(_unwrapped).then(_logged)

    def controller_versions(self, key: int) -> VersionRange | None:
        """The versions of an API that the controller serves; all that exist while that is not known, None if none."""
        return self._channel.served(key) if self._channel.is_connected else known_versions(key)

    def _version(self, key: ApiKey) -> int:
        served, known = self.controller_versions(key), known_versions(key)
        return known.high if served is None else max(known.low, min(known.high, served.high))


def _envelope(frame: bytes, connection: ConnectionInfo) -> EnvelopeRequest:
    assert connection.principal is not None, "a request before its client has logged in"
    return EnvelopeRequest(
        request_data=frame,
        request_principal=_principal_bytes(connection, connection.principal),
        client_host_address=packed_address(connection.client_host),
    )


def _principal_bytes(connection: ConnectionInfo, principal: KafkaPrincipal) -> bytes:
    naming: Naming | None = connection.naming
    return serialized_principal(principal) if naming is None else naming.serialized(principal)


def _unwrapped(response: Message | ChannelError) -> ForwardResult:
    if isinstance(response, DeadlineExpired):
        return ErrorCode.REQUEST_TIMED_OUT
    if not isinstance(response, EnvelopeResponse):
        logger.warning("A request was not forwarded: %s", _reason(response))
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return CLOSE_CONNECTION
    if response.error_code or response.response_data is None:
        logger.warning("The controller rejects a forwarded request with error %d", response.error_code)
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return bytes(response.response_data)


def _response_or_reason(response: Message | ChannelError) -> CreateTopicsResponse | str:
    return response if isinstance(response, CreateTopicsResponse) else _reason(response)


def _reason(response: Message | ChannelError) -> str:
    return str(getattr(response, "reason", "an unexpected response"))


def _logged(result: ForwardResult) -> None:
    """Reports that topics of a client could not be asked for: the client only sees that they do not exist."""
    if not isinstance(result, bytes):
        error = ErrorCode.UNSUPPORTED_VERSION if isinstance(result, NoResponse) else result
        logger.warning("The controller could not be asked to create topics: %s", error.name)


def packed_address(host: str) -> bytes:
    """The 4 or 16 bytes of an IP address; an IPv4 address in the form of IPv6 has 4."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return address.packed if mapped is None else bytes(mapped.packed)
