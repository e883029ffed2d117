from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import (
    ElectLeadersResponse,
)
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "leader-election --topic t --partition 0",
        "leader-election --election-type foo --all-topic-partitions",
        "leader-election --election-type preferred",
        "leader-election --election-type preferred --topic t",
        "leader-election --election-type preferred --all-topic-partitions --partition 0",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


def test_leaders_are_elected(barnabas: Barnabas, cluster: FakeCluster) -> None:
    response = ElectLeadersResponse
    codes = (0, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    partitions = [
        response.PartitionResult(partition_id=number, error_code=code, error_message=None)
        for number, code in enumerate(codes)
    ]
    results = [response.ReplicaElectionResult(topic="t", partition_result=partitions)]
    cluster.on(ApiKey.ELECT_LEADERS, response(replica_election_results=results))
    result = barnabas("leader-election", "--election-type", "UNCLEAN", "--all-topic-partitions")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "Successfully completed leader election (UNCLEAN) for partitions t-0",
        "Valid replica already elected for partitions t-1",
    ]
    assert "for partition: t-2" in result.stderr
    (request,) = cluster.asked(ApiKey.ELECT_LEADERS)
    assert (request.election_type, request.topic_partitions) == (1, None)
