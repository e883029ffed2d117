from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.quotas import AlterClientQuotasResponse, DescribeClientQuotasResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "line",
    [
        "quotas",
        "quotas --describe --producer-byte-rate 1",
        "quotas --alter --producer-byte-rate 1",
        "quotas --alter --user a",
        "quotas --alter --user a --user-defaults --producer-byte-rate 1",
        "quotas --alter --user a --ip 127.0.0.1 --producer-byte-rate 1",
        "quotas --delete --user a --quota foo",
        "quotas --alter --user a --producer-byte-rate x",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


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


def test_quotas_are_set_and_deleted(barnabas: Barnabas, cluster: FakeCluster) -> None:
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
