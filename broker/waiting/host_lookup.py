"""HostLookup: checks off the event loop whether names are names of hosts. Addresses need no look-up.

A resolver may take many seconds over a name, so it has a daemon thread of its own, which delays neither fsyncs nor the
end of the process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from threading import Thread
from typing import Final, Protocol

from barnabas.broker.pending import Pending

MAX_NAMES: Final = 100
"""How many names of one call are looked up; the rest count as unknown."""

Resolve = Callable[[str], bool]


class HostNames(Protocol):
    """Knows which names are names of hosts."""

    def known(self, names: Iterable[str]) -> Pending[frozenset[str]]:
        """Completes with those of `names` that are names of hosts."""


def resolves(name: str) -> bool:
    """Whether the system's resolver knows `name`. Blocks."""
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def is_address(text: str) -> bool:
    """Whether `text` is an IP address, which needs no look-up."""
    from ipaddress import ip_address  # an idle broker needs none of its 250 KiB

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def java_address(host: str) -> str:
    """An address as Java writes it, IPv6 in eight groups without leading zeros; anything else as it is."""
    from ipaddress import IPv6Address, ip_address  # see is_address

    bare, _, scope = host.partition("%")
    try:
        address = ip_address(bare)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        bare = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return f"{bare}%{scope}" if scope else bare


class HostLookup:
    """Looks names up, one after the other. Lives on the event loop; its thread starts with the first call."""

    def __init__(self, loop: asyncio.AbstractEventLoop, resolve: Resolve = resolves) -> None:
        self._loop = loop
        self._resolve = resolve
        self._calls: SimpleQueue[tuple[list[str], Pending[frozenset[str]]]] = SimpleQueue()
        self._thread: Thread | None = None

    def known(self, names: Iterable[str]) -> Pending[frozenset[str]]:
        """Completes with those of `names` that are hosts; at once where there is nothing to ask."""
        pending: Pending[frozenset[str]] = Pending()
        wanted = sorted(set(names))[:MAX_NAMES]
        if not wanted:
            pending.complete(frozenset())
            return pending
        if self._thread is None:
            self._thread = Thread(target=self._work, name="barnabas-resolver", daemon=True)
            self._thread.start()
        self._calls.put((wanted, pending))
        return pending

    def _work(self) -> None:
        while True:
            names, pending = self._calls.get()
            found = frozenset(name for name in names if self._resolve(name))
            try:
                self._loop.call_soon_threadsafe(pending.complete, found)
            except RuntimeError:  # the loop has closed
                return
