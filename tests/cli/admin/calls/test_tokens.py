"""What is asked of a cluster about delegation tokens."""

from __future__ import annotations

import pytest

from barnabas.cli.admin.calls.tokens import (
    Principal,
    Token,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import ServerError
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenResponse,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)
from tests.cli.admin.fake_broker import FakeCluster

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


def test_a_token_of_another_owner(client: AdminClient, cluster: FakeCluster) -> None:
    cluster.on(
        ApiKey.CREATE_DELEGATION_TOKEN,
        CreateDelegationTokenResponse(
            principal_type="User",
            principal_name="bob",
            token_requester_principal_type="User",
            token_requester_principal_name="alice",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="t",
            hmac=b"secret",
        ),
    )
    token = create_token(client, [ALICE], BOB, 5000)
    assert token == Token("t", b"secret", BOB, ALICE, [ALICE], 1, 2, 3)
    assert str(token.owner) == "User:bob"
    (asked,) = cluster.asked(ApiKey.CREATE_DELEGATION_TOKEN)
    assert (asked.owner_principal_type, asked.owner_principal_name) == BOB
    assert [(each.principal_type, each.principal_name) for each in asked.renewers] == [ALICE]
    assert asked.max_lifetime_ms == 5000


def test_new_expiries(client: AdminClient, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenResponse(expiry_timestamp_ms=7))
    cluster.on(ApiKey.EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenResponse(expiry_timestamp_ms=8))
    assert (renew_token(client, b"secret", 1), expire_token(client, b"secret", -1)) == (7, 8)


def test_tokens_are_sorted_by_age(client: AdminClient, cluster: FakeCluster) -> None:
    kind = DescribeDelegationTokenResponse.DescribedDelegationToken
    tokens = [
        kind(
            principal_type="User",
            principal_name="bob",
            issue_timestamp=issued,
            token_id=token_id,
            renewers=[],
        )
        for token_id, issued in (("c", 1), ("b", 2), ("a", 2))
    ]
    cluster.on(ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenResponse(tokens=tokens))
    found = describe_tokens(client, [BOB])
    assert [token.token_id for token in found] == ["c", "a", "b"]
    assert (found[0].owner, found[0].requester) == (BOB, None)


def test_an_error_of_the_broker_is_raised(client: AdminClient, cluster: FakeCluster) -> None:
    cluster.on(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    )
    with pytest.raises(ServerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
        describe_tokens(client, [])
