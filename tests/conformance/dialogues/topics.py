"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.conformance.dialogue_client import NO_ID, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.alter_configs import BROKER, DELETE, SET, altering
from tests.conformance.dialogues.metadata import metadata_request
from tests.conformance.dialogues.words import (
    fetch,
    fetch_topic,
    list_offsets,
    named,
    partition,
    produce,
)


def wish(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: Mapping[int, list[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in (assignments or {}).items()
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )


def create(*topics: CreateTopicsRequest.CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=30_000, validate_only=validate_only)


def outcomes(answer: CreateTopicsResponse) -> object:
    """The results without configs, sorted by name."""
    for topic in answer.topics:
        topic.configs = None if topic.configs is None else []
    answer.topics.sort(key=lambda topic: topic.name)
    return answer


def settings(answer: CreateTopicsResponse) -> object:
    """The configs of the one topic."""
    (topic,) = answer.topics
    return [
        (
            entry.name,
            entry.value,
            entry.read_only,
            entry.is_sensitive,
            entry.config_source,
        )
        for entry in sorted(topic.configs or (), key=lambda entry: entry.name)
    ]


def note_created(client: DialogueClient, name: str) -> None:
    """Waits for the topic, then notes its metadata: Kafka's broker applies records after the response."""
    client.request_until(metadata_request(name), lambda answer: answer.topics[0].error_code == 0, 12)
    client.request(metadata_request(name), 12)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def a_new_topic(client: DialogueClient) -> None:
    client.request(create(wish(client.topic("a"), 3)), noting=outcomes)
    note_created(client, client.topic("a"))


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def the_configs_of_a_new_topic(client: DialogueClient) -> None:
    client.request(create(wish(client.topic("a"))), noting=settings)
    own: dict[str, str | None] = {
        "retention.ms": "1000",
        "cleanup.policy": "compact, delete",
        "segment.bytes": "1048576",
    }
    client.request(create(wish(client.topic("b"), configs=own)), noting=settings)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def broker_configs_of_a_new_topic_keep_their_notation(client: DialogueClient) -> None:
    odd = {
        "log.retention.ms": ("-2", "-99", " -1"),
        "log.cleanup.policy": ("delete,delete",),
        "log.cleaner.min.cleanable.ratio": (".5", "5e-1"),
        "log.segment.delete.delay.ms": ("+60000",),
    }
    for place in ("", "1"):
        for key, values in odd.items():
            for number, value in enumerate(values):
                client.request(altering((BROKER, place, [(key, SET, value)])), 1)
                client.request(create(wish(client.topic(f"{place}{key}{number}"))), noting=settings)
            client.request(altering((BROKER, place, [(key, DELETE, None)])), 1)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def nothing_to_create(client: DialogueClient) -> None:
    client.request(create(), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def defaults_of_the_broker(client: DialogueClient) -> None:
    client.request(create(wish(client.topic("a"), -1, -1)), noting=outcomes)
    client.request(create(wish(client.topic("b"), 2, -1)), noting=outcomes)
    client.request(create(wish(client.topic("c"), -1, 1)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def an_existing_name(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(create(wish(name)), noting=outcomes)
    client.request(create(wish(name, 0, 9)), noting=outcomes)
    client.request(create(wish(name, configs={"nonsense": "1"})), noting=outcomes)
    client.request(create(wish(name), validate_only=True), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def invalid_names(client: DialogueClient) -> None:
    for name in ("", ".", "..", "a b", "x" * 250, "ä", "__cluster_metadata"):
        client.request(create(wish(name)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def names_that_collide(client: DialogueClient) -> None:
    client.create("a.b")
    client.request(create(wish(client.topic("a_b"))), noting=outcomes)
    client.request(
        create(wish(client.topic("c.d")), wish(client.topic("c_d"))),
        noting=lambda answer: [sorted(topic.error_code for topic in answer.topics)],
    )


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def invalid_counts(client: DialogueClient) -> None:
    for partitions, replicas in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 32767), (0, 0), (-1, 2)):
        client.request(create(wish(client.topic("a"), partitions, replicas)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def manual_assignments(client: DialogueClient) -> None:
    client.request(create(wish(client.topic("a"), -1, -1, {0: [1], 1: [1]})), noting=outcomes)
    client.request(create(wish(client.topic("b"), -1, -1, {1: [1], 0: [1]})), noting=outcomes)
    for word in ("a", "b"):
        note_created(client, client.topic(word))


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def invalid_assignments(client: DialogueClient) -> None:
    impossible: list[dict[int, list[int]]] = [
        {1: [1]},
        {0: [1], 2: [1]},
        {-1: [1]},
        {-1: [1], 0: [1]},
        {0: []},
        {0: [1, 1]},
        {0: [2]},
        {0: [-1]},
        {0: [1], 1: []},
        {0: [1], 1: [1, 2]},
    ]
    for assignments in impossible:
        client.request(create(wish(client.topic("a"), -1, -1, assignments)), noting=outcomes)
    for partitions, replicas in ((1, -1), (-1, 1), (1, 1), (0, 0)):
        client.request(create(wish(client.topic("a"), partitions, replicas, {0: [1]})), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def one_partition_assigned_twice(client: DialogueClient) -> None:
    topic = wish(client.topic("a"), -1, -1)
    topic.assignments = [
        CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[1]) for _ in range(2)
    ]
    client.request(create(topic), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def invalid_configs(client: DialogueClient) -> None:
    for key, value in (
        ("retention.ms", "soon"),
        ("retention.ms", ""),
        ("retention.ms", None),
        ("retention.ms", "-2"),
        ("no.such.key", "1"),
        ("", "1"),
        ("segment.bytes", "13"),
        ("segment.bytes", "99999999999"),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", ""),
        ("compression.type", "rar"),
        ("min.insync.replicas", "0"),
        ("max.message.bytes", "-1"),
        ("message.timestamp.type", "Never"),
        ("unclean.leader.election.enable", "perhaps"),
        ("min.cleanable.dirty.ratio", "2"),
        ("remote.storage.enable", "true"),
        ("compression.gzip.level", "99"),
        ("message.format.version", "2.0"),
    ):
        client.request(create(wish(client.topic("a"), configs={key: value})), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def conflicting_configs(client: DialogueClient) -> None:
    for own in (
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        {"local.retention.ms": "5", "retention.ms": "1"},
        {"local.retention.bytes": "5", "retention.bytes": "1"},
    ):
        client.request(create(wish(client.topic("a"), configs=own)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def the_order_of_checks(client: DialogueClient) -> None:
    """Names are checked first, then configs, then partitions; but the limit of partitions is checked before all."""
    taken = client.create("a.b")
    names = client.topic("n"), "a b", taken, client.topic("a_b"), "__cluster_metadata"
    own: tuple[dict[str, str | None], ...] = (
        {},
        {"retention.ms": None, "x": "1"},
        {"retention.ms": "soon"},
        {"x": "1"},
    )
    partitions: tuple[tuple[int, int, dict[int, list[int]] | None], ...] = (
        (0, 1, None),
        (1, 0, None),
        (0, 0, None),
        (0, 9, None),
        (1, -1, {0: [7]}),
        (-1, 1, {1: [1]}),
        (-1, -1, {0: [7]}),
        (-1, -1, {0: []}),
        (10_001, 9, None),
    )
    for configs in own:
        for count, replicas, assignments in partitions:
            topics = [wish(name, count, replicas, assignments, configs) for name in names]
            client.request(create(*topics, validate_only=True), noting=_without_id)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def the_limit_of_records_in_a_request(client: DialogueClient) -> None:
    """Rejected topics create no records; a request over the limit rejects duplicates and the metadata log as well."""
    taken, a, b = client.create("taken"), client.topic("a"), client.topic("b")
    metadata_log = "__cluster_metadata"
    for topics in (
        (wish(a, 9_999), wish("a b")),
        (wish(a, 9_999), wish(taken)),
        (wish(a, 9_999), wish(taken, 2)),
        (wish(a, 10_000),),
        (wish(a, 10_000, 9),),
        (wish(a, 10_000, configs={"x": "1"}),),
        (wish(metadata_log, 10_001),),
        (wish(a, 9_999), wish(metadata_log, 2)),
        (wish(a, 9_999), wish(a, 9_999), wish(b)),
        (wish(a), wish(a), wish(b, 10_001), wish(metadata_log)),
        (wish(a, 4_999), wish(b, 4_999), wish(taken)),
        (wish(a, 4_999), wish(b, 4_999, configs={"retention.ms": "1"}), wish(taken)),
    ):
        client.request(create(*topics, validate_only=True), noting=_without_id)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def the_order_of_a_response(client: DialogueClient) -> None:
    """Duplicate topics follow the others, and the metadata log is last."""
    z, a, q = client.topic("z"), client.topic("a"), client.topic("q")
    topics = [wish(name) for name in (z, "__cluster_metadata", q, a, q, "a b")]
    client.request(
        create(*topics, validate_only=True),
        noting=lambda answer: [(topic.name, topic.error_code) for topic in answer.topics],
    )
    client.request(create(wish(z)), noting=lambda answer: [entry.name for entry in answer.topics[0].configs])


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def unusual_valid_configs(client: DialogueClient) -> None:
    own: dict[str, str | None] = {
        "cleanup.policy": "delete,compact",
        "retention.ms": " 5 ",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "TRUE",
        "leader.replication.throttled.replicas": "*",
        "compression.type": "zstd",
    }
    client.request(create(wish(client.topic("a"), configs=own)), noting=settings)
    client.request(create(wish(client.topic("b"), configs={"cleanup.policy": "compact"})), noting=settings)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def duplicate_configs(client: DialogueClient) -> None:
    topic = wish(client.topic("a"))
    topic.configs = [
        CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=value) for value in ("1", "2")
    ]
    client.request(create(topic), noting=lambda answer: (answer.topics[0].error_code, settings(answer)))
    for values in ((None, "1"), ("1", None), ("soon", "1"), ("1", "soon")):
        topic = wish(client.topic("b"))
        topic.configs = [
            CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=value) for value in values
        ]
        client.request(create(topic, validate_only=True), noting=_without_id)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def the_same_topic_twice(client: DialogueClient) -> None:
    a, b = client.topic("a"), client.topic("b")
    client.request(create(wish(a), wish(b), wish(a)), noting=outcomes)
    note_created(client, b)
    client.request(metadata_request(a), 12)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def validation_only(client: DialogueClient) -> None:
    name = client.topic("a")
    client.request(create(wish(name, 3), wish(client.topic("b"), 0), validate_only=True), noting=_without_id)
    client.request(metadata_request(name), 12)


def _without_id(answer: CreateTopicsResponse) -> object:
    """The results without ids: Kafka may return an unused random id for a topic that it does not create."""
    for topic in answer.topics:
        topic.topic_id = ZERO_UUID
    return outcomes(answer)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def too_many_partitions(client: DialogueClient) -> None:
    client.request(create(wish(client.topic("a"), 10_001)), noting=outcomes)
    client.request(
        create(wish(client.topic("a"), 9_999), wish(client.topic("b"), 2), validate_only=True),
        noting=_without_id,
    )
    client.request(create(wish(client.topic("a"), 2**31 - 1)), noting=outcomes)
    for count in (9_999, 10_000):  # the topic is a record too
        client.request(create(wish(client.topic("a"), count), validate_only=True), noting=_without_id)
    own: dict[str, str | None] = {"retention.ms": "1"}
    client.request(
        create(wish(client.topic("a"), 9_999, configs=own), validate_only=True), noting=_without_id
    )


# ---- DeleteTopics


def delete(client: DialogueClient, *topics: str | Uuid | tuple[str | None, Uuid]) -> DeleteTopicsRequest:
    """Deletes topics by name, by id (from version 6), or by both."""
    if client.version < 6:
        return DeleteTopicsRequest(
            topic_names=[name for name in topics if isinstance(name, str)], timeout_ms=30_000
        )
    states = []
    for topic in topics:
        name, topic_id = topic if isinstance(topic, tuple) else (None, ZERO_UUID)
        if isinstance(topic, str):
            name = topic
        elif isinstance(topic, bytes):
            topic_id = topic
        states.append(DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id))
    return DeleteTopicsRequest(topics=states, timeout_ms=30_000)


def in_order(answer: DeleteTopicsResponse) -> object:
    answer.responses.sort(key=lambda topic: (topic.name or "", topic.error_code))
    return answer


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def a_topic_is_deleted(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(delete(client, name), noting=in_order)
    client.request_until(metadata_request(name), lambda answer: answer.topics[0].error_code, 12)
    client.request(metadata_request(name), 12)
    client.create("a")


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def nothing_to_delete(client: DialogueClient) -> None:
    client.request(delete(client))


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def unknown_topics(client: DialogueClient) -> None:
    client.request(delete(client, client.topic("a"), client.create("b"), "a b", ""), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def the_same_topic_twice_is_deleted(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(delete(client, name, name), noting=in_order)
    client.request(delete(client, client.topic("b"), client.topic("b")), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 6, 6)
def a_topic_is_deleted_by_id(client: DialogueClient) -> None:
    topic_id = client.id_of(client.create("a"))
    client.request(delete(client, topic_id), noting=in_order)
    client.request(delete(client, NO_ID), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 6, 6)
def names_and_ids_in_one_request(client: DialogueClient) -> None:
    name = client.create("a")
    topic_id = client.id_of(name)
    client.request(delete(client, (name, topic_id)), noting=in_order)
    client.request(delete(client, (None, ZERO_UUID)), noting=in_order)
    client.request(delete(client, (name, topic_id), (name, topic_id)), noting=in_order)
    client.request(delete(client, (None, ZERO_UUID), (None, ZERO_UUID)), noting=in_order)
    client.request(delete(client, name, topic_id), noting=in_order)
    client.request(delete(client, topic_id, topic_id), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 6, 6)
def a_recreated_topic_has_a_new_id(client: DialogueClient) -> None:
    """Every API with topic ids rejects the old id, and leaves the new topic unchanged."""
    name = client.create("a")
    old = client.id_of(name)
    client.write(name, batch(b"x"))
    client.request(delete(client, name), noting=in_order)
    client.request_until(metadata_request(name), lambda answer: answer.topics[0].error_code, 12)
    client.create("a")
    client.request(delete(client, old), noting=in_order)
    client.request(MetadataRequest(topics=named(None, topic_id=old)), 12)
    client.request(produce(old, batch(b"y")), 13)
    client.request(fetch(fetch_topic(old, [partition(0, 0)])), 13)
    client.request(list_offsets(name, 0), 7)
    client.request(list_offsets(name, 0, epoch=1), 7)
    client.note(client.write(name, batch(b"z")))
