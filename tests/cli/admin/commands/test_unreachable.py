"""One unreachable broker of several: an error for its part of the answer, and the others are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import main
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.groups import ListGroupsResponse
from barnabas.protocol.messages.log_dirs import DescribeLogDirsResponse
from barnabas.protocol.messages.offsets import DeleteRecordsResponse
from barnabas.protocol.messages.producers import DescribeProducersResponse, ListTransactionsResponse
from tests.cli.admin.commands import test_groups
from tests.cli.admin.commands.test_get_offsets import by_partition
from tests.cli.admin.fake_broker import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Three brokers, the second stopped, with a topic of four partitions, of which it leads t-1."""
    with FakeCluster(3) as cluster:
        cluster.topics["t"] = 4
        cluster.brokers[2].stop()
        yield cluster


@pytest.fixture
def once(tmp_path: Path) -> list[str]:
    """Options with which each broker is tried once."""
    file = tmp_path / "client.properties"
    file.write_text("retries=0\n")
    return ["--command-config", str(file)]


def run(cluster: FakeCluster, *words: str) -> Result:
    environ = {"BARNABAS_BOOTSTRAP_SERVER": cluster.bootstrap}
    return CliRunner().invoke(main, list(words), env=environ, catch_exceptions=False)


def test_get_offsets(cluster: FakeCluster, once: list[str]) -> None:
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    result = run(cluster, "get-offsets", *once)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["t:0:0", "t:2:2", "t:3:3"]
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "error: no offset of t-1: its leader, broker 2, does not answer: timed out after 60 s: "
    )
    assert f"no server answers at 127.0.0.1:{cluster.brokers[2].port}" in line


@pytest.mark.parametrize("is_json", [False, True])
def test_delete_records(cluster: FakeCluster, once: list[str], tmp_path: Path, *, is_json: bool) -> None:
    def deleted(request: object, version: int) -> DeleteRecordsResponse:
        response = DeleteRecordsResponse
        partitions = [
            response.DeleteRecordsPartitionResult(partition_index=each.partition_index, low_watermark=5)
            for each in request.topics[0].partitions  # type: ignore[attr-defined]
        ]
        return response(topics=[response.DeleteRecordsTopicResult(name="t", partitions=partitions)])

    cluster.on(ApiKey.DELETE_RECORDS, deleted)
    file = tmp_path / "offsets.json"
    entries = [{"topic": "t", "partition": number, "offset": 5} for number in range(4)]
    file.write_text(json.dumps({"partitions": entries}))
    result = run(
        cluster, "delete-records", "--offset-json-file", str(file), *once, *(["--json"] if is_json else [])
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("error: t-1: its leader, broker 2, does not answer: ")
    if is_json:
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert [row["name"] for row in rows if row["error"]] == ["t-1"]
        assert len(rows) == 4
    else:
        printed = result.stdout.splitlines()[2:]
        assert printed == [f"partition: t-{number}\tlow_watermark: 5" for number in (0, 2, 3)]


def test_log_dirs(cluster: FakeCluster, once: list[str]) -> None:
    response = DescribeLogDirsResponse
    cluster.on(ApiKey.DESCRIBE_LOG_DIRS, response(results=[response.DescribeLogDirsResult(log_dir="/a")]))
    result = run(cluster, "log-dirs", "--describe", "--json", *once)
    assert result.exit_code == 1
    assert [json.loads(line)["broker"] for line in result.stdout.splitlines()] == [1, 3]
    assert result.stderr.startswith("error: no log directories of broker 2: timed out ")


@pytest.mark.parametrize("options", [(), ("--consumer",)])
def test_lists_of_groups(cluster: FakeCluster, once: list[str], options: tuple[str, ...]) -> None:
    response = ListGroupsResponse
    listed = response.ListedGroup(group_id="g", protocol_type="consumer", group_type="consumer")
    cluster.on(ApiKey.LIST_GROUPS, response(groups=[listed]))
    result = run(cluster, "groups", "--list", *options, *once)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].split()[0] == "g"
    assert result.stderr.startswith("error: no groups that broker 2 coordinates: timed out ")


def test_a_group_whose_partition_has_no_leader_that_answers(cluster: FakeCluster, once: list[str]) -> None:
    cluster.on(ApiKey.CONSUMER_GROUP_DESCRIBE, test_groups.consumer_groups)
    cluster.on(ApiKey.OFFSET_FETCH, test_groups.fetched)
    cluster.on(ApiKey.LIST_OFFSETS, test_groups.offsets)
    result = run(cluster, "groups", "--describe", "--group", "new", "--json", *once)
    assert result.exit_code == 1
    ends = {row["partition"]: row["logEndOffset"] for row in map(json.loads, result.stdout.splitlines())}
    assert ends == {0: test_groups.END, 1: None, 2: test_groups.END}
    assert result.stderr.startswith("error: no log end of t-1: its leader, broker 2, does not answer: ")


def test_transactions(cluster: FakeCluster, once: list[str]) -> None:
    response = ListTransactionsResponse
    state = response.TransactionState(transactional_id="x", producer_id=7, transaction_state="Ongoing")
    cluster.on(ApiKey.LIST_TRANSACTIONS, response(transaction_states=[state]))
    result = run(cluster, "transactions", "list", *once)
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [["x", "1"], ["x", "3"]]
    assert result.stderr.startswith("error: no transactional ids that broker 2 coordinates: timed out ")


def test_hanging_transactions_are_searched_on_reachable_brokers(
    cluster: FakeCluster, once: list[str]
) -> None:
    def nothing(request: object, version: int) -> DescribeProducersResponse:
        return DescribeProducersResponse(topics=[])

    cluster.on(ApiKey.DESCRIBE_PRODUCERS, nothing)
    result = run(cluster, "transactions", "find-hanging", "--topic", "t", *once)
    assert result.exit_code == 1
    assert sorted(cluster.who(ApiKey.DESCRIBE_PRODUCERS)) == [1, 3]
    assert result.stderr.startswith("error: the partitions of broker 2 were not searched: timed out ")


def test_a_command_that_needs_all_coordinators_fails_without_one(
    cluster: FakeCluster, once: list[str]
) -> None:
    """Otherwise an operation on all groups would omit the groups of that broker."""
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse(groups=[]))
    result = run(cluster, "groups", "--delete", "--all-groups", *once)
    assert (result.exit_code, result.stdout) == (1, "")
    assert ": no server answers at " in result.stderr
