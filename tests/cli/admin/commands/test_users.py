from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponse,
)
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "line",
    [
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
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


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


def test_users_are_described(barnabas: Barnabas, with_users: FakeCluster) -> None:
    assert barnabas("users", "--list").stdout == "a\n"
    result = barnabas("users", "--describe", "--user", "a", "--user", "b")
    assert rows(result.stdout)[1:] == [["a", "SCRAM-SHA-256", "4096"], ["a", "SCRAM-SHA-512", "4096"]]
    assert (result.exit_code, result.stderr) == (1, "error: no user 'b' has SCRAM credentials\n")


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
