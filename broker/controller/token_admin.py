"""The rules of delegation tokens: pure functions from a token and a request to records, or to Kafka's error.

A token has a maximum time, set when it is created, and an expiry before it, which renewals move on. Its secret is not
in the metadata: every broker computes it from the id and delegation.token.secret.key (`broker/security/tokens.py`).

| request | rejected, in this order |
| --- | --- |
| all | DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION |
| create | INVALID_PRINCIPAL_TYPE |
| renew | DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH |
| expire | DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED unless it is removed |

Times are in milliseconds, moments since 1970.
Source: org.apache.kafka.controller.DelegationTokenControlManager (KIP-48, KIP-373).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.broker.metadata.versions import DELEGATION_TOKENS
from barnabas.broker.request import USER, KafkaPrincipal
from barnabas.broker.security.tokens import end_ms
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from barnabas.protocol.schema import Message

MAX_REMOVALS: Final = 1000
"""Records of one sweep; the next follows at once."""

_LAST_MOMENT: Final = 2**63 - 1

Tokens = Mapping[str, DelegationTokenRecord]
"""The tokens of an image, by id."""


class TokenLimits(NamedTuple):
    """delegation.token.max.lifetime.ms and delegation.token.expiry.time.ms."""

    max_lifetime_ms: int
    expiry_time_ms: int


class NewToken(NamedTuple):
    """A token to create. A `max_lifetime_ms` of 0 or below asks for the longest."""

    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: Sequence[KafkaPrincipal]
    max_lifetime_ms: int


def check_enabled(limits: TokenLimits | None, metadata_version: int) -> TokenLimits:
    """The limits of tokens. Raises ApiError where there are none, by configuration or metadata version."""
    if limits is None:
        raise _error(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if metadata_version < DELEGATION_TOKENS:
        raise _error(ErrorCode.UNSUPPORTED_VERSION)
    return limits


def check_renewers(renewers: Sequence[KafkaPrincipal]) -> None:
    """Raises ApiError for a renewer that is no user."""
    if any(renewer.principal_type != USER for renewer in renewers):
        raise _error(ErrorCode.INVALID_PRINCIPAL_TYPE)


def create(token_id: str, wanted: NewToken, limits: TokenLimits, now_ms: int) -> DelegationTokenRecord:
    """The record of a new token. Raises ApiError."""
    check_renewers(wanted.renewers)
    lifetime_ms = _shorter(limits.max_lifetime_ms, wanted.max_lifetime_ms)
    max_ms = _later(now_ms, lifetime_ms)
    return DelegationTokenRecord(
        owner=str(wanted.owner),
        requester=str(wanted.requester),
        renewers=[str(renewer) for renewer in wanted.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, _later(now_ms, limits.expiry_time_ms)),
        token_id=token_id,
    )


def renew(
    token: DelegationTokenRecord | None,
    requester: KafkaPrincipal,
    period_ms: int,
    limits: TokenLimits,
    now_ms: int,
) -> DelegationTokenRecord:
    """The record of a token whose expiry moves on; `token` is None for an unknown one. Raises ApiError.

    A `period_ms` of 0 or below asks for the longest.
    """
    known = _known(token)
    _check_not_expired(known, now_ms)
    _check_may_change(known, requester)
    return _with_expiry(known, _later(now_ms, _shorter(limits.expiry_time_ms, period_ms)))


def expire(
    token: DelegationTokenRecord | None, requester: KafkaPrincipal, period_ms: int, now_ms: int
) -> tuple[Message, int]:
    """The record that ends a token after a period, or at once for one below 0, and its expiry. Raises ApiError."""
    known = _known(token)
    _check_may_change(known, requester)
    if period_ms < 0:
        return RemoveDelegationTokenRecord(token_id=known.token_id), now_ms
    _check_not_expired(known, now_ms)
    changed = _with_expiry(known, _later(now_ms, period_ms))
    return changed, changed.expiration_timestamp


def sweep(tokens: Tokens, now_ms: int) -> list[RemoveDelegationTokenRecord]:
    """The records that remove expired tokens, MAX_REMOVALS at most."""
    records = []
    for token_id, token in tokens.items():
        if is_expired(token, now_ms):
            records.append(RemoveDelegationTokenRecord(token_id=token_id))
            if len(records) >= MAX_REMOVALS:
                break
    return records


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Whether the token's expiry has passed: nobody may log in by it or renew it."""
    return end_ms(token) < now_ms


def is_owner_or_renewer(token: DelegationTokenRecord, principal: KafkaPrincipal) -> bool:
    """Whether the token is the principal's, or may be renewed by it."""
    name = str(principal)
    return name == token.owner or name in token.renewers


def _known(token: DelegationTokenRecord | None) -> DelegationTokenRecord:
    if token is None:
        raise _error(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_not_expired(token: DelegationTokenRecord, now_ms: int) -> None:
    if is_expired(token, now_ms):
        raise _error(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_may_change(token: DelegationTokenRecord, requester: KafkaPrincipal) -> None:
    if not is_owner_or_renewer(token, requester):
        raise _error(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _with_expiry(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=min(token.max_timestamp, expiry_ms),
        token_id=token.token_id,
    )


def _shorter(limit_ms: int, asked_ms: int) -> int:
    """What was asked for, where that is above 0 and within the limit."""
    return min(limit_ms, asked_ms) if asked_ms > 0 else limit_ms


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _LAST_MOMENT)


def _error(code: ErrorCode) -> ApiError:
    return ApiError(code, code.text)
