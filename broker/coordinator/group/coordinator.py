"""GroupCoordinator: what handlers ask about groups.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorService.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group.classic.service import ClassicGroupService
from barnabas.broker.coordinator.group.consumer.service import ConsumerGroupService
from barnabas.broker.coordinator.group.offsets.service import OffsetService
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.config.broker_config import BrokerConfig


class GroupCoordinator:
    """Checks requests, finds the shard of each group, and puts answers together."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self.runtime = runtime
        self.config = config
        self.classic = ClassicGroupService(runtime, config)
        self.consumers = ConsumerGroupService(runtime, config)
        self.offsets = OffsetService(runtime, config)
