"""The rules of creating and deleting topics: pure functions from an image and a request to records or an ApiError.

Source: org.apache.kafka.controller.ReplicationControlManager (createTopics, deleteTopics) and
org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.broker.controller.topic_placement import (
    Brokers,
    Replicas,
    check_assignment,
    check_can_begin,
    new_partition,
    placed,
)
from barnabas.broker.metadata.image import TOPIC_RESOURCE, MetadataImage
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.request import PartitionCharge
from barnabas.config.keys import ConfigError
from barnabas.config.log_config import BrokerValues, validate_topic_overrides
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import ConfigRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid, uuid_to_string
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC

MAX_TOPIC_NAME_LENGTH: Final = 249
_LEGAL: Final = frozenset(string.ascii_letters + string.digits + "._-")
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

USE_DEFAULT: Final = -1
"""The value in a request that stands for the broker's default."""


class TopicSpec(NamedTuple):
    """A topic to create. Counts of USE_DEFAULT stand for the broker's; `assignments`: partition to replicas."""

    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = MappingProxyType({})


class TopicDefaults(NamedTuple):
    """The values of USE_DEFAULT, and the brokers for replicas, this one first."""

    brokers: tuple[int, ...]
    partition_count: int
    replication_factor: int
    config: BrokerValues | None = None
    """The broker's, with which a topic's own settings have to agree; None: Kafka's defaults."""


class NewTopic:
    """A topic that may be created: its id, the replicas of each partition in order, its settings, and the records."""

    def __init__(
        self, name: str, topic_id: Uuid, partitions: Sequence[PartitionImage], configs: Mapping[str, str]
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.configs = configs
        self.records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
        self.records.extend(
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=value)
            for key, value in configs.items()
        )
        self.records.extend(partition.record(topic_id) for partition in partitions)


def check_topic_name(name: str) -> None:
    """Raises ApiError(INVALID_TOPIC_EXCEPTION) unless `name` may name a topic."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
    elif not _LEGAL.issuperset(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_internal(name: str) -> bool:
    """Whether `name` is an internal topic, which Metadata marks as such."""
    return name in INTERNAL_TOPICS


def new_topics(
    image: MetadataImage,
    specs: Iterable[TopicSpec],
    defaults: TopicDefaults,
    new_topic_id: Callable[[], Uuid],
    no_space: ApiError | None = None,
    *,
    charge: PartitionCharge | None = None,
) -> dict[str, NewTopic | ApiError]:
    """Decides on each of `specs`, whose names differ: by name the topic to create, or its error.

    `no_space` is the error of otherwise valid topics while no log directory has space for new ones. `charge` is the
    client's quota, charged in this order with each topic that may be created.

    Raises ApiError(POLICY_VIOLATION) where the request is too large in all.
    """
    specs = list(specs)
    brokers = Brokers.of(image, defaults.brokers)
    _check_size(sum(_partition_count(spec, defaults) for spec in specs))
    outcomes: dict[str, NewTopic | ApiError] = {}
    record_count = 0
    for spec in specs:
        try:
            _check_name_is_free(image, spec.name)
            topic = _new_topic(spec, defaults, brokers, new_topic_id)
            if charge is not None:
                charge(spec.name, len(topic.partitions))
            outcomes[spec.name] = no_space or topic
        except ApiError as error:
            outcomes[spec.name] = error
        else:
            record_count += len(topic.records)
    _check_size(record_count)
    return outcomes


def _check_name_is_free(image: MetadataImage, name: str) -> None:
    check_topic_name(name)
    if name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    _check_collision(image.topics, name)


def _partition_count(spec: TopicSpec, defaults: TopicDefaults) -> int:
    """The partitions of a spec, valid or not; 0 for the metadata log, which cannot be created."""
    if spec.name == CLUSTER_METADATA_TOPIC:
        return 0
    count = len(spec.assignments) or spec.partition_count
    return max(0, defaults.partition_count if count == USE_DEFAULT else count)


def _check_size(count: int) -> None:
    """Raises ApiError unless one request may lead to `count` partitions, or to `count` records."""
    if count > MAX_RECORDS_PER_USER_OP:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {count} partitions or records (topics, settings, "
            f"partitions), and {MAX_RECORDS_PER_USER_OP} are allowed.",
        )


def _new_topic(
    spec: TopicSpec, defaults: TopicDefaults, brokers: Brokers, new_topic_id: Callable[[], Uuid]
) -> NewTopic:
    """The topic with its settings checked, and then its replicas placed. Raises ApiError."""
    configs = _checked_configs(spec.configs, defaults.config)
    replicas = _assigned(spec, brokers) if spec.assignments else _placed(spec, defaults, brokers)
    partitions = [new_partition(index, nodes, brokers) for index, nodes in enumerate(replicas)]
    return NewTopic(spec.name, new_topic_id(), partitions, configs)


def _check_collision(existing: Mapping[str, object], name: str) -> None:
    """Names that differ in '.' and '_' only are one name to metrics, so an existing one excludes the other.

    Two of them in one request are accepted, as in Kafka.
    """
    for other in _names_like(name, existing):
        if other in existing:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )


def _names_like(name: str, existing: Mapping[str, object]) -> Iterable[str]:
    """Names that differ from `name` in '.' and '_' only: all possible ones, or the existing ones if they are fewer."""
    marks = name.count(".") + name.count("_")
    if 2**marks < len(existing):
        return map("".join, product(*(("._" if letter in "._" else letter) for letter in name)))
    folded = name.replace(".", "_")
    return (other for other in existing if other.replace(".", "_") == folded)


def _placed(spec: TopicSpec, defaults: TopicDefaults, brokers: Brokers) -> Sequence[Replicas]:
    """Replicas for each partition, spread over the brokers."""
    partition_count = spec.partition_count
    replication_factor = spec.replication_factor
    if partition_count == USE_DEFAULT:
        partition_count = defaults.partition_count
    if replication_factor == USE_DEFAULT:
        replication_factor = defaults.replication_factor
    if replication_factor < 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor must be larger than 0, or -1 to use the default value, not {replication_factor}.",
        )
    if partition_count < 1:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid non-positive value: {partition_count} (-1 is the default).",
        )
    return placed(0, partition_count, replication_factor, brokers)


def _assigned(spec: TopicSpec, brokers: Brokers) -> Sequence[Replicas]:
    """The checked replicas of a manual assignment."""
    for count, what in (
        (spec.replication_factor, "replication factor"),
        (spec.partition_count, "numPartitions"),
    ):
        if count != USE_DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    seen: set[int] = set()
    for index, replicas in spec.assignments:
        if index in seen:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        seen.add(index)
        check_assignment(replicas, brokers, len(spec.assignments[0][1]))
        check_can_begin(index, replicas, brokers)
    if seen != set(range(len(seen))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions should be a consecutive 0-based integer sequence, not {sorted(seen)}.",
        )
    return [replicas for _, replicas in sorted(spec.assignments, key=lambda assignment: assignment[0])]


def _checked_configs(configs: Mapping[str, str | None], broker: BrokerValues | None) -> dict[str, str]:
    without_value = [name for name, value in configs.items() if value is None]
    if without_value:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(without_value)}",
        )
    checked = {name: value for name, value in configs.items() if value is not None}
    try:
        validate_topic_overrides(checked, broker)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.answer) from error
    return checked


def removal_record(
    image: MetadataImage, *, name: str | None, topic_id: Uuid
) -> tuple[str, RemoveTopicRecord]:
    """The topic's name and the record that removes it, found by name or, where that is None, by id.

    Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID.
    """
    if name is None:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"This server does not host this topic ID: {uuid_to_string(topic_id)}",
            )
    else:
        topic = image.topics.get(name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"This server does not host this topic-partition: there is no topic '{name}'.",
            )
    return topic.name, RemoveTopicRecord(topic_id=topic.topic_id)


def config_removals(image: MetadataImage, name: str) -> list[ConfigRecord]:
    """Records that remove a topic's settings, to be written before its RemoveTopicRecord.

    RemoveTopicRecord implies them, but Apache Kafka 4.3 keeps settings since the last snapshot when it loads a log, and
    applies them to the next topic of that name (ConfigurationsDelta.replay).
    """
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=name, name=key, value=None)
        for key in image.topic_config(name)
    ]
