"""What handlers work with."""

from __future__ import annotations

from pathlib import Path

from broker.request import ConnectionInfo
from tests.broker.broker_fixture import InProcessBroker


def connection(listener_name: str, local_host: str = "10.0.0.5", local_port: int = 9092) -> ConnectionInfo:
    return ConnectionInfo(
        connection_id=1,
        listener_name=listener_name,
        client_host="10.0.0.9",
        client_port=50_000,
        local_host=local_host,
        local_port=local_port,
    )


def test_a_client_is_told_the_address_that_it_dialled(broker: InProcessBroker) -> None:
    for host, port in (("10.0.0.5", 9092), ("::1", 29092)):
        endpoint = broker.broker.endpoint(connection("PLAINTEXT", host, port))
        assert (endpoint.host, endpoint.port) == (host, port)


def test_an_address_that_is_configured_is_told_to_everyone_on_its_listener(tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092,INSIDE://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://kafka.example:19092",
    }
    running = InProcessBroker(tmp_path, settings)
    endpoint = running.broker.endpoint(connection("PLAINTEXT"))
    assert (endpoint.host, endpoint.port) == ("kafka.example", 19092)
    endpoint = running.broker.endpoint(connection("INSIDE", "10.0.0.5", 9093))
    assert (endpoint.host, endpoint.port) == ("10.0.0.5", 9093)
    running.kill()


def test_the_image_is_always_the_newest(broker: InProcessBroker) -> None:
    assert "t" not in broker.broker.image.topics
    broker.create_topic("t")
    assert "t" in broker.broker.image.topics
