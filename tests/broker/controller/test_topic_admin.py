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
def test_valid_topic_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\0", "a:b"])
def test_invalid_topic_names(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused(TopicSpec(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_coordinators_topics_are_internal_and_the_metadata_topic_is_reserved() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("orders")
    assert refused(TopicSpec(CLUSTER_METADATA_TOPIC)) is ErrorCode.INVALID_REQUEST


def test_an_existing_name_is_rejected() -> None:
    assert refused(TopicSpec("t"), having("t")) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("there", "new"), [("a.b", "a_b"), ("a_b", "a.b"), ("a._b", "a_.b")])
def test_names_that_differ_only_in_dots_and_underscores_collide(there: str, new: str) -> None:
    assert refused(TopicSpec(new), having(there)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    outcomes = decide(
        TopicSpec(there), TopicSpec(new)
    )  # Kafka does not detect a collision within one request
    assert all(isinstance(outcome, NewTopic) for outcome in outcomes.values())


def test_names_with_other_differences_do_not_collide() -> None:
    assert isinstance(decide(TopicSpec("a.b"), image=having("a-b", "ab", "a_b_"))["a.b"], NewTopic)


# ---- counts


def test_omitted_counts_are_the_defaults_of_the_broker() -> None:
    topic = accepted(TopicSpec("t"), THREE)
    assert [partition.replicas for partition in topic.partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert [partition.isr for partition in topic.partitions] == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert [partition.leader for partition in topic.partitions] == [1, 2, 3, 1]


def test_given_counts_are_used() -> None:
    topic = accepted(TopicSpec("t", partition_count=2, replication_factor=3), THREE)
    assert [partition.replicas for partition in topic.partitions] == [(1, 2, 3), (2, 3, 1)]


@pytest.mark.parametrize("count", [0, -2, -(2**31)])
def test_the_partition_count_is_at_least_one(count: int) -> None:
    assert refused(TopicSpec("t", partition_count=count)) is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 2, 32767])
def test_the_replication_factor_is_at_most_the_number_of_brokers(factor: int) -> None:
    assert refused(TopicSpec("t", replication_factor=factor)) is ErrorCode.INVALID_REPLICATION_FACTOR


# ---- assignments by hand


def test_replicas_may_be_assigned_manually() -> None:
    topic = accepted(TopicSpec("t", assignments=[(1, [3, 1]), (0, [2, 3])]), THREE)
    assert [partition.replicas for partition in topic.partitions] == [(2, 3), (3, 1)]
    assert [partition.leader for partition in topic.partitions] == [2, 3]


@pytest.mark.parametrize(("partitions", "replicas"), [(1, -1), (-1, 1), (0, 0)])
def test_a_manual_assignment_excludes_counts(partitions: int, replicas: int) -> None:
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
def test_invalid_assignments_are_rejected(assignments: list[tuple[int, list[int]]]) -> None:
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
def test_invalid_settings_are_rejected(configs: dict[str, str | None]) -> None:
    assert refused(TopicSpec("t", configs=configs)) is ErrorCode.INVALID_CONFIG


def test_topics_and_partitions_of_one_request_are_limited() -> None:
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


def test_the_partition_limit_is_checked_first() -> None:
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
def test_settings_are_checked_after_the_name_and_before_partitions(
    configs: dict[str, str | None], rest: dict[str, Any]
) -> None:
    assert refused(TopicSpec("t", configs=configs, **rest)) is ErrorCode.INVALID_CONFIG
    assert refused(TopicSpec("a b", configs=configs, **rest)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused(TopicSpec("t", configs=configs, **rest), having("t")) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_replication_factor_is_checked_before_the_partition_count() -> None:
    assert refused(TopicSpec("t", partition_count=0, replication_factor=0)) is (
        ErrorCode.INVALID_REPLICATION_FACTOR
    )
    assert refused(TopicSpec("t", partition_count=0, replication_factor=9)) is ErrorCode.INVALID_PARTITIONS


# ---- the records


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


def test_each_topic_gets_its_own_id() -> None:
    outcomes = decide(TopicSpec("a"), TopicSpec("b")).values()
    assert len({topic.topic_id for topic in outcomes if isinstance(topic, NewTopic)}) == 2


def test_a_topic_is_removed_by_name_or_by_id() -> None:
    image = having("t")
    topic_id = image.topics["t"].topic_id
    expected = ("t", RemoveTopicRecord(topic_id=topic_id))
    assert removal_record(image, name="t", topic_id=ZERO_UUID) == expected
    assert removal_record(image, name=None, topic_id=topic_id) == expected


@pytest.mark.parametrize(
    ("name", "code"), [("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
)
def test_an_unknown_topic_cannot_be_removed(name: str | None, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        removal_record(having("t"), name=name, topic_id=b"?" * 16)
    assert caught.value.code is code


def test_topic_settings_must_be_consistent_with_those_of_the_broker() -> None:
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


def test_on_a_full_disk_other_errors_come_first() -> None:
    full = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory is full.")
    specs = [TopicSpec("fine"), TopicSpec("no name")]
    outcomes = new_topics(MetadataImage.empty(), specs, ALONE, ids().__next__, full)
    assert outcomes["fine"] is full
    wrong = outcomes["no name"]
    assert isinstance(wrong, ApiError)
    assert wrong.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_settings_of_a_topic_are_removed_before_it() -> None:
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
