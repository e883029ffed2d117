"""Delegation tokens."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bytes_, int16, int32, int64, string


class CreateDelegationTokenRequest(Message, api_key=38, versions="1-3", flexible="2+"):
    """Creates a delegation token."""

    class CreatableRenewers(Struct):
        principal_type: str = string()
        principal_name: str = string()

    owner_principal_type: str | None = string(versions="3+", nullable="3+")
    owner_principal_name: str | None = string(versions="3+", nullable="3+")
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = array("CreatableRenewers")
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Message, api_key=38, versions="1-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+")
    token_requester_principal_name: str = string(versions="3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    throttle_time_ms: int = int32()


class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+"):
    """Prolongs a delegation token."""

    hmac: bytes = bytes_()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+"):
    """Ends a delegation token, or changes when it ends."""

    hmac: bytes = bytes_()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


class DescribeDelegationTokenRequest(Message, api_key=41, versions="1-3", flexible="2+"):
    """Asks for the tokens of owners."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = string()
        principal_name: str = string()

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = array(
        "DescribeDelegationTokenOwner", nullable="0+"
    )


class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = string()
        principal_name: str = string()

    class DescribedDelegationToken(Struct):
        principal_type: str = string()
        principal_name: str = string()
        token_requester_principal_type: str = string(versions="3+")
        token_requester_principal_name: str = string(versions="3+")
        issue_timestamp: int = int64()
        expiry_timestamp: int = int64()
        max_timestamp: int = int64()
        token_id: str = string()
        hmac: bytes = bytes_()
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = array(
            "DescribedDelegationTokenRenewer"
        )

    error_code: int = int16()
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = array("DescribedDelegationToken")
    throttle_time_ms: int = int32()
