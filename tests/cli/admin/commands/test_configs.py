from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from barnabas.cli.admin.calls.scram import NewCredential, salted_password
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import (
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesResponse,
)
from barnabas.protocol.messages.groups import ListGroupsResponse
from barnabas.protocol.messages.quotas import AlterClientQuotasResponse, DescribeClientQuotasResponse
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponse,
    ScramMechanism,
)
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


def values(request: Any, version: int) -> DescribeConfigsResponse:
    """One value of each source, for every resource."""
    result = DescribeConfigsResponse.DescribeConfigsResourceResult
    synonym = DescribeConfigsResponse.DescribeConfigsSynonym
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    result(
                        name=f"key.{source}",
                        value=None if source == 4 else "v",
                        is_sensitive=source == 4,
                        config_source=source,
                        synonyms=[synonym(name="other", value="w", source=5)] if source == 1 else [],
                    )
                    for source in (8, 7, 6, 5, 4, 3, 2, 1)
                ],
            )
            for each in request.resources
        ]
    )


def altered(code: int = 0, message: str | None = None) -> IncrementalAlterConfigsResponse:
    response = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(responses=[response(error_code=code, error_message=message)])


@pytest.fixture
def configured(cluster: FakeCluster) -> FakeCluster:
    cluster.topics |= {"t": 1, "u": 1}
    cluster.on(ApiKey.DESCRIBE_CONFIGS, values)
    cluster.on(ApiKey.INCREMENTAL_ALTER_CONFIGS, altered())
    resource = ListConfigResourcesResponse.ConfigResource
    resources = [resource(resource_name="m", resource_type=16), resource(resource_name="g", resource_type=32)]
    cluster.on(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesResponse(config_resources=resources))
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse())
    return cluster


# ---- wrong command lines


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--describe",
        "--describe --alter --topic t",
        "--describe --entity-type foo",
        "--describe --entity-type topics --entity-type topics",
        "--describe --entity-type topics --entity-type brokers",
        "--describe --entity-type topics --entity-name t --topic u",
        "--describe --entity-type topics --entity-default",
        "--describe --topic t --topic u",
        "--describe --topic t --add-config a=b",
        "--describe --broker x",
        "--describe --entity-type broker-loggers",
        "--describe --entity-type users --entity-name a --entity-name b",
        "--describe --topic t --bootstrap-server a:1 --bootstrap-controller b:1",
        "--alter --topic t",
        "--alter --entity-type topics --add-config a=b",
        "--alter --entity-type topics --entity-default --add-config a=b",
        "--alter --topic t --add-config a",
        "--alter --topic t --add-config a=b --add-config-file /dev/null",
        "--alter --topic t --add-config-file /nowhere",
        "--alter --entity-type users --add-config producer_byte_rate=1",
        "--alter --entity-type users --entity-name a --entity-type clients --add-config producer_byte_rate=1",
        "--alter --user a --add-config foo=1",
        "--alter --user a --add-config producer_byte_rate=x",
        "--alter --user a --client c --add-config SCRAM-SHA-256=[password=x]",
        "--alter --user-defaults --add-config SCRAM-SHA-256=[password=x]",
        "--alter --user a --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1",
        "--alter --user a --add-config SCRAM-SHA-256=[iterations=1,password=x]",
        "--alter --user a --add-config SCRAM-SHA-256=[pasword=x]",
        "--alter --ip 127.0.0.1 --add-config producer_byte_rate=1",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas("configs", *line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr
    assert not cluster.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)


def test_an_unknown_host_is_rejected(barnabas: Barnabas) -> None:
    result = barnabas("configs", "--describe", "--ip", "a b")
    assert result.exit_code == 2
    assert "must be a valid IP or resolvable host, but it is: a b" in result.stderr


# ---- --describe


@pytest.mark.parametrize(
    ("line", "title", "source"),
    [
        ("--topic t", "Dynamic configs for topic t are:", 1),
        ("--entity-type topics --entity-name t", "Dynamic configs for topic t are:", 1),
        ("--broker 1", "Dynamic configs for broker 1 are:", 2),
        ("--broker-defaults", "Default configs for brokers in the cluster are:", 3),
        ("--entity-type brokers --entity-default", "Default configs for brokers in the cluster are:", 3),
        ("--client-metrics m", "Dynamic configs for client-metric m are:", 7),
        ("--group g", "Dynamic configs for group g are:", 8),
    ],
)
def test_describe_lists_configured_values(
    barnabas: Barnabas, configured: FakeCluster, line: str, title: str, source: int
) -> None:
    lines = barnabas("configs", "--describe", *line.split()).stdout.splitlines()
    synonyms = "DEFAULT_CONFIG:other=w" if source == 1 else ""
    assert lines == [title, f"  key.{source}=v sensitive=false synonyms={{{synonyms}}}"]


def test_describe_all_hides_secrets(barnabas: Barnabas, configured: FakeCluster) -> None:
    lines = barnabas("configs", "--describe", "--all", "--topic", "t").stdout.splitlines()
    assert lines[0] == "All configs for topic t are:"
    assert len(lines) == 9
    assert lines[4] == "  key.4=null sensitive=true synonyms={}"


def test_describe_without_a_name_lists_all_resources_of_a_type(
    barnabas: Barnabas, configured: FakeCluster
) -> None:
    lines = barnabas("configs", "--describe", "--entity-type", "topics").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "Dynamic configs for topic t are:",
        "Dynamic configs for topic u are:",
    ]
    lines = barnabas("configs", "--describe", "--entity-type", "brokers").stdout.splitlines()
    assert len(lines) == 4
    assert lines[2] == "Default configs for brokers in the cluster are:"


@pytest.mark.parametrize("line", ["--topic x", "--broker 7", "--group x", "--client-metrics x"])
def test_describe_of_missing_resources(barnabas: Barnabas, configured: FakeCluster, line: str) -> None:
    result = barnabas("configs", "--describe", *line.split())
    assert result.exit_code == 1
    assert "doesn't exist and doesn't have dynamic config" in result.stderr


def test_describe_as_json(barnabas: Barnabas, configured: FakeCluster) -> None:
    found = json.loads(barnabas("configs", "--describe", "--topic", "t", "--json").stdout)
    assert found["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert found["synonyms"] == [{"name": "other", "value": "w", "source": "DEFAULT_CONFIG"}]


def test_groups_on_brokers_without_list_config_resources(barnabas: Barnabas, configured: FakeCluster) -> None:
    group = ListGroupsResponse.ListedGroup(group_id="listed", protocol_type="consumer")
    configured.on(ApiKey.LIST_GROUPS, ListGroupsResponse(groups=[group]))
    line = ("configs", "--describe", "--entity-type", "groups")
    assert "group g are" in barnabas(*line).stdout
    configured.without(ApiKey.LIST_CONFIG_RESOURCES)
    assert barnabas(*line).stdout.splitlines()[0] == "Dynamic configs for group listed are:"
    configured.without(ApiKey.LIST_GROUPS)
    assert barnabas(*line).stdout == ""


# ---- --alter of resources


def changes(cluster: FakeCluster) -> tuple[int, str, dict[str, tuple[int, str | None]]]:
    (resource,) = cluster.asked(ApiKey.INCREMENTAL_ALTER_CONFIGS)[-1].resources
    ops = {each.name: (each.config_operation, each.value) for each in resource.configs}
    return resource.resource_type, resource.resource_name, ops


@pytest.mark.parametrize(
    ("line", "resource", "whose"),
    [
        ("--topic t", (2, "t"), "config for topic t"),
        ("--broker 1", (4, "1"), "config for broker 1"),
        ("--broker-defaults", (4, ""), "default config for brokers in the cluster"),
        ("--client-metrics m", (16, "m"), "config for client-metric m"),
        ("--group g", (32, "g"), "config for group g"),
    ],
)
def test_keys_are_set_and_deleted(
    barnabas: Barnabas, configured: FakeCluster, line: str, resource: tuple[int, str], whose: str
) -> None:
    more = ["--add-config", "a=1,b=[2,3]", "--delete-config", "c,d", "--delete-config", "e"]
    result = barnabas("configs", "--alter", *line.split(), *more)
    assert (result.exit_code, result.stdout) == (0, f"Completed updating {whose}.\n")
    expected = {"a": (0, "1"), "b": (0, "2,3"), "c": (1, None), "d": (1, None), "e": (1, None)}
    assert changes(configured) == (*resource, expected)


def test_a_file_of_settings(barnabas: Barnabas, configured: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "add.properties"
    file.write_text("a=1,2\n")
    assert barnabas("configs", "--alter", "--topic", "t", "--add-config-file", str(file)).exit_code == 0
    assert changes(configured)[2] == {"a": (0, "1,2")}


def test_the_brokers_error_is_printed(barnabas: Barnabas, configured: FakeCluster) -> None:
    configured.on(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, altered(ErrorCode.INVALID_CONFIG, "Unknown topic config name: a")
    )
    result = barnabas("configs", "--alter", "--topic", "t", "--add-config", "a=1")
    assert (result.exit_code, result.stderr) == (1, "error: Unknown topic config name: a (INVALID_CONFIG)\n")


def test_loggers_must_exist(barnabas: Barnabas, configured: FakeCluster) -> None:
    result = barnabas("configs", "--alter", "--broker-logger", "1", "--add-config", "key.6=DEBUG")
    assert result.exit_code == 0
    assert changes(configured) == (8, "1", {"key.6": (0, "DEBUG")})
    result = barnabas("configs", "--alter", "--broker-logger", "1", "--add-config", "nope=DEBUG")
    assert (result.exit_code, result.stderr) == (1, "error: Invalid broker logger(s): nope\n")


# ---- quotas and users


def quotas(**values: float) -> DescribeClientQuotasResponse:
    response = DescribeClientQuotasResponse
    entry = response.EntryData(
        entity=[response.EntityData(entity_type="user", entity_name="a")],
        values=[response.ValueData(key=key, value=value) for key, value in values.items()],
    )
    return response(entries=[entry])


@pytest.fixture
def with_users(cluster: FakeCluster) -> FakeCluster:
    cluster.on(ApiKey.DESCRIBE_CLIENT_QUOTAS, quotas(producer_byte_rate=1024.0, request_percentage=50.0))
    quota = AlterClientQuotasResponse.EntryData(error_message=None)
    cluster.on(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasResponse(entries=[quota]))
    described = DescribeUserScramCredentialsResponse
    alice = described.DescribeUserScramCredentialsResult(
        user="a",
        error_message=None,
        credential_infos=[described.CredentialInfo(mechanism=1, iterations=8192)],
    )
    missing = described.DescribeUserScramCredentialsResult(
        user="b", error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="no"
    )
    cluster.on(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, described(error_message=None, results=[alice, missing])
    )
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(user="a", error_message=None)
    cluster.on(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsResponse(results=[result]))
    return cluster


def test_users_with_quotas_and_credentials(barnabas: Barnabas, with_users: FakeCluster) -> None:
    assert barnabas("configs", "--describe", "--user", "a").stdout.splitlines() == [
        "Quota configs for user-principal 'a' are producer_byte_rate=1024.0, request_percentage=50.0",
        "SCRAM credential configs for user-principal 'a' are SCRAM-SHA-256=iterations=8192",
    ]
    (request,) = with_users.asked(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    assert request.strict
    assert [(each.entity_type, each.match_type, each.match) for each in request.components] == [
        ("user", 0, "a")
    ]


@pytest.mark.parametrize(
    ("line", "components"),
    [
        ("--entity-type users --entity-type clients", [("user", 2, None), ("client-id", 2, None)]),
        ("--user-defaults --client c", [("client-id", 0, "c"), ("user", 1, None)]),
        (
            "--entity-type users --entity-default --entity-type clients --entity-name c",
            [("user", 1, None), ("client-id", 0, "c")],
        ),
        (
            "--entity-type users --entity-name a --entity-type clients --entity-default",
            [("user", 0, "a"), ("client-id", 1, None)],
        ),
        ("--entity-type ips", [("ip", 2, None)]),
    ],
)
def test_quotas_are_filtered_by_entity(
    barnabas: Barnabas, with_users: FakeCluster, line: str, components: list[Any]
) -> None:
    assert barnabas("configs", "--describe", *line.split()).exit_code == 0
    (request,) = with_users.asked(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    assert [(each.entity_type, each.match_type, each.match) for each in request.components] == components
    assert not with_users.asked(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)


def test_quotas_are_set_and_deleted(barnabas: Barnabas, with_users: FakeCluster) -> None:
    line = "--alter --user a --add-config consumer_byte_rate=5 --delete-config producer_byte_rate"
    assert barnabas("configs", *line.split()).stdout == "Completed updating config for user a.\n"
    (entry,) = with_users.asked(ApiKey.ALTER_CLIENT_QUOTAS)[0].entries
    assert [(each.key, each.value, each.remove) for each in entry.ops] == [
        ("producer_byte_rate", 0.0, True),
        ("consumer_byte_rate", 5.0, False),
    ]
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "a")]


def test_a_quota_that_is_not_set_cannot_be_deleted(barnabas: Barnabas, with_users: FakeCluster) -> None:
    result = barnabas("configs", "--alter", "--user", "a", "--delete-config", "consumer_byte_rate")
    assert result.exit_code == 1
    assert "Invalid config(s): consumer_byte_rate" in result.stderr
    assert not with_users.asked(ApiKey.ALTER_CLIENT_QUOTAS)


def test_passwords_are_not_sent(barnabas: Barnabas, with_users: FakeCluster) -> None:
    result = barnabas("configs", "--alter", "--user", "a", "--add-config", "SCRAM-SHA-512=[password=geheim]")
    assert result.exit_code == 0
    (credential,) = with_users.asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)[0].upsertions
    assert (credential.mechanism, credential.iterations, len(credential.salt)) == (2, 4096, 26)
    expected = NewCredential("a", ScramMechanism.SCRAM_SHA_512, 4096, "geheim")
    assert credential.salted_password == salted_password(expected, credential.salt)
    assert len(credential.salted_password) == 64


def test_credentials_are_deleted(barnabas: Barnabas, with_users: FakeCluster) -> None:
    assert barnabas("configs", "--alter", "--user", "a", "--delete-config", "SCRAM-SHA-256").exit_code == 0
    (deletion,) = with_users.asked(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)[0].deletions
    assert (deletion.name, deletion.mechanism) == ("a", 1)
