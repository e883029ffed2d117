"""Rules for process.roles=broker: a member of a cluster that other nodes control.

Source: KafkaConfig.validateValues, KRaftConfigs, QuorumConfig.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeVar

from barnabas.config.catalogue import controller, network, server
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.listeners import parse_protocol_map

T = TypeVar("T")

SINGLE: Final = frozenset({"broker", "controller"})
MEMBER: Final = frozenset({"broker"})


def is_member(roles: tuple[str, ...]) -> bool:
    """Whether these process.roles make a node a member of a cluster that others control."""
    return frozenset(roles) == MEMBER


class Values(Protocol):
    """The part of a configuration that these rules read."""

    def __getitem__(self, key: ConfigKey[T]) -> T: ...

    def is_set(self, key: ConfigKey[Any]) -> bool: ...


def role_errors(values: Values) -> Iterator[ConfigError]:
    """What contradicts the roles of the process."""
    roles = values[server.PROCESS_ROLES]
    if is_member(roles):
        for check in (_quorum, _controller_listeners, _heartbeats):
            yield from check(values)
    elif frozenset(roles) != SINGLE:
        yield server.PROCESS_ROLES.error(
            ",".join(roles),
            "broker,controller for a node that is alone, or broker for a member of a cluster: Barnabas does not "
            "control other brokers",
        )


def _quorum(values: Values) -> Iterator[ConfigError]:
    node_id, voters = values[server.NODE_ID], values[controller.CONTROLLER_QUORUM_VOTERS]
    if node_id is None:
        yield server.NODE_ID.error("", "set: the cluster knows each of its nodes by an id of its own")
    if not voters and not values[controller.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS]:
        yield controller.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.error(
            "", "set to the addresses of controllers, as host:port,...: a member has to find its cluster"
        )
    if node_id is not None and str(node_id) in {voter.partition("@")[0].strip() for voter in voters}:
        yield server.NODE_ID.error(
            str(node_id),
            f"none of those in {controller.CONTROLLER_QUORUM_VOTERS.name}, which are controllers",
        )


def _controller_listeners(values: Values) -> Iterator[ConfigError]:
    key = controller.CONTROLLER_LISTENER_NAMES
    names = [name.upper() for name in values[key] or ()]
    if not names:
        yield key.error("", "set: the first one names the listener by which the controllers are reached")
        return
    for listeners, entries in (
        (network.LISTENERS, values[network.LISTENERS]),
        (network.ADVERTISED_LISTENERS, values[network.ADVERTISED_LISTENERS] or ()),
    ):
        own = [entry for entry in entries if entry.strip().partition("://")[0].upper() in names]
        if own:
            yield listeners.error(
                ",".join(entries),
                f"without the controllers' listeners, which {key.name} names: a broker does not open {own[0]}",
            )
    try:
        protocols = parse_protocol_map(values[network.LISTENER_SECURITY_PROTOCOL_MAP])
    except ConfigError:
        return  # it is reported with the listeners
    if values.is_set(network.LISTENER_SECURITY_PROTOCOL_MAP) and names[0] not in protocols:
        yield network.LISTENER_SECURITY_PROTOCOL_MAP.error(
            values[network.LISTENER_SECURITY_PROTOCOL_MAP],
            f"one with {names[0]}, the listener by which the controllers are reached",
        )


def _heartbeats(values: Values) -> Iterator[ConfigError]:
    interval, session = values[server.BROKER_HEARTBEAT_INTERVAL_MS], values[server.BROKER_SESSION_TIMEOUT_MS]
    if interval * 2 > session:
        yield server.BROKER_HEARTBEAT_INTERVAL_MS.error(
            str(interval), f"at most half of {server.BROKER_SESSION_TIMEOUT_MS.name}, which is {session}"
        )
