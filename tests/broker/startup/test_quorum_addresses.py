"""The addresses of controllers in a configuration."""

from __future__ import annotations

import pytest

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.startup.quorum_addresses import bootstrap_servers, parse_address, static_voters
from barnabas.config.broker_config import BrokerConfig


def config(*overrides: str) -> BrokerConfig:
    return BrokerConfig.of(
        None,
        overrides=[
            "process.roles=broker",
            "node.id=7",
            "controller.listener.names=CONTROLLER",
            *overrides,
        ],
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("c1.test:9093", NodeAddress("c1.test", 9093)),
        ("192.0.2.1:1", NodeAddress("192.0.2.1", 1)),
        (" c1.test:9093 ", NodeAddress("c1.test", 9093)),
        ("[2001:db8::1]:9093", NodeAddress("2001:db8::1", 9093)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: NodeAddress) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["c1.test", "c1.test:", "c1.test:x", ""])
def test_an_address_without_a_port_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_address(text)


def test_bootstrap_servers_keep_their_order() -> None:
    found = bootstrap_servers(config("controller.quorum.bootstrap.servers=c2.test:9093, c1.test:9094"))
    assert found == [NodeAddress("c2.test", 9093), NodeAddress("c1.test", 9094)]


def test_static_voters_are_known_by_id() -> None:
    found = config("controller.quorum.voters=3001@c1.test:9093, 3002@[::1]:9094")
    assert static_voters(found) == {3001: NodeAddress("c1.test", 9093), 3002: NodeAddress("::1", 9094)}
    assert bootstrap_servers(found) == []
    assert static_voters(config("controller.quorum.bootstrap.servers=c1.test:9093")) == {}
