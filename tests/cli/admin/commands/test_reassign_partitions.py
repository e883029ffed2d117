from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsResponse
from barnabas.protocol.messages.log_dirs import AlterReplicaLogDirsResponse
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
)
from tests.cli.admin.commands.test_log_dirs import in_dirs
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "reassign-partitions",
        "reassign-partitions --list --execute",
        "reassign-partitions --execute",
        "reassign-partitions --generate --broker-list 1",
        "reassign-partitions --list --throttle 5",
        "reassign-partitions --execute --reassignment-json-file /nowhere",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/b"]}
    file.write_text(json.dumps({"partitions": [entry]}))
    return file


def moving(*numbers: int) -> ListPartitionReassignmentsResponse:
    response = ListPartitionReassignmentsResponse
    partitions = [
        response.OngoingPartitionReassignment(partition_index=number, replicas=[1, 2], adding_replicas=[2])
        for number in numbers
    ]
    return response(topics=[response.OngoingTopicReassignment(name="t", partitions=partitions)])


@pytest.fixture
def movable(cluster: FakeCluster) -> FakeCluster:
    cluster.topics["t"] = 2
    cluster.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, moving())
    response = AlterPartitionReassignmentsResponse
    partition = response.ReassignablePartitionResponse(partition_index=0, error_message=None)
    topic = response.ReassignableTopicResponse(name="t", partitions=[partition])
    cluster.on(ApiKey.ALTER_PARTITION_REASSIGNMENTS, response(error_message=None, responses=[topic]))
    cluster.on(ApiKey.DESCRIBE_LOG_DIRS, in_dirs())
    altered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(error_message=None)
    cluster.on(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsResponse(responses=[altered]))
    return cluster


def test_a_reassignment_is_started(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
    def moved(code: int) -> AlterReplicaLogDirsResponse:
        response = AlterReplicaLogDirsResponse
        result = response.AlterReplicaLogDirPartitionResult(error_code=code)
        return response(results=[response.AlterReplicaLogDirTopicResult(topic_name="t", partitions=[result])])

    movable.on(ApiKey.ALTER_REPLICA_LOG_DIRS, moved(ErrorCode.REPLICA_NOT_AVAILABLE), moved(0))
    line = ("--execute", "--reassignment-json-file", str(plan), "--throttle", "1000")
    result = barnabas("reassign-partitions", *line, "--replica-alter-log-dirs-throttle", "500")
    assert result.exit_code == 0
    assert json.loads(result.stdout.splitlines()[2])["partitions"][0]["log_dirs"] == ["/a"]
    assert result.stdout.splitlines()[-2:] == [
        "Successfully started partition reassignment for t-0",
        "Successfully started moving log directory to /b for replica t-0 with broker 1",
    ]
    assert len(movable.asked(ApiKey.ALTER_REPLICA_LOG_DIRS)) == 2, "it is tried until the replica is there"
    names = {
        config.name
        for request in movable.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        for resource in request.resources
        for config in resource.configs
    }
    assert names == {
        "leader.replication.throttled.replicas",
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }


def test_an_invalid_reassignment_is_not_started(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
    line = ("reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
    movable.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, moving(1))
    assert "--additional" in barnabas(*line).stderr
    movable.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, moving())
    text = plan.read_text()
    plan.write_text(text.replace('"replicas": [1]', '"replicas": [7]'))
    assert "Unknown broker id 7" in barnabas(*line).stderr
    plan.write_text(text.replace('"partition": 0', '"partition": 9'))
    assert "Unable to find partition: t-9" in barnabas(*line).stderr
    assert not movable.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)


def test_the_progress_of_reassignments(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
    line = ("reassign-partitions", "--verify", "--reassignment-json-file", str(plan))
    assert barnabas(*line).stdout.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition t-0 is completed.",
        "Partition t-0 on broker 1 is not being moved from log dir /a to /b.",
        "Clearing broker-level throttles on broker 1",
        "Clearing topic-level throttles on topic t",
    ]
    asked = len(movable.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS))
    movable.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, moving(0))
    assert "Reassignment of partition t-0 is still in progress." in barnabas(*line).stdout
    assert len(movable.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)) == asked, (
        "throttles stay while something moves"
    )


def test_reassignments_are_listed_and_cancelled(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
    assert barnabas("reassign-partitions", "--list").stdout == "No partition reassignments found.\n"
    movable.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, moving(0))
    assert (
        barnabas("reassign-partitions", "--list").stdout.splitlines()[1] == "t-0: replicas: 1,2. adding: 2."
    )
    line = ("reassign-partitions", "--cancel", "--reassignment-json-file", str(plan), "--preserve-throttles")
    assert barnabas(*line).stdout.splitlines()[0] == "Successfully cancelled partition reassignment for: t-0"
    (topic,) = movable.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)[0].topics
    assert topic.partitions[0].replicas is None


def test_a_plan_is_generated(barnabas: Barnabas, movable: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"topics": [{"topic": "t"}]}')
    line = ("reassign-partitions", "--generate", "--topics-to-move-json-file", str(file), "--broker-list")
    lines = barnabas(*line, "1").stdout.splitlines()
    assert [each["replicas"] for each in json.loads(lines[-1])["partitions"]] == [[1], [1]]
    assert "Unknown broker id 7" in barnabas(*line, "7").stderr
    assert barnabas(*line, "1,1").exit_code == 2
