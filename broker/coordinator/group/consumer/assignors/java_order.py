"""The order in which Java's hash tables give their keys: strings, UUIDs and partitions.

Kafka's assignors go over members and topics in whatever order a HashMap has them, and what they assign hangs on it. In
the same order the same comes of it, so that a group that moves between the brokers, or is looked at beside Kafka, is
assigned the same. Keys that fall into one bucket keep the order in which they came.
Source: java.util.HashMap and HashSet, java.lang.String.hashCode, org.apache.kafka.common.Uuid.hashCode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final, TypeVar

from broker.controller.internal_topics import java_hash
from protocol.wire import Uuid

K = TypeVar("K", str, Uuid, int)
_SMALLEST: Final = 16
_MASK: Final = 0xFFFFFFFF


@lru_cache(maxsize=65_536)
def string_hash(text: str) -> int:
    """String.hashCode, as an unsigned number; kept, since ids of members come up with each assignment."""
    return java_hash(text) & _MASK


def uuid_hash(uuid: Uuid) -> int:
    """Uuid.hashCode, as an unsigned number."""
    both = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (both >> 32 ^ both) & _MASK


def map_order(keys: Collection[K], hash_of: Callable[[K], int]) -> list[K]:
    """The order of a HashMap into which the keys were put one by one."""
    size = _SMALLEST
    while len(keys) > size * 3 // 4:
        size *= 2
    return _by_bucket(keys, hash_of, size)


def set_order(keys: Collection[K], hash_of: Callable[[K], int]) -> list[K]:
    """The order of a HashSet that was made of a collection, which leaves more room."""
    return _by_bucket(keys, hash_of, _set_size(len(keys)))


def partition_order(partitions: Collection[int]) -> list[int]:
    """The same for partitions that came in ascending order; they mostly stay in it."""
    ordered = sorted(partitions)
    size = _set_size(len(ordered))
    return ordered if not ordered or ordered[-1] < size else _by_bucket(ordered, int, size)


def _set_size(length: int) -> int:
    wanted = max(int(length / 0.75) + 1, _SMALLEST)
    return 1 << (wanted - 1).bit_length()


def _by_bucket(keys: Collection[K], hash_of: Callable[[K], int], size: int) -> list[K]:
    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(keys, key=bucket)
