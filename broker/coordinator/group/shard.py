"""GroupCoordinatorShard: one partition of __consumer_offsets: classic groups, consumer groups and offsets together.

Each record goes to whom it belongs to. Source: org.apache.kafka.coordinator.group.GroupCoordinatorShard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.coordinator.group.classic.groups import ClassicGroups
from barnabas.broker.coordinator.group.consumer.groups import ConsumerGroups
from barnabas.broker.coordinator.group.foreign import ForeignGroups
from barnabas.broker.coordinator.group.groups import Groups
from barnabas.broker.coordinator.group.offsets.manager import OffsetManager
from barnabas.broker.coordinator.group.offsets.removal import OffsetRemoval
from barnabas.broker.coordinator.record import CoordinatorRecord
from barnabas.broker.coordinator.record_types import OFFSET_KEY_TYPES
from barnabas.broker.coordinator.shard import ShardContext
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage

_CLASSIC_GROUP: Final = 2
"""The key type of GroupMetadata."""


class GroupCoordinatorShard:
    """The groups of one partition, and their offsets."""

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.groups = Groups()
        self.offsets = OffsetManager(context, self.groups)
        self.removal = OffsetRemoval(context, self.groups, self.offsets)
        self.classic = ClassicGroups(context, self.groups, self.offsets)
        self.consumers = ConsumerGroups(context, self.groups, self.offsets, self.classic)
        self._replayers: dict[int, Callable[[Any, Any], None]] = {
            _CLASSIC_GROUP: self.classic.replay,
            **self.consumers.replayers(),
            **ForeignGroups(self.groups).replayers(),
        }

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

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.consumers.on_new_metadata_image(image, delta)
        if delta.deleted_topics:
            self.removal.topics_deleted(delta.deleted_topics)
