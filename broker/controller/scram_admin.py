"""The rules of SCRAM credentials: pure functions from an image and a request to records and results.

A client sends the salted and hashed password; the metadata store the two keys that SCRAM derives from it, so that
neither the password nor anything that allows a login can be read from them.
Source: org.apache.kafka.controller.ScramControlManager, org.apache.kafka.image.ScramImage, ScramFormatter (KIP-554,
RFC 5802).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.broker.metadata.image import ScramKey
from barnabas.broker.metadata.versions import SCRAM
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.messages.security import HASH_NAMES, MAX_ITERATIONS, MIN_ITERATIONS
from barnabas.protocol.schema import Message

Credentials = Mapping[ScramKey, UserScramCredentialRecord]


class Deletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential to create or replace."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


Change = Deletion | Upsertion


class Description(NamedTuple):
    """A user's mechanisms with the iterations of each, or the error."""

    user: str
    credentials: Sequence[tuple[int, int]]
    error: ApiError | None


def describe(credentials: Credentials, users: Sequence[str]) -> list[Description]:
    """The credentials of each user; no `users` means all. A user that is named twice, or has none, is an error."""
    by_user: dict[str, list[tuple[int, int]]] = {}
    for (user, mechanism), record in sorted(credentials.items()):
        by_user.setdefault(user, []).append((mechanism, record.iterations))
    counts = Counter(users or by_user.keys())
    return [_describe(user, counts[user], by_user.get(user, ())) for user in counts]


def _describe(user: str, times: int, found: Sequence[tuple[int, int]]) -> Description:
    if times > 1:
        error = ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
        return Description(user, (), error)
    if not found:
        error = ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}"
        )
        return Description(user, (), error)
    return Description(user, found, None)


def alter(
    credentials: Credentials, metadata_version: int, changes: Iterable[Change]
) -> tuple[list[Message], dict[str, ApiError | None]]:
    """Decides on all changes of one request, deletions first: the records, and the outcome by user.

    A user can be changed once in a request; after its first error its other changes are skipped.
    """
    accepted: dict[str, Change] = {}
    errors: dict[str, ApiError] = {}
    for change in changes:
        if change.user in errors:
            continue
        try:
            if accepted.pop(change.user, None) is not None:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            _check(credentials, metadata_version, change)
        except ApiError as error:
            errors[change.user] = error
        else:
            accepted[change.user] = change
    outcomes: dict[str, ApiError | None] = dict.fromkeys(accepted)
    return [_record(change) for change in accepted.values()], outcomes | errors


def _check(credentials: Credentials, metadata_version: int, change: Change) -> None:
    if metadata_version < SCRAM:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.user:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in HASH_NAMES:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Upsertion):
        _check_credential(change)
    elif (change.user, change.mechanism) not in credentials:
        raise ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )


def _check_credential(change: Upsertion) -> None:
    if change.iterations < MIN_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salted_password:  # as Kafka, whose HMAC rejects the empty key
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The salted password is empty.")


def _record(change: Change) -> Message:
    if isinstance(change, Deletion):
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    return credential_record(change)


def credential_record(change: Upsertion) -> UserScramCredentialRecord:
    """The record of a checked credential, with StoredKey and ServerKey of RFC 5802."""
    from barnabas.security.scram import client_key, server_key, stored_key  # they load much of OpenSSL

    digest, salted = HASH_NAMES[change.mechanism], change.salted_password
    return UserScramCredentialRecord(
        name=change.user,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=stored_key(digest, client_key(digest, salted)),
        server_key=server_key(digest, salted),
        iterations=change.iterations,
    )
