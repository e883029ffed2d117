"""The consumer protocol through a whole broker: checks before the group is loaded, and the enabled protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.broker import AUTHORIZED_OPERATIONS_OMITTED
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.kafka_apis.authorized_operations import GROUP_OPERATIONS
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from tests.broker.broker_fixture import InProcessBroker, Wait
from tests.broker.guarded_broker import GuardedBroker
from tests.support.difference import Like

JOINING: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 30_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{**JOINING, **fields})


def with_coordinator(broker: InProcessBroker) -> InProcessBroker:
    """A broker with the offsets topic and the topic t."""
    broker.create_topic("t", partitions=2)
    assert broker.client(version=3) >> FindCoordinatorRequest(key="g") << Like(error_code=0)
    return broker


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_is_described_and_leaves(broker: InProcessBroker, version: int) -> None:
    client = with_coordinator(broker).client(version=version)
    owned = Like(topic_partitions=[Like(partitions=[0, 1])])
    joined = Like(error_code=0, member_id="m", member_epoch=2, heartbeat_interval_ms=5_000, assignment=owned)
    assert client >> heartbeat() << joined
    member = Like(
        member_id="m",
        member_epoch=2,
        subscribed_topic_names=["t"],
        assignment=Like(topic_partitions=[Like(topic_name="t", partitions=[0, 1])]),
    )
    described = Like(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=2,
        assignment_epoch=2,
        assignor_name="uniform",
        members=[member],
        authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
    )
    assert client >> ConsumerGroupDescribeRequest(group_ids=["g"]) << Like(groups=[described])
    left = Like(error_code=0, member_id="m", member_epoch=-1, assignment=None)
    assert client >> heartbeat(member_epoch=-1) << left
    empty = Like(groups=[Like(group_state="Empty", members=[])])
    assert client >> ConsumerGroupDescribeRequest(group_ids=["g"]) << empty


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"group_id": " "}, "GroupId can't be empty."),
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"instance_id": ""}, "InstanceId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is invalid."),
    (
        {"subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
]


def test_invalid_requests_are_rejected(broker: InProcessBroker) -> None:
    for wrong, said in WRONG:
        refused = Like(error_code=ErrorCode.INVALID_REQUEST, error_message=said, member_id=None)
        assert broker.client(version=1) >> heartbeat(**wrong) << refused


def test_unknown_assignors_are_rejected(broker: InProcessBroker) -> None:
    said = "ServerAssignor best is not supported. Supported assignors: uniform, range."
    refused = Like(error_code=ErrorCode.UNSUPPORTED_ASSIGNOR, error_message=said)
    assert broker.client(version=1) >> heartbeat(server_assignor="best") << refused


def test_assignors_may_be_configured_by_kafkas_class_names(tmp_path: Path) -> None:
    range_class = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    broker = InProcessBroker(tmp_path, {"group.consumer.assignors": range_class})
    client = with_coordinator(broker).client(version=1)
    said = "ServerAssignor uniform is not supported. Supported assignors: range."
    refused = Like(error_code=ErrorCode.UNSUPPORTED_ASSIGNOR, error_message=said)
    assert client >> heartbeat(server_assignor="uniform") << refused
    assert client >> heartbeat(server_assignor="range") << Like(error_code=0)
    broker.kill()


def test_groups_are_described_in_the_order_of_the_request(broker: InProcessBroker) -> None:
    client = with_coordinator(broker).client(version=1)
    assert client >> heartbeat() << Like(error_code=0)
    answer = Like(
        groups=[
            Like(group_id="x", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="Group x not found."),
            Like(group_id="", error_code=ErrorCode.INVALID_GROUP_ID),
            Like(group_id="g", error_code=0, authorized_operations=GROUP_OPERATIONS),
        ]
    )
    asked = ConsumerGroupDescribeRequest(group_ids=["x", "", "g"], include_authorized_operations=True)
    assert client >> asked << answer
    assert client >> ConsumerGroupDescribeRequest(group_ids=[]) << Like(groups=[])


def test_without_the_offsets_topic_there_is_no_coordinator(broker: InProcessBroker) -> None:
    refused = Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert broker.client(version=1) >> heartbeat() << refused


def check_refused(broker: InProcessBroker) -> None:
    client = broker.client(version=1)
    refused = Like(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert client >> heartbeat() << refused
    described = Like(groups=[Like(group_id="g", error_code=ErrorCode.UNSUPPORTED_VERSION)])
    assert client >> ConsumerGroupDescribeRequest(group_ids=["g"]) << described


def test_the_protocol_can_be_disabled_in_the_configuration(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"group.coordinator.rebalance.protocols": "classic"})
    check_refused(with_coordinator(broker))
    broker.kill()


def test_the_protocol_can_be_disabled_by_its_feature_level(broker: InProcessBroker) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="group.version", max_version_level=0, upgrade_type=2
    )
    request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update])
    assert with_coordinator(broker).client(version=1) >> request << Like(error_code=0)
    check_refused(broker)


# ---- authorization


T, G = AclResourceType.TOPIC, AclResourceType.GROUP
NO_GROUP, NO_TOPIC = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def guarded_groups(guarded: GuardedBroker) -> GuardedBroker:
    guarded.create_topic("t", partitions=2)
    guarded.create_topic("hidden")
    guarded.admin(version=3).ask(FindCoordinatorRequest(key="g"))
    return guarded


def test_members_need_the_group_and_all_topics_that_they_name(guarded_groups: GuardedBroker) -> None:
    client = guarded_groups.client(version=1)
    assert client >> heartbeat() << Like(error_code=NO_GROUP, member_id=None)
    guarded_groups.allow(AclOperation.READ, G, "g")
    assert client >> heartbeat() << Like(error_code=NO_TOPIC)
    guarded_groups.allow(AclOperation.DESCRIBE, T, "t")
    assert client >> heartbeat(subscribed_topic_names=["t", "hidden"]) << Like(error_code=NO_TOPIC)
    assert client >> heartbeat() << Like(error_code=0)


def test_patterns_match_topics_that_may_be_described(guarded_groups: GuardedBroker) -> None:
    guarded_groups.allow(AclOperation.READ, G, "g")
    guarded_groups.allow(AclOperation.DESCRIBE, T, "t")
    client = guarded_groups.client(version=1)
    joined = heartbeat(subscribed_topic_names=None, subscribed_topic_regex=".*")
    assert client >> joined << Like(error_code=0) >> Wait(1)
    (shard,) = guarded_groups.coordinators.group_runtime.shards()
    group = shard.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    assert {name: found.topics for name, found in group.subscriptions.resolved.items()} == {".*": {"t"}}


def test_a_group_with_a_topic_that_is_hidden_is_not_described(guarded_groups: GuardedBroker) -> None:
    assert guarded_groups.admin(version=1) >> heartbeat() << Like(error_code=0)
    asked = ConsumerGroupDescribeRequest(group_ids=["g", "yours"], include_authorized_operations=True)
    client, yours = guarded_groups.client(version=1), Like(group_id="yours", error_code=NO_GROUP)
    assert client >> asked << Like(groups=[Like(group_id="g", error_code=NO_GROUP), yours])
    guarded_groups.allow(AclOperation.DESCRIBE, G, "g")
    hidden = Like(
        group_id="g", error_code=NO_TOPIC, members=[], authorized_operations=AUTHORIZED_OPERATIONS_OMITTED
    )
    assert client >> asked << Like(groups=[yours, hidden])
    guarded_groups.allow(AclOperation.DESCRIBE, T, "t")
    shown = Like(
        group_id="g", error_code=0, members=[Like()], authorized_operations=1 << AclOperation.DESCRIBE
    )
    assert client >> asked << Like(groups=[yours, shown])
