"""`barnabas` with host names of its own: python -m tests.support.cluster.named_barnabas HOSTS serve server.properties

A JVM has -Djdk.net.hosts.file for this. Python has nothing, and the product needs nothing: this module stands where
`barnabas.cli` would, changes how this process resolves names, and starts the command. The look-ups are those of
`socket.getaddrinfo`, and those of the event loop, since uvloop asks libc itself.
"""

from __future__ import annotations

import functools
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.cluster.names import read_hosts


def resolve_by(hosts: Mapping[str, str]) -> None:
    """Has this process look these names up in `hosts`, and all others as before."""
    import uvloop

    sockets: Any = socket
    loop: Any = uvloop.Loop
    sockets.getaddrinfo = _by_first(socket.getaddrinfo, hosts)
    for name in ("getaddrinfo", "create_connection"):
        setattr(loop, name, _by_host(getattr(loop, name), hosts))


def address_of(host: Any, hosts: Mapping[str, str]) -> Any:
    """The address of a host that is in `hosts`; others are returned as they are."""
    name = host.decode("idna") if isinstance(host, bytes) else host
    return hosts.get(name, host) if isinstance(name, str) else host


def _by_first(function: Callable[..., Any], hosts: Mapping[str, str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(host: Any, *arguments: Any, **more: Any) -> Any:
        return function(address_of(host, hosts), *arguments, **more)

    return called


def _by_host(method: Callable[..., Any], hosts: Mapping[str, str]) -> Callable[..., Any]:
    """Of a method of the event loop, whose host is an argument with that name or its first or second one."""

    @functools.wraps(method)
    def called(loop: Any, *arguments: Any, **more: Any) -> Any:
        if "host" in more:
            more["host"] = address_of(more["host"], hosts)
        return method(loop, *(address_of(each, hosts) for each in arguments), **more)

    return called


def main() -> None:
    """Takes the table from the command line and leaves the rest to `barnabas`."""
    resolve_by(read_hosts(Path(sys.argv.pop(1))))
    from barnabas.cli.__main__ import main as barnabas

    barnabas()


if __name__ == "__main__":
    main()
