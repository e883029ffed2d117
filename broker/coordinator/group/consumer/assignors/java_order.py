"""The order in which Java's hash tables give the ids of topics and partitions (see broker.coordinator.java_order).

Kafka's assignors go over members and topics in whatever order a HashMap has them, and what they assign hangs on it. In
the same order the same comes of it, so that a group that moves between the brokers, or is looked at beside Kafka, is
assigned the same.
Source: org.apache.kafka.common.Uuid.hashCode, java.lang.Integer.hashCode.
"""

from __future__ import annotations

from collections.abc import Collection

from barnabas.broker.coordinator.java_order import in_table_order, table_for_copy
from barnabas.protocol.wire import Uuid


def uuid_hash(uuid: Uuid) -> int:
    """Uuid.hashCode, as an unsigned number."""
    both = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (both >> 32 ^ both) & 0xFFFFFFFF


def partition_order(partitions: Collection[int]) -> list[int]:
    """The order of a HashSet of partitions that came in ascending order; they mostly stay in it."""
    ordered = sorted(partitions)
    table = table_for_copy(len(ordered))
    return ordered if not ordered or ordered[-1] < table else in_table_order(ordered, int, table)
