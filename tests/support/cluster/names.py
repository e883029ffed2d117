"""The names by which nodes know each other, and what each process resolves them to.

Node 2 is advertised as n2.test. Node 1 resolves that name to 127.1.2.1, where a link of `network.py` listens for what
node 1 says to node 2, and for nobody else. A node resolves its own name to 127.0.0.1, where it listens.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
CLIENTS: Final = 200
"""The asker that stands for all clients: its links are those of clients to nodes."""
MAX_NODE: Final = 199


def name_of(node: int) -> str:
    """The host name that a node is advertised by."""
    return f"n{node}.test"


def address_between(asker: int, asked: int) -> str:
    """The address at which `asker` (a node, or CLIENTS) reaches the node `asked`."""
    if not (0 < asker <= MAX_NODE or asker == CLIENTS) or not 0 < asked <= MAX_NODE:
        raise ValueError(f"from {asker} to {asked}: the ids of nodes are 1 to {MAX_NODE}")
    return LOOPBACK if asker == asked else f"127.{asker}.{asked}.1"


def hosts_of(asker: int, nodes: Iterable[int]) -> dict[str, str]:
    """What `asker` resolves names to: the nodes' names, and those that a process may have for itself."""
    own = {"localhost": LOOPBACK, socket.gethostname(): LOOPBACK}
    return own | {name_of(node): address_between(asker, node) for node in nodes}


def write_hosts(path: Path, hosts: dict[str, str]) -> None:
    """Writes the table as /etc/hosts has it, which is what `jdk.net.hosts.file` of a JVM takes."""
    path.write_text("".join(f"{address} {name}\n" for name, address in hosts.items()))


def read_hosts(path: Path) -> dict[str, str]:
    """The address of each name in such a file."""
    pairs = (line.split() for line in path.read_text().splitlines() if line.strip())
    return {name: address for address, *names in pairs for name in names}
