"""Ways out of a quota that lead nowhere: many connections, pipelines, client ids, requests of other APIs between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.kafka_apis.unauthenticated import UnauthenticatedApis
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.authentication import Authentications
from barnabas.broker.network.connection import Connection, ConnectionContext
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.request import ConnectionInfo, KafkaPrincipal
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.schema import Message
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.fakes import FakeTransport
from tests.broker.security.sasl.logins import connection_info, listener
from tests.broker.throttled import Ticking, set_quotas
from tests.conformance.dialogue_client import batch
from tests.conformance.dialogues import words
from tests.support.sasl import framed, plain_token, request

LIMIT = 10_000.0
"""Bytes a second."""
WINDOWS_S = 11
RECORDS = batch(b"x" * 900)
ANY_CLIENT = (("client-id", None),)
ANY_USER = (("user", None),)


class Clients:
    """Connections to a broker, without sockets, whose clients send whatever they like."""

    def __init__(self, directory: Path) -> None:
        self.broker = InProcessBroker(directory)
        self.broker.create_topic("t")
        timer = self.broker.timer
        self.context = ConnectionContext(
            handle=self.broker.apis.handle,
            memory=RequestMemory(1 << 30),
            max_request_bytes=1 << 20,
            probe=ListenerProbe("PLAINTEXT"),
            complaints=RateLimit(now=timer.time),
            call_soon=timer.call_soon,
            closed=lambda connection: None,
            mutes=DeadlineQueue(timer),
        )

    def connect(self) -> FakeTransport:
        info = ConnectionInfo(
            connection_id=next(self.broker.connection_ids),
            listener_name="PLAINTEXT",
            client_host="192.0.2.7",
            client_port=50_000,
            local_host="192.0.2.1",
            local_port=9092,
        )
        transport = FakeTransport()
        Connection(self.context, info).connection_made(transport)
        return transport

    def pass_time(self, seconds: int, transports: list[FakeTransport]) -> None:
        for _ in range(seconds * 10):
            self.settle(transports)
            self.broker.env.ms += 100
            self.broker.timer.advance(0.1)
        self.settle(transports)

    def settle(self, transports: list[FakeTransport]) -> None:
        timer = self.broker.timer
        timer.run_soon()
        while any([transport.deliver() for transport in transports if transport.reading]):  # noqa: C419  # all of them
            timer.run_soon()

    def appended(self) -> int:
        """Records, each of which was a request."""
        partition: Any = self.broker.replica_manager.partition("t", 0)
        return int(partition.log.log_end_offset)


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    made = Clients(tmp_path)
    yield made
    made.broker.kill()


def produce(client_id: str = "greedy", number: int = 1) -> bytes:
    return framed(request(words.produce("t", RECORDS), 9, number, client_id))


def most(seconds: int, connections: int) -> float:
    """Requests that may be handled: what the windows allow, and of each connection one before its first mute is over
    and one when all mutes end together.
    """
    return LIMIT * (seconds + WINDOWS_S) / len(produce()) + 2 * connections


def test_many_connections_with_pipelines_share_a_quota(clients: Clients) -> None:
    set_quotas(clients.broker, ANY_CLIENT, producer_byte_rate=LIMIT)
    transports = [clients.connect() for _ in range(50)]
    for transport in transports:
        transport.receive(b"".join(produce(number=number) for number in range(100)))
    clients.pass_time(30, transports)
    assert LIMIT * 20 / len(produce()) < clients.appended() <= most(30, len(transports))


def test_requests_of_other_apis_between_do_not_end_a_mute(clients: Clients) -> None:
    set_quotas(clients.broker, ANY_CLIENT, producer_byte_rate=LIMIT)
    transports = [clients.connect() for _ in range(10)]
    between = framed(request(MetadataRequest(topics=[]), 9, 7, "greedy"))
    for transport in transports:
        transport.receive((produce() + between) * 300)
    clients.pass_time(30, transports)
    assert clients.appended() <= most(30, len(transports))


def test_a_user_does_not_escape_by_other_client_ids(clients: Clients) -> None:
    """A quota of users is one for all their client ids; where only client ids have quotas, each has its own."""
    set_quotas(clients.broker, ANY_USER, producer_byte_rate=LIMIT)
    transports = [clients.connect() for _ in range(10)]
    for number, transport in enumerate(transports):
        transport.receive(b"".join(produce(f"id-{number}-{each}") for each in range(300)))
    clients.pass_time(30, transports)
    assert clients.appended() <= most(30, len(transports))
    assert len(clients.broker.broker.quotas.produce) == 1


def test_a_quota_that_is_set_meanwhile_holds_for_the_next_request(clients: Clients) -> None:
    transports = [clients.connect() for _ in range(5)]
    for transport in transports:
        transport.receive(produce() * 10)
    clients.settle(transports)
    assert clients.appended() == 50
    set_quotas(clients.broker, ANY_CLIENT, producer_byte_rate=LIMIT)
    for transport in transports:
        transport.receive(produce() * 500)
    clients.pass_time(10, transports)
    assert clients.appended() - 50 <= most(10, len(transports))
    set_quotas(clients.broker, ANY_CLIENT, producer_byte_rate=None)
    clients.pass_time(60, transports)
    assert clients.appended() == 50 + 5 * 500


# ---- listeners with logins


class Logins:
    """A client of a listener with SASL, of a broker that counts the time of requests."""

    def __init__(self, directory: Path) -> None:
        self.clock = Ticking()
        self.broker = InProcessBroker(directory, request_clock=self.clock)
        timer, probe = self.broker.timer, ListenerProbe("SASL")
        self.timer = timer
        sasl = listener(max_reauth_ms=60_000)
        authentications = Authentications(
            timeout_ms=30_000,
            failure_delay_ms=100,
            doors=UnauthenticatedApis(self.broker.apis),
            loop=timer,
            now_ms=lambda: int(timer.time() * 1000),
            runner=self.broker.runner,
            complaints=RateLimit(now=timer.time),
        )
        context = ConnectionContext(
            handle=authentications.guarded(self.broker.apis.handle, sasl, probe),
            memory=RequestMemory(1 << 30),
            max_request_bytes=1 << 20,
            probe=probe,
            complaints=RateLimit(now=timer.time),
            call_soon=timer.call_soon,
            closed=authentications.forget,
            mutes=DeadlineQueue(timer),
        )
        self.transport = FakeTransport()
        self.connection = Connection(context, connection_info())
        authentications.begin(self.connection, self.transport, sasl, probe)

    def send(self, message: Message, version: int) -> int:
        """Sends a request; returns how many bytes have come back."""
        self.transport.sent.clear()
        self.transport.receive(framed(request(message, version, client_id="c")))
        self.timer.run_soon()
        while self.transport.deliver():
            self.timer.run_soon()
        return len(self.transport.sent)

    def log_in(self) -> None:
        assert self.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert self.send(SaslAuthenticateRequest(auth_bytes=plain_token("alice", "pencil")), 2)

    def used(self) -> float:
        """The time that is charged to alice."""
        quotas = self.broker.broker.quotas
        counter = quotas.request.counter(KafkaPrincipal("alice"), "c", quotas.now_ms())
        return counter.rate.measure(quotas.now_ms())


@pytest.fixture
def logins(tmp_path: Path) -> Iterator[Logins]:
    made = Logins(tmp_path)
    set_quotas(made.broker, (("user", "alice"),), request_percentage=1.0)
    made.clock.tick_s = 0.5
    yield made
    made.broker.kill()


VERSIONS = ApiVersionsRequest(client_software_name="n", client_software_version="1")


def test_a_login_costs_its_user_nothing_and_requests_do(logins: Logins) -> None:
    """Before the login it could be anyone: else one client could use up the quota of another."""
    assert logins.send(VERSIONS, 3)
    logins.log_in()
    assert str(logins.connection.info.principal) == "User:alice"
    assert logins.used() == 0
    assert logins.send(VERSIONS, 3)
    assert logins.used() > 0


def test_a_throttled_user_renews_its_session_without_being_charged(logins: Logins) -> None:
    logins.log_in()
    assert logins.send(VERSIONS, 3)
    assert logins.send(SaslHandshakeRequest(mechanism="PLAIN"), 1) == 0  # it is muted
    used = logins.used()
    logins.timer.advance(1)
    logins.timer.run_soon()
    assert logins.send(SaslAuthenticateRequest(auth_bytes=plain_token("alice", "pencil")), 2)
    assert logins.used() <= used
    assert logins.connection.info.session.renewal is None
    assert not logins.connection.closing
