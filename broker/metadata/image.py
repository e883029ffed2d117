"""MetadataImage: the metadata of the cluster, as the immutable replay of the metadata log.

Handlers and the ReplicaManager read an image and never change it. Records lead to a new image and a
MetadataDelta of the changes; images share unchanged parts. The records are KRaft's own, so the image is the
same whether they come from the embedded controller or are fetched from a quorum.
Source: org.apache.kafka.image.MetadataImage, MetadataDelta and their parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from barnabas.broker.metadata.cluster import BrokerRegistration, ControllerRegistration
from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.broker.metadata.versions import METADATA_VERSION
from barnabas.protocol.messages.cluster_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.messages.topic_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
"""ConfigResource types, as ConfigRecord and DescribeConfigs number them. Loggers have no records."""

NO_OFFSET: Final = -1

ConfigResource = tuple[int, str]
"""A resource's type and name; the name of the cluster-wide default of brokers is empty."""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: pairs of a type and a name (None: the default of that type), sorted by type."""

ScramKey = tuple[str, int]
"""A user and the number of a SCRAM mechanism."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True, eq=False, repr=False)
class MetadataDelta:
    """The changes of some records: created, changed (by partition) and deleted topics, and so on, by their keys."""

    created_topics: set[str] = field(default_factory=set)
    changed_topics: dict[str, set[int]] = field(default_factory=dict)
    deleted_topics: dict[Uuid, TopicImage] = field(default_factory=dict)
    config_changes: set[ConfigResource] = field(default_factory=set)
    quota_changes: set[QuotaEntity] = field(default_factory=set)
    scram_changes: set[ScramKey] = field(default_factory=set)
    acl_changes: set[Uuid] = field(default_factory=set)
    token_changes: set[str] = field(default_factory=set)
    feature_changes: set[str] = field(default_factory=set)
    broker_changes: set[int] = field(default_factory=set)

    @classmethod
    def everything(cls, image: MetadataImage) -> MetadataDelta:
        """The delta from the empty image to `image`, for publishers at the start."""
        delta = cls()
        delta.created_topics.update(image.topics)
        delta.config_changes.update(image.configs)
        delta.quota_changes.update(image.quotas)
        delta.scram_changes.update(image.scram)
        delta.acl_changes.update(image.acls)
        delta.token_changes.update(image.tokens)
        delta.feature_changes.update(image.features)
        delta.broker_changes.update(image.brokers)
        return delta

    def partitions_of(self, topic: TopicImage) -> Iterable[PartitionImage]:
        """The new and changed partitions of a topic: all of a new topic."""
        changed = self.changed_topics.get(topic.name)
        if topic.name in self.created_topics or changed is None:
            return topic.partitions.values()
        return [topic.partitions[index] for index in sorted(changed)]


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class MetadataImage:
    """Everything by its key: features, nodes, topics, configs, quotas, SCRAM credentials, ACLs, tokens, producer ids.

    `offset` is that of its last record (-1: none yet), `epoch` the leader epoch of that record.
    """

    offset: int
    epoch: int
    features: Mapping[str, int]
    brokers: Mapping[int, BrokerRegistration]
    controllers: Mapping[int, ControllerRegistration]
    topics: Mapping[str, TopicImage]
    topic_names: Mapping[Uuid, str]
    configs: Mapping[ConfigResource, Mapping[str, str]]
    quotas: Mapping[QuotaEntity, Mapping[str, float]]
    scram: Mapping[ScramKey, UserScramCredentialRecord]
    acls: Mapping[Uuid, AccessControlEntryRecord]
    tokens: Mapping[str, DelegationTokenRecord]
    next_producer_id: int

    @classmethod
    def empty(cls) -> MetadataImage:
        return cls(
            offset=NO_OFFSET,
            epoch=NO_OFFSET,
            features=MappingProxyType({}),
            brokers=MappingProxyType({}),
            controllers=MappingProxyType({}),
            topics=MappingProxyType({}),
            topic_names=MappingProxyType({}),
            configs=MappingProxyType({}),
            quotas=MappingProxyType({}),
            scram=MappingProxyType({}),
            acls=MappingProxyType({}),
            tokens=MappingProxyType({}),
            next_producer_id=0,
        )

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; 0 while none is."""
        return self.features.get(METADATA_VERSION, 0)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def topic_config(self, name: str) -> Mapping[str, str]:
        """The topic's own settings, by name; others come from the broker."""
        return self.configs.get((TOPIC_RESOURCE, name), _NOTHING)

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def records(self) -> Iterator[Message]:
        """The fewest records whose replay gives this image, in Kafka's order: what a snapshot holds."""
        yield from _feature_records(self.features)
        for broker in self.brokers.values():
            yield broker.record()
        for controller in self.controllers.values():
            yield controller.record()
        for topic in self.topics.values():
            yield from topic.records()
        yield from _config_records(self.configs)
        yield from _quota_records(self.quotas)
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        yield from self.acls.values()
        yield from self.scram.values()
        yield from self.tokens.values()


def _feature_records(features: Mapping[str, int]) -> Iterator[Message]:
    """metadata.version first, which sets the versions of all other records."""
    for name in sorted(features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=features[name])


def _config_records(configs: Mapping[ConfigResource, Mapping[str, str]]) -> Iterator[Message]:
    for (resource_type, resource_name), entries in configs.items():
        for name, value in entries.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )


def _quota_records(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> Iterator[Message]:
    for entity, limits in quotas.items():
        for key, value in limits.items():
            yield quota_record(entity, key, value)


def quota_record(entity: QuotaEntity, key: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    """The record that sets or removes a quota of an entity."""
    return ClientQuotaRecord(
        entity=[
            ClientQuotaRecord.EntityData(entity_type=entity_type, entity_name=name)
            for entity_type, name in entity
        ],
        key=key,
        value=value,
        remove=remove,
    )
