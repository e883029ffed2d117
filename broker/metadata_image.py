"""MetadataImage: what the cluster knows, as the immutable replay of metadata records.

The records are KRaft's own (TopicRecord, PartitionRecord, PartitionChangeRecord, RemoveTopicRecord, ConfigRecord,
ProducerIdsRecord), so that the image stays as it is when the records come from `__cluster_metadata-0`. Handlers and the
ReplicaManager read an image and never change it; a change is a new image, and a MetadataDelta that says what differs.
Source: org.apache.kafka.image.MetadataImage and its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from protocol.messages.topic_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.schema import Message
from protocol.wire import ZERO_UUID, Uuid

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
"""What PartitionChangeRecord.leader holds when the record leaves the leader, and so the epoch, as they are."""

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""ConfigResource types, as ConfigRecord and DescribeConfigs number them."""


class PartitionImage:
    """One partition's registration: who holds replicas, who is in sync, who leads, and in which epochs."""

    __slots__ = ("directories", "isr", "leader", "leader_epoch", "partition", "partition_epoch", "replicas")

    def __init__(
        self,
        partition: int,
        *,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        directories: tuple[Uuid, ...] = (),
    ) -> None:
        self.partition = partition
        self.replicas = replicas
        self.isr = isr
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = directories

    @classmethod
    def of(cls, record: PartitionRecord) -> PartitionImage:
        return cls(
            record.partition_id,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories or ()),
        )

    def changed(self, record: PartitionChangeRecord) -> PartitionImage:
        """The partition after `record`: a leader in it, even the same one, opens a new leader epoch."""
        elects = record.leader != NO_LEADER_CHANGE
        return PartitionImage(
            self.partition,
            replicas=self.replicas if record.replicas is None else tuple(record.replicas),
            isr=self.isr if record.isr is None else tuple(record.isr),
            leader=record.leader if elects else self.leader,
            leader_epoch=self.leader_epoch + 1 if elects else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            directories=self.directories if record.directories is None else tuple(record.directories),
        )

    def directory_of(self, node_id: int) -> Uuid:
        """The id of the log directory in which a node has its replica; ZERO_UUID where that is not known."""
        if node_id not in self.replicas or len(self.directories) != len(self.replicas):
            return ZERO_UUID
        return self.directories[self.replicas.index(node_id)]

    def with_directory(self, node_id: int, directory_id: Uuid) -> list[Uuid]:
        """The directories of all replicas once that of a node is another."""
        known = self.directories if len(self.directories) == len(self.replicas) else ()
        directories = list(known or (ZERO_UUID,) * len(self.replicas))
        directories[self.replicas.index(node_id)] = directory_id
        return directories

    def record(self, topic_id: Uuid) -> PartitionRecord:
        return PartitionRecord(
            partition_id=self.partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
        )


class TopicImage:
    """A topic and its partitions, by index from 0 without gaps."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, partitions: Mapping[int, PartitionImage]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class MetadataDelta:
    """What one batch of records changed: names of topics made, altered and removed (with the id they had)."""

    __slots__ = ("changed_topics", "config_changes", "created_topics", "deleted_topics")

    def __init__(self) -> None:
        self.created_topics: set[str] = set()
        self.changed_topics: set[str] = set()
        self.deleted_topics: dict[Uuid, TopicImage] = {}
        self.config_changes: set[tuple[int, str]] = set()


class MetadataImage:
    """Topics by name, their ids, dynamic configs by resource, and the next producer id that no block covers yet."""

    __slots__ = ("configs", "next_producer_id", "topic_names", "topics")

    def __init__(
        self,
        topics: Mapping[str, TopicImage],
        topic_names: Mapping[Uuid, str],
        configs: Mapping[tuple[int, str], Mapping[str, str]],
        next_producer_id: int,
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.configs = configs
        self.next_producer_id = next_producer_id

    @classmethod
    def empty(cls) -> MetadataImage:
        return cls(MappingProxyType({}), MappingProxyType({}), MappingProxyType({}), 0)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def topic_config(self, name: str) -> Mapping[str, str]:
        """The topic's own settings, names to text; what it does not set comes from the broker."""
        return self.configs.get((TOPIC_RESOURCE, name), MappingProxyType({}))

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def apply(self, records: Iterable[Message]) -> tuple[MetadataImage, MetadataDelta]:
        """The image after `records`, and what they changed. Raises ValueError for a record that fits nothing."""
        replay = _Replay(self)
        for record in records:
            replay.apply(record)
        return replay.image(), replay.delta

    def records(self) -> Iterator[Message]:
        """The fewest records whose replay gives this image: what a snapshot holds."""
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions.values():
                yield partition.record(topic.topic_id)
        for (resource_type, resource_name), entries in self.configs.items():
            for name, value in entries.items():
                yield ConfigRecord(
                    resource_type=resource_type, resource_name=resource_name, name=name, value=value
                )


class _Replay:
    """Applies records to copies of an image's maps; each topic's partitions are copied when they first change."""

    def __init__(self, image: MetadataImage) -> None:
        self.topics = dict(image.topics)
        self.topic_names = dict(image.topic_names)
        self.configs = dict(image.configs)
        self.next_producer_id = image.next_producer_id
        self.delta = MetadataDelta()
        self._open_partitions: dict[str, dict[int, PartitionImage]] = {}

    def image(self) -> MetadataImage:
        return MetadataImage(
            MappingProxyType(self.topics),
            MappingProxyType(self.topic_names),
            MappingProxyType(self.configs),
            self.next_producer_id,
        )

    def apply(self, record: Message) -> None:
        match record:
            case TopicRecord():
                self._topic(record)
            case PartitionRecord():
                self._partitions_of(record.topic_id, record)[record.partition_id] = PartitionImage.of(record)
            case PartitionChangeRecord():
                self._change(record)
            case RemoveTopicRecord():
                self._remove(record)
            case ConfigRecord():
                self._config(record)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case _:
                raise ValueError(f"metadata record {type(record).__name__} is not known here")

    def _topic(self, record: TopicRecord) -> None:
        if record.name in self.topics or record.topic_id in self.topic_names:
            raise ValueError(f"topic {record.name!r} is created twice in the metadata")
        partitions: dict[int, PartitionImage] = {}
        self._open_partitions[record.name] = partitions
        self.topics[record.name] = TopicImage(record.name, record.topic_id, MappingProxyType(partitions))
        self.topic_names[record.topic_id] = record.name
        self.delta.created_topics.add(record.name)

    def _partitions_of(self, topic_id: Uuid, record: Message) -> dict[int, PartitionImage]:
        name = self.topic_names.get(topic_id)
        if name is None:
            raise ValueError(f"{type(record).__name__} names topic id {topic_id.hex()}, which does not exist")
        partitions = self._open_partitions.get(name)
        if partitions is None:
            topic = self.topics[name]
            partitions = self._open_partitions[name] = dict(topic.partitions)
            self.topics[name] = TopicImage(name, topic_id, MappingProxyType(partitions))
            self.delta.changed_topics.add(name)
        return partitions

    def _change(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id, record)
        if record.partition_id not in partitions:
            raise ValueError(
                f"PartitionChangeRecord names partition {record.partition_id}, which does not exist"
            )
        partitions[record.partition_id] = partitions[record.partition_id].changed(record)

    def _remove(self, record: RemoveTopicRecord) -> None:
        name = self.topic_names.pop(record.topic_id, None)
        if name is None:
            raise ValueError(
                f"RemoveTopicRecord names topic id {record.topic_id.hex()}, which does not exist"
            )
        topic = self.topics.pop(name)
        self._open_partitions.pop(name, None)
        self.configs.pop((TOPIC_RESOURCE, name), None)
        self.delta.changed_topics.discard(name)
        if name in self.delta.created_topics:
            self.delta.created_topics.remove(name)
        else:
            self.delta.deleted_topics[record.topic_id] = topic

    def _config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        entries = dict(self.configs.get(resource, {}))
        if record.value is None:
            entries.pop(record.name, None)
        else:
            entries[record.name] = record.value
        if entries:
            self.configs[resource] = MappingProxyType(entries)
        else:
            self.configs.pop(resource, None)
        self.delta.config_changes.add(resource)
