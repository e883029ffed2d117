"""Committed offsets, and those of open transactions, by group, topic and partition.

Source: OffsetAndMetadata, and Offsets and OpenTransactions in org.apache.kafka.coordinator.group.OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.offsets import NO_LEADER_EPOCH

NO_EXPIRATION: Final = -1


class CommittedOffset(NamedTuple):
    """One committed offset.

    `record_offset` is the offset of its record in the partition of __consumer_offsets, `leader_epoch` (-1: unknown)
    that of the record before `offset`. `expire_timestamp_ms` is -1 but for offsets committed with a retention of
    their own (OffsetCommit before version 5); `topic_id` is zero where the commit had none.
    """

    record_offset: int
    offset: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRATION
    leader_epoch: int = NO_LEADER_EPOCH
    topic_id: Uuid = ZERO_UUID

    def is_of(self, topic_id: Uuid) -> bool:
        """Whether it may be of the topic with this id; a missing id, on either side, matches any."""
        return self.topic_id in (topic_id, ZERO_UUID) or topic_id == ZERO_UUID


TopicOffsets = Mapping[int, CommittedOffset]
GroupOffsets = Mapping[str, TopicOffsets]


class OffsetStore:
    """Committed offsets by group, topic and partition; `count` is their number. No empty map is kept."""

    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.count = 0

    def __iter__(self) -> Iterator[tuple[str, GroupOffsets]]:
        return iter(self._groups.items())

    def group(self, group_id: str) -> GroupOffsets | None:
        return self._groups.get(group_id)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self._groups.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        if partition not in partitions:
            self.count += 1
        partitions[partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Removes and returns the offset; None where there was none."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return None
        removed = partitions.pop(partition, None)
        if removed is not None:
            self.count -= 1
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]
        return removed


class PendingOffsets:
    """The offsets of open transactions by producer id, and the producers with one open by group and partition."""

    def __init__(self) -> None:
        self._stores: dict[int, OffsetStore] = {}
        self._open: dict[str, dict[str, dict[int, set[int]]]] = {}

    def put(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        store = self._stores.get(producer_id)
        if store is None:
            store = self._stores[producer_id] = OffsetStore()
        store.put(group_id, topic, partition, committed)
        partitions = self._open.setdefault(group_id, {}).setdefault(topic, {})
        partitions.setdefault(partition, set()).add(producer_id)

    def stores(self) -> Iterator[OffsetStore]:
        return iter(self._stores.values())

    def is_open(self, group_id: str, topic: str, partition: int) -> bool:
        return bool(self.open_partitions(group_id, topic).get(partition))

    def has_open(self, group_id: str) -> bool:
        return group_id in self._open

    def open_partitions(self, group_id: str, topic: str) -> Mapping[int, set[int]]:
        """The partitions of `topic` with an offset of the group in open transactions, and their producers."""
        return self._open.get(group_id, {}).get(topic, {})

    def open_in_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Topics and partitions with an offset of the group in open transactions."""
        for topic, partitions in self._open.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """Drops the offsets of all open transactions there, which a tombstone deletes as well."""
        for producer_id in self.open_partitions(group_id, topic).get(partition, ()):
            self._stores[producer_id].remove(group_id, topic, partition)
        self._close(group_id, topic, partition)

    def take(self, producer_id: int) -> OffsetStore | None:
        """Removes and returns the offsets of the producer's transaction, which has ended."""
        store = self._stores.pop(producer_id, None)
        if store is None:
            return None
        for group_id, topics in store:
            for topic, partitions in topics.items():
                for partition in partitions:
                    self._leave(group_id, topic, partition, producer_id)
        return store

    def _leave(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        producers = self._open[group_id][topic][partition]
        producers.discard(producer_id)
        if not producers:
            self._close(group_id, topic, partition)

    def _close(self, group_id: str, topic: str, partition: int) -> None:
        topics = self._open.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        partitions.pop(partition, None)
        if not partitions:
            del topics[topic]
        if not topics:
            del self._open[group_id]
