from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offsets import DeleteRecordsResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "delete-records",
        "delete-records --offset-json-file /nowhere",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


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


def test_a_missing_topic_does_not_stop_the_deletion_of_other_records(
    barnabas: Barnabas, cluster: FakeCluster, tmp_path: Path
) -> None:
    """As with Kafka's tool, a misspelled topic in the file is reported, and the other lines are applied."""
    cluster.topics["t"] = 1
    response = DeleteRecordsResponse
    partition = response.DeleteRecordsPartitionResult(partition_index=0, low_watermark=5)
    topic = response.DeleteRecordsTopicResult(name="t", partitions=[partition])
    cluster.on(ApiKey.DELETE_RECORDS, response(topics=[topic]))
    file = tmp_path / "offsets.json"
    entries = [{"topic": name, "partition": 0, "offset": 5} for name in ("gone", "t")]
    file.write_text(json.dumps({"partitions": entries}))
    result = barnabas("delete-records", "--offset-json-file", str(file))
    assert result.stdout.splitlines()[-1] == "partition: t-0\tlow_watermark: 5"
    assert result.stderr.startswith("error: gone-0: ")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in result.stderr
    assert result.exit_code == 1
