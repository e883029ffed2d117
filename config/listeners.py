"""The addresses that the broker listens on, and those that it advertises to clients.

Source: SocketServerConfigs.listenerListToEndPoints, AbstractKafkaConfig.listenerListToEndPoints,
KafkaConfig.validateValues.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from barnabas.config.catalogue.network import ADVERTISED_LISTENERS, LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS
from barnabas.config.catalogue.replication import INTER_BROKER_LISTENER_NAME, SECURITY_PROTOCOLS
from barnabas.config.keys import ConfigError

LISTENER_FORM = "NAME://host:port"


class Listener(NamedTuple):
    """One address to listen on.

    `host` is None for every interface; port 0 takes a free port. `advertised_host` and `advertised_port` are sent
    to clients; None stands for the address that the client connected to.
    """

    name: str
    host: str | None
    port: int
    security_protocol: str = "PLAINTEXT"
    advertised_host: str | None = None
    advertised_port: int | None = None

    def __repr__(self) -> str:
        advertised = (
            f", advertised {self.advertised_host}:{self.advertised_port}" if self.advertised_host else ""
        )
        return f"<Listener {self.name}://{self.host or ''}:{self.port} {self.security_protocol}{advertised}>"


def build_listeners(
    listeners: Sequence[str],
    advertised: Sequence[str] | None,
    protocol_map: str,
    controller_names: Iterable[str],
) -> list[Listener]:
    """The listeners to open, in their order; raises ConfigError when they contradict each other.

    The controller's own listeners are left out: the controller lives inside the broker, and no peer connects to it.
    """
    protocols = parse_protocol_map(protocol_map)
    controllers = {name.upper() for name in controller_names}
    opened = [_endpoint(LISTENERS.name, entry) for entry in listeners]
    _check_distinct(LISTENERS.name, listeners, opened)
    named = [endpoint for endpoint in opened if endpoint.name not in controllers]
    if not named:
        raise LISTENERS.error(
            ",".join(listeners), "more than the controller's listeners: clients need one, too"
        )
    named = [
        each._replace(security_protocol=_protocol_of(each.name, protocols, ",".join(listeners)))
        for each in named
    ]
    return named if advertised is None else _advertised(named, advertised, controllers)


def parse_protocol_map(text: str) -> dict[str, str]:
    """listener.security.protocol.map by listener name; raises ConfigError when it is not NAME:PROTOCOL,..."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.rpartition(":")
        protocol = protocol.strip().upper()
        if not colon or protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            raise LISTENER_SECURITY_PROTOCOL_MAP.error(
                text, f"NAME:PROTOCOL, comma-separated, of {known}; {entry} is not"
            )
        protocols[name.strip().upper()] = protocol
    return protocols


def check_inter_broker_listener(name: str, listeners: Sequence[Listener]) -> None:
    """Raises ConfigError when brokers are to reach each other by a listener that is not opened."""
    known = [listener.name for listener in listeners]
    if name.upper() not in known:
        raise INTER_BROKER_LISTENER_NAME.error(
            name, "the name of a listener that is opened: " + ", ".join(known)
        )


def _endpoint(key: str, text: str) -> Listener:
    """NAME://host:port as a Listener; the host may be empty, or an IPv6 address in brackets."""
    name, separator, address = text.strip().partition("://")
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (separator and name and colon and _is_port(port) and _is_host(host)):
        raise ConfigError(key, text, f"must be {LISTENER_FORM}, with a port from 0 to 65535")
    return Listener(name.upper(), host or None, int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= 65_535


def _is_host(text: str) -> bool:
    return all(character.isascii() and (character.isalnum() or character in "-%._:") for character in text)


def _check_distinct(key: str, texts: Sequence[str], endpoints: Sequence[Listener]) -> None:
    """Rejects a name that occurs twice, and a port that occurs twice unless one address is IPv4 and the other IPv6."""
    names = [endpoint.name for endpoint in endpoints]
    if repeated := _repeated(names):
        raise ConfigError(
            key, ",".join(texts), f"must give each listener a name of its own; {repeated} occurs twice"
        )
    by_port: dict[int, list[Listener]] = {}
    for endpoint in endpoints:
        by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        if port != 0 and len(sharing) > 1 and not _one_of_each_family(sharing):
            raise ConfigError(
                key, ",".join(texts), f"must give each listener a port of its own; {port} occurs twice"
            )


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def _one_of_each_family(sharing: Sequence[Listener]) -> bool:
    """True for two literal addresses, one of IPv4 and the other of IPv6 (KAFKA-11474)."""
    six = [":" in (endpoint.host or "") for endpoint in sharing]
    four = [(endpoint.host or "").replace(".", "").isdecimal() for endpoint in sharing]
    return len(sharing) == 2 and sum(six) == 1 and sum(four) == 1


def _protocol_of(name: str, protocols: Mapping[str, str], listeners: str) -> str:
    protocol = protocols.get(name)
    if protocol is None:
        raise LISTENERS.error(
            listeners, f"made of listeners in {LISTENER_SECURITY_PROTOCOL_MAP.name}; {name} is not in it"
        )
    return protocol


def _advertised(
    listeners: Sequence[Listener], advertised: Sequence[str], controllers: set[str]
) -> list[Listener]:
    """The listeners with their advertised addresses."""

    def reject(requirement: str) -> NoReturn:
        raise ADVERTISED_LISTENERS.error(",".join(advertised), requirement)

    by_name = {listener.name: listener for listener in listeners}
    endpoints = [_endpoint(ADVERTISED_LISTENERS.name, entry) for entry in advertised]
    if repeated := _repeated([endpoint.name for endpoint in endpoints]):
        reject(f"one address for each listener; {repeated} occurs twice")
    for endpoint in endpoints:
        if endpoint.name in controllers:
            continue
        if endpoint.name not in by_name:
            reject(f"for listeners that are opened ({', '.join(by_name)}); {endpoint.name} is not")
        if endpoint.host in {"0.0.0.0", "::"}:
            reject(
                f"an address that clients can reach; {endpoint.host} is not. "
                "Left unset, each client gets the address that it connected to"
            )
        by_name[endpoint.name] = by_name[endpoint.name]._replace(
            advertised_host=endpoint.host, advertised_port=endpoint.port if endpoint.host else None
        )
    return list(by_name.values())


def controller_listeners(
    listeners: Sequence[str],
    advertised: Sequence[str] | None,
    protocol_map: str,
    controller_names: Iterable[str],
) -> list[Listener]:
    """The controller's listeners, as the metadata describes them; none is opened.

    Raises ConfigError for an entry that is not a listener.
    """
    protocols = parse_protocol_map(protocol_map)
    advertised_by_name = {
        endpoint.name: endpoint
        for endpoint in (_endpoint(ADVERTISED_LISTENERS.name, entry) for entry in advertised or ())
    }
    by_name = {
        endpoint.name: endpoint for endpoint in (_endpoint(LISTENERS.name, entry) for entry in listeners)
    }
    names = [name.upper() for name in controller_names]
    found = [advertised_by_name.get(name) or by_name.get(name) for name in names]
    return [
        each._replace(security_protocol=protocols.get(each.name, "PLAINTEXT"))
        for each in found
        if each is not None
    ]
