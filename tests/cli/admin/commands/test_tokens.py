from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenResponse,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]

SECRET = bytes(range(200, 232))
HMAC = base64.b64encode(SECRET).decode()
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dates are in local time."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "line",
    [
        "tokens",
        "tokens --list --create",
        "tokens --list --hmac x",
        "tokens --describe --renewer-principal User:a",
        "tokens --create --owner-principal User:a --owner-principal User:b",
        "tokens --create --owner-principal alice",
        "tokens --create --renewer-principal :alice",
        "tokens --create --renew-time-period 5",
        "tokens --renew",
        "tokens --renew --hmac AAAA --hmac-file /dev/null",
        "tokens --renew --hmac AAAA --expiry-time-period 5",
        "tokens --expire --hmac not-base-64",
        "tokens --expire --hmac AAAA --owner-principal User:a",
        "tokens --expire --hmac AAAA --expiry-time-period soon",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert "not-base-64" not in result.stderr
    assert not cluster.requests


def created(request: Any, version: int) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        principal_type="User",
        principal_name=request.owner_principal_name or "alice",
        token_requester_principal_type="User",
        token_requester_principal_name="alice",
        issue_timestamp_ms=0,
        expiry_timestamp_ms=DAY_MS,
        max_timestamp_ms=7 * DAY_MS,
        token_id="id-1",
        hmac=SECRET,
    )


def test_a_token_is_created(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.CREATE_DELEGATION_TOKEN, created)
    result = barnabas("tokens", "--create")
    first, heads, row = result.stdout.splitlines()
    assert first == "Created delegation token with tokenId : id-1"
    assert heads.split()[:2] == ["TOKENID", "HMAC"]
    dates = ["1970-01-01T00:00", "1970-01-02T00:00", "1970-01-08T00:00"]
    assert row.split() == ["id-1", HMAC, "User:alice", "User:alice", "-", *dates]
    line = (
        "tokens --create --json --owner-principal User:bob --renewer-principal User:c:d "
        "--renewer-principal User:e --max-life-time-period 1000"
    )
    assert json.loads(barnabas(*line.split()).stdout) == {
        "type": "token",
        "tokenId": "id-1",
        "hmac": HMAC,
        "owner": "User:bob",
        "requester": "User:alice",
        "renewers": ["User:c:d", "User:e"],
        "issueTimestamp": 0,
        "expiryTimestamp": DAY_MS,
        "maxTimestamp": 7 * DAY_MS,
    }
    plain, full = cluster.asked(ApiKey.CREATE_DELEGATION_TOKEN)
    assert (plain.owner_principal_name, plain.renewers, plain.max_lifetime_ms) == ("", [], -1)
    assert (full.owner_principal_type, full.owner_principal_name, full.max_lifetime_ms) == (
        "User",
        "bob",
        1000,
    )
    assert [each.principal_name for each in full.renewers] == ["c:d", "e"]


def test_a_token_is_renewed_and_expired(barnabas: Barnabas, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.on(ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenResponse(expiry_timestamp_ms=DAY_MS))
    cluster.on(ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenResponse(expiry_timestamp_ms=2**63 - 1))
    result = barnabas("tokens", "--renew", "--hmac", HMAC)
    assert result.stdout == "Completed renew operation. New expiry date : 1970-01-02T00:00\n"
    (tmp_path / "secret").write_text(f"{HMAC}\r\nnot this\n")
    file = ("--hmac-file", str(tmp_path / "secret"))
    result = barnabas("tokens", "--expire", *file, "--expiry-time-period", "5000")
    assert result.stdout == f"Completed expire operation. New expiry date : {2**63 - 1}\n"
    result = barnabas("tokens", "--expire", *file, "--json")
    assert json.loads(result.stdout)["action"] == "expire"
    (renewal,) = cluster.asked(ApiKey.RENEW_DELEGATION_TOKEN)
    assert (renewal.hmac, renewal.renew_period_ms) == (SECRET, -1)
    later, now = cluster.asked(ApiKey.EXPIRE_DELEGATION_TOKEN)
    assert (later.hmac, later.expiry_time_period_ms, now.expiry_time_period_ms) == (SECRET, 5000, -1)


def test_a_file_that_is_no_text(barnabas: Barnabas, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    result = barnabas("tokens", "--renew", "--hmac-file", str(tmp_path / "secret"))
    assert (result.exit_code, "cannot be read" in result.stderr) == (1, True)


def described(request: Any, version: int) -> DescribeDelegationTokenResponse:
    kind = DescribeDelegationTokenResponse.DescribedDelegationToken
    renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
    if request.owners and request.owners[0].principal_name == "nobody":
        return DescribeDelegationTokenResponse()
    return DescribeDelegationTokenResponse(
        tokens=[
            kind(
                principal_type="User",
                principal_name="alice",
                issue_timestamp=issued,
                expiry_timestamp=DAY_MS,
                max_timestamp=DAY_MS,
                token_id=token_id,
                hmac=SECRET,
                renewers=[renewer(principal_type="User", principal_name=name) for name in ("b", "c")],
            )
            for token_id, issued in (("later", 60_000), ("first", 0))
        ]
    )


def test_tokens_are_listed_and_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_DELEGATION_TOKEN, described)
    listed = barnabas("tokens", "--list")
    assert listed.stdout == "first\nlater\n"
    as_json = barnabas("tokens", "--list", "--json").stdout
    assert HMAC not in listed.stdout + as_json
    _, first, later = barnabas("tokens", "--describe").stdout.splitlines()
    assert first.split()[:5] == ["first", HMAC, "User:alice", "-", "User:b,User:c"]
    assert later.split()[5] == "1970-01-01T00:01"
    line = "tokens --describe --owner-principal User:nobody --owner-principal User:x"
    assert barnabas(*line.split()).stdout == ""
    everybody, *_, named = cluster.asked(ApiKey.DESCRIBE_DELEGATION_TOKEN)
    assert everybody.owners is None
    assert [each.principal_name for each in named.owners] == ["nobody", "x"]


@pytest.mark.parametrize(
    ("line", "key", "response"),
    [
        ("--create", ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenResponse),
        ("--renew --hmac AAAA", ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenResponse),
        ("--expire --hmac AAAA", ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenResponse),
        ("--describe", ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenResponse),
    ],
)
def test_an_error_of_the_broker(
    barnabas: Barnabas, cluster: FakeCluster, line: str, key: ApiKey, response: Any
) -> None:
    cluster.on(key, response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    result = barnabas("tokens", *line.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert "DELEGATION_TOKEN_AUTH_DISABLED" in result.stderr
