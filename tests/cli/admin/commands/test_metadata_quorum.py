from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.cli.admin.calls.cluster import METADATA_TOPIC
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.quorum import DescribeQuorumResponse
from tests.cli.admin.fake_broker import CLUSTER_ID, FakeCluster

Barnabas = Callable[..., Result]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "line",
    [
        "metadata-quorum describe",
        "metadata-quorum describe --status --replication",
        "metadata-quorum describe --status --human-readable",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


def test_the_quorum_is_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    response = DescribeQuorumResponse
    voters = [
        response.ReplicaState(replica_id=number, log_end_offset=end, last_caught_up_timestamp=time)
        for number, end, time in ((1, 90, 500), (2, 100, 1000))
    ]
    state = response.PartitionData(
        leader_id=2, leader_epoch=3, high_watermark=95, current_voters=voters, error_message=None
    )
    topic = response.TopicData(topic_name=METADATA_TOPIC, partitions=[state])
    node = response.Node(node_id=2, listeners=[response.Listener(name="C", host="h", port=1)])
    cluster.on(ApiKey.DESCRIBE_QUORUM, response(error_message=None, topics=[topic], nodes=[node]))
    assert barnabas("metadata-quorum", "describe", "--status").stdout.splitlines() == [
        f"ClusterId:              {CLUSTER_ID}",
        "LeaderId:               2",
        "LeaderEpoch:            3",
        "HighWatermark:          95",
        "MaxFollowerLag:         10",
        "MaxFollowerLagTimeMs:   500",
        'CurrentVoters:          [{"id": 1}, {"id": 2, "endpoints": ["C://h:1"]}]',
        "CurrentObservers:       []",
    ]
    found = rows(barnabas("metadata-quorum", "describe", "--replication").stdout)
    assert [(row[0], row[3], row[-1]) for row in found[1:]] == [("2", "0", "Leader"), ("1", "10", "Follower")]
    assert "ms ago" in barnabas("metadata-quorum", "describe", "--replication", "--human-readable").stdout
