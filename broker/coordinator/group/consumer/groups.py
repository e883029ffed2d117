"""ConsumerGroups: the consumer groups of one shard. Source: GroupMetadataManager (consumerGroup... methods)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker.coordinator.group.classic.groups import ClassicGroups
from broker.coordinator.group.groups import Groups
from broker.coordinator.group.offsets.manager import OffsetManager
from broker.coordinator.shard import ShardContext
from broker.metadata.image import MetadataDelta, MetadataImage


class ConsumerGroups:
    """Operations on consumer groups."""

    def __init__(
        self, context: ShardContext, groups: Groups, offsets: OffsetManager, classic: ClassicGroups
    ) -> None:
        self._context = context
        self._groups = groups
        self._offsets = offsets
        self._classic = classic

    def replayers(self) -> Mapping[int, Callable[[Any, Any], None]]:
        """Who takes in which key type: f(key, value or None)."""
        return {}

    def on_loaded(self) -> None:
        """Schedules the sessions of the members that were loaded."""

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Groups that are subscribed to a topic that changed look at it again with their next heartbeat."""
