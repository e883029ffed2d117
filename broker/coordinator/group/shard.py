"""GroupCoordinatorShard: one partition of __consumer_offsets: classic groups, consumer groups and offsets together.

Each record goes to the part that it belongs to. Source: org.apache.kafka.coordinator.group.GroupCoordinatorShard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.coordinator.group.classic.classic_groups import ClassicGroups
from barnabas.broker.coordinator.group.classic.joining import Joining
from barnabas.broker.coordinator.group.classic.leaving import Leaving
from barnabas.broker.coordinator.group.classic.rebalancing import Rebalancing
from barnabas.broker.coordinator.group.classic.syncing import Syncing
from barnabas.broker.coordinator.group.consumer.classic_members import ClassicMembers
from barnabas.broker.coordinator.group.consumer.consumer_groups import ConsumerGroupReplay, ConsumerGroups
from barnabas.broker.coordinator.group.consumer.group_dependencies import GroupDependencies
from barnabas.broker.coordinator.group.consumer.heartbeat import Heartbeats
from barnabas.broker.coordinator.group.consumer.regexes import VisibleTopics
from barnabas.broker.coordinator.group.foreign import ForeignGroups
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager
from barnabas.broker.coordinator.group.offsets.removal import OffsetRemoval
from barnabas.broker.coordinator.records import OFFSET_KEY_TYPES, CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.protocol.messages.groups import DeleteGroupsResponse

logger = logging.getLogger("barnabas.groups")

_CLASSIC_GROUP: Final = 2
"""The key type of GroupMetadata."""


class GroupCoordinatorShard:
    """The groups of one partition, and their offsets."""

    def __init__(self, context: ShardContext, visible_topics: VisibleTopics | None = None) -> None:
        """`visible_topics` has the authorizer's answers, by which regular expressions match topics."""
        self.context = context
        self.groups = Groups()
        self.offsets = OffsetManager(context, self.groups)
        self.removal = OffsetRemoval(context, self.groups, self.offsets)
        rebalancing = Rebalancing(context, self.groups)
        self.classic = ClassicGroups(context, self.groups, rebalancing)
        self.groups.make_classic = self.classic.make
        self.joining = Joining(context, self.groups, rebalancing)
        self.syncing = Syncing(rebalancing)
        self.leaving = Leaving(rebalancing)
        shared = GroupDependencies(context, self.groups, self.classic, visible_topics)
        self.consumers = ConsumerGroups(shared)
        self.heartbeats = Heartbeats(shared)
        self.classic_members = ClassicMembers(shared)
        self._replayers: dict[int, Callable[[Any, Any], None]] = {
            _CLASSIC_GROUP: self.classic.replay,
            **ConsumerGroupReplay(self.groups).replayers(),
            **ForeignGroups(self.groups).replayers(),
        }

    def delete_group(self, group_id: str) -> CoordinatorResult[DeleteGroupsResponse.DeletableGroupResult]:
        """Deletes a group of any kind that has no members, with its offsets. Raises ApiError."""
        group = self.groups.get(group_id)
        group.check_delete()
        offsets = self.offsets.delete_all(group_id)
        logger.info("Group %s is deleted, with %d offsets.", group_id, len(offsets))
        deleted = DeleteGroupsResponse.DeletableGroupResult(group_id=group_id)
        return CoordinatorResult(deleted, [*offsets, *group.tombstones()])

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        kind = record.key.api_key
        assert kind is not None
        if kind in OFFSET_KEY_TYPES:
            self.offsets.replay(offset, producer_id, producer_epoch, record.key, record.value)
        else:
            self._replayers[kind](record.key, record.value)

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        self.offsets.replay_end_transaction_marker(producer_id, committed=committed)

    def on_loaded(self) -> None:
        self.classic.on_loaded()
        self.consumers.on_loaded()
        self.removal.start()

    def on_unloaded(self) -> None:
        self.classic.on_unloaded()

    def on_new_epoch(self) -> None:
        """Nothing: no state here depends on the leader epoch."""

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.consumers.on_new_metadata_image(image, delta)
        if delta.deleted_topics:
            self.removal.topics_deleted(delta.deleted_topics)
