from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import UnregisterBrokerResponse
from barnabas.protocol.messages.metadata import MetadataResponse
from tests.cli.admin.fake_broker import CLUSTER_ID, FakeCluster

Barnabas = Callable[..., Result]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "line",
    [
        "cluster",
        "cluster unregister",
        "cluster nonsense",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


def test_the_cluster_is_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    assert barnabas("cluster", "cluster-id").stdout == f"Cluster ID: {CLUSTER_ID}\n"
    (line,) = barnabas("cluster", "--json", "list-endpoints").stdout.splitlines()
    assert json.loads(line)["state"] == "unfenced"
    port = str(cluster.brokers[1].port)
    found = rows(barnabas("cluster", "list-endpoints", "--include-fenced-brokers").stdout)
    assert found[1] == ["1", "127.0.0.1", port, "-", "unfenced", "broker"]
    assert cluster.asked(ApiKey.DESCRIBE_CLUSTER)[-1].include_fenced_brokers


def test_the_controllers_are_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    line = ("cluster", "list-endpoints", "--bootstrap-controller", cluster.bootstrap)
    found = rows(barnabas(*line).stdout)
    assert found[1][-2:] == ["-", "controller"]
    assert barnabas("cluster", "--bootstrap-server", "a:1", *line[1:]).exit_code == 2


def test_a_broker_is_unregistered(barnabas: Barnabas, cluster: FakeCluster) -> None:
    refusal = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="No.")
    cluster.on(ApiKey.UNREGISTER_BROKER, UnregisterBrokerResponse(error_message=None), refusal)
    assert barnabas("cluster", "unregister", "--id", "0").stdout == "Broker 0 is no longer registered.\n"
    result = barnabas("cluster", "unregister", "--id", "7")
    assert (result.exit_code, result.stderr) == (1, "error: broker 7: No (BROKER_ID_NOT_REGISTERED)\n")


def test_brokers_and_partitions_are_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    lines = barnabas("cluster", "describe").stdout
    assert "1 brokers" in lines
    assert "BROKER" in lines
    assert "Partitions out of sync" not in lines
    described = barnabas("cluster", "--json", "describe").stdout
    assert CLUSTER_ID in described
    assert len([json.loads(line) for line in described.splitlines()]) == 2


def test_partitions_out_of_sync_are_a_table_of_their_own(barnabas: Barnabas, cluster: FakeCluster) -> None:
    partition = MetadataResponse.MetadataResponsePartition(
        partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]
    )
    topic = MetadataResponse.MetadataResponseTopic(name="behind", partitions=[partition])
    cluster.on(ApiKey.METADATA, MetadataResponse(brokers=[], cluster_id=CLUSTER_ID, topics=[topic]))
    found = rows(barnabas("cluster", "describe").stdout)
    assert found[-1] == ["behind", "0", "1", "1,2", "1", "2"]


def test_controllers_do_not_describe_brokers(barnabas: Barnabas, cluster: FakeCluster) -> None:
    result = barnabas("cluster", "--bootstrap-controller", cluster.bootstrap, "describe")
    assert result.exit_code == 2
    assert "--bootstrap-server" in result.stderr
