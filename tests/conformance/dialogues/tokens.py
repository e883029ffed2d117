"""Delegation tokens of clients that do not log in: they may not have any. Others: `test_delegation_tokens`."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

OWNER_SINCE = 3


@dialogue(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3)
def create_without_a_login(client: DialogueClient) -> None:
    renewer = CreateDelegationTokenRequest.CreatableRenewers
    for kind in ("User", "Group"):
        renewers = [renewer(principal_type=kind, principal_name="bob")]
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
        client.request(request)
        if client.version >= OWNER_SINCE:
            request.owner_principal_type, request.owner_principal_name = "User", "alice"
            client.request(request)
            request.owner_principal_type, request.owner_principal_name = None, None
            client.request(request)


@dialogue(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2)
def renew_without_a_login(client: DialogueClient) -> None:
    for secret in (b"", b"unknown"):
        client.request(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1))


@dialogue(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2)
def expire_without_a_login(client: DialogueClient) -> None:
    for period in (-1, 0, 1):
        client.request(ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=period))


@dialogue(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3)
def describe_without_a_login(client: DialogueClient) -> None:
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    for owners in (None, [], [owner(principal_type="User", principal_name="ANONYMOUS")]):
        client.request(DescribeDelegationTokenRequest(owners=owners))
