"""ClassicGroups: the classic groups of one shard. Source: GroupMetadataManager (classicGroup... methods)."""

from __future__ import annotations

from typing import Any

from broker.coordinator.group.groups import Groups
from broker.coordinator.group.offsets.manager import OffsetManager
from broker.coordinator.shard import ShardContext


class ClassicGroups:
    """Operations on classic groups."""

    def __init__(self, context: ShardContext, groups: Groups, offsets: OffsetManager) -> None:
        self._context = context
        self._groups = groups
        self._offsets = offsets

    def replay(self, key: Any, value: Any) -> None:
        """Takes in a GroupMetadata record (key type 2)."""
        raise NotImplementedError

    def on_loaded(self) -> None:
        """Schedules the sessions of the members that were loaded."""

    def on_unloaded(self) -> None:
        """Members who wait in a join or a sync are told NOT_COORDINATOR."""
