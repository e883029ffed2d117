from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.cli.admin.commands.log_dirs import human_bytes
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.log_dirs import DescribeLogDirsResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "log-dirs",
        "log-dirs --describe --broker-list x",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


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


def test_log_dirs_are_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
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


def test_human_readable_sizes() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"}
    assert {size: human_bytes(size) for size in sizes} == sizes
