"""Removes offsets that expire or whose topic is deleted, and logs each with the reason.

Source: OffsetMetadataManager (cleanupExpiredOffsets, onTopicsDeleted), GroupCoordinatorShard (cleanupGroupMetadata),
OffsetExpirationConditionImpl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Final

from barnabas.broker.coordinator.group.group import Group, Groups, GroupType
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager, offset_tombstone
from barnabas.broker.coordinator.group.offsets.store import NO_EXPIRATION, CommittedOffset, OffsetStore
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.metadata.topics import TopicImage
from barnabas.config.catalogue.groups import OFFSETS_RETENTION_CHECK_INTERVAL_MS, OFFSETS_RETENTION_MINUTES
from barnabas.protocol.errors import ApiError
from barnabas.protocol.wire import ZERO_UUID, Uuid

logger = logging.getLogger("barnabas.groups")

_EXPIRATION: Final = "expire offsets"
_RECORDS_AT_ONCE: Final = 500
_CHECKS_AT_ONCE: Final = 5_000
"""The limits of one turn of the loop: a batch that fits into __consumer_offsets, and some milliseconds."""
_OFFSETS_IN_A_LINE: Final = 20
_MINUTE_MS: Final = 60_000


class OffsetRemoval:
    """Removes expired offsets every offsets.retention.check.interval.ms, and groups that have none left.

    A round is split into operations of limited size; each continues where the one before ended.
    """

    def __init__(self, context: ShardContext, groups: Groups, offsets: OffsetManager) -> None:
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._deletions = count()

    def start(self) -> None:
        interval_ms = self._context.config[OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        self._context.timer.schedule(_EXPIRATION, interval_ms, self._begin_round)

    def _begin_round(self) -> CoordinatorResult[None]:
        return self._expire_from(0, [group.group_id for group in self._groups])

    def _expire_from(self, at: int, group_ids: Sequence[str]) -> CoordinatorResult[None]:
        """Expires what groups hold, from the group at index `at` on."""
        now_ms = self._context.now_ms()
        work = _Slice()
        while at < len(group_ids) and not work.is_full:
            group = self._groups.find(group_ids[at])
            if group is None or group.type is GroupType.SHARE or self._expire_group(group, now_ms, work):
                at += 1
        if at < len(group_ids):
            self._context.timer.schedule(_EXPIRATION, 0, partial(self._expire_from, at, group_ids))
        else:
            self.start()
        self._offsets.expired_count += work.offset_count
        return work.result()

    def _expire_group(self, group: Group, now_ms: int, work: _Slice) -> bool:
        """Expires its offsets, and removes it where it has neither offsets nor members; False where `work` is full."""
        group_id = group.group_id
        work.checks += 1
        all_expired = True
        for topic, partitions in self._offsets.offsets_of(group_id).items():
            if group.is_subscribed_to(topic):
                all_expired = False
                continue
            for partition, committed in partitions.items():
                work.checks += 1
                reason = self._expired(group, topic, partition, committed, now_ms)
                if reason is None:
                    all_expired = False
                elif not work.remove(group_id, topic, partition, committed, reason):
                    return False
        if all_expired and group.is_empty and not self._offsets.pending.has_open(group_id):
            work.remove_group(group)
        return True

    def _expired(
        self, group: Group, topic: str, partition: int, committed: CommittedOffset, now_ms: int
    ) -> str | None:
        """Why the offset expires; None where it stays."""
        base_ms = group.offset_expires_from(committed.commit_timestamp_ms, now_ms)
        if base_ms is None or self._offsets.pending.is_open(group.group_id, topic, partition):
            return None
        if committed.expire_timestamp_ms != NO_EXPIRATION:
            return (
                "the retention that it was committed with"
                if now_ms >= committed.expire_timestamp_ms
                else None
            )
        minutes = self._context.config[OFFSETS_RETENTION_MINUTES]
        if now_ms - base_ms < minutes * _MINUTE_MS:
            return None
        if base_ms == committed.commit_timestamp_ms:
            return f"offsets.retention.minutes={minutes} since it was committed"
        return f"offsets.retention.minutes={minutes} since the group lost its last member ({_time(base_ms)})"

    def topics_deleted(self, topics: Mapping[Uuid, TopicImage]) -> None:
        """Removes the offsets of these topics, in operations of their own."""
        ids: dict[str, set[Uuid]] = {}
        for topic_id, topic in topics.items():
            ids.setdefault(topic.name, {ZERO_UUID}).add(topic_id)
        self._schedule_deletion(f"offsets of deleted topics {next(self._deletions)}", ids)

    def _schedule_deletion(self, key: str, topics: Mapping[str, Set[Uuid]]) -> None:
        self._context.timer.schedule(key, 0, lambda: self._delete_topics(key, topics))

    def _delete_topics(self, key: str, topics: Mapping[str, Set[Uuid]]) -> CoordinatorResult[None]:
        work = _Slice()
        for store in (self._offsets.committed, *self._offsets.pending.stores()):
            if not _remove_topics(store, topics, work):
                self._schedule_deletion(key, topics)
                break
        return work.result()


def _remove_topics(store: OffsetStore, topics: Mapping[str, Set[Uuid]], work: _Slice) -> bool:
    """Removes offsets of `topics`: names, with the ids that offsets may have; False where `work` is full. There may be
    many more deleted topics than a group has offsets of."""
    for group_id, offsets in store:
        for name in sorted(topics.keys() & offsets.keys()):
            for partition, committed in offsets[name].items():
                is_of_topic = committed.topic_id in topics[name]
                if is_of_topic and not work.remove(
                    group_id, name, partition, committed, "its topic is deleted"
                ):
                    return False
    return True


class _Slice:
    """The records of one operation, and the log lines for when they are committed."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.offset_count = 0
        self.checks = 0
        self._groups: list[str] = []
        self._reasons: dict[tuple[str, str], list[str]] = {}

    @property
    def is_full(self) -> bool:
        return len(self.records) >= _RECORDS_AT_ONCE or self.checks >= _CHECKS_AT_ONCE

    def remove(
        self, group_id: str, topic: str, partition: int, committed: CommittedOffset, reason: str
    ) -> bool:
        """False where there is no room for its record."""
        if len(self.records) >= _RECORDS_AT_ONCE:
            return False
        self.records.append(offset_tombstone(group_id, topic, partition))
        self.offset_count += 1
        line = f"{topic}-{partition} at {committed.offset} (of {_time(committed.commit_timestamp_ms)})"
        self._reasons.setdefault((group_id, reason), []).append(line)
        return True

    def remove_group(self, group: Group) -> None:
        self.records += group.tombstones()
        self._groups.append(group.group_id)

    def result(self) -> CoordinatorResult[None]:
        on_committed: Callable[[ApiError | None], None] | None = self._log if self.records else None
        return CoordinatorResult(None, self.records, on_committed=on_committed)

    def _log(self, error: ApiError | None) -> None:
        if error is not None:
            return
        for (group_id, reason), offsets in self._reasons.items():
            for line in _lines(offsets):
                logger.info("[GroupId %s] Removed offsets: %s. Reason: %s.", group_id, line, reason)
        for group_id in self._groups:
            logger.info("[GroupId %s] Removed the group: it has neither members nor offsets.", group_id)


def _lines(offsets: Sequence[str]) -> Iterable[str]:
    for start in range(0, len(offsets), _OFFSETS_IN_A_LINE):
        yield ", ".join(offsets[start : start + _OFFSETS_IN_A_LINE])


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
