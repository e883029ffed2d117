"""NodeClient: a connection of this node to another one, over a socket of the event loop.

    state         | becomes       | when
    --------------+---------------+-------------------------------------------------------------------------------
    disconnected  | connecting    | a request is sent, and the backoff after a failure is over
    connecting    | connected     | the socket is open and the versions are negotiated
    connecting    | disconnected  | that fails, or takes longer than the connection setup timeout
    connected     | disconnected  | the peer closes, breaks the protocol, leaves a request unanswered until its timeout;
                  |               | or the connection was idle for connections.max.idle.ms
    any           | closed        | `close`

Whatever disconnects fails the requests that are in flight; those that wait for the connection fail with it only when it
could not be made, since the first request on a connection is no reason to give up the others. Nothing is sent twice: a
caller that wants its request again sends it again.
Source: org.apache.kafka.clients.NetworkClient, ClusterConnectionStates.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, cast

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable, UnsupportedVersion
from barnabas.broker.node_client.exchange import Exchange
from barnabas.broker.node_client.opening import USE_SYSTEM_BUFFER, Open, Opening
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.timer import DeadlineQueue, Timer, TimerHandle
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import Frame
from barnabas.protocol.schema import Message, VersionRange

logger = logging.getLogger("barnabas.node_client")

_READ_BYTES: Final = 64 * 1024
_TCP_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
"""Linux has it."""
_JITTER: Final = 0.2
"""Backoffs and setup timeouts vary by so much in both directions."""


class NodeClientSettings(NamedTuple):
    """The keys that rule a connection; times are in ms."""

    client_id: str
    request_timeout_ms: int = 30_000
    """request.timeout.ms: of a request that is sent without a timeout of its own."""
    setup_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms; doubled with each failure in a row,"""
    setup_timeout_max_ms: int = 30_000
    """up to socket.connection.setup.timeout.max.ms."""
    reconnect_backoff_ms: int = 50
    """reconnect.backoff.ms; doubled with each failure in a row,"""
    reconnect_backoff_max_ms: int = 1_000
    """up to reconnect.backoff.max.ms."""
    idle_ms: int = 540_000
    """connections.max.idle.ms"""
    receive_buffer_bytes: int = USE_SYSTEM_BUFFER
    """SO_RCVBUF of the socket, or USE_SYSTEM_BUFFER."""
    max_in_flight: int = 1
    """Requests that may be unanswered at a time; further ones wait."""


class Wire(Protocol):
    """The part of an asyncio transport that a client needs."""

    def write(self, data: bytes, /) -> object: ...

    def abort(self) -> object:
        """Closes the socket at once; what is not sent is lost."""


class _Request:
    """A request that waits or is in flight, and expires at its deadline."""

    __slots__ = ("_expired", "is_completed", "is_in_flight", "message", "pending", "timeout_ms", "version")

    def __init__(
        self, message: Message, version: int | None, timeout_ms: int, expired: Callable[[_Request], None]
    ) -> None:
        self.message = message
        self.version = version
        self.timeout_ms = timeout_ms
        self.pending: Pending[Message | NodeClientError] = Pending()
        self.is_in_flight = False
        self.is_completed = False
        self._expired = expired

    def complete(self, result: Message | NodeClientError) -> None:
        self.is_completed = True
        self.pending.complete(result)

    def expire(self) -> None:
        self._expired(self)


class NodeClient:
    """A NodeChannel. Lives on the event loop."""

    def __init__(
        self,
        address: NodeAddress,
        settings: NodeClientSettings,
        timer: Timer,
        open_connection: Open,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Connects with the first request. `jitter` returns numbers from 0 to 1."""
        self.address = address
        self._settings = settings
        self._timer = timer
        self._open = open_connection
        self._jitter = jitter
        self._deadlines = DeadlineQueue(timer)
        self._waiting: deque[_Request] = deque()
        self._in_flight: deque[_Request] = deque()
        self._socket: _Socket | None = None
        self._failures = 0
        self._connects_at: TimerHandle | None = None
        self._not_before_s = 0.0
        self._is_closed = False

    # -- for callers --

    @property
    def is_connected(self) -> bool:
        """Whether a request would be sent at once."""
        return self._socket is not None and self._socket.exchange.is_ready

    def served(self, key: int) -> VersionRange | None:
        """The versions of an API that the node serves; None while it is not connected, too."""
        return self._socket.exchange.served(key) if self._socket is not None else None

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        """Sends `request`, perhaps after others and after connecting: see NodeChannel."""
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        waiting = _Request(request, version, limit_ms, self._expired)
        if self._is_closed:
            waiting.complete(NodeUnavailable(f"the connection to {self.address} was closed"))
            return waiting.pending
        self._waiting.append(waiting)
        self._deadlines.add(limit_ms, waiting)
        if self._socket is None:
            self._connect_in_time()
        else:
            self._send_waiting()
        return waiting.pending

    def close(self) -> None:
        """Closes the connection for good; all requests complete with NodeUnavailable."""
        self._is_closed = True
        self._deadlines.clear()
        if self._connects_at is not None:
            self._connects_at.cancel()
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.abort()
        self._fail([self._in_flight, self._waiting], f"the connection to {self.address} was closed")

    # -- connecting --

    def _connect_in_time(self) -> None:
        """Connects now, or when the backoff is over."""
        if self._connects_at is None:
            self._connects_at = self._timer.call_at(
                max(self._timer.time(), self._not_before_s), self._connect
            )

    def _connect(self) -> None:
        self._connects_at = None
        if any(not request.is_completed for request in self._waiting):
            timeout_ms = self._grown(self._settings.setup_timeout_ms, self._settings.setup_timeout_max_ms)
            self._socket = _Socket(self, Exchange(self._settings.client_id), self._timer, timeout_ms)
            self._socket.opening = self._open(
                self.address, self._settings.receive_buffer_bytes, self._socket, self._socket.failed
            )

    def _grown(self, first_ms: int, most_ms: int) -> float:
        """A time that doubles with each failure in a row, with jitter."""
        base = min(first_ms * 2.0 ** min(self._failures, 30), most_ms)
        return base * (1 + _JITTER * (2 * self._jitter() - 1))

    # -- for its socket --

    @property
    def idle_s(self) -> float:
        """After how long without a request the connection is closed."""
        return self._settings.idle_ms / 1000

    @property
    def has_in_flight(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._in_flight)

    def connected(self) -> None:
        """The versions are negotiated."""
        self._failures = 0
        self._send_waiting()

    def disconnected(self, reason: str, *, was_connected: bool) -> None:
        """The connection was lost, or could not be made."""
        backoff_ms = self._grown(self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms)
        self._not_before_s = self._timer.time() + backoff_ms / 1000
        self._socket = None
        if was_connected:
            logger.debug("%s", reason)
            self._fail([self._in_flight], reason)
        else:
            self._failures += 1
            logger.log(logging.INFO if self._failures == 1 else logging.DEBUG, "%s", reason)
            self._fail([self._in_flight, self._waiting], reason)
        if self._waiting and self._socket is None:
            self._connect_in_time()

    def responded(self, result: Message | NodeClientError) -> None:
        """The response to the oldest request in flight."""
        request = self._in_flight.popleft()
        self._send_waiting()
        request.complete(result)

    # -- requests --

    def _send_waiting(self) -> None:
        while self._waiting and self.is_connected and len(self._in_flight) < self._settings.max_in_flight:
            request = self._waiting.popleft()
            if request.is_completed:
                continue
            assert self._socket is not None
            data = self._socket.exchange.request(request.message, request.version)
            if isinstance(data, UnsupportedVersion):
                request.complete(data)
                continue
            request.is_in_flight = True
            self._in_flight.append(request)
            self._socket.write(data)

    def _expired(self, request: _Request) -> None:
        reason = (
            f"{self.address} did not respond to {type(request.message).__name__} in {request.timeout_ms} ms"
        )
        if request.is_in_flight and self._socket is not None:
            self._socket.failed(reason)  # which completes it: what else is in flight waits behind it
        else:
            request.complete(NodeUnavailable(reason))

    @staticmethod
    def _fail(queues: Sequence[deque[_Request]], reason: str) -> None:
        """Empties the queues before the first callback, which may send the next request."""
        failed = [request for queue in queues for request in queue if not request.is_completed]
        for queue in queues:
            queue.clear()
        for request in failed:
            request.complete(NodeUnavailable(reason))


class _Socket(asyncio.BufferedProtocol):
    """One connection of a NodeClient, from its opening to its end."""

    def __init__(self, client: NodeClient, exchange: Exchange, timer: Timer, setup_timeout_ms: float) -> None:
        self.opening: Opening | None = None
        self.exchange = exchange
        self._client = client
        self._timer = timer
        self._wire: Wire | None = None
        self._options: socket.socket | None = None
        self._is_over = False
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._used_s = timer.time()
        self._deadline = timer.call_at(
            timer.time() + setup_timeout_ms / 1000,
            lambda: self.failed(f"no connection to {client.address} within {setup_timeout_ms:.0f} ms"),
        )

    # -- asyncio.BufferedProtocol --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("Wire", transport)
        if self._is_over:
            self.abort()
        else:
            self._options = transport.get_extra_info("socket")
            self.write(self.exchange.begin())

    def get_buffer(self, sizehint: int) -> memoryview:
        rest = self.exchange.framer.rest
        return self._buffer if rest is None else rest

    def buffer_updated(self, nbytes: int) -> None:
        framer = self.exchange.framer
        frames: list[Frame] = []
        try:
            if framer.rest is not None:
                framer.filled(nbytes, frames)
            else:
                framer.feed(self._buffer[:nbytes], frames)
            if framer.rest is not None:
                self._acknowledge()
            for frame in frames:
                if not self._is_over:
                    self._received(frame)
        except ProtocolError as error:
            self.failed(f"{self._client.address} does not speak Kafka's protocol as expected: {error}")

    def _acknowledge(self) -> None:
        """Acknowledges the bytes of a large response that have come.

        The system delays that by 40 ms on a connection that small requests and responses went over before. If only one
        segment fits into the window, the peer waits for it each time: a replica caught up at a third of the rate.
        """
        if self._options is not None and _TCP_QUICKACK is not None:
            self._options.setsockopt(socket.IPPROTO_TCP, _TCP_QUICKACK, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed(f"{self._client.address} closed the connection" + (f": {exc}" if exc else ""))

    # -- for the client --

    def write(self, data: bytes) -> None:
        assert self._wire is not None
        self._used_s = self._timer.time()
        self._wire.write(data)

    def failed(self, reason: str) -> None:
        """Ends the connection, with the reason; once."""
        if not self._is_over:
            was_connected = self.exchange.is_ready
            self.abort()
            self._client.disconnected(reason, was_connected=was_connected)

    def abort(self) -> None:
        """Closes the socket without reporting it."""
        self._is_over = True
        self._deadline.cancel()
        if self._wire is not None:
            self._wire.abort()
        elif self.opening is not None:
            self.opening.cancel()

    def _received(self, frame: Frame) -> None:
        is_negotiating = not self.exchange.is_ready
        result = self.exchange.receive(frame)
        if not is_negotiating:
            assert result is not None
            assert not isinstance(result, bytes)
            self._client.responded(result)
        elif isinstance(result, bytes):
            self.write(result)
        else:
            self._deadline.cancel()
            self._close_when_idle()
            self._client.connected()

    def _close_when_idle(self) -> None:
        idle_s = self._client.idle_s
        when = self._used_s + idle_s
        if when <= self._timer.time() and not self._client.has_in_flight:
            self.failed(f"the connection to {self._client.address} was idle for {idle_s:.0f} s")
        else:
            self._deadline = self._timer.call_at(
                max(when, self._timer.time() + idle_s / 4), self._close_when_idle
            )
