"""How many connections there may be: max.connections, per listener and in all, and max.connections.per.ip.

As in Kafka (`ConnectionQuotas`), an address that has its maximum is turned away, while a listener, or a
broker, that has its maximum stops accepting: the next clients wait in the listen backlog until somebody
leaves.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from config.catalogue.network import MAX_CONNECTIONS_PER_IP_OVERRIDES
from config.layers import InvalidConfigError

UNLIMITED = 2**31 - 1


class ConnectionQuotas:
    """Counts connections by listener and by client address. Overrides of max.connections.per.ip go by address."""

    def __init__(
        self,
        *,
        max_connections: int = UNLIMITED,
        max_connections_per_listener: Mapping[str, int] | None = None,
        max_connections_per_ip: int = UNLIMITED,
        max_connections_per_ip_overrides: Mapping[str, int] | None = None,
    ) -> None:
        self._max = max_connections
        self._max_of_listener = dict(max_connections_per_listener or {})
        self._max_per_ip = max_connections_per_ip
        self._max_of_ip = dict(max_connections_per_ip_overrides or {})
        self._by_listener: dict[str, int] = {}
        self._by_ip: dict[str, int] = {}
        self.total = 0

    def count(self, listener_name: str) -> int:
        return self._by_listener.get(listener_name, 0)

    def may_accept(self, listener_name: str) -> bool:
        """Whether the listener may take another connection now."""
        if self.total >= self._max:
            return False
        return self.count(listener_name) < self._max_of_listener.get(listener_name, UNLIMITED)

    def max_of(self, client_host: str) -> int:
        """The connections that this address may have."""
        return self._max_of_ip.get(client_host, self._max_per_ip)

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


def limits_by_address(limits_by_host: Mapping[str, int]) -> dict[str, int]:
    """max.connections.per.ip.overrides by address; a name stands for all of its addresses, which takes a look-up.

    Raises InvalidConfigError for a name that is not known.
    """
    limits: dict[str, int] = {}
    for host, count in limits_by_host.items():
        try:
            found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            wrong = MAX_CONNECTIONS_PER_IP_OVERRIDES.error(
                f"{host}:{count}", f"of hosts that are known ({error})"
            )
            raise InvalidConfigError([wrong]) from error
        for _, _, _, _, address in found:
            limits[plain_address(str(address[0]))] = count
    return limits


def plain_address(address: str) -> str:
    """An IPv4 client of a socket that serves both families has an IPv6 address that maps it; it goes by its own."""
    return address.removeprefix("::ffff:") if "." in address else address
