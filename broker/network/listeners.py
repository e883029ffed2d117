"""Binds sockets to the addresses of a listener's host and port."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Final, NamedTuple

_PORT_ATTEMPTS = 20
USE_SYSTEM_BUFFER = -1
"""Value of socket.{send,receive}.buffer.bytes that leaves the size to the operating system."""

INHERITS_OPTIONS: Final = sys.platform == "linux"
"""Whether accepted sockets have the options that were set at the listening one: three system calls less for each."""


class ListenError(Exception):
    """An address cannot be listened on; the message names it and says what could be done."""


def set_options(stream: socket.socket, send_buffer_bytes: int) -> None:
    """The options of a connection's socket."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if send_buffer_bytes != USE_SYSTEM_BUFFER:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)


def bind(
    host: str | None,
    port: int,
    *,
    backlog: int,
    receive_buffer_bytes: int,
    send_buffer_bytes: int = USE_SYSTEM_BUFFER,
) -> list[socket.socket]:
    """Listening sockets for every address of `host`, all on one port. Raises ListenError.

    A name such as localhost is bound at each of its addresses that this machine has, since clients try any
    of them. No host means all interfaces. Port 0 lets the system choose.
    """
    for _ in range(_PORT_ATTEMPTS):
        try:
            return _bind_all(host, port, _Options(backlog, receive_buffer_bytes, send_buffer_bytes))
        except _PortTakenError:
            continue
    raise ListenError(f"no port is free on all addresses of {host}: give the listener a port instead of 0")


class _PortTakenError(Exception):
    """The port that the system chose for one address of a host is taken at another."""


class _Options(NamedTuple):
    """What listening sockets are set to; they are named as the parameters of `bind`."""

    backlog: int
    receive_buffer_bytes: int
    send_buffer_bytes: int


def _bind_all(host: str | None, port: int, options: _Options) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    chosen = port
    try:
        for family, address in _addresses(host, port):
            try:
                sockets.append(_bind_one(family, address, chosen, options))
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) and (sockets or not host):
                    continue  # ::1 is in every hosts file, and not on every machine
                if error.errno == errno.EADDRINUSE and port == 0 and sockets:
                    raise _PortTakenError from None
                raise ListenError(_explain(error, address, chosen)) from error
            chosen = sockets[0].getsockname()[1]
            if not host:
                break  # the first wildcard that works takes both families
    except BaseException:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def _addresses(host: str | None, port: int) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses to bind, IPv4 first: when one of a name's two fails, it is IPv6 that is missing."""
    if not host:
        return [(socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")]
    try:
        # As bytes where that does: for a str Python imports the tables of international names, 250 KiB.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:  # the latter of ä..b
        raise ListenError(
            f"the listener's host {host} is not known here ({getattr(error, 'strerror', None) or error}): "
            "name an address of this machine, or no host for all of them"
        ) from error
    unique = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
    return sorted(unique, key=lambda item: item[0] is not socket.AF_INET)


def _bind_one(family: socket.AddressFamily, address: str, port: int, options: _Options) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        if options.receive_buffer_bytes != USE_SYSTEM_BUFFER:
            # Here and not at each accepted socket: the window is agreed on before accept returns.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        if INHERITS_OPTIONS:
            set_options(listening, options.send_buffer_bytes)
        listening.bind((address, port))
        listening.listen(options.backlog)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _explain(error: OSError, address: str, port: int) -> str:
    where = f"{f'[{address}]' if ':' in address else address}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {where}: another program does so already; stop it, or choose another port"
    if error.errno == errno.EACCES:
        return f"cannot listen on {where}: not allowed; choose a port above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {where}: this machine does not have that address"
    return f"cannot listen on {where}: {os.strerror(error.errno or 0)}"
