from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
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
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


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
    assert barnabas(*line.split()).exit_code == 1, "not confirmed"
    assert not cluster.asked(ApiKey.DELETE_ACLS)
    assert barnabas(*line.split(), "--force").exit_code == 0
    (wanted,) = cluster.asked(ApiKey.DELETE_ACLS)[0].filters
    assert (wanted.principal_filter, wanted.host_filter, wanted.operation) == ("User:a", "*", 3)


def test_a_broker_without_an_authorizer(barnabas: Barnabas, cluster: FakeCluster) -> None:
    refusal = DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured"
    )
    cluster.on(ApiKey.DESCRIBE_ACLS, refusal)
    result = barnabas("acls", "--list")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: No Authorizer is configured (SECURITY_DISABLED)\n",
    )
