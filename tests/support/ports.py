"""Reserves ports of 127.0.0.1 for the process of the tests, also while no server listens there.

The system gives the number of a released port to the next process that asks, and to connections of clients.
A broker could then not start there again, and a client that is to find no broker would find one.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

_held: Final[list[socket.socket]] = []
"""Until the process ends: a few for each broker that it starts."""


def held_ports(count: int) -> list[int]:
    """Ports on which a server can listen that is given their numbers and sets SO_REUSEADDR, as brokers do.

    Until it listens, connections are rejected. On Linux: elsewhere a socket that is bound keeps others from
    listening, so that these ports are only free at this moment.
    """
    sockets = []
    for _ in range(count):
        sockets.append(held := socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
    numbers = [held.getsockname()[1] for held in sockets]
    if sys.platform == "linux":
        _held.extend(sockets)
    else:
        for held in sockets:
            held.close()
    return numbers
