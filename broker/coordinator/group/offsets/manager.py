"""OffsetManager: the offsets of one shard. Source: org.apache.kafka.coordinator.group.OffsetMetadataManager."""

from __future__ import annotations

from typing import Any

from broker.coordinator.group.groups import Groups
from broker.coordinator.shard import ShardContext


class OffsetManager:
    """Committed offsets by group, topic and partition, and those that transactions have yet to decide."""

    def __init__(self, context: ShardContext, groups: Groups) -> None:
        self._context = context
        self._groups = groups

    def replay(self, offset: int, producer_id: int, producer_epoch: int, key: Any, value: Any) -> None:
        """Takes in an OffsetCommit record (key types 0 and 1); no value: the offset is gone."""
        raise NotImplementedError

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """What the producer's transaction committed counts from now on, or never."""
        raise NotImplementedError
