"""The entities of a command line: their types and names, in the several ways in which they can be given."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.cli.admin.names import ResourceType
from barnabas.cli.admin.options import ParsedOptions, refuse

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
BROKER_LOGGERS: Final = "broker-loggers"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
GROUPS: Final = "groups"
CLIENT_METRICS: Final = "client-metrics"

RESOURCES: Final = {
    TOPICS: ResourceType.TOPIC,
    BROKERS: ResourceType.BROKER,
    BROKER_LOGGERS: ResourceType.BROKER_LOGGER,
    GROUPS: ResourceType.GROUP,
    CLIENT_METRICS: ResourceType.CLIENT_METRICS,
}
ALL_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)
WITH_DEFAULTS: Final = frozenset({USERS, CLIENTS, BROKERS, IPS})

_FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
_DEFAULT_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}


class Entities(NamedTuple):
    """The types, and the names that were given for the first of them; "" is the default of a type."""

    types: list[str]
    names: list[str]

    @property
    def head(self) -> str:
        """The first type; the only one, but for users and clients together."""
        return self.types[0]

    @property
    def only_name(self) -> str | None:
        """The name where there is one type; None: all of this type."""
        return self.names[0] if self.names else None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Type and name of each."""
        return zip(self.types, self.names, strict=False)

    def check(self, *, is_alter: bool) -> None:
        """Raises UsageError for invalid combinations (`ConfigCommandOptions.checkArgs`)."""
        self._check_types()
        if len(self.names) > len(self.types):
            refuse("there are more entity names than entity types")
        for kind, name in self.pairs():
            _check_name(kind, name)
        kinds = ", ".join(self.types)
        if is_alter:
            if len(self.names) != len(self.types):
                refuse(f"--alter needs a name, or the default, for each entity type: {kinds}")
            if "" in self.names and not WITH_DEFAULTS.issuperset(self.types):
                refuse(f"--alter of {kinds} needs a name: there is no default of all {kinds}")
            return
        if "" in self.names and not WITH_DEFAULTS.intersection(self.types):
            refuse(
                f"--entity-default cannot be described for {kinds}: {', '.join(sorted(WITH_DEFAULTS))} have defaults"
            )
        if BROKER_LOGGERS in self.types and not any(self.names):
            refuse("--describe of broker-loggers needs the id of a broker")

    def _check_types(self) -> None:
        if not self.types:
            refuse("--entity-type, or an option like --topic or --broker, is missing")
        for kind in self.types:
            if kind not in ALL_TYPES:
                refuse(f"Invalid entity type {kind}, the entity type must be one of {', '.join(ALL_TYPES)}")
        if len(set(self.types)) != len(self.types):
            twice = sorted({kind for kind in self.types if self.types.count(kind) > 1})
            refuse(f"Duplicate entity type(s) specified: {', '.join(twice)}")
        if len(self.types) > 1 and set(self.types) != {USERS, CLIENTS}:
            refuse("only users and clients can be given together")


def entities_of(given: ParsedOptions) -> Entities:
    """The entities of the command line. Raises UsageError if it names them in two ways."""
    specific = [name for name in (*_FLAGS, *_DEFAULT_FLAGS) if given.has(name)]
    types = [*given.texts("entity-type"), *({**_FLAGS, **_DEFAULT_FLAGS}[name] for name in specific)]
    names = [*given.texts("entity-name"), *(given.text(name) or "" for name in specific if name in _FLAGS)]
    names += ["" for name in specific if name in _DEFAULT_FLAGS]
    entities = Entities(types, names)
    if specific and (given.has("entity-type") or given.has("entity-name")):
        entities._check_types()
        refuse(f"--entity-type and --entity-name cannot be used with --{specific[0]}")
    return entities


def _check_name(kind: str, name: str) -> None:
    if kind in {BROKERS, BROKER_LOGGERS} and name and not name.removeprefix("-").isdecimal():
        refuse(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if kind == IPS and name and not _is_host(name):
        refuse(f"The entity name for {kind} must be a valid IP or resolvable host, but it is: {name}")


def _is_host(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def plain_name(kind: str) -> str:
    """One of a type: topics, topic."""
    return kind.removesuffix("s")
