"""The rules of creating and deleting topics, each with Apache Kafka's error code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.controller.topic_admin import (
    NewTopic,
    TopicDefaults,
    TopicSpec,
    check_topic_name,
    config_removals,
    is_internal,
    new_topics,
    removal_record,
)
from barnabas.broker.metadata.image import TOPIC_RESOURCE, MetadataImage
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.metadata.replay import replayed
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC

ALONE = TopicDefaults((1,), partition_count=1, replication_factor=1)
THREE = TopicDefaults((1, 2, 3), partition_count=4, replication_factor=2)


def ids() -> Iterator[Uuid]:
    number = 0
    while True:
        number += 1
        yield number.to_bytes(16, "big")


def decide(
    *specs: TopicSpec, image: MetadataImage | None = None, defaults: TopicDefaults = ALONE
) -> dict[str, NewTopic | ApiError]:
    return new_topics(image or MetadataImage.empty(), specs, defaults, ids().__next__)


def accepted(spec: TopicSpec, defaults: TopicDefaults = ALONE) -> NewTopic:
    outcome = decide(spec, defaults=defaults)[spec.name]
    assert isinstance(outcome, NewTopic), outcome
    return outcome


def refused(
    spec: TopicSpec, image: MetadataImage | None = None, defaults: TopicDefaults = ALONE
) -> ErrorCode:
    outcome = decide(spec, image=image, defaults=defaults)[spec.name]
    assert isinstance(outcome, ApiError)
    assert outcome.message
    return outcome.code


def having(*names: str) -> MetadataImage:
    outcomes = decide(*map(TopicSpec, names)).values()
    records = [record for topic in outcomes if isinstance(topic, NewTopic) for record in topic.records]
    return replayed(MetadataImage.empty(), records)[0]


# ---- names


@pytest.mark.parametrize("name", ["t", "a.b", "a_b", "a-b", "A9", "x" * 249, "...", "__consumer_offsets"])
def test_names_that_a_topic_may_have(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\0", "a:b"])
def test_names_that_no_topic_may_have(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused(TopicSpec(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_brokers_own_topics_are_internal_but_for_the_log_of_metadata() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
    assert refused(TopicSpec(CLUSTER_METADATA_TOPIC)) is ErrorCode.INVALID_REQUEST


def test_a_name_that_is_taken() -> None:
    assert refused(TopicSpec("t"), having("t")) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("there", "new"), [("a.b", "a_b"), ("a_b", "a.b"), ("a._b", "a_.b")])
def test_names_that_differ_in_dots_and_underscores_only_collide(there: str, new: str) -> None:
    assert refused(TopicSpec(new), having(there)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    outcomes = decide(TopicSpec(there), TopicSpec(new))  # of which Kafka sees nothing within one request
    assert all(isinstance(outcome, NewTopic) for outcome in outcomes.values())


def test_names_that_differ_in_more_do_not_collide() -> None:
    assert isinstance(decide(TopicSpec("a.b"), image=having("a-b", "ab", "a_b_"))["a.b"], NewTopic)


# ---- counts


def test_counts_that_are_left_out_are_the_brokers_defaults() -> None:
    topic = accepted(TopicSpec("t"), THREE)
    assert [partition.replicas for partition in topic.partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert [partition.isr for partition in topic.partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert [partition.leader for partition in topic.partitions] == [1, 2, 3, 1]


def test_counts_that_are_given_are_taken() -> None:
    topic = accepted(TopicSpec("t", partition_count=2, replication_factor=3), THREE)
    assert [partition.replicas for partition in topic.partitions] == [(1, 2, 3), (2, 3, 1)]


@pytest.mark.parametrize("count", [0, -2, -(2**31)])
def test_a_topic_has_a_partition_at_least(count: int) -> None:
    assert refused(TopicSpec("t", partition_count=count)) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 32767])
def test_there_are_as_many_replicas_as_brokers_at_most(factor: int) -> None:
    assert refused(TopicSpec("t", replication_factor=factor)) is ErrorCode.INVALID_REPLICATION_FACTOR


# ---- assignments by hand


def test_replicas_may_be_assigned_by_hand() -> None:
    topic = accepted(TopicSpec("t", assignments=[(1, [3, 1]), (0, [2, 3])]), THREE)
    assert [partition.replicas for partition in topic.partitions] == [(2, 3), (3, 1)]
    assert [partition.leader for partition in topic.partitions] == [2, 3]


@pytest.mark.parametrize(("partitions", "replicas"), [(1, -1), (-1, 1), (0, 0)])
def test_an_assignment_leaves_no_room_for_counts(partitions: int, replicas: int) -> None:
    spec = TopicSpec("t", partition_count=partitions, replication_factor=replicas, assignments=[(0, [1])])
    assert refused(spec) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "assignments",
    [
        [(1, [1])],
        [(0, [1]), (2, [1])],
        [(-1, [1]), (0, [1])],
        [(0, [1]), (0, [1])],
        [(0, [])],
        [(0, [1, 1])],
        [(0, [4])],
        [(0, [1, -1])],
        [(0, [1]), (1, [1, 2])],
    ],
)
def test_an_assignment_that_cannot_be(assignments: list[tuple[int, list[int]]]) -> None:
    assert (
        refused(TopicSpec("t", assignments=assignments), defaults=THREE)
        is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


# ---- settings and the size of a request


def test_settings_become_records_of_the_topic() -> None:
    topic = accepted(TopicSpec("t", configs={"retention.ms": "1000", "cleanup.policy": "compact"}))
    assert topic.configs == {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert [record for record in topic.records if isinstance(record, ConfigRecord)] == [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="retention.ms", value="1000"),
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="cleanup.policy", value="compact"),
    ]


@pytest.mark.parametrize(
    "configs",
    [{"retention.ms": "soon"}, {"no.such.key": "1"}, {"retention.ms": None}, {"segment.bytes": "1"}],
)
def test_settings_that_cannot_stand(configs: dict[str, str | None]) -> None:
    assert refused(TopicSpec("t", configs=configs)) is ErrorCode.INVALID_CONFIG


def test_one_request_makes_so_many_topics_and_partitions_and_no_more() -> None:
    most = MAX_RECORDS_PER_USER_OP - 7
    specs = [
        TopicSpec("a", partition_count=most, configs={"retention.ms": "1"}),
        TopicSpec("b"),
        TopicSpec("c", assignments=[(0, [1]), (1, [1])]),
    ]
    assert all(isinstance(outcome, NewTopic) for outcome in decide(*specs).values())
    with pytest.raises(ApiError, match="POLICY_VIOLATION"):
        decide(*specs, TopicSpec("d"))
    for wrong in (
        TopicSpec("a b"),
        TopicSpec("d", configs={"retention.ms": "soon"}),
        TopicSpec("d", partition_count=0),
    ):
        outcomes = decide(*specs, wrong)
        assert isinstance(outcomes[wrong.name], ApiError)
        assert all(isinstance(outcomes[spec.name], NewTopic) for spec in specs), "it leads to no record"


def test_partitions_count_before_anything_else_is_looked_at() -> None:
    count = MAX_RECORDS_PER_USER_OP + 1
    for name, configs in (("a b", {}), ("t", {"retention.ms": "soon"})):
        with pytest.raises(ApiError, match="POLICY_VIOLATION"):
            decide(TopicSpec(name, partition_count=count, configs=configs))
    assert refused(TopicSpec(CLUSTER_METADATA_TOPIC, partition_count=count)) is ErrorCode.INVALID_REQUEST


# ---- two faults at once


@pytest.mark.parametrize(
    "rest",
    [
        {"partition_count": 0},
        {"replication_factor": 0},
        {"replication_factor": 9},
        {"partition_count": 1, "assignments": [(0, [1])]},
        {"assignments": [(0, [7])]},
        {"assignments": [(1, [1])]},
    ],
)
@pytest.mark.parametrize("configs", [{"retention.ms": "soon"}, {"retention.ms": None}])
def test_settings_are_looked_at_before_partitions_and_after_the_name(
    configs: dict[str, str | None], rest: dict[str, Any]
) -> None:
    assert refused(TopicSpec("t", configs=configs, **rest)) is ErrorCode.INVALID_CONFIG
    assert refused(TopicSpec("a b", configs=configs, **rest)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused(TopicSpec("t", configs=configs, **rest), having("t")) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_replication_factor_is_looked_at_before_the_partition_count() -> None:
    assert refused(TopicSpec("t", partition_count=0, replication_factor=0)) is (
        ErrorCode.INVALID_REPLICATION_FACTOR
    )
    assert refused(TopicSpec("t", partition_count=0, replication_factor=9)) is ErrorCode.INVALID_PARTITIONS


# ---- what comes of it


def test_the_records_of_a_new_topic_replay_to_it() -> None:
    topic = accepted(TopicSpec("t", partition_count=2))
    assert isinstance(topic.records[0], TopicRecord)
    assert [type(record) for record in topic.records[1:]] == [PartitionRecord, PartitionRecord]
    image, delta = replayed(MetadataImage.empty(), topic.records)
    assert image.topics["t"].topic_id == topic.topic_id
    partition = image.topics["t"].partitions[1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (ZERO_UUID,)
    assert delta.created_topics == {"t"}


def test_each_topic_gets_an_id_of_its_own() -> None:
    outcomes = decide(TopicSpec("a"), TopicSpec("b")).values()
    assert len({topic.topic_id for topic in outcomes if isinstance(topic, NewTopic)}) == 2


def test_a_topic_is_removed_by_its_name_or_by_its_id() -> None:
    image = having("t")
    topic_id = image.topics["t"].topic_id
    expected = ("t", RemoveTopicRecord(topic_id=topic_id))
    assert removal_record(image, name="t", topic_id=ZERO_UUID) == expected
    assert removal_record(image, name=None, topic_id=topic_id) == expected


@pytest.mark.parametrize(
    ("name", "code"), [("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_a_topic_that_is_not_there_cannot_be_removed(name: str | None, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        removal_record(having("t"), name=name, topic_id=b"?" * 16)
    assert caught.value.code is code


def test_a_topics_own_settings_have_to_agree_with_the_brokers() -> None:
    """min.compaction.lag.ms against a maximum that only the broker sets."""
    broker = BrokerConfig.of(None, overrides=["log.cleaner.max.compaction.lag.ms=1000"])
    defaults = TopicDefaults((1,), partition_count=1, replication_factor=1, config=broker)
    outcomes: dict[str, NewTopic | ApiError] = {}
    for lag in ("1000", "1001"):
        spec = TopicSpec(f"lag-{lag}", configs={"min.compaction.lag.ms": lag})
        outcomes |= decide(spec, defaults=defaults)
    assert isinstance(outcomes["lag-1000"], NewTopic)
    refused = outcomes["lag-1001"]
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.INVALID_CONFIG


def test_where_there_is_no_room_what_is_wrong_is_still_told_first() -> None:
    full = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory is full.")
    specs = [TopicSpec("fine"), TopicSpec("no name")]
    outcomes = new_topics(MetadataImage.empty(), specs, ALONE, ids().__next__, full)
    assert outcomes["fine"] is full
    wrong = outcomes["no name"]
    assert isinstance(wrong, ApiError)
    assert wrong.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_what_a_topic_sets_is_taken_away_before_it() -> None:
    new = decide(TopicSpec("t", configs={"retention.ms": "1", "flush.ms": "2"}))["t"]
    assert isinstance(new, NewTopic)
    image, _ = replayed(MetadataImage.empty(), new.records)
    removals = config_removals(image, "t")
    assert [(one.resource_name, one.name, one.value) for one in removals] == [
        ("t", "retention.ms", None),
        ("t", "flush.ms", None),
    ]
    assert replayed(image, removals)[0].topic_config("t") == {}
    assert config_removals(image, "other") == []
