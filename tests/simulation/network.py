"""Connections between clients and the broker, and their faults.

A connection keeps the order of what is sent, as TCP does, until it breaks. A request may get lost (the broker
never receives it), a response may get lost (the broker has executed the request, but the client does not know), and
either may be slow. A client whose wait times out closes the connection; requests in LATE may still arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final, Protocol

from barnabas.broker.kafka_apis.dispatch import KafkaApis
from barnabas.broker.pending import Pending
from barnabas.broker.request import ConnectionInfo, NoResponse
from barnabas.protocol.api_keys import ApiKey, request_header_version, response_header_version, response_type
from barnabas.protocol.codec import decode, encode, join_chunks
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message
from tests.simulation.clock import Clock, Wait
from tests.simulation.machine import Machine, Process

LATE: Final = frozenset({ApiKey.PRODUCE, ApiKey.HEARTBEAT, ApiKey.FETCH, ApiKey.OFFSET_FETCH})
"""Requests that may arrive after the client closed the connection. Commits and ends of transactions are not among them
before transaction version 2: nothing in the protocol distinguishes an old one from a new one of the same epoch, and
Kafka has that gap too."""
LATE_WITH_EPOCH_BUMPS: Final = LATE | {ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT}


RECONNECTS_AFTER_S: Final = 0.25


class DisconnectedError(Exception):
    """The connection closed before the response: the broker may or may not have executed the request."""


class Weather:
    """The faults of the network, as probabilities for each request. Delays apply only while `is_bad`."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.is_bad = False
        self.lost_requests = self.lost_responses = self.slow = 0.0
        self.slowest_s = 3.0

    def worsen(self) -> None:
        """Draws random faults."""
        rng = self._rng
        self.is_bad = True
        self.lost_requests = rng.choice((0.0, 0.01, 0.05))
        self.lost_responses = rng.choice((0.0, 0.01, 0.05))
        self.slow = rng.choice((0.0, 0.02, 0.1))
        self.slowest_s = rng.choice((1.0, 4.0, 9.0))

    def clear(self) -> None:
        """Ends losses and delays."""
        self.is_bad = False
        self.lost_requests = self.lost_responses = self.slow = 0.0

    def loses_request(self) -> bool:
        return self._rng.random() < self.lost_requests

    def loses_response(self) -> bool:
        return self._rng.random() < self.lost_responses

    def delay_s(self) -> float:
        """The delay of the next message in one direction."""
        if self.slow and self._rng.random() < self.slow:
            return self._rng.uniform(0.05, self.slowest_s)
        return 0.0005 + self._rng.random() * 0.003


class Observer(Protocol):
    """A listener that follows the broker's requests and responses, whether or not they reach the client."""

    def executed(self, client: Any, request: Message, version: int) -> None:
        """The broker begins with a request."""

    def answered(self, client: Any, request: Message, version: int, response: Message) -> None:
        """The broker has answered."""


class Network:
    """All connections to the broker."""

    def __init__(self, clock: Clock, machine: Machine, weather: Weather, observer: Observer) -> None:
        self.clock = clock
        self.machine = machine
        self.weather = weather
        self.observer = observer
        self.links: set[Link] = set()
        self.connection_ids = count(1)

    def broker_ended(self) -> None:
        """Breaks every connection; waiting clients learn of it a moment later, in the order of their requests."""
        for link in sorted(self.links, key=lambda link: link.info.connection_id):
            link.close()
        self.links.clear()


class Link:
    """One connection of a client, to the broker that runs at its creation."""

    def __init__(self, network: Network, client: Any, late: frozenset[ApiKey] = LATE) -> None:
        self._network = network
        self._client = client
        self._late = late
        self._process: Process | None = network.machine.process if network.machine.running else None
        self.info = ConnectionInfo(
            connection_id=next(network.connection_ids),
            listener_name="PLAINTEXT",
            client_host="192.0.2.7",
            client_port=50_000,
            local_host="192.0.2.1",
            local_port=9092,
        )
        self.broken = self._process is None
        self._arrival = self._return = 0.0
        self._correlation_id = 0
        self._waiting: dict[Pending[Message | None], None] = {}
        network.links.add(self)

    async def ask(self, request: Message, version: int, timeout_s: float) -> Any:
        """Returns the response. Raises DisconnectedError; the connection is closed then."""
        pending: Pending[Message | None] = Pending()
        self._send(request, version, pending, timeout_s)
        answer = await Wait(pending)
        if answer is None:
            raise DisconnectedError
        return answer

    def close(self) -> None:
        """Breaks the connection; waiting clients learn of it a moment later, or, if it was never open,
        after they have tried for a while.
        """
        delay_s = 0.01 if self._process is not None else RECONNECTS_AFTER_S
        self.broken = True
        self._network.links.discard(self)
        waiting, self._waiting = self._waiting, {}
        for pending in waiting:
            self._network.clock.call_later(delay_s, lambda pending=pending: pending.complete(None))  # type: ignore[misc]

    def _send(
        self, request: Message, version: int, pending: Pending[Message | None], timeout_s: float
    ) -> None:
        network = self._network
        clock, weather = network.clock, network.weather
        self._waiting[pending] = None
        if self.broken:
            self.close()
            return
        clock.call_later(timeout_s, lambda: self.close() if pending in self._waiting else None)
        if weather.loses_request():
            return
        assert request.api_key is not None
        key = ApiKey(request.api_key)
        self._correlation_id += 1
        frame = self._frame(key, version, request)
        self._arrival = max(self._arrival, clock.now + weather.delay_s())
        process = self._process
        assert process is not None
        process.call_at(
            self._arrival, lambda: self._deliver(process, key, version, request, frame, pending=pending)
        )

    def _frame(self, key: ApiKey, version: int, request: Message) -> bytes:
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=str(self._client),
        )
        return encode(header, request_header_version(key, version)) + encode(request, version)

    def _deliver(
        self,
        process: Process,
        key: ApiKey,
        version: int,
        request: Message,
        frame: bytes,
        *,
        pending: Pending[Message | None],
    ) -> None:
        """Receives a request at the broker."""
        if self.broken and key not in self._late:
            return
        network = self._network
        assert network.machine.running is not None
        network.observer.executed(self._client, request, version)

        def on_response(response: Message) -> None:
            # A response at the moment in which the broker ends is not sent.
            process.call_soon(lambda: self._respond(request, version, response, pending))

        send(
            network.machine.running.apis,
            self.info,
            key,
            version,
            frame,
            on_response=on_response,
            on_close=self.close,
        )

    def _respond(
        self, request: Message, version: int, response: Message, pending: Pending[Message | None]
    ) -> None:
        network = self._network
        network.observer.answered(self._client, request, version, response)
        if network.weather.loses_response():
            return
        self._return = max(self._return, network.clock.now + network.weather.delay_s())
        network.clock.call_at(self._return, lambda: self._arrive(response, pending))

    def _arrive(self, response: Message, pending: Pending[Message | None]) -> None:
        if self._waiting.pop(pending, 0) is None:
            pending.complete(response)


def send(
    apis: KafkaApis,
    info: ConnectionInfo,
    key: ApiKey,
    version: int,
    frame: bytes,
    *,
    on_response: Callable[[Message], None],
    on_close: Callable[[], None],
) -> None:
    """Hands a frame to the broker; `on_response` gets the response, at once or later."""

    def decoded(chunks: Any) -> None:
        if isinstance(chunks, NoResponse):
            on_close()
            return
        data = join_chunks(chunks)
        head = len(encode(ResponseHeader(), response_header_version(key, version)))
        on_response(decode(response_type(key), version, data[head:]))

    try:
        answer = apis.handle(info, frame)
    except ProtocolError as error:
        raise AssertionError(f"{key.name} v{version} could not be decoded: {error}") from error
    if isinstance(answer, Pending):
        answer.add_done_callback(decoded)
    else:
        decoded(answer)
