"""The smaller commands: log-dirs, quotas, users, acls, cluster, features, metadata-quorum, get-offsets and the like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from broker.admin.calls.cluster import METADATA_TOPIC
from broker.admin.errors import ServerError
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.acls import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from protocol.messages.cluster import UnregisterBrokerResponse, UpdateFeaturesResponse
from protocol.messages.configs import IncrementalAlterConfigsResponse
from protocol.messages.log_dirs import AlterReplicaLogDirsResponse, DescribeLogDirsResponse
from protocol.messages.offsets import DeleteRecordsResponse, ListOffsetsResponse
from protocol.messages.quorum import DescribeQuorumResponse
from protocol.messages.quotas import AlterClientQuotasResponse, DescribeClientQuotasResponse
from protocol.messages.security import AlterUserScramCredentialsResponse, DescribeUserScramCredentialsResponse
from protocol.messages.topics import (
    AlterPartitionReassignmentsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)
from tests.broker.admin.fake_broker import CLUSTER_ID, FakeCluster

Barnabas = Callable[..., Result]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "line",
    [
        "log-dirs",
        "log-dirs --describe --broker-list x",
        "quotas",
        "quotas --describe --producer-byte-rate 1",
        "quotas --alter --producer-byte-rate 1",
        "quotas --alter --user a",
        "quotas --alter --user a --user-defaults --producer-byte-rate 1",
        "quotas --alter --user a --ip 127.0.0.1 --producer-byte-rate 1",
        "quotas --delete --user a --quota foo",
        "quotas --alter --user a --producer-byte-rate x",
        "users",
        "users --list --user a",
        "users --alter --password x",
        "users --alter --user a",
        "users --alter --user a --user b --password x",
        "users --alter --user a --password x --mechanism MD5",
        "users --alter --user a --password x --iterations 5",
        "users --alter --user a --password x --password-file /dev/null",
        "users --alter --user a --password-file /dev/null",
        "users --delete --user a --password x",
        "acls",
        "acls --list --add",
        "acls --add --allow-principal User:a",
        "acls --add --topic t",
        "acls --add --topic t --allow-principal a",
        "acls --add --topic t --allow-principal User:a --operation Foo",
        "acls --add --topic t --allow-principal User:a --operation ClusterAction",
        "acls --add --topic t --allow-principal User:a --resource-pattern-type match",
        "acls --add --topic t --allow-principal User:a --resource-pattern-type foo",
        "acls --add --producer --allow-principal User:a",
        "acls --add --consumer --topic t --allow-principal User:a",
        "acls --add --consumer --topic t --group g --cluster --allow-principal User:a",
        "acls --add --producer --topic t --operation Read --allow-principal User:a",
        "acls --add --idempotent --topic t --allow-principal User:a",
        "acls --list --allow-principal User:a",
        "acls --remove --principal User:a --topic t",
        "cluster",
        "cluster unregister",
        "cluster nonsense",
        "features upgrade",
        "features upgrade --feature x",
        "features upgrade --feature x=y",
        "features upgrade --feature x=1 --feature x=2",
        "features upgrade --feature x=1 --release-version 4.3",
        "features upgrade --release-version 9.9",
        "features disable",
        "metadata-quorum describe",
        "metadata-quorum describe --status --replication",
        "metadata-quorum describe --status --human-readable",
        "get-offsets --topic t --topic-partitions u",
        "get-offsets --partitions a",
        "get-offsets --time foo",
        "get-offsets --topic (",
        "get-offsets --topic-partitions a:b",
        "delete-records",
        "delete-records --offset-json-file /nowhere",
        "leader-election --topic t --partition 0",
        "leader-election --election-type foo --all-topic-partitions",
        "leader-election --election-type preferred",
        "leader-election --election-type preferred --topic t",
        "leader-election --election-type preferred --all-topic-partitions --partition 0",
        "reassign-partitions",
        "reassign-partitions --list --execute",
        "reassign-partitions --execute",
        "reassign-partitions --generate --broker-list 1",
        "reassign-partitions --list --throttle 5",
        "reassign-partitions --execute --reassignment-json-file /nowhere",
    ],
)
def test_a_wrong_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


# ---- log-dirs


def in_dirs(size: int = 2048, *, future: bool = False) -> DescribeLogDirsResponse:
    response = DescribeLogDirsResponse
    partition = response.DescribeLogDirsPartition(partition_size=size, offset_lag=0, is_future_key=future)
    topic = response.DescribeLogDirsTopic(name="t", partitions=[partition])
    other = response.DescribeLogDirsTopic(name="u", partitions=[partition])
    good = response.DescribeLogDirsResult(
        log_dir="/a", topics=[topic, other], total_bytes=4 << 30, usable_bytes=1 << 30
    )
    bad = response.DescribeLogDirsResult(log_dir="/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return response(results=[bad, good])


def test_log_dirs(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_LOG_DIRS, in_dirs())
    result = barnabas("log-dirs", "--describe", "--topic-list", "t,nope", "--broker-list", "1")
    assert (
        result.stdout.splitlines()
        == [
            "broker 1: /a: 1 replicas, 2.0 KiB; 1.0 GiB of 4.0 GiB left",
            "BROKER  LOG-DIR  PARTITION  SIZE  OFFSET-LAG  FUTURE",
            "1       /a       t-0        2048  0           false",
            "broker 1: /b: /b: The disk failed under the partition (KAFKA_STORAGE_ERROR)",
        ]
        or "KAFKA_STORAGE_ERROR" in result.stdout
    )
    found = [json.loads(line) for line in barnabas("log-dirs", "--describe", "--json").stdout.splitlines()]
    assert [len(each["partitions"]) for each in found] == [2, 0]
    assert "KAFKA_STORAGE_ERROR" in found[1]["error"]
    result = barnabas("log-dirs", "--describe", "--broker-list", "1,7")
    assert result.exit_code == 1
    assert "Current existent brokers: 1" in result.stderr


# ---- quotas


def test_quotas_in_one_table(barnabas: Barnabas, cluster: FakeCluster) -> None:
    response = DescribeClientQuotasResponse

    def entry(values: dict[str, float], **names: str | None) -> Any:
        return response.EntryData(
            entity=[
                response.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
                for kind, name in names.items()
            ],
            values=[response.ValueData(key=key, value=value) for key, value in values.items()],
        )

    found = [
        entry({"producer_byte_rate": 5.0}, user=None),
        entry({"producer_byte_rate": 1.5, "request_percentage": 7.0}, user="a", client_id="c"),
        entry({"connection_creation_rate": 9.0}, ip="127.0.0.1"),
    ]
    cluster.on(ApiKey.DESCRIBE_CLIENT_QUOTAS, response(entries=found))
    assert rows(barnabas("quotas", "--describe").stdout) == [
        ["USER", "CLIENT-ID", "IP", "PRODUCER-BYTE-RATE", "REQUEST-PERCENTAGE", "CONNECTION-CREATION-RATE"],
        ["a", "c", "-", "1.5", "7", "-"],
        ["<default>", "-", "-", "5", "-", "-"],
        ["-", "-", "127.0.0.1", "-", "-", "9"],
    ]
    lines = barnabas("quotas", "--describe", "--json").stdout.splitlines()
    assert json.loads(lines[1])["entity"] == {"user": None}
    assert not cluster.asked(ApiKey.DESCRIBE_CLIENT_QUOTAS)[0].strict


def test_quotas_are_set_and_taken_back(barnabas: Barnabas, cluster: FakeCluster) -> None:
    response = DescribeClientQuotasResponse
    values = [response.ValueData(key="producer_byte_rate", value=5.0)]
    entity = [response.EntityData(entity_type="user", entity_name="a")]
    cluster.on(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        response(entries=[response.EntryData(entity=entity, values=values)]),
        response(),
    )
    altered = AlterClientQuotasResponse.EntryData(error_message=None)
    cluster.on(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasResponse(entries=[altered]))
    result = barnabas("quotas", "--alter", "--user", "a", "--client-defaults", "--producer-byte-rate", "0")
    assert result.exit_code == 0, "zero is a quota, too"
    (entry,) = cluster.asked(ApiKey.ALTER_CLIENT_QUOTAS)[0].entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [
        ("user", "a"),
        ("client-id", None),
    ]
    assert [(each.key, each.value, each.remove) for each in entry.ops] == [("producer_byte_rate", 0.0, False)]
    assert barnabas("quotas", "--delete", "--user", "a").exit_code == 0
    (entry,) = cluster.asked(ApiKey.ALTER_CLIENT_QUOTAS)[1].entries
    assert [(each.key, each.remove) for each in entry.ops] == [("producer_byte_rate", True)]
    assert barnabas("quotas", "--delete", "--user", "a").stdout == "user-principal 'a' has no quotas.\n"


# ---- users


@pytest.fixture
def with_users(cluster: FakeCluster) -> FakeCluster:
    response = DescribeUserScramCredentialsResponse
    infos = [response.CredentialInfo(mechanism=number, iterations=4096) for number in (1, 2)]
    alice = response.DescribeUserScramCredentialsResult(user="a", error_message=None, credential_infos=infos)

    def described(request: Any, version: int) -> DescribeUserScramCredentialsResponse:
        names = ["a"] if request.users is None else [user.name for user in request.users]
        missing = [
            response.DescribeUserScramCredentialsResult(
                user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="No."
            )
            for name in names
            if name != "a"
        ]
        return response(error_message=None, results=[*missing, *([alice] if "a" in names else [])])

    cluster.on(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, described)
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(user="a", error_message=None)
    cluster.on(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsResponse(results=[result]))
    return cluster


def test_users(barnabas: Barnabas, with_users: FakeCluster) -> None:
    assert barnabas("users", "--list").stdout == "a\n"
    result = barnabas("users", "--describe", "--user", "a", "--user", "b")
    assert rows(result.stdout)[1:] == [["a", "SCRAM-SHA-256", "4096"], ["a", "SCRAM-SHA-512", "4096"]]
    assert (result.exit_code, result.stderr) == (1, "error: there is no user 'b' with SCRAM credentials\n")


def test_a_password_from_a_file(barnabas: Barnabas, with_users: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("geheim\nnot this\n")
    line = ("users", "--alter", "--user", "a", "--mechanism", "scram-sha-512", "--iterations", "5000")
    assert barnabas(*line, "--password-file", str(file)).exit_code == 0
    assert barnabas(*line, "--password", "geheim").exit_code == 0
    (first,), (second,) = (each.upsertions for each in with_users.asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS))
    assert (first.name, first.mechanism, first.iterations) == ("a", 2, 5000)
    assert first.salt != second.salt


def test_users_are_deleted_mechanism_by_mechanism(barnabas: Barnabas, with_users: FakeCluster) -> None:
    assert barnabas("users", "--delete", "--user", "a").exit_code == 0
    deletions = [each.deletions for each in with_users.asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)]
    assert [[each.mechanism for each in some] for some in deletions] == [[1], [2]]
    assert barnabas("users", "--delete", "--user", "b").exit_code == 1


# ---- acls


def test_acls_are_added(barnabas: Barnabas, cluster: FakeCluster) -> None:
    ok = CreateAclsResponse.AclCreationResult(error_message=None)
    cluster.on(ApiKey.CREATE_ACLS, CreateAclsResponse(results=[ok]))
    line = "acls --add --topic t --group g --allow-principal User:a --consumer --idempotent --producer"
    assert barnabas(*line.split()).exit_code == 0
    created = {
        (each.resource_type, each.resource_name, each.operation)
        for request in cluster.asked(ApiKey.CREATE_ACLS)
        for each in request.creations
    }
    assert created == {
        *((2, "t", operation) for operation in (3, 4, 5, 8)),
        (3, "g", 3),
        (4, "kafka-cluster", 12),
    }


def test_acls_are_listed_and_removed(barnabas: Barnabas, cluster: FakeCluster) -> None:
    response = DescribeAclsResponse
    acls = [
        response.AclDescription(principal=name, host="*", operation=3, permission_type=3)
        for name in ("User:b", "User:a")
    ]
    resource = response.DescribeAclsResource(resource_type=2, resource_name="t", acls=acls)
    cluster.on(ApiKey.DESCRIBE_ACLS, response(error_message=None, resources=[resource]))
    lines = barnabas("acls", "--list").stdout.splitlines()
    assert lines[:3] == [
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:",
        "\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)",
        "\t(principal=User:b, host=*, operation=READ, permissionType=ALLOW)",
    ]
    (only,) = barnabas("acls", "--list", "--principal", "User:b", "--json").stdout.splitlines()
    assert json.loads(only)["principal"] == "User:b"
    cluster.on(ApiKey.DELETE_ACLS, DeleteAclsResponse(filter_results=[]))
    line = "acls --remove --topic t --allow-principal User:a --operation Read"
    assert barnabas(*line.split()).exit_code == 1, "nobody said yes"
    assert not cluster.asked(ApiKey.DELETE_ACLS)
    assert barnabas(*line.split(), "--force").exit_code == 0
    (wanted,) = cluster.asked(ApiKey.DELETE_ACLS)[0].filters
    assert (wanted.principal_filter, wanted.host_filter, wanted.operation) == ("User:a", "*", 3)


def test_a_broker_that_keeps_no_acls(barnabas: Barnabas, cluster: FakeCluster) -> None:
    refusal = DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured"
    )
    cluster.on(ApiKey.DESCRIBE_ACLS, refusal)
    result = barnabas("acls", "--list")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: No Authorizer is configured (SECURITY_DISABLED)\n",
    )


# ---- cluster, features, metadata-quorum


def test_the_cluster(barnabas: Barnabas, cluster: FakeCluster) -> None:
    assert barnabas("cluster", "cluster-id").stdout == f"Cluster ID: {CLUSTER_ID}\n"
    (line,) = barnabas("cluster", "--json", "list-endpoints").stdout.splitlines()
    assert json.loads(line)["state"] == "unfenced"
    port = str(cluster.brokers[1].port)
    found = rows(barnabas("cluster", "list-endpoints", "--include-fenced-brokers").stdout)
    assert found[1] == ["1", "127.0.0.1", port, "-", "unfenced", "broker"]
    assert cluster.asked(ApiKey.DESCRIBE_CLUSTER)[-1].include_fenced_brokers


def test_the_controllers(barnabas: Barnabas, cluster: FakeCluster) -> None:
    line = ("cluster", "list-endpoints", "--bootstrap-controller", cluster.bootstrap)
    found = rows(barnabas(*line).stdout)
    assert found[1][-2:] == ["-", "controller"]
    assert barnabas("cluster", "--bootstrap-server", "a:1", *line[1:]).exit_code == 2


def test_a_broker_is_taken_out(barnabas: Barnabas, cluster: FakeCluster) -> None:
    refusal = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="No.")
    cluster.on(ApiKey.UNREGISTER_BROKER, UnregisterBrokerResponse(error_message=None), refusal)
    assert barnabas("cluster", "unregister", "--id", "0").stdout == "Broker 0 is no longer registered.\n"
    result = barnabas("cluster", "unregister", "--id", "7")
    assert (result.exit_code, result.stderr) == (1, "error: broker 7: No (BROKER_ID_NOT_REGISTERED)\n")


def test_features(barnabas: Barnabas, cluster: FakeCluster) -> None:
    assert barnabas("features", "describe").stdout.splitlines() == [
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\tFinalizedVersionLevel: 0\tEpoch: 5",
        "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.3-IV0"
        "\tFinalizedVersionLevel: 4.3-IV0\tEpoch: 5",
    ]
    assert barnabas("features", "describe", "--node-id", "1").exit_code == 0
    assert barnabas("features", "describe", "--node-id", "7").exit_code == 1


@pytest.mark.parametrize(
    ("line", "said", "levels"),
    [
        ("upgrade --feature a=1", "a was upgraded to 1.", {"a": (1, 1)}),
        ("upgrade --feature a=1 --dry-run", "a can be upgraded to 1.", {"a": (1, 1)}),
        ("downgrade --feature a=0", "a was downgraded to 0.", {"a": (0, 2)}),
        ("disable --feature a --unsafe", "a was disabled.", {"a": (0, 3)}),
        ("upgrade --metadata 3.9", "metadata.version was upgraded to 21.", {"metadata.version": (21, 1)}),
    ],
)
def test_levels_change(
    barnabas: Barnabas, cluster: FakeCluster, line: str, said: str, levels: dict[str, tuple[int, int]]
) -> None:
    cluster.on(ApiKey.UPDATE_FEATURES, UpdateFeaturesResponse(error_message=None))
    assert barnabas("features", *line.split()).stdout == said + "\n"
    (request,) = cluster.asked(ApiKey.UPDATE_FEATURES)
    assert {
        each.feature: (each.max_version_level, each.upgrade_type) for each in request.feature_updates
    } == levels
    assert request.validate_only == ("--dry-run" in line)


def test_levels_of_a_release(barnabas: Barnabas, cluster: FakeCluster) -> None:
    refusal = UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="No.")
    cluster.on(ApiKey.UPDATE_FEATURES, refusal)
    result = barnabas("features", "upgrade", "--release-version", "4.0")
    assert result.exit_code == 1
    (request,) = cluster.asked(ApiKey.UPDATE_FEATURES)
    levels = {each.feature: each.max_version_level for each in request.feature_updates}
    assert levels["metadata.version"] == 25
    assert 0 not in levels.values(), "no feature is raised to 0"
    assert result.stderr.count("No.") == len(levels)


def test_the_quorum(barnabas: Barnabas, cluster: FakeCluster) -> None:
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


# ---- get-offsets, delete-records, leader-election


def by_partition(request: Any, version: int) -> ListOffsetsResponse:
    response = ListOffsetsResponse
    return response(
        topics=[
            response.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    response.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=each.partition_index
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", ["__consumer_offsets:0:0", "t:0:0", "t:1:1", "t:2:2", "u:0:0"]),
        ("--exclude-internal-topics --partitions 0", ["t:0:0", "u:0:0"]),
        ("--topic t|x --partitions 1,9", ["t:1:1"]),
        ("--topic-partitions t:0-2,u", ["t:0:0", "t:1:1", "u:0:0"]),
        ("--topic-partitions :2", ["t:2:2"]),
        ("--topic-partitions t:1-", ["t:1:1", "t:2:2"]),
        ("--topic-partitions t:-1", ["t:0:0"]),
    ],
)
def test_offsets(barnabas: Barnabas, cluster: FakeCluster, line: str, found: list[str]) -> None:
    cluster.topics |= {"t": 3, "u": 1, "__consumer_offsets": 1}
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    assert barnabas("get-offsets", *line.split()).stdout.splitlines() == found


def test_times(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    for time in ("latest", "earliest", "-3", "1700000000000"):
        barnabas("get-offsets", "--time", time)
    timestamps = [each.topics[0].partitions[0].timestamp for each in cluster.asked(ApiKey.LIST_OFFSETS)]
    assert timestamps == [-1, -2, -3, 1_700_000_000_000]
    assert barnabas("get-offsets", "--topic", "nope").exit_code == 1


def test_each_leader_is_asked_for_its_own() -> None:
    from broker.admin.calls.offsets import list_offsets
    from broker.admin.client import AdminClient
    from broker.admin.partitions import TopicPartition
    from broker.admin.settings import ClientSettings, parse_bootstrap

    with FakeCluster(3) as cluster:
        cluster.topics["t"] = 4
        cluster.on(ApiKey.LIST_OFFSETS, by_partition)
        wanted = [TopicPartition("t", number) for number in (0, 1, 3, 9)]
        with AdminClient(ClientSettings(parse_bootstrap(cluster.bootstrap))) as client:
            found = list_offsets(client, dict.fromkeys(wanted, -1))
        assert sorted(cluster.who(ApiKey.LIST_OFFSETS)) == [1, 2]
        assert isinstance(found[wanted[3]], ServerError)


def test_records_are_deleted(barnabas: Barnabas, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.topics["t"] = 2
    response = DeleteRecordsResponse
    partitions = [
        response.DeleteRecordsPartitionResult(partition_index=0, low_watermark=5),
        response.DeleteRecordsPartitionResult(partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
    ]
    topic = response.DeleteRecordsTopicResult(name="t", partitions=partitions)
    cluster.on(ApiKey.DELETE_RECORDS, response(topics=[topic]))
    file = tmp_path / "offsets.json"
    entries = [{"topic": "t", "partition": number, "offset": 5} for number in (0, 1)]
    file.write_text(json.dumps({"partitions": entries}))
    result = barnabas("delete-records", "--offset-json-file", str(file))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "partition: t-0\tlow_watermark: 5"
    assert "OFFSET_OUT_OF_RANGE" in result.stderr
    file.write_text('{"partitions": [{"topic": "t", "partition": 0}]}')
    assert "offset of t-0 is None" in barnabas("delete-records", "--offset-json-file", str(file)).stderr


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


# ---- reassign-partitions


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


def test_moves_begin(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
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


def test_moves_do_not_begin(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
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


def test_how_far_moves_are(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
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


def test_moves_are_listed_and_called_off(barnabas: Barnabas, movable: FakeCluster, plan: Path) -> None:
    assert barnabas("reassign-partitions", "--list").stdout == "No partition reassignments found.\n"
    movable.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, moving(0))
    assert (
        barnabas("reassign-partitions", "--list").stdout.splitlines()[1] == "t-0: replicas: 1,2. adding: 2."
    )
    line = ("reassign-partitions", "--cancel", "--reassignment-json-file", str(plan), "--preserve-throttles")
    assert barnabas(*line).stdout.splitlines()[0] == "Successfully cancelled partition reassignment for: t-0"
    (topic,) = movable.asked(ApiKey.ALTER_PARTITION_REASSIGNMENTS)[0].topics
    assert topic.partitions[0].replicas is None


def test_a_proposal(barnabas: Barnabas, movable: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"topics": [{"topic": "t"}]}')
    line = ("reassign-partitions", "--generate", "--topics-to-move-json-file", str(file), "--broker-list")
    lines = barnabas(*line, "1").stdout.splitlines()
    assert [each["replicas"] for each in json.loads(lines[-1])["partitions"]] == [[1], [1]]
    assert "Unknown broker id 7" in barnabas(*line, "7").stderr
    assert barnabas(*line, "1,1").exit_code == 2
