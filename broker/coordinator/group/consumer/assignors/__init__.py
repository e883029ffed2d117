"""The coordinator's assignors, `uniform` and `range`, equal to Apache Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from barnabas.broker.coordinator.group.consumer.assignors.range_assignor import assign_ranges
from barnabas.broker.coordinator.group.consumer.assignors.spec import Assign
from barnabas.broker.coordinator.group.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assign]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
"""By the name that members ask for."""
