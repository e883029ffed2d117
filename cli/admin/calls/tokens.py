"""Delegation tokens (KIP-48, KIP-373). Times are milliseconds since 1970; a period of -1 is the broker's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.cli.admin.client import CONTROLLER, AdminClient
from barnabas.cli.admin.errors import check
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)


class Principal(NamedTuple):
    """Who owns, asks for or renews a token."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Token(NamedTuple):
    """A token with its secret, `hmac`. The requester is None where the broker does not tell it."""

    token_id: str
    hmac: bytes
    owner: Principal
    requester: Principal | None
    renewers: Sequence[Principal]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


def create_token(
    client: AdminClient, renewers: Sequence[Principal], owner: Principal | None, max_lifetime_ms: int
) -> Token:
    """A new token, of the client itself without an owner. Raises ServerError."""
    request = CreateDelegationTokenRequest(
        renewers=[
            CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in renewers
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = owner
    answer = client.send(request, CONTROLLER)
    check(answer.error_code)
    return Token(
        answer.token_id,
        answer.hmac,
        Principal(answer.principal_type, answer.principal_name),
        _requester(answer),
        renewers,
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


def _requester(answer: Any) -> Principal | None:
    kind, name = answer.token_requester_principal_type, answer.token_requester_principal_name
    return Principal(kind, name) if kind or name else None


def renew_token(client: AdminClient, hmac: bytes, period_ms: int) -> int:
    """The new expiry of a token. Raises ServerError."""
    answer = client.send(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), CONTROLLER)
    check(answer.error_code)
    expiry_ms: int = answer.expiry_timestamp_ms
    return expiry_ms


def expire_token(client: AdminClient, hmac: bytes, period_ms: int) -> int:
    """The new expiry of a token, which a period below 0 removes. Raises ServerError."""
    answer = client.send(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), CONTROLLER)
    check(answer.error_code)
    expiry_ms: int = answer.expiry_timestamp_ms
    return expiry_ms


def describe_tokens(client: AdminClient, owners: Sequence[Principal]) -> list[Token]:
    """The tokens of these owners or renewers, or without any all that the client may see. Raises ServerError."""
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    named = [owner(principal_type=kind, principal_name=name) for kind, name in owners]
    answer = client.send(DescribeDelegationTokenRequest(owners=named or None))
    check(answer.error_code)
    found = [
        Token(
            each.token_id,
            each.hmac,
            Principal(each.principal_type, each.principal_name),
            _requester(each),
            [Principal(renewer.principal_type, renewer.principal_name) for renewer in each.renewers],
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in answer.tokens
    ]
    return sorted(found, key=lambda token: (token.issue_timestamp_ms, token.token_id))
