"""NodeAddress: where a node of the cluster is reached."""

from __future__ import annotations

from typing import NamedTuple


class NodeAddress(NamedTuple):
    """A host name or an IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
