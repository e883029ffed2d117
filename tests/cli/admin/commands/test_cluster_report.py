from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

from barnabas.cli.admin.calls.cluster import ClusterInfo, NodeInfo
from barnabas.cli.admin.calls.topics import PartitionInfo, TopicInfo
from barnabas.cli.admin.commands.cluster_report import ClusterReport, Registered
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.metadata import DescribeClusterResponse, MetadataResponse
from barnabas.protocol.schema import VersionRange
from tests.cli.admin.fake_broker import CLUSTER_ID, FakeCluster

Barnabas = Callable[..., Result]

NODES = [NodeInfo(1, "a", 9092, "r1", False), NodeInfo(2, "b", 9093, None, True)]


def partition(number: int, leader: int | None, replicas: list[int], isr: list[int]) -> PartitionInfo:
    return PartitionInfo(number, leader, replicas, isr, None, None)


def report(*partitions: PartitionInfo, knows_fenced: bool = True) -> ClusterReport:
    cluster = ClusterInfo("id", 1, NODES, are_controllers=False)
    return ClusterReport(Registered(cluster, knows_fenced), [TopicInfo("t", bytes(16), False, [*partitions])])


def test_leaders_and_replicas_are_counted_by_broker() -> None:
    found = report(partition(0, 1, [1, 2], [1]), partition(1, 1, [2, 1], [1]), partition(2, None, [3], [3]))
    assert [tuple(row) for row in found.brokers()] == [
        (1, "a", 9092, "r1", "unfenced", 2, 1, 2, 0),
        (2, "b", 9093, None, "fenced", 0, 1, 2, 2),
        (3, None, None, None, "absent", 0, 1, 1, 0),
    ]
    assert tuple(found.summary()) == ("id", 2, 1, 3, 2, 1)
    assert found.line() == (
        "Cluster id: 2 brokers, 1 fenced; 3 partitions, 2 under-replicated, 1 without a leader"
    )


def test_partitions_in_sync_are_left_out() -> None:
    found = report(
        partition(0, 1, [1, 2], [2, 1]), partition(1, 1, [1, 2], [1]), partition(2, None, [1], [1])
    )
    assert [tuple(row) for row in found.under_replicated()] == [
        ("t", 1, 1, [1, 2], [1], [2]),
        ("t", 2, None, [1], [1], []),
    ]


def test_without_partitions_there_are_brokers() -> None:
    found = report(knows_fenced=False)
    assert [row.replicas for row in found.brokers()] == [0, 0]
    assert found.summary().fenced_brokers is None
    assert found.under_replicated() == []


def metadata(*partitions: PartitionInfo) -> MetadataResponse:
    response = MetadataResponse
    return response(
        brokers=[],
        cluster_id=CLUSTER_ID,
        topics=[
            response.MetadataResponseTopic(
                name="t",
                partitions=[
                    response.MetadataResponsePartition(
                        partition_index=each.number,
                        leader_id=-1 if each.leader is None else each.leader,
                        replica_nodes=each.replicas,
                        isr_nodes=each.isr,
                    )
                    for each in partitions
                ],
            ),
            response.MetadataResponseTopic(name="forbidden", error_code=29),
        ],
    )


def brokers_of(*nodes: NodeInfo) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        cluster_id=CLUSTER_ID,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=each.id, host=each.host, port=each.port, rack=each.rack, is_fenced=each.is_fenced
            )
            for each in nodes
        ],
    )


def test_the_command_prints_brokers_and_what_is_out_of_sync(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_CLUSTER, brokers_of(*NODES))
    cluster.on(ApiKey.METADATA, metadata(partition(0, 1, [1, 2], [1])))
    lines = barnabas("cluster", "describe").stdout.splitlines()
    assert lines[0] == (
        f"Cluster {CLUSTER_ID}: 2 brokers, 1 fenced; 1 partitions, 1 under-replicated, 0 without a leader"
    )
    assert [line.split() for line in lines[2:4]] == [
        ["1", "a", "9092", "r1", "unfenced", "1", "1", "1", "0"],
        ["2", "b", "9093", "-", "fenced", "0", "0", "1", "1"],
    ]
    assert lines[5].split() == ["t", "0", "1", "1,2", "1", "2"]
    assert cluster.asked(ApiKey.DESCRIBE_CLUSTER)[0].include_fenced_brokers


def test_the_table_of_partitions_is_left_out_where_all_is_well(
    barnabas: Barnabas, cluster: FakeCluster
) -> None:
    cluster.topics["t"] = 2
    assert "PARTITION" not in barnabas("cluster", "describe").stdout


def test_each_object_has_its_type(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_CLUSTER, brokers_of(*NODES))
    cluster.on(ApiKey.METADATA, metadata(partition(0, None, [1, 2], [1])))
    rows = [json.loads(line) for line in barnabas("cluster", "--json", "describe").stdout.splitlines()]
    assert [row["type"] for row in rows] == ["clusterSummary", "broker", "broker", "underReplicated"]
    assert rows[0]["leaderlessPartitions"] == 1
    assert rows[3]["leader"] is None
    assert rows[3]["outOfSync"] == [2]


def test_an_older_cluster_names_the_unfenced_brokers(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.served[ApiKey.DESCRIBE_CLUSTER] = VersionRange(0, 1)
    (summary, broker) = (
        json.loads(line) for line in barnabas("cluster", "--json", "describe").stdout.splitlines()
    )
    assert summary["fencedBrokers"] is None
    assert broker["state"] == "unfenced"


def test_controllers_are_not_asked(barnabas: Barnabas, cluster: FakeCluster) -> None:
    result = barnabas("cluster", "describe", "--bootstrap-controller", cluster.bootstrap)
    assert result.exit_code == 2
    assert "brokers are asked" in result.stderr
