"""Limits on connections and requests, enforced as Apache Kafka enforces them."""

from __future__ import annotations

import contextlib
import struct
import time

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.raw import RawConnection, metadata_request

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

Broker = BrokerProcess | ApacheKafka

IDLE_MS = 2000
LIMIT = 6
LIMIT_S = 60
OVERRIDES = {
    "connections.max.idle.ms": str(IDLE_MS),
    "max.connections.per.ip": str(LIMIT),
    "socket.request.max.bytes": "1000",
}


@pytest.fixture(autouse=True)
def alone(either: Broker) -> None:
    """Waits until the connections of the previous test no longer count."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        with contextlib.ExitStack() as stack:
            if all(is_served(stack.enter_context(RawConnection(either.bootstrap))) for _ in range(LIMIT)):
                return
    pytest.fail("the connections of the test before are still counted")


def is_served(connection: RawConnection) -> bool:
    """Whether the broker answers a request on it."""
    try:
        connection.send(metadata_request())
        connection.read_frame()
    except (OSError, EOFError):
        return False
    return True


def settled(either: Broker, served: int) -> list[RawConnection]:
    """`served` connections, all served; the test closes them."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = [RawConnection(either.bootstrap) for _ in range(served)]
        if all(map(is_served, found)):
            return found
        for connection in found:
            connection.close()
    raise AssertionError(f"{served} connections were not served")


def test_connections_of_one_address_are_limited(either: Broker) -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(one) for one in settled(either, LIMIT)]
        assert not is_served(stack.enter_context(RawConnection(either.bootstrap)))
        assert is_served(held[0])
        held.pop().close()
        settled_one = settled(either, 1)[0]
        stack.enter_context(settled_one)


def test_an_idle_connection_is_closed(either: Broker) -> None:
    with settled(either, 1)[0] as idle:
        started = time.monotonic()
        assert idle.is_closed()
        assert IDLE_MS / 1000 * 0.7 < time.monotonic() - started < IDLE_MS / 1000 + LIMIT_S


def test_a_connection_in_use_stays_open(either: Broker) -> None:
    with settled(either, 1)[0] as busy:
        until = time.monotonic() + IDLE_MS / 1000 * 1.5
        while time.monotonic() < until:
            assert is_served(busy)
            time.sleep(0.1)


def test_a_request_above_the_limit_closes_the_connection(either: Broker) -> None:
    with settled(either, 1)[0] as connection:
        connection.send(struct.pack(">i", 1001))
        assert connection.is_closed()
    with settled(either, 1)[0] as connection:
        connection.send(struct.pack(">i", 1000))
        connection.socket.settimeout(0.3)
        assert not connection.is_closed()
