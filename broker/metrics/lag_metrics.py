"""The lag of groups, under the names and by the rules of kafka_exporter, without requests.

A group has a series for each partition of each topic that it has committed an offset of; -1 where it has none for that
partition. Lag is the distance to the high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.broker.metrics.sources import partition_labels

if TYPE_CHECKING:
    from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
    from barnabas.broker.coordinator.runtime import CoordinatorRuntime
    from barnabas.broker.metadata.image import MetadataImage
    from barnabas.broker.replica.replica_manager import ReplicaManager

_NONE: Final = -1
_GROUP: Final = "kafka_consumergroup"
_TOPIC: Final = "kafka_topic"


class Position(NamedTuple):
    """Where a group is in a partition: offsets, or -1."""

    group: str
    topic: str
    partition: int
    offset: int
    high_watermark: int

    @property
    def lag(self) -> int:
        known = _NONE not in (self.offset, self.high_watermark)
        return self.high_watermark - self.offset if known else _NONE


class GroupLag:
    """Reads the lag from the shards and the logs."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupCoordinatorShard],
        replica_manager: ReplicaManager,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._runtime = runtime
        self._replica_manager = replica_manager
        self._image = image
        self.lags: list[Sample] = []
        self.offset_sums: list[Sample] = []
        self.lag_sums: list[Sample] = []

    def topics(self) -> Iterator[tuple[str, str, list[Position]]]:
        """(group, topic, positions in its partitions); deleted topics are left out."""
        for shard in self._runtime.shards():
            for group in [group for group, _ in shard.offsets.committed]:
                for topic in list(shard.offsets.offsets_of(group)):
                    positions = self._positions(shard, group, topic)
                    if positions:
                        yield group, topic, positions

    def _positions(self, shard: GroupCoordinatorShard, group: str, topic: str) -> list[Position]:
        image = self._image().topics.get(topic)
        committed = shard.offsets.offsets_of(group).get(topic)
        if image is None or committed is None:
            return []
        positions = []
        for index in sorted(image.partitions):
            found = committed.get(index)
            partition = self._replica_manager.find(topic, index)
            positions.append(
                Position(
                    group,
                    topic,
                    index,
                    _NONE if found is None else found.offset,
                    _NONE if partition is None else partition.log.high_watermark,
                )
            )
        return positions

    # ---- samples

    def current_offsets(self) -> Iterator[Sample]:
        """Also computes the samples of the other metrics, which come later in the same scrape."""
        lags: list[Sample] = []
        offset_sums: list[Sample] = []
        lag_sums: list[Sample] = []
        for group, topic, positions in self.topics():
            for position in positions:
                labels = (group, topic, str(position.partition))
                lags.append((labels, position.lag))
                yield labels, position.offset
            offset_sums.append(((group, topic), sum(position.offset for position in positions)))
            lag_sums.append(((group, topic), sum(max(position.lag, 0) for position in positions)))
        self.lags, self.offset_sums, self.lag_sums = lags, offset_sums, lag_sums

    def members(self) -> Iterator[Sample]:
        for shard in self._runtime.shards():
            for group in list(shard.groups):
                yield (group.group_id,), group.member_count


def add_lag(
    metrics: Metrics,
    runtime: CoordinatorRuntime[GroupCoordinatorShard],
    replica_manager: ReplicaManager,
    image: Callable[[], MetadataImage],
) -> None:
    """`image` gives the newest metadata."""
    lag = GroupLag(runtime, replica_manager, image)
    metrics.add(f"{_GROUP}_current_offset", lag.current_offsets)
    metrics.add(f"{_GROUP}_lag", lambda: lag.lags)
    metrics.add(f"{_GROUP}_current_offset_sum", lambda: lag.offset_sums)
    metrics.add(f"{_GROUP}_lag_sum", lambda: lag.lag_sums)
    metrics.add(f"{_GROUP}_members", lag.members)
    metrics.add(
        f"{_TOPIC}_partitions",
        lambda: [((topic.name,), len(topic.partitions)) for topic in list(image().topics.values())],
    )
    for metric, read in {
        "current_offset": lambda it: it.log.high_watermark,
        "oldest_offset": lambda it: it.log.log_start_offset,
    }.items():
        metrics.add_each(f"{_TOPIC}_partition_{metric}", replica_manager.partitions, partition_labels, read)
