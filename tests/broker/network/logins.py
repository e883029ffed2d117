"""Connections of a listener with SASL, with a scripted handler behind their logins; the test is each client.

client.handshake(); client.token(b"...")     the client's frames, as they go over the wire
client.frames()                              what it has received
client >> "echo one" << "one"                requests after the login, as in tests.broker.scripted
"""

from __future__ import annotations

from typing import Any

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.authentication import Authentications
from barnabas.broker.network.connection import Connection, ConnectionContext
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.protocol.framing import Frame, Framer
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.fakes import FakeTransport, ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.scripted import ScriptedHandler, framed
from tests.broker.security.sasl.logins import FakeDoors, connection_info, listener
from tests.support.sasl import framed as with_size
from tests.support.sasl import plain_token, request

DELAY_S = 0.1
TIMEOUT_S = 30.0


class LoginHarness:
    """The connections of one listener that have not logged in, and those that have."""

    def __init__(self, *, max_reauth_ms: int = 0, delay_ms: int = 100, memory_bytes: int = 100_000) -> None:
        self.timer = ManualTimer()
        self.runner = HeldRunner()
        self.handler = ScriptedHandler()
        self.probe = ListenerProbe("SASL")
        self.memory = RequestMemory(1 << 30)
        self.closed: list[Connection] = []
        self.authentications = Authentications(
            timeout_ms=int(TIMEOUT_S * 1000),
            failure_delay_ms=delay_ms,
            memory_bytes=memory_bytes,
            doors=FakeDoors(),
            loop=self.timer,
            now_ms=lambda: int(self.timer.time() * 1000),
            runner=self.runner,
            complaints=RateLimit(now=self.timer.time),
        )
        sasl = listener(max_reauth_ms)
        self.listener = sasl
        self.context = ConnectionContext(
            handle=self.authentications.guarded(self.handler, sasl, self.probe),
            memory=self.memory,
            max_request_bytes=1 << 24,
            probe=self.probe,
            complaints=RateLimit(now=self.timer.time),
            call_soon=self.timer.call_soon,
            closed=self._closed,
            mutes=DeadlineQueue(self.timer),
        )

    def client(self, host: str = "192.0.2.7") -> LoginClient:
        return LoginClient(self, host)

    def _closed(self, connection: Connection) -> None:
        self.closed.append(connection)
        self.authentications.forget(connection)


class LoginClient:
    """The client's end of a connection."""

    def __init__(self, harness: LoginHarness, host: str) -> None:
        self.harness = harness
        self.info = connection_info()
        self.info.client_host = host
        self.connection = Connection(harness.context, self.info)
        self.transport = FakeTransport()
        harness.authentications.begin(self.connection, self.transport, harness.listener, harness.probe)
        self._received = Framer(1 << 24)
        self.outbox: list[bytes] | None = None
        """Where it exists, `send` puts the bytes there instead."""

    def send(self, data: bytes) -> None:
        """Sends bytes, and lets the broker process them as far as it can."""
        if self.outbox is not None:
            self.outbox.append(data)
            return
        if not self.transport.closed:
            self.transport.receive(data)
        self.settle()

    def settle(self) -> None:
        timer = self.harness.timer
        timer.run_soon()
        while not self.transport.closed and self.transport.deliver():
            timer.run_soon()

    def versions(self) -> None:
        message = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        self.send(with_size(request(message, 3)))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        self.send(with_size(request(SaslHandshakeRequest(mechanism=mechanism), version)))

    def token(self, token: bytes, version: int = 2) -> None:
        self.send(with_size(request(SaslAuthenticateRequest(auth_bytes=token), version)))

    def log_in(self, user: str = "alice", password: str = "pencil") -> None:
        self.handshake()
        self.token(plain_token(user, password))

    def __rshift__(self, requests: str) -> LoginClient:
        self.send(b"".join(framed(each.strip().encode()) for each in requests.split(",")))
        return self

    def __lshift__(self, answers: str) -> LoginClient:
        expected = [answer.strip() for answer in answers.split(",")] if answers else []
        assert [frame.decode() for frame in self.frames()] == expected
        return self

    def frames(self) -> list[bytes]:
        """The frames received since the last call."""
        self.settle()
        data = bytes(self.transport.sent)
        self.transport.sent.clear()
        found: list[Frame] = []
        self._received.feed(memoryview(data), found)
        return [bytes(frame) for frame in found]

    def is_read(self) -> bool:
        return self.transport.reading

    def is_closed(self) -> bool:
        return self.transport.closed

    @property
    def principal(self) -> Any:
        return self.info.principal
