"""How many connections there may be: max.connections, per listener and in all, max.connections.per.ip; and how fast
they may come: max.connection.creation.rate, and the quotas of addresses in the metadata (KIP-402, KIP-612).

    over its limit is  | what happens
    -------------------+-----------------------------------------------------------------------------------------------
    the number, of all | the next clients wait in the listen backlog until a connection closes; where there are some
    or of a listener   | that have not logged in for LOGIN_GRACE_S, the oldest of them closes for the next client. The
                       | listener between brokers, where there are others, is protected from the number of all: it takes
                       | its connections, and one of other listeners that has been unused the longest closes
    the number, of an  | the connection is rejected
    address            |
    the rate, of all   | the connection waits, and those behind it, until the rate is down, a window (1 s) at most. The
    or of a listener   | protected listener does not count in that of all
    the rate, of an    | the connection is held unread so long, and then closed; it does not count in the other rates
    address            |

All limits can change while the broker runs. Source: kafka.network.ConnectionQuotas.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.broker.quotas.rate import Rate
from barnabas.broker.quotas.throttle_times import ThrottleTimes
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

LOGIN_GRACE_S: Final = 5.0
"""For how long a connection that has not logged in keeps its place where there are too many. Not in Kafka."""

MAX_IP_RATES: Final = 100_000
"""Addresses whose rates are measured at once, where they have quotas; of more, the longest unused is forgotten."""


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
    protected_listener: str | None = None
    """The listener between brokers, where there are others."""


class _MeasuredRate:
    """The connections that came lately, and those that had to wait or were rejected for it."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.rate = Rate(samples, window_ms)
        self.throttled = ThrottleTimes()
        self.throttled_by_ip = ThrottleTimes()


class ConnectionQuotas:
    """Counts connections by listener and by client address, and how fast they come.

    `now` is a monotonic clock in seconds. Rates are measured over `samples` windows of `window_ms`.
    """

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        now: Callable[[], float] = time.monotonic,
        *,
        samples: int = 11,
        window_ms: int = 1000,
    ) -> None:
        self._now = now
        self._samples = samples
        self._window_ms = window_ms
        self._by_listener: dict[str, int] = {}
        self._by_ip: dict[str, int] = {}
        self._rates: dict[str | None, _MeasuredRate] = {}
        self._ip_limits: Mapping[str, float] = {}
        self._default_ip_limit: float | None = None
        self._ip_rates: OrderedDict[str, Rate] = OrderedDict()  # the longest unused first
        self.limits = limits or ConnectionLimits()
        self.total = 0

    def change_limits(self, limits: ConnectionLimits) -> None:
        """Changes the limits; what has come counts. Too many connections of all are for the caller to close."""
        self.limits = limits

    def change_ip_limits(self, limits: Mapping[str, float], default: float | None) -> None:
        """Changes the rates that addresses may have; `default` is for the others, None for any rate."""
        self._ip_limits = limits
        self._default_ip_limit = default

    # ---- numbers

    def count(self, listener_name: str) -> int:
        return self._by_listener.get(listener_name, 0)

    def is_protected(self, listener_name: str) -> bool:
        """Whether the maximum and the rate of all connections do not hold for the listener."""
        return self.limits.protected_listener == listener_name

    @property
    def excess(self) -> int:
        """By how many connections there are more than max.connections."""
        return max(0, self.total - self.limits.max_connections)

    def may_accept(self, listener_name: str) -> bool:
        """Whether the listener may take another connection now, however fast they come."""
        if self.total >= self.limits.max_connections and not self.is_protected(listener_name):
            return False
        return not self.has_maximum(listener_name)

    def has_maximum(self, listener_name: str) -> bool:
        """Whether the listener has as many connections as it may have itself."""
        most = self.limits.max_connections_per_listener.get(listener_name, UNLIMITED)
        return self.count(listener_name) >= most

    def max_of(self, client_host: str) -> int:
        """The connections that this address may have."""
        limits = self.limits
        return limits.max_connections_per_ip_overrides.get(client_host, limits.max_connections_per_ip)

    def admit(self, listener_name: str, client_host: str) -> bool:
        """Counts a new connection, unless its address has its maximum already."""
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

    # ---- rates

    def arrived(self, listener_name: str) -> int:
        """A connection has come; returns the milliseconds that it and the listener's next ones have to wait."""
        now_ms = self._now_ms()
        throttle_ms = 0
        for name in self._counted_in(listener_name):
            rate = self._measured(name).rate
            rate.record(1, now_ms)
            limit = self._per_s(name)
            if limit != UNLIMITED:
                throttle_ms = max(throttle_ms, rate.throttle_time_ms(limit, now_ms))
        throttle_ms = min(throttle_ms, self._window_ms)
        if throttle_ms:
            self._measured(listener_name).throttled.add(throttle_ms, now_ms)
        return throttle_ms

    def ip_throttle_ms(self, listener_name: str, client_host: str) -> int:
        """Counts a connection that has come for its address; returns for how long it is held before it is closed.

        0 for one that may go on. Another one counts in no rate.
        """
        limit = self._ip_limits.get(client_host, self._default_ip_limit)
        if limit is None:
            return 0
        now_ms = self._now_ms()
        rate = self._ip_rate(client_host)
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_time_ms(limit, now_ms), self._window_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            for name in self._counted_in(listener_name):
                self._measured(name).rate.record(-1, now_ms)
            self._measured(listener_name).throttled_by_ip.add(throttle_ms, now_ms)
        return throttle_ms

    def _counted_in(self, listener_name: str) -> tuple[str | None, ...]:
        """The rates in which connections of a listener count; None is that of all."""
        return (listener_name,) if self.is_protected(listener_name) else (None, listener_name)

    def _measured(self, listener: str | None) -> _MeasuredRate:
        if listener not in self._rates:
            self._rates[listener] = _MeasuredRate(self._samples, self._window_ms)
        return self._rates[listener]

    def _ip_rate(self, client_host: str) -> Rate:
        rates = self._ip_rates
        rate = rates.get(client_host)
        if rate is None:
            if len(rates) >= MAX_IP_RATES:
                rates.popitem(last=False)
            rate = rates[client_host] = Rate(self._samples, self._window_ms)
        rates.move_to_end(client_host)
        return rate

    def _per_s(self, listener: str | None) -> int:
        if listener is None:
            return self.limits.max_connection_creation_rate
        return self.limits.max_connection_creation_rate_per_listener.get(listener, UNLIMITED)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    # ---- for metrics

    def accept_rates(self) -> list[tuple[str | None, float]]:
        """Connections a second by listener; None is all but those of the protected one."""
        now_ms = self._now_ms()
        return [(name, measured.rate.measure(now_ms)) for name, measured in list(self._rates.items())]

    def accept_throttle_times_ms(self) -> list[tuple[str, float, float]]:
        """By listener: how long connections had to wait for a rate on average, and those of addresses were held."""
        now_ms = self._now_ms()
        return [
            (name, measured.throttled.average_ms(now_ms), measured.throttled_by_ip.average_ms(now_ms))
            for name, measured in list(self._rates.items())
            if name is not None
        ]


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
        protected_listener=config.inter_broker_listener if len(names) > 1 else None,
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
