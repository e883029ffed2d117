"""Where a configuration says that the controllers of a cluster are."""

from __future__ import annotations

from barnabas.broker.node_client.address import NodeAddress
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.controller import CONTROLLER_QUORUM_BOOTSTRAP_SERVERS, CONTROLLER_QUORUM_VOTERS


def bootstrap_servers(config: BrokerConfig) -> list[NodeAddress]:
    """The addresses in controller.quorum.bootstrap.servers."""
    return [parse_address(text) for text in config[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]]


def static_voters(config: BrokerConfig) -> dict[int, NodeAddress]:
    """The voters in controller.quorum.voters, by id."""
    voters = (text.strip().partition("@") for text in config[CONTROLLER_QUORUM_VOTERS])
    return {int(node): parse_address(address) for node, _, address in voters}


def parse_address(text: str) -> NodeAddress:
    """An address as "host:port" or "[address]:port". Raises ValueError."""
    host, _, port = text.strip().rpartition(":")
    return NodeAddress(host.removeprefix("[").removesuffix("]"), int(port))
