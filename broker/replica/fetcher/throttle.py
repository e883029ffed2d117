"""FollowerThrottle: the replication quota of this broker's followers (KIP-73).

Partitions that the topic's follower.replication.throttled.replicas names, and that lag behind, are left out of
fetches while the rate is above follower.replication.throttled.rate. Source: kafka.server.ReplicationQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.broker.replica.fetcher.ports import FollowerQuota
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.storage.offsets import TopicPartition


def names_replica(throttled: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's list of throttled replicas has this one: "*", or pairs "partition:broker"."""
    return "*" in throttled or f"{partition}:{broker_id}" in throttled


class FollowerThrottle:
    """A FollowerQuota. `throttled_replicas` gives the list of a topic, each time, since it may change."""

    def __init__(
        self, quota: ReplicationQuota, throttled_replicas: Callable[[str], Sequence[str]], broker_id: int
    ) -> None:
        self._quota = quota
        self._throttled_replicas = throttled_replicas
        self._broker_id = broker_id

    @property
    def byte_rate(self) -> float:
        """Bytes a second that this broker fetches of throttled partitions: byte-rate of FollowerReplication."""
        return self._quota.byte_rate

    def is_throttled(self, key: TopicPartition) -> bool:
        topic, partition = key
        throttled = self._throttled_replicas(topic)
        return bool(throttled) and names_replica(throttled, partition, self._broker_id)

    def record(self, size: int) -> None:
        self._quota.record(size)

    def delay_s(self) -> float:
        return self._quota.delay_s()


class _Unlimited:
    def is_throttled(self, key: TopicPartition) -> bool:
        return False

    def record(self, size: int) -> None:
        """Does nothing."""

    def delay_s(self) -> float:
        return 0.0


UNLIMITED: Final[FollowerQuota] = _Unlimited()
"""The quota where none is configured."""
