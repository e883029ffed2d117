"""The assignor of a group: the one that most of its members ask for.

A tie is decided by the order of Kafka's table of counts: with `range` and `uniform` it is the one that only the member
of the current heartbeat asks for, and else `uniform`.
Source: ConsumerGroup.computePreferredServerAssignor and preferredServerAssignor, java.util.HashMap.compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.broker.coordinator.java_order import (
    in_table_order,
    string_hash,
    table_for_map_copy,
    timeline_order,
)


def preferred(counts: Mapping[str, int]) -> str | None:
    """The assignor that a group is described with; None where no member asks for one."""
    return _most(timeline_order(counts, string_hash), counts)


def preferred_with_change(counts: Mapping[str, int], old: str | None, new: str | None) -> str | None:
    """The assignor to assign with, while a member that asked for `old` (counted) asks for `new` (not counted yet)."""
    table = table_for_map_copy(len(counts))
    order = in_table_order(timeline_order(counts, string_hash), string_hash, table)
    changed = dict(counts)
    if old is not None and old in changed:
        changed[old] -= 1
        if not changed[old]:
            order.remove(old)
    if new is not None:
        changed[new] = changed.get(new, 0) + 1
        if new not in order:
            order = _with_first_of_bucket(order, new, table)
    return _most(order, changed)


def _with_first_of_bucket(order: Sequence[str], name: str, table: int) -> list[str]:
    """`order` with `name` in it: HashMap.compute puts a new key in front of the others in its bucket."""
    return in_table_order([name, *order], string_hash, table)


def _most(order: Sequence[str], counts: Mapping[str, int]) -> str | None:
    return max(order, key=lambda name: counts[name], default=None)
