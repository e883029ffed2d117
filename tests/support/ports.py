"""Reserves ports of 127.0.0.1 for the process of the tests, also while no server listens there.

The system gives the number of a released port to the next process that requests one, and to connections of clients.
A broker could then not start on it again, and a client that should find no broker would find another.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

_held: Final[list[socket.socket]] = []
"""Kept until the process ends: a few for each broker that it starts."""


def held_ports(count: int) -> list[int]:
    """Ports on which a server with SO_REUSEADDR can listen, as brokers do.

    Until it listens, connections are rejected. On Linux only: elsewhere a bound socket prevents others from
    listening, so that these ports are merely free at the moment.
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
