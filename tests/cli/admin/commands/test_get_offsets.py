from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from barnabas.cli.admin.errors import ServerError
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.offsets import ListOffsetsResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "get-offsets --topic t --topic-partitions u",
        "get-offsets --partitions a",
        "get-offsets --time foo",
        "get-offsets --topic (",
        "get-offsets --topic-partitions a:b",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


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
def test_offsets_are_listed(barnabas: Barnabas, cluster: FakeCluster, line: str, found: list[str]) -> None:
    cluster.topics |= {"t": 3, "u": 1, "__consumer_offsets": 1}
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    assert barnabas("get-offsets", *line.split()).stdout.splitlines() == found


def test_offsets_by_time(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    for time in ("latest", "earliest", "-3", "1700000000000"):
        barnabas("get-offsets", "--time", time)
    timestamps = [each.topics[0].partitions[0].timestamp for each in cluster.asked(ApiKey.LIST_OFFSETS)]
    assert timestamps == [-1, -2, -3, 1_700_000_000_000]
    assert barnabas("get-offsets", "--topic", "nope").exit_code == 1


def test_a_partition_without_a_leader_and_a_missing_one_have_different_errors(
    barnabas: Barnabas, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example after its log directory has failed: the error must not say that the topic is missing."""
    cluster.topics["t"] = 2
    monkeypatch.setattr(cluster, "_leader", lambda partition: 1 if partition else -1)
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    result = barnabas("get-offsets", "--topic", "t")
    assert result.exit_code == 1
    assert result.stdout.startswith("t:1:")
    assert "no offset of t-0" in result.stderr
    assert "LEADER_NOT_AVAILABLE" in result.stderr


def test_each_leader_is_asked_for_its_own_partitions() -> None:
    from barnabas.cli.admin.calls.offsets import list_offsets
    from barnabas.cli.admin.client import AdminClient
    from barnabas.cli.admin.partitions import TopicPartition
    from barnabas.cli.admin.settings import ClientSettings, parse_bootstrap

    with FakeCluster(3) as cluster:
        cluster.topics["t"] = 4
        cluster.on(ApiKey.LIST_OFFSETS, by_partition)
        wanted = [TopicPartition("t", number) for number in (0, 1, 3, 9)]
        with AdminClient(ClientSettings(parse_bootstrap(cluster.bootstrap))) as client:
            found = list_offsets(client, dict.fromkeys(wanted, -1))
        assert sorted(cluster.who(ApiKey.LIST_OFFSETS)) == [1, 2]
        assert isinstance(found[wanted[3]], ServerError)
