"""OffsetManager: the offsets of one shard. Source: org.apache.kafka.coordinator.group.OffsetMetadataManager."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from barnabas.broker.coordinator.group.group import Group, Groups, PartitionCheck
from barnabas.broker.coordinator.group.offsets.commit import (
    Codes,
    FetchedOffset,
    FetchedTopic,
    OffsetCommit,
    OffsetFetch,
)
from barnabas.broker.coordinator.group.offsets.store import (
    NO_EXPIRATION,
    CommittedOffset,
    GroupOffsets,
    OffsetStore,
    PendingOffsets,
)
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.config.catalogue.groups import OFFSET_METADATA_MAX_BYTES
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.records.layout import NO_PRODUCER_ID
from barnabas.protocol.wire import ZERO_UUID, Uuid

logger = logging.getLogger("barnabas.groups")

_GROUP_ID_NOT_FOUND_SINCE: Final = 9
"""The version of OffsetCommit from which on a missing group has an error code of its own."""
_LAST_MS: Final = (1 << 63) - 1
"""The latest time in a record. A longer retention never ends; Kafka's sum overflows, and the offset expires at
once."""
_NOTHING: Final[Mapping[Any, Any]] = {}

_VERSION: Final = 4
"""The version in which Kafka 4.3 writes OffsetCommitValue."""
_VERSION_WITH_EXPIRATION: Final = 1
"""The only version with an expire timestamp; it has neither a leader epoch nor a topic id."""


class OffsetManager:
    """Committed offsets by group, topic and partition, and those of open transactions.

    `committed_count`, `deleted_count` and `expired_count` count records, for metrics.
    """

    def __init__(self, context: ShardContext, groups: Groups) -> None:
        self._context = context
        self._groups = groups
        self.committed = OffsetStore()
        self.pending = PendingOffsets()
        self._topic_ids: dict[Uuid, Uuid] = {}
        self.committed_count = 0
        self.deleted_count = 0
        self.expired_count = 0

    # Replay.

    def replay(self, offset: int, producer_id: int, producer_epoch: int, key: Any, value: Any) -> None:
        """Applies an OffsetCommit record (key types 0 and 1); one without a value deletes the offset."""
        group_id, topic, partition = key.group, key.topic, key.partition
        if value is None:
            self.committed.remove(group_id, topic, partition)
            self.pending.forget(group_id, topic, partition)
            return
        self._groups.get_or_make(group_id)
        committed = self._committed(offset, value)
        if producer_id == NO_PRODUCER_ID:
            self.committed.put(group_id, topic, partition, committed)
        else:
            self.pending.put(producer_id, group_id, topic, partition, committed)

    def _committed(self, record_offset: int, value: Any) -> CommittedOffset:
        if isinstance(value, LegacyOffsetCommitValue):
            return CommittedOffset(record_offset, value.offset, value.metadata, value.commit_timestamp)
        return CommittedOffset(
            record_offset,
            value.offset,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.leader_epoch,
            self._topic_ids.setdefault(
                value.topic_id, value.topic_id
            ),  # one for a million records of a topic
        )

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """Commits or drops the offsets of the producer's transaction."""
        decided = self.pending.take(producer_id)
        if decided is None or not committed:
            return
        for group_id, topics in decided:
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    self._materialize(group_id, topic, partition, offset)

    def _materialize(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """The later record counts, as after compaction, not the later decision."""
        current = self.committed.get(group_id, topic, partition)
        if current is None or offset.record_offset > current.record_offset:
            self.committed.put(group_id, topic, partition, offset)

    # Commits.

    def commit(self, commit: OffsetCommit) -> CoordinatorResult[Codes]:
        """OffsetCommit. Raises ApiError where the whole commit is rejected."""
        group = self._committing_group(commit)
        check: PartitionCheck | None = None
        if group is not None:
            check = group.check_offset_commit(commit, is_transactional=False)
            group.offset_committed_by(commit.member_id)
        return self._commit(commit, check, ids_recorded=True)

    def _committing_group(self, commit: OffsetCommit) -> Group | None:
        """The group; None where the commit creates it (a simple group)."""
        group = self._groups.find(commit.group_id)
        if group is not None:
            return group
        if commit.epoch < 0:
            logger.info("[GroupId %s] Creating a group for offsets that no member commits.", commit.group_id)
            return None
        if commit.api_version >= _GROUP_ID_NOT_FOUND_SINCE:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {commit.group_id} not found.")
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def commit_in_transaction(self, commit: OffsetCommit) -> CoordinatorResult[Codes]:
        """TxnOffsetCommit: the records are written with the producer's id. Raises ApiError as `commit`."""
        group = self._groups.find(commit.group_id)
        if group is None and commit.epoch >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        try:
            check = None if group is None else self._check_transactional(group, commit)
            return self._commit(commit, check, ids_recorded=False)
        except ApiError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION, error.message) from error
            raise

    def _check_transactional(self, group: Group, commit: OffsetCommit) -> PartitionCheck | None:
        check = group.check_offset_commit(commit, is_transactional=True)
        if check is not None and any(topic.topic_id == ZERO_UUID for topic in commit.topics):
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return check

    def _commit(
        self, commit: OffsetCommit, check: PartitionCheck | None, *, ids_recorded: bool
    ) -> CoordinatorResult[Codes]:
        now_ms = self._context.now_ms()
        expires_ms = (
            NO_EXPIRATION if commit.retention_ms == -1 else min(now_ms + commit.retention_ms, _LAST_MS)
        )
        version = _VERSION if expires_ms == NO_EXPIRATION else _VERSION_WITH_EXPIRATION
        max_metadata = self._context.config[OFFSET_METADATA_MAX_BYTES]
        records: list[CoordinatorRecord] = []
        codes: list[ErrorCode] = []
        for name, topic_id, partitions in commit.topics:
            recorded_id = topic_id if ids_recorded else ZERO_UUID
            for partition in partitions:
                metadata = partition.committed_metadata
                if metadata and _is_longer(metadata, max_metadata):
                    codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                    continue
                if check is not None:
                    check(name, topic_id, partition.partition_index)
                codes.append(ErrorCode.NONE)
                key = OffsetCommitKey(group=commit.group_id, topic=name, partition=partition.partition_index)
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata or "",
                    commit_timestamp=now_ms,
                    expire_timestamp=expires_ms,
                    topic_id=recorded_id,
                )
                records.append(CoordinatorRecord(key, value, version))
        self.committed_count += len(records)
        return CoordinatorResult(codes, records)

    # Fetches.

    def fetch(self, fetch: OffsetFetch) -> list[FetchedTopic]:
        """OffsetFetch of one group. Raises ApiError where its group does not know the member."""
        group = self._groups.find(fetch.group_id)
        if group is not None:
            try:
                group.check_offset_fetch(fetch.member_id, fetch.member_epoch)
            except ApiError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                group = None
        offsets = None if group is None else self.committed.group(fetch.group_id)
        if fetch.topics is None:
            return self._fetch_all(fetch, offsets or _NOTHING)
        return [
            FetchedTopic(name, topic_id, self._fetch_topic(fetch, offsets, name, topic_id, partitions))
            for name, topic_id, partitions in fetch.topics
        ]

    def _fetch_all(self, fetch: OffsetFetch, offsets: GroupOffsets) -> list[FetchedTopic]:
        return [
            FetchedTopic(
                name, ZERO_UUID, self._fetch_topic(fetch, offsets, name, ZERO_UUID, list(partitions))
            )
            for name, partitions in offsets.items()
        ]

    def _fetch_topic(
        self,
        fetch: OffsetFetch,
        offsets: GroupOffsets | None,
        name: str,
        topic_id: Uuid,
        partitions: Sequence[int],
    ) -> list[FetchedOffset]:
        committed = _NOTHING if offsets is None else offsets.get(name, _NOTHING)
        unstable = self.pending.open_partitions(fetch.group_id, name) if fetch.require_stable else _NOTHING
        return [
            FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if partition in unstable
            else _fetched(partition, committed.get(partition), topic_id)
            for partition in partitions
        ]

    # Deletions.

    def delete(
        self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]], who: str
    ) -> CoordinatorResult[Codes]:
        """OffsetDelete by `who`, for the log line. Raises ApiError where the group is missing or in use."""
        group = self._groups.get(group_id)
        group.check_offset_delete()
        records: list[CoordinatorRecord] = []
        codes: list[ErrorCode] = []
        for name, partitions in topics:
            if group.is_subscribed_to(name):
                codes += [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * len(partitions)
                continue
            codes += [ErrorCode.NONE] * len(partitions)
            records += [
                offset_tombstone(group_id, name, partition)
                for partition in partitions
                if self._is_known(group_id, name, partition)
            ]
        self.deleted_count += len(records)
        return CoordinatorResult(codes, records, on_committed=partial(_log_deleted, group_id, records, who))

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        is_committed = self.committed.get(group_id, topic, partition) is not None
        return is_committed or self.pending.is_open(group_id, topic, partition)

    def delete_all(self, group_id: str) -> list[CoordinatorRecord]:
        """The tombstones of all offsets of the group, those of open transactions included (DeleteGroups)."""
        records = [
            offset_tombstone(group_id, topic, partition)
            for topic, partitions in (self.committed.group(group_id) or {}).items()
            for partition in partitions
        ]
        records += [
            offset_tombstone(group_id, topic, partition)
            for topic, partition in self.pending.open_in_group(group_id)
            if self.committed.get(group_id, topic, partition) is None
        ]
        return records

    # Lookups.

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """The committed offsets of the group, by topic and partition; not to be changed."""
        return self.committed.group(group_id) or {}


def _log_deleted(
    group_id: str, records: Sequence[CoordinatorRecord], who: str, error: ApiError | None
) -> None:
    if error is None and records:
        keys: list[Any] = [record.key for record in records]
        offsets = ", ".join(f"{key.topic}-{key.partition}" for key in keys)
        logger.info("[GroupId %s] Removed offsets: %s. Reason: %s asked for it.", group_id, offsets, who)


def _is_longer(metadata: str, max_length: int) -> bool:
    """Java's length: a character outside the basic plane counts for two."""
    length = len(metadata)
    if length > max_length or metadata.isascii():
        return length > max_length
    return len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * max_length


def _fetched(partition: int, committed: CommittedOffset | None, topic_id: Uuid) -> FetchedOffset:
    if committed is None or not committed.is_of(topic_id):
        return FetchedOffset(partition)
    return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return tombstone(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
