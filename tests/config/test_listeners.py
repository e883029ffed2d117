"""The addresses that the broker listens on, and those that it advertises."""

from __future__ import annotations

import pytest

from barnabas.config.keys import ConfigError
from barnabas.config.listeners import (
    Listener,
    build_listeners,
    check_inter_broker_listener,
    controller_listeners,
    parse_protocol_map,
)

MAP = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,SSL:SSL,LOGINS:SASL_SSL,CONTROLLER:PLAINTEXT"


def build(listeners: str, advertised: str | None = None, controllers: str = "") -> list[Listener]:
    told = None if advertised is None else advertised.split(",")
    return build_listeners(listeners.split(","), told, MAP, filter(None, controllers.split(",")))


def refused(listeners: str, advertised: str | None = None, controllers: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        build(listeners, advertised, controllers)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "host", "port"),
    [
        ("PLAINTEXT://:9092", "PLAINTEXT", None, 9092),
        ("plaintext://localhost:0", "PLAINTEXT", "localhost", 0),
        ("INTERNAL://[::1]:9092", "INTERNAL", "::1", 9092),
        ("INTERNAL://fe80::1%eth0:9092", "INTERNAL", "fe80::1%eth0", 9092),
        (" PLAINTEXT://0.0.0.0:65535 ", "PLAINTEXT", "0.0.0.0", 65_535),
    ],
)
def test_a_listener_is_read(text: str, name: str, host: str | None, port: int) -> None:
    assert build(text) == [Listener(name, host, port)]


@pytest.mark.parametrize(
    "text",
    [
        "PLAINTEXT:9092",
        "://:9092",
        "PLAINTEXT://host",
        "PLAINTEXT://:x",
        "PLAINTEXT://:65536",
        "PLAINTEXT://a b:1",
    ],
)
def test_an_invalid_listener_is_rejected_with_the_required_form(text: str) -> None:
    assert refused(text) == f"listeners={text} must be NAME://host:port, with a port from 0 to 65535"


def test_clients_get_the_address_they_connected_to_unless_one_is_advertised() -> None:
    (listener,) = build("PLAINTEXT://:9092")
    assert (listener.advertised_host, listener.advertised_port) == (None, None)
    plain, internal = build("PLAINTEXT://:9092,INTERNAL://:9094", "PLAINTEXT://broker:19092")
    assert (plain.advertised_host, plain.advertised_port) == ("broker", 19092)
    assert internal.advertised_host is None
    assert repr(plain) == "<Listener PLAINTEXT://:9092 PLAINTEXT, advertised broker:19092>"


def test_the_controllers_listeners_stay_closed() -> None:
    (listener,) = build(
        "PLAINTEXT://:9092,CONTROLLER://:9093", "PLAINTEXT://a:1,CONTROLLER://a:2", "controller"
    )
    assert listener.name == "PLAINTEXT"
    assert "clients need one, too" in refused("CONTROLLER://:9093", None, "CONTROLLER")


@pytest.mark.parametrize(
    ("listeners", "advertised", "complaint"),
    [
        ("PLAINTEXT://:1,PLAINTEXT://:2", None, "PLAINTEXT occurs twice"),
        ("PLAINTEXT://:1,INTERNAL://:1", None, "a port of its own; 1 occurs twice"),
        ("PLAINTEXT://127.0.0.1:1,INTERNAL://[::1]:1,SSL://[::2]:1", None, "1 occurs twice"),
        ("OTHER://:1", None, "made of listeners in listener.security.protocol.map; OTHER is not in it"),
        ("PLAINTEXT://:1", "INTERNAL://a:1", "for listeners that are opened (PLAINTEXT); INTERNAL is not"),
        ("PLAINTEXT://:1", "PLAINTEXT://0.0.0.0:1", "an address that clients can reach; 0.0.0.0 is not"),
        (
            "PLAINTEXT://:1",
            "PLAINTEXT://a:1,PLAINTEXT://b:1",
            "one address for each listener; PLAINTEXT occurs twice",
        ),
        ("PLAINTEXT://:1", "nonsense", "must be NAME://host:port"),
    ],
)
def test_contradictory_listeners_are_rejected(listeners: str, advertised: str | None, complaint: str) -> None:
    assert complaint in refused(listeners, advertised)


def test_two_listeners_share_a_port_when_their_addresses_cannot_meet() -> None:
    assert len(build("PLAINTEXT://127.0.0.1:1,INTERNAL://[::1]:1")) == 2
    assert len(build("PLAINTEXT://:0,INTERNAL://:0")) == 2


def test_the_protocol_map() -> None:
    assert parse_protocol_map(" a : plaintext , B:SSL,") == {"A": "PLAINTEXT", "B": "SSL"}
    for text in ("a", "a:TLS"):
        with pytest.raises(ConfigError, match="must be NAME:PROTOCOL"):
            parse_protocol_map(text)


def test_brokers_reach_each_other_by_a_listener_that_is_open() -> None:
    check_inter_broker_listener("plaintext", build("PLAINTEXT://:1"))
    with pytest.raises(ConfigError, match="the name of a listener that is opened: PLAINTEXT"):
        check_inter_broker_listener("INTERNAL", build("PLAINTEXT://:1"))


def test_listeners_compare_by_value() -> None:
    assert Listener("A", None, 1) == Listener("A", None, 1)
    assert Listener("A", None, 1) != Listener("A", None, 2)


def test_the_controllers_listeners_have_their_advertised_addresses() -> None:
    listeners = ["PLAINTEXT://:9092", "CONTROLLER://:9093", "SECURE://127.0.0.1:9094"]
    advertised = ["PLAINTEXT://a:9092", "CONTROLLER://b:19093"]
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"
    found = controller_listeners(listeners, advertised, protocols, ["controller", "SECURE", "OTHER"])
    assert [(one.name, one.host, one.port, one.security_protocol) for one in found] == [
        ("CONTROLLER", "b", 19093, "SASL_SSL"),
        ("SECURE", "127.0.0.1", 9094, "PLAINTEXT"),
    ]
    assert controller_listeners(listeners, None, protocols, []) == []
