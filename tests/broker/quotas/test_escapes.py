"""Ways out of a quota that lead nowhere: many connections, pipelines, client ids, requests of other APIs between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection import Connection, ConnectionContext
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.fakes import FakeTransport
from tests.broker.throttled import set_quotas
from tests.conformance.dialogue_client import batch
from tests.conformance.dialogues import words
from tests.support.sasl import framed, request

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
