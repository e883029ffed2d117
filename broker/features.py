"""Feature levels: what this broker can do, and what the cluster has switched on (KIP-584, KIP-1022).

Group, transaction, share and streams features are level 0 until their coordinators are here: clients choose protocols
by these levels, and must not be led to one that nobody answers.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """A feature with the lowest and highest level that this broker supports, and the level in force."""

    name: str
    low: int
    high: int
    finalized: int


FEATURES: Final = (
    Feature("group.version", 0, 0, 0),
    Feature("metadata.version", 7, 30, 30),
    Feature("transaction.version", 0, 0, 0),
)
