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
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.alter_configs import BROKER, DELETE, SET, altering
from tests.conformance.dialogues.metadata import asking
from tests.conformance.dialogues.words import (
    fetch,
    fetch_topic,
    list_offsets,
    named,
    partition,
    produce,
)
from tests.conformance.speaker import NO_ID, Speaker, batch


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
    """All but the settings, by name."""
    for topic in answer.topics:
        topic.configs = None if topic.configs is None else []
    answer.topics.sort(key=lambda topic: topic.name)
    return answer


def settings(answer: CreateTopicsResponse) -> object:
    """The settings of the one topic."""
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


def there(client: Speaker, name: str) -> None:
    """The topic as Metadata has it, soon: Kafka answers before its broker has heard of what its controller did."""
    client.until(asking(name), lambda answer: answer.topics[0].error_code == 0, 12)
    client.ask(asking(name), 12)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def a_new_topic(client: Speaker) -> None:
    client.ask(create(wish(client.topic("a"), 3)), noting=outcomes)
    there(client, client.topic("a"))


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def a_new_topic_has_these_settings(client: Speaker) -> None:
    client.ask(create(wish(client.topic("a"))), noting=settings)
    own: dict[str, str | None] = {
        "retention.ms": "1000",
        "cleanup.policy": "compact, delete",
        "segment.bytes": "1048576",
    }
    client.ask(create(wish(client.topic("b"), configs=own)), noting=settings)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def a_new_topic_has_the_brokers_settings_as_they_were_written(client: Speaker) -> None:
    odd = {
        "log.retention.ms": ("-2", "-99", " -1"),
        "log.cleanup.policy": ("delete,delete",),
        "log.cleaner.min.cleanable.ratio": (".5", "5e-1"),
        "log.segment.delete.delay.ms": ("+60000",),
    }
    for place in ("", "1"):
        for key, values in odd.items():
            for number, value in enumerate(values):
                client.ask(altering((BROKER, place, [(key, SET, value)])), 1)
                client.ask(create(wish(client.topic(f"{place}{key}{number}"))), noting=settings)
            client.ask(altering((BROKER, place, [(key, DELETE, None)])), 1)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def nothing_to_create(client: Speaker) -> None:
    client.ask(create(), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def defaults_of_the_broker(client: Speaker) -> None:
    client.ask(create(wish(client.topic("a"), -1, -1)), noting=outcomes)
    client.ask(create(wish(client.topic("b"), 2, -1)), noting=outcomes)
    client.ask(create(wish(client.topic("c"), -1, 1)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def a_name_that_is_taken(client: Speaker) -> None:
    name = client.create("a")
    client.ask(create(wish(name)), noting=outcomes)
    client.ask(create(wish(name, 0, 9)), noting=outcomes)
    client.ask(create(wish(name, configs={"nonsense": "1"})), noting=outcomes)
    client.ask(create(wish(name), validate_only=True), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def names_that_no_topic_may_have(client: Speaker) -> None:
    for name in ("", ".", "..", "a b", "x" * 250, "ä", "__cluster_metadata"):
        client.ask(create(wish(name)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def names_that_collide(client: Speaker) -> None:
    client.create("a.b")
    client.ask(create(wish(client.topic("a_b"))), noting=outcomes)
    client.ask(
        create(wish(client.topic("c.d")), wish(client.topic("c_d"))),
        noting=lambda answer: [sorted(topic.error_code for topic in answer.topics)],
    )


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def counts_that_cannot_be(client: Speaker) -> None:
    for partitions, replicas in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 32767), (0, 0), (-1, 2)):
        client.ask(create(wish(client.topic("a"), partitions, replicas)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def assignments_by_hand(client: Speaker) -> None:
    client.ask(create(wish(client.topic("a"), -1, -1, {0: [1], 1: [1]})), noting=outcomes)
    client.ask(create(wish(client.topic("b"), -1, -1, {1: [1], 0: [1]})), noting=outcomes)
    for word in ("a", "b"):
        there(client, client.topic(word))


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def assignments_that_cannot_be(client: Speaker) -> None:
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
        client.ask(create(wish(client.topic("a"), -1, -1, assignments)), noting=outcomes)
    for partitions, replicas in ((1, -1), (-1, 1), (1, 1), (0, 0)):
        client.ask(create(wish(client.topic("a"), partitions, replicas, {0: [1]})), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def one_partition_assigned_twice(client: Speaker) -> None:
    topic = wish(client.topic("a"), -1, -1)
    topic.assignments = [
        CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[1]) for _ in range(2)
    ]
    client.ask(create(topic), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def settings_that_cannot_stand(client: Speaker) -> None:
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
        client.ask(create(wish(client.topic("a"), configs={key: value})), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def settings_that_contradict_each_other(client: Speaker) -> None:
    for own in (
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        {"local.retention.ms": "5", "retention.ms": "1"},
        {"local.retention.bytes": "5", "retention.bytes": "1"},
    ):
        client.ask(create(wish(client.topic("a"), configs=own)), noting=outcomes)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def two_faults_at_once(client: Speaker) -> None:
    """Names come first, then settings, then what has to do with partitions; but too many of these come before all."""
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
            client.ask(create(*topics, validate_only=True), noting=_without_id)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def what_counts_for_the_size_of_a_request(client: Speaker) -> None:
    """Topics that are rejected lead to no records; too much rejects the duplicates and the metadata log as well."""
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
        client.ask(create(*topics, validate_only=True), noting=_without_id)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def the_order_of_an_answer(client: Speaker) -> None:
    """Those that are named twice come behind the others, and the metadata log last."""
    z, a, q = client.topic("z"), client.topic("a"), client.topic("q")
    topics = [wish(name) for name in (z, "__cluster_metadata", q, a, q, "a b")]
    client.ask(
        create(*topics, validate_only=True),
        noting=lambda answer: [(topic.name, topic.error_code) for topic in answer.topics],
    )
    client.ask(create(wish(z)), noting=lambda answer: [entry.name for entry in answer.topics[0].configs])


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def settings_that_may_stand(client: Speaker) -> None:
    own: dict[str, str | None] = {
        "cleanup.policy": "delete,compact",
        "retention.ms": " 5 ",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "TRUE",
        "leader.replication.throttled.replicas": "*",
        "compression.type": "zstd",
    }
    client.ask(create(wish(client.topic("a"), configs=own)), noting=settings)
    client.ask(create(wish(client.topic("b"), configs={"cleanup.policy": "compact"})), noting=settings)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def a_setting_named_twice(client: Speaker) -> None:
    topic = wish(client.topic("a"))
    topic.configs = [
        CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=value) for value in ("1", "2")
    ]
    client.ask(create(topic), noting=lambda answer: (answer.topics[0].error_code, settings(answer)))
    for values in ((None, "1"), ("1", None), ("soon", "1"), ("1", "soon")):
        topic = wish(client.topic("b"))
        topic.configs = [
            CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value=value) for value in values
        ]
        client.ask(create(topic, validate_only=True), noting=_without_id)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def the_same_topic_twice(client: Speaker) -> None:
    a, b = client.topic("a"), client.topic("b")
    client.ask(create(wish(a), wish(b), wish(a)), noting=outcomes)
    there(client, b)
    client.ask(asking(a), 12)


@dialogue(ApiKey.CREATE_TOPICS, 2, 7)
def only_to_see_whether_it_could_be(client: Speaker) -> None:
    name = client.topic("a")
    client.ask(create(wish(name, 3), wish(client.topic("b"), 0), validate_only=True), noting=_without_id)
    client.ask(asking(name), 12)


def _without_id(answer: CreateTopicsResponse) -> object:
    """Kafka draws an id for what it does not create, or none; nobody may use it."""
    for topic in answer.topics:
        topic.topic_id = ZERO_UUID
    return outcomes(answer)


@dialogue(ApiKey.CREATE_TOPICS, 7, 7)
def too_many_partitions(client: Speaker) -> None:
    client.ask(create(wish(client.topic("a"), 10_001)), noting=outcomes)
    client.ask(
        create(wish(client.topic("a"), 9_999), wish(client.topic("b"), 2), validate_only=True),
        noting=_without_id,
    )
    client.ask(create(wish(client.topic("a"), 2**31 - 1)), noting=outcomes)
    for count in (9_999, 10_000):  # the topic is a record too
        client.ask(create(wish(client.topic("a"), count), validate_only=True), noting=_without_id)
    own: dict[str, str | None] = {"retention.ms": "1"}
    client.ask(create(wish(client.topic("a"), 9_999, configs=own), validate_only=True), noting=_without_id)


# ---- DeleteTopics


def delete(client: Speaker, *topics: str | Uuid | tuple[str | None, Uuid]) -> DeleteTopicsRequest:
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
def a_topic_goes(client: Speaker) -> None:
    name = client.create("a")
    client.ask(delete(client, name), noting=in_order)
    client.until(asking(name), lambda answer: answer.topics[0].error_code, 12)
    client.ask(asking(name), 12)
    client.create("a")


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def nothing_to_delete(client: Speaker) -> None:
    client.ask(delete(client))


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def topics_that_are_not_there(client: Speaker) -> None:
    client.ask(delete(client, client.topic("a"), client.create("b"), "a b", ""), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 1, 6)
def the_same_topic_twice_goes(client: Speaker) -> None:
    name = client.create("a")
    client.ask(delete(client, name, name), noting=in_order)
    client.ask(delete(client, client.topic("b"), client.topic("b")), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 6, 6)
def a_topic_goes_by_its_id(client: Speaker) -> None:
    topic_id = client.id_of(client.create("a"))
    client.ask(delete(client, topic_id), noting=in_order)
    client.ask(delete(client, NO_ID), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 6, 6)
def by_name_and_by_id_at_once(client: Speaker) -> None:
    name = client.create("a")
    topic_id = client.id_of(name)
    client.ask(delete(client, (name, topic_id)), noting=in_order)
    client.ask(delete(client, (None, ZERO_UUID)), noting=in_order)
    client.ask(delete(client, (name, topic_id), (name, topic_id)), noting=in_order)
    client.ask(delete(client, (None, ZERO_UUID), (None, ZERO_UUID)), noting=in_order)
    client.ask(delete(client, name, topic_id), noting=in_order)
    client.ask(delete(client, topic_id, topic_id), noting=in_order)


@dialogue(ApiKey.DELETE_TOPICS, 6, 6)
def a_name_comes_back_and_its_old_id_does_not(client: Speaker) -> None:
    """What knows the old id is told in every API that goes by ids, and nothing happens to the new topic."""
    name = client.create("a")
    old = client.id_of(name)
    client.write(name, batch(b"x"))
    client.ask(delete(client, name), noting=in_order)
    client.until(asking(name), lambda answer: answer.topics[0].error_code, 12)
    client.create("a")
    client.ask(delete(client, old), noting=in_order)
    client.ask(MetadataRequest(topics=named(None, topic_id=old)), 12)
    client.ask(produce(old, batch(b"y")), 13)
    client.ask(fetch(fetch_topic(old, [partition(0, 0)])), 13)
    client.ask(list_offsets(name, 0), 7)
    client.ask(list_offsets(name, 0, epoch=1), 7)
    client.note(client.write(name, batch(b"z")))
