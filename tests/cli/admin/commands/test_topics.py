from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import DescribeConfigsResponse
from barnabas.protocol.messages.topics import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.schema import VersionRange
from barnabas.protocol.wire import uuid_to_string
from tests.cli.admin.fake_broker import FakeCluster, id_of

Barnabas = Callable[..., Result]


def configs_of(request: Any, version: int) -> DescribeConfigsResponse:
    """Every topic has one setting of its own and one default."""
    value = DescribeConfigsResponse.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                resource_type=2,
                resource_name=each.resource_name,
                configs=[
                    value(name="min.insync.replicas", value="1", config_source=5),
                    value(name="retention.ms", value="7", config_source=1),
                ],
            )
            for each in request.resources
        ]
    )


@pytest.fixture
def described(cluster: FakeCluster) -> FakeCluster:
    cluster.topics |= {"t": 2, "u": 1, "__consumer_offsets": 1}
    cluster.on(ApiKey.DESCRIBE_CONFIGS, configs_of)
    cluster.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsResponse())
    return cluster


def created(code: int = 0, message: str | None = None) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult(
        name="t", topic_id=id_of("t"), error_code=code, error_message=message
    )
    return CreateTopicsResponse(topics=[result])


# ---- wrong command lines


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--list --describe",
        "--create",
        "--delete",
        "--alter --topic t",
        "--alter --topic t --partitions 2 --config a=b",
        "--list --if-exists",
        "--list --partitions 1",
        "--delete --topic t --partitions 1",
        "--describe --replication-factor 1",
        "--create --topic t --replica-assignment 1 --partitions 1",
        "--create --topic t --replica-assignment 1:1",
        "--create --topic t --replica-assignment 1,1:2",
        "--create --topic t --replica-assignment x",
        "--create --topic t --partitions 0",
        "--create --topic t --partitions x",
        "--create --topic t --replication-factor 0",
        "--create --topic t --replication-factor 32768",
        "--create --topic t --config retention.ms",
        "--create --topic t --topic u",
        "--create --topic t --exclude-internal",
        "--describe --if-not-exists",
        "--describe --if-exists",
        "--describe --topics-with-overrides --under-replicated-partitions",
        "--list --unavailable-partitions",
        "--describe --topic (",
        "--describe --topic-id xxx",
        "--list nonsense",
        "--list --command-config /nowhere",
        "--list --bootstrap-server nowhere",
        "--list --bootstrap-server a:1 --bootstrap-server b:1",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas("topics", *line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert not cluster.requests, "no broker is asked"


# ---- --list


def test_names_are_printed_one_per_line(barnabas: Barnabas, described: FakeCluster) -> None:
    assert barnabas("topics", "--list").stdout == "__consumer_offsets\nt\nu\n"
    assert barnabas("topics", "--list", "--exclude-internal").stdout == "t\nu\n"
    assert barnabas("topics", "--list", "--topic", "t|x").stdout == "t\n"
    assert barnabas("topics", "--list", "--topic", "x").exit_code == 0
    assert described.asked(ApiKey.METADATA)[0].allow_auto_topic_creation is False


def test_names_as_json(barnabas: Barnabas, described: FakeCluster) -> None:
    lines = barnabas("topics", "--list", "--json", "--topic", "t").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "type": "topic",
            "topic": "t",
            "topicId": uuid_to_string(id_of("t")),
            "isInternal": False,
            "partitionCount": 2,
            "replicationFactor": None,
            "configs": None,
            "partitions": None,
        }
    ]


# ---- --describe


def test_topics_are_described_with_their_partitions(barnabas: Barnabas, described: FakeCluster) -> None:
    result = barnabas("topics", "--describe", "--topic", "t")
    assert result.stdout.splitlines() == [
        f"Topic: t\tTopicId: {uuid_to_string(id_of('t'))}\tPartitionCount: 2\tReplicationFactor: 1"
        "\tConfigs: retention.ms=7",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: ",
        "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: ",
    ]


def test_partitions_are_read_page_by_page(barnabas: Barnabas, described: FakeCluster) -> None:
    described.topics["t"] = 5
    described.topics["v"] = 2
    whole = barnabas("topics", "--describe").stdout
    pages = barnabas("topics", "--describe", "--partition-size-limit-per-response", "2").stdout
    assert pages == whole
    requests = described.asked(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    assert [request.response_partition_limit for request in requests] == [2000, 2, 2, 2, 2, 2]


def test_a_broker_without_pages_is_asked_for_metadata(barnabas: Barnabas, described: FakeCluster) -> None:
    described.without(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    lines = barnabas("topics", "--describe", "--topic", "t").stdout.splitlines()
    assert lines[1].endswith("\tElr: N/A\tLastKnownElr: N/A")


def test_a_topic_by_its_id(barnabas: Barnabas, described: FakeCluster) -> None:
    known, unknown = uuid_to_string(id_of("u")), uuid_to_string(id_of("nobody"))
    assert barnabas("topics", "--describe", "--topic-id", known).stdout.startswith("Topic: u\t")
    result = barnabas("topics", "--describe", "--topic-id", unknown)
    assert (result.exit_code, result.stderr) == (
        1,
        f"error: TopicId '{unknown}' does not exist as expected\n",
    )
    assert barnabas("topics", "--describe", "--topic-id", unknown, "--if-exists").exit_code == 0


def test_filters_show_only_partitions_with_problems(barnabas: Barnabas, described: FakeCluster) -> None:
    assert barnabas("topics", "--describe", "--under-replicated-partitions").stdout == ""
    assert (
        barnabas("topics", "--describe", "--unavailable-partitions", "--under-min-isr-partitions").stdout
        == ""
    )
    at_min = barnabas("topics", "--describe", "--at-min-isr-partitions", "--topic", "t").stdout.splitlines()
    assert len(at_min) == 2
    assert all(line.startswith("\tTopic: t") for line in at_min)
    overridden = barnabas(
        "topics", "--describe", "--topics-with-overrides", "--topic", "t"
    ).stdout.splitlines()
    assert len(overridden) == 1
    assert overridden[0].startswith("Topic: t")


def test_reassignments_in_progress_are_shown(barnabas: Barnabas, described: FakeCluster) -> None:
    moves = ListPartitionReassignmentsResponse
    partition = moves.OngoingPartitionReassignment(
        partition_index=0, replicas=[2, 1], adding_replicas=[2], removing_replicas=[1]
    )
    described.on(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        moves(topics=[moves.OngoingTopicReassignment(name="u", partitions=[partition])]),
    )
    lines = barnabas("topics", "--describe", "--topic", "u").stdout.splitlines()
    assert "\tReplicationFactor: 1\t" in lines[0]
    assert "\tAdding Replicas: 2\tRemoving Replicas: 1\t" in lines[1]


def test_a_user_without_permission_to_list_reassignments_sees_the_rest(
    barnabas: Barnabas, described: FakeCluster
) -> None:
    denied = ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    described.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, denied)
    assert barnabas("topics", "--describe", "--topic", "u").exit_code == 0
    described.without(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    assert barnabas("topics", "--describe", "--topic", "u").exit_code == 0


def test_a_description_as_json(barnabas: Barnabas, described: FakeCluster) -> None:
    found = json.loads(barnabas("topics", "--describe", "--topic", "u", "--json").stdout)
    assert found["configs"] == {"retention.ms": "7"}
    assert found["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [1], "isr": [1], "elr": [], "lastKnownElr": []}
    ]


@pytest.mark.parametrize("action", [("--describe",), ("--delete",), ("--alter", "--partitions", "3")])
def test_a_missing_topic_is_an_error(
    barnabas: Barnabas, described: FakeCluster, action: tuple[str, ...]
) -> None:
    result = barnabas("topics", *action, "--topic", "nope")
    assert (result.exit_code, result.stderr) == (1, "error: Topic 'nope' does not exist as expected\n")
    assert barnabas("topics", *action, "--topic", "nope", "--if-exists").exit_code == 0


# ---- --create


def test_a_topic_is_created(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, created())
    line = "--create --topic t --partitions 3 --replication-factor 1 --config a=b --config c=d,e=f"
    result = barnabas("topics", *line.split())
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Created topic t.\n", "")
    (topic,) = cluster.asked(ApiKey.CREATE_TOPICS)[0].topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 3, 1)
    assert {each.name: each.value for each in topic.configs} == {"a": "b", "c": "d,e=f"}


def test_numbers_are_the_brokers_by_default(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, created())
    barnabas("topics", "--create", "--topic", "t")
    (topic,) = cluster.asked(ApiKey.CREATE_TOPICS)[0].topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)


def test_replicas_can_be_placed(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, created())
    barnabas("topics", "--create", "--topic", "t", "--replica-assignment", "1:2,2:1")
    (topic,) = cluster.asked(ApiKey.CREATE_TOPICS)[0].topics
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [
        (0, [1, 2]),
        (1, [2, 1]),
    ]


def test_an_existing_topic_is_not_created(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, created(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."))
    result = barnabas("topics", "--create", "--topic", "t")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: Topic 't' already exists (TOPIC_ALREADY_EXISTS)\n",
    )
    assert barnabas("topics", "--create", "--topic", "t", "--if-not-exists").exit_code == 0


def test_names_that_collide_in_metrics_give_a_warning(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.CREATE_TOPICS, created())
    assert "warning: " in barnabas("topics", "--create", "--topic", "a.b").stderr


# ---- --alter, --delete


def results(**codes: int) -> CreatePartitionsResponse:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[result(name=name, error_code=code, error_message="No.") for name, code in codes.items()]
    )


def test_partitions_are_added(barnabas: Barnabas, described: FakeCluster) -> None:
    described.on(ApiKey.CREATE_PARTITIONS, results(t=0))
    assert barnabas("topics", "--alter", "--topic", "t", "--partitions", "4").exit_code == 0
    (topic,) = described.asked(ApiKey.CREATE_PARTITIONS)[0].topics
    assert (topic.name, topic.count, topic.assignments) == ("t", 4, None)


def test_only_new_partitions_are_placed(barnabas: Barnabas, described: FakeCluster) -> None:
    described.on(ApiKey.CREATE_PARTITIONS, results(t=0))
    line = "--alter --topic t --partitions 4 --replica-assignment 1,1,2,1"
    assert barnabas("topics", *line.split()).exit_code == 0
    (topic,) = described.asked(ApiKey.CREATE_PARTITIONS)[0].topics
    assert [each.broker_ids for each in topic.assignments] == [[2], [1]]


def test_one_of_several_topics_fails(barnabas: Barnabas, described: FakeCluster) -> None:
    described.on(ApiKey.CREATE_PARTITIONS, results(t=0, u=ErrorCode.INVALID_PARTITIONS))
    result = barnabas("topics", "--alter", "--topic", "t|u", "--partitions", "2", "--json")
    assert (result.exit_code, result.stderr) == (1, "error: topic 'u': No (INVALID_PARTITIONS)\n")
    said = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["name"], each["error"], each["message"]) for each in said] == [
        ("t", None, None),
        ("u", "INVALID_PARTITIONS", "No."),
    ]


@pytest.mark.parametrize("newest", [6, 5])
def test_topics_are_deleted(barnabas: Barnabas, described: FakeCluster, newest: int) -> None:
    described.served[ApiKey.DELETE_TOPICS] = VersionRange(1, newest)
    result = DeleteTopicsResponse.DeletableTopicResult
    described.on(ApiKey.DELETE_TOPICS, DeleteTopicsResponse(responses=[result(name="t"), result(name="u")]))
    assert barnabas("topics", "--delete", "--topic", "t,u").exit_code == 0
    (request,) = described.asked(ApiKey.DELETE_TOPICS)
    assert (request.topic_names or [each.name for each in request.topics]) == ["t", "u"]
