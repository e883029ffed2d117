"""Records of committed offsets, as Kafka 4.3 writes them.

Source: GroupCoordinatorRecordHelpers (newOffsetCommitRecord, newOffsetCommitTombstoneRecord).
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.coordinator.group.offsets.store import NO_EXPIRATION
from barnabas.broker.coordinator.record import CoordinatorRecord, tombstone
from barnabas.protocol.messages.group_state import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.wire import Uuid

_VERSION: Final = 4
_VERSION_WITH_EXPIRATION: Final = 1
"""The only one that holds an expire timestamp; it knows neither leader epoch nor topic id."""


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: Uuid,
) -> CoordinatorRecord:
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp_ms,
            expire_timestamp=expire_timestamp_ms,
            topic_id=topic_id,
        ),
        _VERSION if expire_timestamp_ms == NO_EXPIRATION else _VERSION_WITH_EXPIRATION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return tombstone(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
