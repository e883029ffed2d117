"""OffsetShard: a shard with offsets alone, and groups whose behaviour the test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.broker.coordinator.group.group import Groups, GroupType, PartitionCheck
from barnabas.broker.coordinator.group.offsets.commit import CommitTopic, OffsetCommit, OffsetFetch
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager
from barnabas.broker.coordinator.group.offsets.removal import OffsetRemoval
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.broker.coordinator.shard import ShardContext
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.group_state import GroupMetadataKey, OffsetCommitKey
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.broker.coordinator.shard_harness import ShardHarness

Partition = OffsetCommitRequest.OffsetCommitRequestPartition
GROUP_METADATA = 2


class ScriptedGroup:
    """A group whose methods return its attributes; by default it is empty and allows everything.

    `expires_from` None: retention counts from the commit, a number: from then; `in_use`: nothing expires.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.type = GroupType.CLASSIC
        self.state_name = "Empty"
        self.protocol_type = ""
        self.is_empty = True
        self.member_count = 0
        self.subscribed: set[str] = set()
        self.in_use = False
        self.expires_from: int | None = None
        self.refuses: ApiError | None = None
        self.partition_check: PartitionCheck | None = None
        self.commits: list[tuple[str, str | None, int, bool, int]] = []
        self.heartbeats: list[str] = []

    def _refuse(self) -> None:
        if self.refuses is not None:
            raise self.refuses

    def check_offset_commit(self, commit: OffsetCommit, *, is_transactional: bool) -> PartitionCheck | None:
        self._refuse()
        _, member_id, group_instance_id, epoch, api_version, *_ = commit
        self.commits.append((member_id, group_instance_id, epoch, is_transactional, api_version))
        return self.partition_check

    def offset_committed_by(self, member_id: str) -> None:
        self.heartbeats.append(member_id)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._refuse()

    def check_offset_delete(self) -> None:
        self._refuse()

    def check_delete(self) -> None:
        self._refuse()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def offset_expires_from(self, commit_timestamp_ms: int, now_ms: int) -> int | None:
        if self.in_use:
            return None
        return commit_timestamp_ms if self.expires_from is None else self.expires_from

    def tombstones(self) -> list[CoordinatorRecord]:
        return [tombstone(GroupMetadataKey(group=self.group_id))]


class OffsetShard:
    """A CoordinatorShard of offsets; a group's tombstone removes the group."""

    def __init__(self, context: ShardContext) -> None:
        self.groups = Groups()
        self.groups.make_classic = ScriptedGroup
        self.offsets = OffsetManager(context, self.groups)
        self.removal = OffsetRemoval(context, self.groups, self.offsets)

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        if record.key.api_key == GROUP_METADATA:
            assert isinstance(record.key, GroupMetadataKey)
            self.groups.remove(record.key.group)
        else:
            self.offsets.replay(offset, producer_id, producer_epoch, record.key, record.value)

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        self.offsets.replay_end_transaction_marker(producer_id, committed=committed)

    def on_loaded(self) -> None:
        self.removal.start()

    def on_unloaded(self) -> None:
        pass

    def on_new_epoch(self) -> None:
        pass

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.deleted_topics:
            self.removal.topics_deleted(delta.deleted_topics)


def new_harness(settings: Mapping[str, str] | None = None) -> ShardHarness[OffsetShard]:
    return ShardHarness(OffsetShard, settings)


def group_of(harness: ShardHarness[OffsetShard], group_id: str = "g") -> ScriptedGroup:
    group = harness.shard.groups.get_or_make(group_id)
    assert isinstance(group, ScriptedGroup)
    return group


def topic_of(name: str, offsets: Mapping[int, int], topic_id: Uuid = ZERO_UUID, **fields: Any) -> CommitTopic:
    """A topic of a commit: offsets by partition; `fields` apply to each of its partitions."""
    partitions = [
        Partition(partition_index=index, committed_offset=offset, **({"committed_metadata": ""} | fields))
        for index, offset in offsets.items()
    ]
    return CommitTopic(name, topic_id, partitions)


def commit_of(*topics: CommitTopic, group_id: str = "g", **fields: object) -> OffsetCommit:
    commit = OffsetCommit(group_id, "", None, -1, 9, topics)
    return commit._replace(**fields)  # type: ignore[arg-type]


def fetch_of(
    topics: Sequence[tuple[str, Uuid, Sequence[int]]] | None = None,
    *,
    group_id: str = "g",
    require_stable: bool = False,
) -> OffsetFetch:
    return OffsetFetch(group_id, None, -1, topics, require_stable)


def offsets_in(
    harness: ShardHarness[OffsetShard], group_id: str = "g", *, require_stable: bool = False
) -> dict[tuple[str, int], int]:
    """The result of a fetch of all offsets of a group."""
    found = harness.shard.offsets.fetch(fetch_of(group_id=group_id, require_stable=require_stable))
    return {(topic.name, offset.partition): offset.offset for topic in found for offset in topic.partitions}


def commit(
    harness: ShardHarness[OffsetShard], *topics: CommitTopic, group_id: str = "g", **fields: object
) -> object:
    asked = commit_of(*topics, group_id=group_id, **fields)
    return harness.run(lambda shard: shard.offsets.commit(asked))


def commit_in_transaction(
    harness: ShardHarness[OffsetShard], producer_id: int, *topics: CommitTopic, group_id: str = "g"
) -> object:
    asked = commit_of(*topics, group_id=group_id)
    return harness.run(lambda shard: shard.offsets.commit_in_transaction(asked), producer_id=producer_id)


def tombstones(harness: ShardHarness[OffsetShard]) -> list[tuple[str, str, int]]:
    """The offsets that tombstones have deleted, in the order of the log."""
    return [
        (record.key.group, record.key.topic, record.key.partition)
        for record in harness.records
        if record.value is None and isinstance(record.key, OffsetCommitKey)
    ]
