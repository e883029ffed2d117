"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.conformance.dialogue_client import NO_ID, DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.words import named

SINCE_NO_AUTO_CREATION = 4


def metadata_request(*names: str | None, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=named(*names), allow_auto_topic_creation=False, **fields)


def mine(client: DialogueClient) -> Any:
    """A function that notes only the topics of this dialogue."""
    prefix = client.topic("")

    def noting(answer: MetadataResponse) -> object:
        topics = [topic for topic in answer.topics if (topic.name or "").startswith(prefix)]
        answer.topics = sorted(topics, key=lambda topic: topic.name or "")
        return answer

    return noting


@dialogue(ApiKey.METADATA, 0, 13)
def all_topics(client: DialogueClient) -> None:
    client.create("a", 2)
    client.create("b")
    client.request(MetadataRequest(topics=[] if client.version == 0 else None), noting=mine(client))


@dialogue(ApiKey.METADATA, 1, 13)
def no_topic(client: DialogueClient) -> None:
    client.create("a")
    client.request(MetadataRequest(topics=[]))


@dialogue(ApiKey.METADATA, 0, 13)
def a_topic_by_name(client: DialogueClient) -> None:
    client.request(MetadataRequest(topics=named(client.create("a", 3))))


@dialogue(ApiKey.METADATA, SINCE_NO_AUTO_CREATION, 13)
def the_same_topic_twice(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(metadata_request(name, client.topic("b"), name, client.topic("b")), noting=mine(client))


@dialogue(ApiKey.METADATA, SINCE_NO_AUTO_CREATION, 13)
def unknown_topics(client: DialogueClient) -> None:
    client.request(
        metadata_request(client.topic("a"), client.create("b"), client.topic("c")), noting=mine(client)
    )


@dialogue(ApiKey.METADATA, SINCE_NO_AUTO_CREATION, 13)
def internal_topics(client: DialogueClient) -> None:
    client.request(metadata_request("__share_group_state"))
    client.request(metadata_request("__cluster_metadata"))


@dialogue(ApiKey.METADATA, SINCE_NO_AUTO_CREATION, 13)
def invalid_names(client: DialogueClient) -> None:
    for name in ("", ".", "..", "a b", "x" * 250, "ä"):
        client.request(metadata_request(name))


@dialogue(ApiKey.METADATA, 0, 13)
def automatic_creation_with_invalid_names(client: DialogueClient) -> None:
    for name in (".", "a b", "x" * 250):
        client.request(MetadataRequest(topics=named(name), allow_auto_topic_creation=True))


@dialogue(ApiKey.METADATA, 0, 13)
def automatic_creation(client: DialogueClient) -> None:
    """Kafka may answer UNKNOWN_TOPIC_OR_PARTITION at first."""
    request = MetadataRequest(topics=named(client.topic("a")), allow_auto_topic_creation=True)
    client.request_until(
        request, lambda answer: answer.topics[0].error_code == 0 and answer.topics[0].partitions
    )
    client.request(request)


@dialogue(ApiKey.METADATA, 12, 13)
def a_topic_by_id(client: DialogueClient) -> None:
    topic_id = client.id_of(client.create("a"))
    client.request(MetadataRequest(topics=named(None, topic_id=topic_id)))


@dialogue(ApiKey.METADATA, 12, 13)
def an_unknown_id(client: DialogueClient) -> None:
    topic_id = client.id_of(client.create("a"))
    client.request(MetadataRequest(topics=[*named(None, topic_id=NO_ID), *named(None, topic_id=topic_id)]))


@dialogue(
    ApiKey.METADATA,
    12,
    13,
    differs="Kafka fails with UNKNOWN_SERVER_ERROR on the null name; to Barnabas the id is unknown",
)
def neither_a_name_nor_an_id(client: DialogueClient) -> None:
    client.request(MetadataRequest(topics=named(None)))


@dialogue(ApiKey.METADATA, 12, 13)
def a_name_and_an_id(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(MetadataRequest(topics=named(name, topic_id=client.id_of(name))))
    client.request(MetadataRequest(topics=named(client.topic("b"), topic_id=client.id_of(name))))


@dialogue(ApiKey.METADATA, 12, 13)
def names_beside_ids(client: DialogueClient) -> None:
    """One id makes the request one by ids: topics without an id are ignored, and none is created."""
    a, b, new = client.create("a"), client.create("b"), client.topic("new")
    a_id = client.id_of(a)
    for topics in (
        [*named(b), *named(None, topic_id=a_id)],
        [*named(None, topic_id=a_id), *named(b)],
        [*named(b), *named(None, topic_id=NO_ID)],
        [*named(new), *named(None, topic_id=a_id)],
        [*named(None), *named(None, topic_id=a_id)],
        named(a, b, topic_id=a_id),
        [*named(a), *named(b, topic_id=a_id)],
        [*named(None, topic_id=a_id), *named(None, topic_id=NO_ID), *named(None, topic_id=a_id)],
    ):
        client.request(
            MetadataRequest(
                topics=topics, allow_auto_topic_creation=True, include_topic_authorized_operations=True
            )
        )
    client.request(metadata_request(new))


@dialogue(ApiKey.METADATA, 10, 11)
def ids_in_old_versions(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(MetadataRequest(topics=named(name, topic_id=client.id_of(name))))
    client.request(MetadataRequest(topics=named(None)))
    client.request(MetadataRequest(topics=named(None, topic_id=client.id_of(name))))


@dialogue(ApiKey.METADATA, 8, 13)
def authorized_operations_on_topics(client: DialogueClient) -> None:
    client.request(
        metadata_request(client.create("a"), client.topic("b"), include_topic_authorized_operations=True)
    )


@dialogue(ApiKey.METADATA, 8, 10)
def authorized_operations_on_the_cluster(client: DialogueClient) -> None:
    client.request(metadata_request(include_cluster_authorized_operations=True))


# ---- DescribeCluster


@dialogue(ApiKey.DESCRIBE_CLUSTER, 0, 2)
def the_cluster(client: DialogueClient) -> None:
    client.request(DescribeClusterRequest())
    client.request(DescribeClusterRequest(include_cluster_authorized_operations=True))


@dialogue(ApiKey.DESCRIBE_CLUSTER, 1, 2)
def endpoint_types(client: DialogueClient) -> None:
    for endpoint_type in (0, 2, 3):
        client.request(DescribeClusterRequest(endpoint_type=endpoint_type))


@dialogue(ApiKey.DESCRIBE_CLUSTER, 2, 2)
def fenced_brokers(client: DialogueClient) -> None:
    client.request(DescribeClusterRequest(include_fenced_brokers=True))


# ---- DescribeTopicPartitions


def describing(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def topics_sorted_by_name(client: DialogueClient) -> None:
    b, a = client.create("b", 2), client.create("a")
    client.request(describing(b, a))
    client.request(describing(b, client.topic("c"), a, b))


@dialogue(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    0,
    0,
    differs="Kafka fails with UNKNOWN_SERVER_ERROR on invalid names",
)
def descriptions_of_invalid_names(client: DialogueClient) -> None:
    client.request(describing("a b", ""))


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def page_by_page(client: DialogueClient) -> None:
    names = [client.create(word, count) for word, count in (("a", 2), ("b", 3), ("c", 1))]
    for limit in (1, 2, 3, 4, 6):
        cursor: tuple[str, int] | None = None
        while True:
            answer: DescribeTopicPartitionsResponse = client.request(
                describing(*names, limit=limit, cursor=cursor)
            )
            if answer is None or answer.next_cursor is None:
                break
            cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def limits_of_zero_and_less(client: DialogueClient) -> None:
    name = client.create("a", 2)
    for limit in (0, -1):
        client.request(describing(name, limit=limit))


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def cursors_outside_of_the_topics(client: DialogueClient) -> None:
    a, b = client.create("a", 2), client.create("b")
    for cursor in (
        (client.topic("0"), 0),
        (client.topic("aa"), 1),
        (client.topic("z"), 0),
        (a, 1),
        (a, 2),
        (a, 9),
    ):
        client.request(describing(a, b, cursor=cursor))
    client.request(describing(a, b, cursor=(a, -1)))
    client.request(describing(b, cursor=(a, 1)))


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def cursors_of_unknown_topics(client: DialogueClient) -> None:
    """The partition of a cursor applies to its topic only: the next topic starts at its first partition."""
    gone, there = client.topic("a"), client.create("b", 3)
    for index in (0, 2, 5):
        for limit in (1, 9):
            client.request(describing(gone, there, cursor=(gone, index), limit=limit))


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def internal_topics_that_do_not_exist(client: DialogueClient) -> None:
    client.request(describing("__share_group_state", "__share_group_states"))


@dialogue(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)
def missing_topics_between_pages(client: DialogueClient) -> None:
    a, c = client.create("a", 2), client.create("c", 2)
    missing = client.topic("b")
    client.request(describing(a, missing, c, limit=2))
    client.request(describing(a, missing, c, limit=3))
    client.request(describing(missing, limit=1))
