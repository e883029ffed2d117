"""The topics of the coordinators' state, and the partitions of their keys.

Pure functions. Source: GroupCoordinatorService, TransactionStateManager and ShareCoordinatorService (partitionFor).
"""

from __future__ import annotations

from typing import Final

from barnabas.protocol.wire import uuid_from_string

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"

GROUP, TRANSACTION, SHARE = 0, 1, 2
"""FindCoordinator's key types."""

TOPIC_OF_KEY_TYPE: Final = {
    GROUP: CONSUMER_OFFSETS,
    TRANSACTION: TRANSACTION_STATE,
    SHARE: SHARE_GROUP_STATE,
}
"""The topic of each kind of coordinator; the leader of a key's partition coordinates the key."""


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a coordinators' topic that a group, a transactional id or a share partition's key belongs to."""
    return abs_of_java(java_hash(key)) % partition_count


def is_share_partition(key: str) -> bool:
    """Whether `key` names a share group's partition: group:topic id:index. Source: SharePartitionKey.validate."""
    rest, _, index = key.rpartition(":")
    group, _, topic_id = rest.rpartition(":")
    try:
        uuid_from_string(topic_id)
        int(index)
    except ValueError:
        return False
    return bool(group.strip())


def java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for at in range(0, len(units), 2):
        result = (31 * result + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def abs_of_java(number: int) -> int:
    """org.apache.kafka.common.utils.Utils.abs: the lowest int has no positive counterpart and gives 0."""
    return 0 if number == -(1 << 31) else abs(number)
