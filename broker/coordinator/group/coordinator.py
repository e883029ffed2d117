"""GroupCoordinator: what handlers ask about groups.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorService.
"""

from __future__ import annotations

from broker.coordinator.group.classic.service import ClassicGroupService
from broker.coordinator.group.consumer.service import ConsumerGroupService
from broker.coordinator.group.offsets.service import OffsetService
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime import CoordinatorRuntime
from config.broker_config import BrokerConfig


class GroupCoordinator:
    """Checks requests, finds the shard of each group, and puts answers together."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.classic = ClassicGroupService(runtime, config)
        self.consumers = ConsumerGroupService(runtime, config)
        self.offsets = OffsetService(runtime, config)
