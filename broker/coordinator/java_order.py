"""The order in which Java's hash tables list their keys.

Some of what Kafka's coordinators write and decide depends on it: the bytes of records, the partitions that assignors
choose, the protocol of a group. A table has a power of two of buckets and doubles when it is three quarters full;
entries of one bucket stay in the order in which they came.
Kafka's timeline tables, which hold what its coordinators replay, begin smaller, mix the hash in another way and
list the entries of one bucket from the last one back.
Source: java.util.HashMap and HashSet, java.lang.String.hashCode, org.apache.kafka.timeline.BaseHashTable,
org.apache.kafka.common.Uuid.hashCode, TopicPartition.hashCode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from barnabas.broker.metadata.internal_topics import java_hash
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import TopicPartition

K = TypeVar("K")
HashOf = Callable[[K], int]

SMALLEST_TABLE: Final = 16
SMALLEST_TIMELINE_TABLE: Final = 2
_MASK: Final = 0xFFFFFFFF
_FIBONACCI: Final = -7046029254386353131


@lru_cache(maxsize=65_536)
def string_hash(text: str) -> int:
    """String.hashCode, as an unsigned number; kept, since the same names come up again and again."""
    return java_hash(text) & _MASK


def table_for_copy(count: int) -> int:
    """How many buckets a HashSet has that was made as a copy of `count` elements."""
    wanted = max(int(count / 0.75) + 1, SMALLEST_TABLE)
    return 1 << (wanted - 1).bit_length()


def table_for_map_copy(count: int) -> int:
    """How many buckets a HashMap has that was made as a copy of a map with `count` keys."""
    return 1 << int(count / 0.75).bit_length() if count else SMALLEST_TABLE


def table_after_adding(table: int, count: int) -> int:
    """How many buckets a table of `table` buckets has once it holds `count` elements, added one after the other."""
    while count > table * 3 // 4:
        table *= 2
    return table


def bucket_of(hash_code: int, table: int) -> int:
    """The bucket of a hash code, of which the lower 32 bits count, in a table of `table` buckets."""
    unsigned = hash_code & _MASK
    return (unsigned ^ unsigned >> 16) & (table - 1)


def in_table_order(keys: Iterable[K], hash_of: HashOf[K], table: int) -> list[K]:
    """Keys, given in the order in which they came, as a table of `table` buckets lists them."""
    return sorted(keys, key=lambda key: bucket_of(hash_of(key), table))


def map_order(keys: Collection[K], hash_of: HashOf[K]) -> list[K]:
    """The order of a HashMap into which the keys were put one by one."""
    return in_table_order(keys, hash_of, table_after_adding(SMALLEST_TABLE, len(keys)))


def set_order(keys: Collection[K], hash_of: HashOf[K]) -> list[K]:
    """The order of a HashSet that was made of a collection, which leaves more room."""
    return in_table_order(keys, hash_of, table_for_copy(len(keys)))


def timeline_order(keys: Collection[K], hash_of: HashOf[K]) -> list[K]:
    """The order of a TimelineHashMap into which the keys were put one by one, and none of them twice."""
    table = SMALLEST_TIMELINE_TABLE
    while len(keys) * 0.75 > table:
        table *= 2
    shift = 65 - table.bit_length()

    def slot(key: K) -> int:
        hash_code = hash_of(key) & _MASK
        signed = hash_code - (hash_code >> 31 << 32)
        return (signed * _FIBONACCI & 0xFFFFFFFF_FFFFFFFF) >> shift

    from_the_last = list(keys)[::-1]
    return sorted(from_the_last, key=slot)


# ---- ids and partitions


def uuid_hash(uuid: Uuid) -> int:
    """Uuid.hashCode, as an unsigned number."""
    both = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (both >> 32 ^ both) & 0xFFFFFFFF


def partition_order(partitions: Collection[int]) -> list[int]:
    """The order of a HashSet of partitions that came in ascending order; they mostly stay in it."""
    ordered = sorted(partitions)
    table = table_for_copy(len(ordered))
    return ordered if not ordered or ordered[-1] < table else in_table_order(ordered, int, table)


def in_java_order(partitions: Iterable[TopicPartition], table: int) -> list[TopicPartition]:
    """Partitions, given in the order in which they came, as a HashSet of `table` buckets lists them."""
    return in_table_order(partitions, _partition_hash, table)


def grouped_by_topic(partitions: Sequence[TopicPartition], table: int) -> Mapping[str, list[int]]:
    """The partitions of each topic, topics in the order of a HashMap that Collectors.groupingBy fills.

    That does it with computeIfAbsent, which puts a new entry in front of the others of its bucket, and looks whether
    the table is full before it does and not after.
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in in_java_order(partitions, table):
        topics.setdefault(topic, []).append(partition)
    buckets = table_after_adding(SMALLEST_TABLE, len(topics) - 1)
    newest_first = list(reversed(topics))
    newest_first.sort(key=lambda name: bucket_of(string_hash(name), buckets))
    return {name: topics[name] for name in newest_first}


def _partition_hash(partition: TopicPartition) -> int:
    topic, index = partition
    return 31 * (31 + index) + string_hash(topic)
