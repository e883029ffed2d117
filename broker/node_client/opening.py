"""Opening a connection to a node over a socket of the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.broker.node_client.address import NodeAddress

USE_SYSTEM_BUFFER: Final = -1
"""The size of a socket's buffer is left to the operating system."""


class Opening(Protocol):
    """A connection that is being opened."""

    def cancel(self) -> object: ...


Open = Callable[[NodeAddress, int, asyncio.BufferedProtocol, Callable[[str], object]], Opening]
"""Opens a connection to an address, with a receive buffer of so many bytes or USE_SYSTEM_BUFFER, for a protocol, whose
`connection_made` is called then; or calls the function with the reason."""


def opener(loop: asyncio.AbstractEventLoop) -> Open:
    """Opens connections of an event loop. Names are resolved in the loop's threads."""

    def open_connection(
        address: NodeAddress,
        receive_buffer_bytes: int,
        protocol: asyncio.BufferedProtocol,
        failed: Callable[[str], object],
    ) -> Opening:
        async def connect() -> None:
            try:
                connected = await _connected(loop, address, receive_buffer_bytes)
                await loop.create_connection(lambda: protocol, sock=connected)
            except (OSError, ValueError) as error:  # ValueError: no host name at all
                failed(f"no connection to {address}: {getattr(error, 'strerror', None) or error}")

        return loop.create_task(connect())

    return open_connection


async def _connected(
    loop: asyncio.AbstractEventLoop, address: NodeAddress, receive_buffer_bytes: int
) -> socket.socket:
    """A socket that is connected to the first of the host's addresses that accepts. Raises OSError, ValueError.

    The receive buffer gets its size before that, since window and segments are agreed on while connecting.
    """
    refused: OSError | None = None
    for family, kind, _, _, at in await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
        opened = socket.socket(family, kind)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer_bytes != USE_SYSTEM_BUFFER:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            await loop.sock_connect(opened, at)
        except OSError as error:
            opened.close()
            refused = error
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    assert refused is not None, "getaddrinfo returns an address, or raises an error"
    raise refused
