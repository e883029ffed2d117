"""Broker: the address that a client is told, and the newest image."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.metadata.quorum import ObservedQuorum
from barnabas.broker.request import ConnectionInfo
from tests.broker.broker_fixture import InProcessBroker


def dialled(host: str, port: int, listener: str = "PLAINTEXT") -> ConnectionInfo:
    return ConnectionInfo(
        connection_id=1,
        listener_name=listener,
        client_host="192.0.2.7",
        client_port=50_000,
        local_host=host,
        local_port=port,
    )


def told(broker: InProcessBroker, connection: ConnectionInfo) -> tuple[str, int]:
    endpoint = broker.broker.node(broker.broker.node_id, connection)
    assert endpoint is not None
    return endpoint.host, endpoint.port


@pytest.mark.parametrize("address", [("192.0.2.1", 9092), ("127.0.0.1", 40_000), ("::1", 9092)])
def test_without_advertised_listeners_each_client_gets_the_address_it_connected_to(
    broker: InProcessBroker, address: tuple[str, int]
) -> None:
    assert told(broker, dialled(*address)) == address


def test_an_advertised_listener_takes_precedence(tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092,INSIDE://:9093",
        "advertised.listeners": "PLAINTEXT://kafka.example:19092,INSIDE://broker-1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    }
    broker = InProcessBroker(tmp_path, settings)
    assert told(broker, dialled("192.0.2.1", 9092)) == ("kafka.example", 19092)
    assert told(broker, dialled("192.0.2.1", 9093, "INSIDE")) == ("broker-1", 9093)
    broker.kill()


def test_the_newest_image_is_that_of_the_controller(broker: InProcessBroker) -> None:
    before = broker.broker.image
    broker.create_topic("t")
    assert broker.broker.image is broker.controller.image is not before


def test_a_node_that_is_alone_is_its_own_quorum(broker: InProcessBroker) -> None:
    assert broker.broker.own_quorum is broker.storage.quorum
    broker.broker.quorum = ObservedQuorum(broker.storage.raft)  # as of a member of a cluster
    with pytest.raises(AssertionError):
        _ = broker.broker.own_quorum
