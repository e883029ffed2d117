"""The topics of the scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.cluster.history import At
from tests.support.cluster.rig import ClusterRig

SMALL_SEGMENTS: Final = {"segment.bytes": "1048576"}
"""As small as Kafka allows."""


def led_in_turn(rig: ClusterRig, topic: str, configs: Mapping[str, str] | None = None) -> list[At]:
    """A topic with a partition for each broker, which leads it and follows the others."""
    brokers = list(rig.brokers)
    factor = rig.shape.replication_factor
    assignment = {number: (brokers[number:] + brokers[:number])[:factor] for number in range(len(brokers))}
    return rig.create_topic(topic, assignment=assignment, configs=configs)


def replica_of(rig: ClusterRig, node: int, at: At) -> Path:
    """The directory of a replica that is there."""
    directory = rig.partition_directory(node, at)
    assert directory is not None, f"broker {node} has no replica of {at}"
    return directory
