"""ReplicaRoles: leading and following, as the metadata change them, for a member of a cluster.

What leaves a fetcher leaves it before its partition changes, and what joins one joins it after. A partition that is
being truncated changes its role when that has ended, by the newest image that came meanwhile.
Source: kafka.server.ReplicaManager (applyLocalLeadersDelta, applyLocalFollowersDelta).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage, TopicImage
from barnabas.broker.replica.isr import LeaderContext
from barnabas.broker.replica.partition import Partition
from barnabas.storage.offsets import TopicPartition

_NO_EPOCH: Final = -1


class Fetchers(Protocol):
    """Fetches what this broker follows; the ReplicaFetcherManager, with the endpoint of the leader looked up."""

    def add(self, partition: Partition, leader: BrokerRegistration, offset: int) -> bool:
        """Fetches the partition from its leader, in its leader epoch, from `offset` on.

        False where the leader has no endpoint for brokers.
        """

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        """Fetches these no more: nothing is appended to them from the return on."""

    def close_idle(self) -> None:
        """Closes the fetchers that have no partitions."""


class ReplicaRoles:
    """Changes the roles of partitions, and has fetched what this broker follows."""

    def __init__(self, node_id: int, context: LeaderContext) -> None:
        self._node_id = node_id
        self._context = context
        self._leaderless: dict[TopicPartition, Partition] = {}
        """Followed partitions whose leader's broker cannot be reached by the metadata."""
        self._held: dict[TopicPartition, tuple[TopicImage, PartitionImage]] = {}
        self.fetchers: Fetchers | None = None
        """Set before the first image is applied."""
        self._is_in_controlled_shutdown = False

    def change(self, partition: Partition, image: PartitionImage) -> None:
        """Brings a partition in line with the metadata."""
        leads = image.leader == self._node_id
        if image.partition_epoch >= partition.partition_epoch and (
            leads or image.leader_epoch > partition.leader_epoch
        ):
            self.stop_fetching(partition.key)
        begins = partition.update(image)
        if self._is_in_controlled_shutdown and self._has_left(image):
            self.stop_fetching(partition.key)
        elif begins and not leads:
            self.follow(partition)

    def begin_controlled_shutdown(self) -> None:
        """From here on, what the controller takes from this broker is not fetched any more: leaders would propose it
        for the ISR again."""
        self._is_in_controlled_shutdown = True

    def _has_left(self, image: PartitionImage) -> bool:
        return image.leader == NO_LEADER or self._node_id not in image.isr

    def follow(self, partition: Partition) -> None:
        """Has the partition, which another broker leads, fetched from its log end on.

        A log with records that knows no leader epochs (of old formats only) cannot find out where it diverges: it
        begins at the high watermark.
        """
        if partition.is_leader or partition.offline or self.fetchers is None:
            return
        leader = self._context.brokers.get(partition.leader_id)
        log = partition.log
        offset = log.high_watermark if log.latest_epoch == _NO_EPOCH else log.log_end_offset
        if leader is None or leader.fenced or not self.fetchers.add(partition, leader, offset):
            self._leaderless[partition.key] = partition
        else:
            self._leaderless.pop(partition.key, None)

    def stop_fetching(self, key: TopicPartition) -> None:
        """The partition leaves its fetcher: it is led here, gone or offline."""
        self._leaderless.pop(key, None)
        if self.fetchers is not None:
            self.fetchers.remove([key])

    def leaders_changed(self, partition: Partition) -> None:
        """Other brokers have changed: the partition's leader may be reachable now."""
        if partition.key in self._leaderless:
            self.follow(partition)

    def image_applied(self) -> None:
        """After all that an image has changed."""
        if self.fetchers is not None:
            self.fetchers.close_idle()

    # ---- while a log is being truncated

    def hold(self, topic: TopicImage, image: PartitionImage) -> None:
        """Keeps an image for a partition that is being truncated."""
        self._held[topic.name, image.partition] = topic, image

    def take_held(self, key: TopicPartition) -> tuple[TopicImage, PartitionImage] | None:
        """The newest image that came during the truncation, which has ended."""
        return self._held.pop(key, None)

    def forget(self, key: TopicPartition) -> None:
        """The partition is gone from this broker."""
        self._held.pop(key, None)
        self.stop_fetching(key)
