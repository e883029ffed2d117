"""Topics and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.cli.admin.client import ANYONE, CONTROLLER, AdminClient, every_code
from barnabas.cli.admin.errors import AdminError, check
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import DescribeTopicPartitionsRequest, MetadataRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.wire import Uuid

BY_DEFAULT = -1
"""Leaves the number of partitions or the replication factor to the broker (KIP-464)."""
NO_LEADER = -1
TIMEOUT_MS = 30_000


class TopicName(NamedTuple):
    """A topic in a list."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: int


class PartitionInfo(NamedTuple):
    """One partition. `elr` and `last_known_elr` are None if unknown (a broker before KIP-966)."""

    number: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None
    last_known_elr: list[int] | None


class TopicInfo(NamedTuple):
    """One topic with its partitions, in their order."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: list[PartitionInfo]


def list_topics(client: AdminClient) -> list[TopicName]:
    """All topics that this client may describe, sorted by name."""
    answer = client.send(MetadataRequest(topics=None, allow_auto_topic_creation=False), versions="4-13")
    check(answer.error_code)
    return sorted(
        TopicName(topic.name, topic.topic_id, topic.is_internal, len(topic.partitions))
        for topic in answer.topics
        if topic.error_code in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
    )


def describe_every_topic(client: AdminClient) -> list[TopicInfo]:
    """All topics that this client may describe, sorted, from one response."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = client.send(request, versions="4-13")
    check(answer.error_code)
    return sorted(
        TopicInfo(topic.name, topic.topic_id, topic.is_internal, _partitions(topic.partitions))
        for topic in answer.topics
        if topic.error_code in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
    )


def describe_topics(client: AdminClient, names: Sequence[str], *, page: int = 2000) -> list[TopicInfo]:
    """The topics of these names, sorted; `page` limits the partitions in one response.

    Raises ServerError for an unknown topic.
    """
    if not names:
        return []
    if client.serves(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return _page_through(client, sorted(names), page)
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return _described(client, topics)


def describe_topic_ids(client: AdminClient, ids: Iterable[Uuid]) -> list[TopicInfo]:
    """The topics with these ids. Raises ServerError for an unknown id."""
    topics = [MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
    return _described(client, topics, "12-13")


def _described(client: AdminClient, topics: list[Any], versions: str = "4-13") -> list[TopicInfo]:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = client.send(request, versions=versions)
    check(answer.error_code)
    found = []
    for topic in answer.topics:
        check(topic.error_code, about=f"topic {topic.name!r}" if topic.name else "topic")
        found.append(TopicInfo(topic.name, topic.topic_id, topic.is_internal, _partitions(topic.partitions)))
    return sorted(found)


def _page_through(client: AdminClient, names: Sequence[str], page: int) -> list[TopicInfo]:
    """Sends DescribeTopicPartitions for each page; a topic may be on several."""
    found: dict[str, TopicInfo] = {}
    topics = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=page, cursor=cursor)
        answer = client.send(request)
        for topic in answer.topics:
            check(topic.error_code, about=f"topic {topic.name!r}")
            empty = TopicInfo(topic.name, topic.topic_id, topic.is_internal, [])
            found.setdefault(topic.name, empty).partitions.extend(_partitions(topic.partitions))
        following = answer.next_cursor
        if following is None:
            return sorted(found.values())
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )
        topics = [topic for topic in topics if topic.name >= following.topic_name]


def _partitions(partitions: Iterable[Any]) -> list[PartitionInfo]:
    def known(leader: int) -> int | None:
        return None if leader == NO_LEADER else leader

    return sorted(
        PartitionInfo(
            each.partition_index,
            known(each.leader_id),
            list(each.replica_nodes),
            list(each.isr_nodes),
            getattr(each, "eligible_leader_replicas", None),
            getattr(each, "last_known_elr", None),
        )
        for each in partitions
    )


class NewTopic(NamedTuple):
    """A topic to create: with counts, or with the brokers of each partition's replicas."""

    name: str
    partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] | None = None


class CreatedTopic(NamedTuple):
    """The created topic; -1: unknown, for want of an authorization."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


def create_topic(client: AdminClient, new: NewTopic) -> CreatedTopic:
    """Creates one topic. Raises ServerError."""
    assignments = [
        CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
        for index, brokers in (new.assignment or {}).items()
    ]
    configs = [
        CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
        for key, value in (new.configs or {}).items()
    ]
    topic = CreateTopicsRequest.CreatableTopic(
        name=new.name,
        num_partitions=BY_DEFAULT if assignments else new.partitions,
        replication_factor=BY_DEFAULT if assignments else new.replication_factor,
        assignments=assignments,
        configs=configs,
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = client.send(request, CONTROLLER, codes=every_code, versions="4-7")
    result = answer.topics[0]
    check(result.error_code, result.error_message)
    return CreatedTopic(result.name, result.topic_id, result.num_partitions, result.replication_factor)


def delete_topics(client: AdminClient, names: Sequence[str]) -> dict[str, AdminError | None]:
    """Deletes topics; returns the error of each, or None."""
    if client.serves(ApiKey.DELETE_TOPICS) and _newest(client, ApiKey.DELETE_TOPICS) >= 6:
        states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
        request = DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)
        answer = client.send(request, CONTROLLER, codes=every_code, versions="6")
    else:
        request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS)
        answer = client.send(request, CONTROLLER, codes=every_code, versions="1-5")
    return {each.name: failure(each.error_code, each.error_message) for each in answer.responses}


def create_partitions(
    client: AdminClient, counts: Mapping[str, int], assignments: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, AdminError | None]:
    """Increases the partitions of topics to these counts; `assignments` has the brokers of each new partition.

    Returns the error of each topic, or None.
    """
    topics = [
        CreatePartitionsRequest.CreatePartitionsTopic(
            name=name, count=count, assignments=_assigned(assignments.get(name))
        )
        for name, count in counts.items()
    ]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    answer = client.send(request, CONTROLLER, codes=every_code)
    return {each.name: failure(each.error_code, each.error_message) for each in answer.results}


def failure(code: int, message: str | None, *, about: str = "") -> AdminError | None:
    """The error with this code; None for NONE."""
    try:
        check(code, message, about=about)
    except AdminError as error:
        return error
    return None


def _assigned(assignment: Sequence[Sequence[int]] | None) -> list[Any] | None:
    if assignment is None:
        return None
    return [
        CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignment
    ]


def _newest(client: AdminClient, key: ApiKey) -> int:
    apis = {api.api_key: api.max_version for api in client.features(ANYONE).api_keys}
    return apis.get(key, -1)
