"""How many connections there may be: max.connections, per listener and in all, max.connections.per.ip; and how fast
they may come: max.connection.creation.rate.

As in Kafka (`ConnectionQuotas`), a connection of an address that has its maximum is rejected, while a listener,
or a broker, that has its maximum stops accepting: the next clients wait in the listen backlog until a connection
closes, or until the rate lets the next one in. All limits can change while the broker runs.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.host_lookup import is_address
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.network import (
    MAX_CONNECTION_CREATION_RATE,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    MAX_CONNECTIONS_PER_IP_OVERRIDES,
)
from barnabas.config.checks import parse_connection_overrides
from barnabas.config.layers import InvalidConfigError

logger = logging.getLogger("barnabas.network")

UNLIMITED = 2**31 - 1


class ConnectionLimits(NamedTuple):
    """The limits of connections; overrides of max.connections.per.ip are by address, those of listeners by name.

    Rates are connections a second.
    """

    max_connections: int = UNLIMITED
    max_connections_per_listener: Mapping[str, int] = {}
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = {}
    max_connection_creation_rate: int = UNLIMITED
    max_connection_creation_rate_per_listener: Mapping[str, int] = {}


class _Rate:
    """Admits so many connections in a second, at most as many at once."""

    __slots__ = ("_left", "_per_s", "_since")

    def __init__(self, per_s: int, now: float) -> None:
        self._per_s = per_s
        self._left = float(per_s)
        self._since = now

    def change(self, per_s: int, now: float) -> None:
        """Changes the rate; what was used up stays used up."""
        self._refill(now)
        self._left += per_s - self._per_s
        self._per_s = per_s

    def take(self, now: float) -> None:
        self._refill(now)
        self._left -= 1

    def delay_s(self, now: float) -> float:
        """Seconds until the next one may come; infinity where none may."""
        self._refill(now)
        if self._left >= 1:
            return 0.0
        return (1 - self._left) / self._per_s if self._per_s else math.inf

    def _refill(self, now: float) -> None:
        self._left = min(self._left + (now - self._since) * self._per_s, float(self._per_s))
        self._since = now


class ConnectionQuotas:
    """Counts connections by listener and by client address, and how fast they come."""

    def __init__(
        self, limits: ConnectionLimits | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._by_listener: dict[str, int] = {}
        self._by_ip: dict[str, int] = {}
        self._rates: dict[str | None, _Rate] = {}
        self.limits = limits or ConnectionLimits()
        self.total = 0

    def change_limits(self, limits: ConnectionLimits) -> None:
        """Changes the limits. Open connections stay, even above the new limits."""
        self.limits = limits
        for listener, rate in self._rates.items():
            rate.change(self._per_s(listener), self._now())

    def count(self, listener_name: str) -> int:
        return self._by_listener.get(listener_name, 0)

    def may_accept(self, listener_name: str) -> bool:
        """Whether the listener may take another connection now."""
        if self.total >= self.limits.max_connections:
            return False
        most = self.limits.max_connections_per_listener.get(listener_name, UNLIMITED)
        return self.count(listener_name) < most

    def delay_s(self, listener_name: str) -> float:
        """Seconds until the listener may accept another connection, by its own rate and that of all."""
        now = self._now()
        return max(self._rate(None).delay_s(now), self._rate(listener_name).delay_s(now))

    def _rate(self, listener: str | None) -> _Rate:
        """The rate of one listener, or of all of them (None)."""
        if listener not in self._rates:
            self._rates[listener] = _Rate(self._per_s(listener), self._now())
        return self._rates[listener]

    def _per_s(self, listener: str | None) -> int:
        if listener is None:
            return self.limits.max_connection_creation_rate
        return self.limits.max_connection_creation_rate_per_listener.get(listener, UNLIMITED)

    def max_of(self, client_host: str) -> int:
        """The connections that this address may have."""
        limits = self.limits
        return limits.max_connections_per_ip_overrides.get(client_host, limits.max_connections_per_ip)

    def admit(self, listener_name: str, client_host: str) -> bool:
        """Counts a new connection, unless its address has its maximum already. Rates count it in any case."""
        now = self._now()
        self._rate(None).take(now)
        self._rate(listener_name).take(now)
        of_ip = self._by_ip.get(client_host, 0)
        if of_ip >= self.max_of(client_host):
            return False
        self._by_ip[client_host] = of_ip + 1
        self._by_listener[listener_name] = self.count(listener_name) + 1
        self.total += 1
        return True

    def release(self, listener_name: str, client_host: str) -> None:
        """A connection that was admitted has ended."""
        self.total -= 1
        self._by_listener[listener_name] -= 1
        left = self._by_ip.pop(client_host) - 1
        assert left >= 0
        assert self.total >= 0
        if left:
            self._by_ip[client_host] = left


def limits_of(config: BrokerConfig) -> ConnectionLimits:
    """The limits that a configuration sets now. Looks host names up, which may block; raises InvalidConfigError."""
    names = [listener.name for listener in config.listeners]
    overrides = parse_connection_overrides(config[MAX_CONNECTIONS_PER_IP_OVERRIDES])
    return ConnectionLimits(
        max_connections=config[MAX_CONNECTIONS],
        max_connections_per_listener={name: config.listener_value(name, MAX_CONNECTIONS) for name in names},
        max_connections_per_ip=config[MAX_CONNECTIONS_PER_IP],
        max_connections_per_ip_overrides=limits_by_address(overrides),
        max_connection_creation_rate=config[MAX_CONNECTION_CREATION_RATE],
        max_connection_creation_rate_per_listener={
            name: config.listener_value(name, MAX_CONNECTION_CREATION_RATE) for name in names
        },
    )


class ConnectionLimitsUpdate:
    """Applies the limits of a changed configuration, off the loop where names have to be looked up."""

    def __init__(
        self, config: BrokerConfig, change: Callable[[ConnectionLimits], None], runner: BlockingRunner
    ) -> None:
        self._config = config
        self._change = change
        self._runner = runner

    def reconfigure(self) -> None:
        """Returns at once; without names in the overrides, the new limits hold then."""
        found: list[ConnectionLimits] = []

        def look_up() -> None:
            try:
                found.append(limits_of(self._config))
            except InvalidConfigError as error:
                logger.error("the limits of connections stay as they were: %s", error)

        def done(error: BaseException | None) -> None:
            if error is not None:
                raise error
            if found:
                self._change(found[0])

        if self._has_names():
            self._runner.submit(look_up, done)
        else:
            self._change(limits_of(self._config))

    def _has_names(self) -> bool:
        """Whether a look-up is needed. An address with an interface, as fe80::1%eth0, may be unknown like any name."""
        overrides = parse_connection_overrides(self._config[MAX_CONNECTIONS_PER_IP_OVERRIDES])
        return not all("%" not in host and is_address(host.strip("[]")) for host in overrides)


def limits_by_address(limits_by_host: Mapping[str, int]) -> dict[str, int]:
    """max.connections.per.ip.overrides by address; a name counts for all of its addresses, which takes a look-up.

    Raises InvalidConfigError for a name that is not known.
    """
    limits: dict[str, int] = {}
    for host, count in limits_by_host.items():
        try:
            found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:  # the latter of a..b
            wrong = MAX_CONNECTIONS_PER_IP_OVERRIDES.error(
                f"{host}:{count}", f"of hosts that are known ({error})"
            )
            raise InvalidConfigError([wrong]) from error
        for _, _, _, _, address in found:
            limits[plain_address(str(address[0]))] = count
    return limits


def plain_address(address: str) -> str:
    """The IPv4 address of a client that a socket for both families shows as a mapped IPv6 address."""
    return address.removeprefix("::ffff:") if "." in address else address
