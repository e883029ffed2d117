"""The output of the commands on a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from click.testing import Result
from rich.console import Console

from barnabas.cli.admin.output import Output
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import DescribeAclsResponse
from barnabas.protocol.messages.topics import ListPartitionReassignmentsResponse
from tests.cli.admin.commands.test_configs import values
from tests.cli.admin.commands.test_get_offsets import by_partition
from tests.cli.admin.commands.test_groups import GROUPS, classic_groups, consumer_groups, fetched
from tests.cli.admin.commands.test_log_dirs import in_dirs
from tests.cli.admin.commands.test_topics import configs_of
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system=None, width=120, highlight=False)
    monkeypatch.setattr(Output, "standard", lambda *, as_json: Output(as_json=as_json, console=console))
    return screen


@pytest.fixture
def lively(cluster: FakeCluster) -> FakeCluster:
    cluster.topics |= {"t": 2}
    cluster.on(ApiKey.DESCRIBE_CONFIGS, configs_of)
    cluster.on(ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsResponse())
    cluster.on(ApiKey.DESCRIBE_LOG_DIRS, in_dirs())
    cluster.on(ApiKey.LIST_OFFSETS, by_partition)
    cluster.on(ApiKey.LIST_GROUPS, GROUPS)
    cluster.on(ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_groups)
    cluster.on(ApiKey.DESCRIBE_GROUPS, classic_groups)
    cluster.on(ApiKey.OFFSET_FETCH, fetched)
    acl = DescribeAclsResponse.AclDescription(principal="User:a", host="*", operation=3, permission_type=3)
    resource = DescribeAclsResponse.DescribeAclsResource(resource_type=2, resource_name="t", acls=[acl])
    cluster.on(ApiKey.DESCRIBE_ACLS, DescribeAclsResponse(error_message=None, resources=[resource]))
    return cluster


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "topics --describe",
            ["t: 2 partitions, replication factor 1", "retention.ms=7", "Partition", "LastKnownElr"],
        ),
        ("topics --describe --topics-with-overrides", ["t: 2 partitions"]),
        (
            "configs --describe --topic t",
            ["Dynamic configs for topic t are:", "retention.ms", "DYNAMIC_TOPIC_CONFIG"],
        ),
        (
            "log-dirs --describe",
            ["broker 1: /a: 2 replicas, 4.0 KiB; 1.0 GiB of 4.0 GiB left", "t-0", "Offset lag"],
        ),
        ("get-offsets --topic t", ["Topic", "Offset"]),
        ("groups --list", ["GROUP", "simple"]),
        ("groups --describe --group old", ["CURRENT-OFFSET", "m1"]),
        ("acls --list", ["Principal", "User:a", "LITERAL"]),
        ("features describe", ["In force", "4.3-IV0"]),
        ("cluster list-endpoints", ["ENDPOINT_TYPE", "unfenced"]),
    ],
)
def test_tables(
    barnabas: Barnabas, lively: FakeCluster, screen: io.StringIO, line: str, words: list[str]
) -> None:
    assert barnabas(*line.split()).exit_code == 0
    for word in words:
        assert word in screen.getvalue()
    assert ("─" in screen.getvalue()) == (len(words) > 1)


def test_secrets_are_hidden(barnabas: Barnabas, lively: FakeCluster, screen: io.StringIO) -> None:
    lively.on(ApiKey.DESCRIBE_CONFIGS, values)
    assert barnabas("configs", "--describe", "--topic", "t", "--all").exit_code == 0
    assert "(hidden)" in screen.getvalue()
