"""MetadataReplay: applies metadata records to an image, one by one, and collects the changes.

A part of the image is copied at its first record, so a replay costs what it changes. Until finish() its image is a view
that later records change.
Source: org.apache.kafka.image.MetadataDelta and the deltas of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from barnabas.broker.metadata.cluster import BrokerRegistration, ControllerRegistration
from barnabas.broker.metadata.image import TOPIC_RESOURCE, MetadataDelta, MetadataImage, QuotaEntity
from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.protocol.messages.cluster_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    DelegationTokenRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.messages.topic_records import (
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid, uuid_to_string

_MAPS: Final = (
    "acls",
    "brokers",
    "configs",
    "controllers",
    "features",
    "quotas",
    "scram",
    "tokens",
    "topic_names",
    "topics",
)


def replayed(
    image: MetadataImage,
    records: Iterable[Message],
    *,
    offset: int | None = None,
    epoch: int | None = None,
) -> tuple[MetadataImage, MetadataDelta]:
    """The image after `records`, and the changes. Raises ValueError for an invalid record.

    `offset`: of the last of `records`, `epoch`: that in which they were written; by default those of `image`.
    """
    replay = MetadataReplay(image)
    for record in records:
        replay.apply(record)
    return replay.finish(offset, epoch), replay.delta


class MetadataReplay:
    """Records on top of an image. Must be dropped after a ValueError; the base image is unchanged."""

    def __init__(self, base: MetadataImage) -> None:
        self.delta = MetadataDelta()
        self._base = base
        self._maps: dict[str, dict[Any, Any]] = {}
        self._next_producer_id = base.next_producer_id
        self._open_partitions: dict[str, dict[int, PartitionImage]] = {}

    def apply(self, record: Message) -> None:
        """Raises ValueError for a record that is not metadata, or that names something that does not exist."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise ValueError(f"metadata record {type(record).__name__} is not known here")
        handler(self, record)

    def image(self) -> MetadataImage:
        """A view of the image after the records so far, which later records change."""
        return self.finish(None, None)

    def finish(self, offset: int | None, epoch: int | None) -> MetadataImage:
        """The final image: no record may be applied after it. None: the offset and epoch of the base image."""
        base = self._base
        parts: dict[str, Any] = {name: self._part(name) for name in _MAPS}
        return MetadataImage(
            offset=base.offset if offset is None else offset,
            epoch=base.epoch if epoch is None else epoch,
            next_producer_id=self._next_producer_id,
            **parts,
        )

    def _part(self, name: str) -> Mapping[Any, Any]:
        changed = self._maps.get(name)
        part: Mapping[Any, Any] = getattr(self._base, name)
        return part if changed is None else MappingProxyType(changed)

    def _open(self, name: str) -> dict[Any, Any]:
        """The part to change: a copy of the base's, made at the first change."""
        found = self._maps.get(name)
        if found is None:
            part: MappingProxyType[Any, Any] = getattr(self._base, name)
            found = self._maps[name] = part.copy()  # many times as fast as dict(part)
        return found

    # ---- topics

    def _topic(self, record: TopicRecord) -> None:
        topics, names = self._open("topics"), self._open("topic_names")
        if record.name in topics or record.topic_id in names:
            raise ValueError(f"topic {record.name!r} is created twice in the metadata")
        partitions: dict[int, PartitionImage] = {}
        self._open_partitions[record.name] = partitions
        topics[record.name] = TopicImage(record.name, record.topic_id, MappingProxyType(partitions))
        names[record.topic_id] = record.name
        self.delta.created_topics.add(record.name)

    def _partitions_of(self, topic_id: Uuid, record: Message) -> tuple[str, dict[int, PartitionImage]]:
        name = self._part("topic_names").get(topic_id)
        if name is None:
            raise ValueError(
                f"{type(record).__name__} names topic id {uuid_to_string(topic_id)}, which does not exist"
            )
        return name, self._open_partitions_of(name)

    def _open_partitions_of(self, name: str) -> dict[int, PartitionImage]:
        partitions = self._open_partitions.get(name)
        if partitions is None:
            topics = self._open("topics")
            topic = topics[name]
            partitions = self._open_partitions[name] = dict(topic.partitions)
            topics[name] = TopicImage(name, topic.topic_id, MappingProxyType(partitions))
        return partitions

    def _touch(self, name: str, index: int) -> None:
        if name not in self.delta.created_topics:
            self.delta.changed_topics.setdefault(name, set()).add(index)

    def _partition(self, record: PartitionRecord) -> None:
        name, partitions = self._partitions_of(record.topic_id, record)
        partitions[record.partition_id] = PartitionImage.of(record)
        self._touch(name, record.partition_id)

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        name, partitions = self._partitions_of(record.topic_id, record)
        partition = partitions.get(record.partition_id)
        if partition is None:
            raise ValueError(
                f"PartitionChangeRecord names partition {name}-{record.partition_id}, which does not exist"
            )
        partitions[record.partition_id] = partition.changed(record)
        self._touch(name, record.partition_id)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        topics = self._part("topics")
        for name in [record.topic_name] if record.topic_name else list(topics):
            if name not in topics:
                raise ValueError(f"ClearElrRecord names topic {name!r}, which does not exist")
            for index, partition in topics[name].partitions.items():
                if partition.elr or partition.last_known_elr:
                    self._open_partitions_of(name)[index] = partition.without_elr()
                    self._touch(name, index)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._open("topic_names").pop(record.topic_id, None)
        if name is None:
            raise ValueError(
                f"RemoveTopicRecord names topic id {uuid_to_string(record.topic_id)}, which does not exist"
            )
        topic = self._open("topics").pop(name)
        self._open_partitions.pop(name, None)
        if (TOPIC_RESOURCE, name) in self._part("configs"):
            del self._open("configs")[TOPIC_RESOURCE, name]
            self.delta.config_changes.add((TOPIC_RESOURCE, name))
        self.delta.changed_topics.pop(name, None)
        if name in self.delta.created_topics:
            self.delta.created_topics.remove(name)
            if topic.topic_id not in self._base.topic_names:
                return
        self.delta.deleted_topics[record.topic_id] = self._base.topics.get(name, topic)

    # ---- keys and values

    def _config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self._open("configs")
        entries = dict(configs.get(resource, {}))
        _set_or_remove(entries, record.name, record.value)
        _set_or_remove(configs, resource, MappingProxyType(entries) if entries else None)
        self.delta.config_changes.add(resource)

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity: QuotaEntity = tuple(
            sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0])
        )
        quotas = self._open("quotas")
        limits = dict(quotas.get(entity, {}))
        _set_or_remove(limits, record.key, None if record.remove else record.value)
        _set_or_remove(quotas, entity, MappingProxyType(limits) if limits else None)
        self.delta.quota_changes.add(entity)

    def _feature(self, record: FeatureLevelRecord) -> None:
        _set_or_remove(self._open("features"), record.name, record.feature_level or None)
        self.delta.feature_changes.add(record.name)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self._open("acls")[record.id] = record
        self.delta.acl_changes.add(record.id)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self._open("acls").pop(record.id, None) is None:
            raise ValueError(
                f"RemoveAccessControlEntryRecord names {uuid_to_string(record.id)}, which does not exist"
            )
        self.delta.acl_changes.add(record.id)

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self._open("scram")[record.name, record.mechanism] = record
        self.delta.scram_changes.add((record.name, record.mechanism))

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        if self._open("scram").pop((record.name, record.mechanism), None) is None:
            raise ValueError(f"RemoveUserScramCredentialRecord names {record.name!r}, which does not exist")
        self.delta.scram_changes.add((record.name, record.mechanism))

    def _token(self, record: DelegationTokenRecord) -> None:
        self._open("tokens")[record.token_id] = record
        self.delta.token_changes.add(record.token_id)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._open("tokens").pop(record.token_id, None)
        self.delta.token_changes.add(record.token_id)

    # ---- nodes

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._open("brokers")[record.broker_id] = BrokerRegistration.of(record)
        self.delta.broker_changes.add(record.broker_id)

    def _broker(self, broker_id: int, epoch: int, record: Message) -> BrokerRegistration:
        known: BrokerRegistration | None = self._part("brokers").get(broker_id)
        if known is None or known.epoch != epoch:
            there = "is not registered" if known is None else f"has epoch {known.epoch}"
            raise ValueError(
                f"{type(record).__name__} names broker {broker_id} with epoch {epoch}, which {there}"
            )
        return known

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        self._replace_broker(self._broker(record.broker_id, record.broker_epoch, record).changed(record))

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._replace_broker(self._broker(record.id, record.epoch, record)._replace(fenced=True))

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._replace_broker(self._broker(record.id, record.epoch, record)._replace(fenced=False))

    def _replace_broker(self, registration: BrokerRegistration) -> None:
        self._open("brokers")[registration.broker_id] = registration
        self.delta.broker_changes.add(registration.broker_id)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch, record)
        del self._open("brokers")[record.broker_id]
        self.delta.broker_changes.add(record.broker_id)

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._open("controllers")[record.controller_id] = ControllerRegistration.of(record)

    def _nothing(self, record: Message) -> None:
        """NoOpRecord keeps the log moving; ZkMigrationStateRecord is obsolete since Kafka 4.0."""


def _set_or_remove(entries: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


_HANDLERS: Final[Mapping[type[Message], Callable[[MetadataReplay, Any], None]]] = {
    TopicRecord: MetadataReplay._topic,
    PartitionRecord: MetadataReplay._partition,
    PartitionChangeRecord: MetadataReplay._partition_change,
    ClearElrRecord: MetadataReplay._clear_elr,
    RemoveTopicRecord: MetadataReplay._remove_topic,
    ConfigRecord: MetadataReplay._config,
    ClientQuotaRecord: MetadataReplay._quota,
    FeatureLevelRecord: MetadataReplay._feature,
    ProducerIdsRecord: MetadataReplay._producer_ids,
    AccessControlEntryRecord: MetadataReplay._acl,
    RemoveAccessControlEntryRecord: MetadataReplay._remove_acl,
    UserScramCredentialRecord: MetadataReplay._scram,
    RemoveUserScramCredentialRecord: MetadataReplay._remove_scram,
    DelegationTokenRecord: MetadataReplay._token,
    RemoveDelegationTokenRecord: MetadataReplay._remove_token,
    RegisterBrokerRecord: MetadataReplay._register_broker,
    BrokerRegistrationChangeRecord: MetadataReplay._change_broker,
    FenceBrokerRecord: MetadataReplay._fence_broker,
    UnfenceBrokerRecord: MetadataReplay._unfence_broker,
    UnregisterBrokerRecord: MetadataReplay._unregister_broker,
    RegisterControllerRecord: MetadataReplay._register_controller,
    NoOpRecord: MetadataReplay._nothing,
    ZkMigrationStateRecord: MetadataReplay._nothing,
}
