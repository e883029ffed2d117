"""ReplicationTraffic: the bytes of records that this broker and others copy from each other.

What goes to a replica that a reassignment adds counts as the reassignment's too, as long as the metadata name it among
the adding replicas. Source: org.apache.kafka.storage.log.metrics.BrokerTopicStats (updateReplicationBytesIn,
updateBytesOut), kafka.cluster.Partition (isReassigning, isAddingReplica).
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.storage.offsets import TopicPartition


class ReplicationTraffic:
    """Totals since the start, in bytes. `topics` are those of the newest image, set by the ReplicaManager."""

    __slots__ = ("bytes_in", "bytes_out", "reassignment_bytes_in", "reassignment_bytes_out", "topics")

    def __init__(self) -> None:
        self.topics: Mapping[str, TopicImage] = {}
        self.bytes_in = self.bytes_out = 0
        self.reassignment_bytes_in = self.reassignment_bytes_out = 0

    def received(self, key: TopicPartition, node_id: int, size: int) -> None:
        """This broker, whose id is `node_id`, has appended bytes that its leader sent."""
        self.bytes_in += size
        if self._is_adding(key, node_id):
            self.reassignment_bytes_in += size

    def sent(self, key: TopicPartition, replica_id: int, size: int) -> None:
        """A follower is sent bytes of a partition that this broker leads."""
        self.bytes_out += size
        if self._is_adding(key, replica_id):
            self.reassignment_bytes_out += size

    def is_reassigning(self, key: TopicPartition) -> bool:
        """Whether the partition is getting other replicas, or losing some."""
        image = self._image(key)
        return image is not None and bool(image.adding_replicas or image.removing_replicas)

    def _is_adding(self, key: TopicPartition, node_id: int) -> bool:
        image = self._image(key)
        return image is not None and node_id in image.adding_replicas

    def _image(self, key: TopicPartition) -> PartitionImage | None:
        topic = self.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])
