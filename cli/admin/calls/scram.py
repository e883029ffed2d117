"""SCRAM credentials of users (KIP-554). Only salted hashes of passwords are sent."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.client import CONTROLLER, AdminClient, every_code
from barnabas.cli.admin.errors import ServerError, check
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import (
    HASH_NAMES,
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramMechanism,
)
from barnabas.security import scram

SALT_BYTES: Final = 26
"""The length that Kafka's own client uses."""


class Credential(NamedTuple):
    """A mechanism (its number) with which a user can authenticate; without the secret."""

    mechanism: int
    iterations: int


class ScramUser(NamedTuple):
    """One user with all credentials, or the error."""

    name: str
    credentials: list[Credential]
    error: ServerError | None = None


class NewCredential(NamedTuple):
    """A credential to set."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    password: str


class OldCredential(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


def describe_users(client: AdminClient, names: Sequence[str] | None = None) -> list[ScramUser]:
    """These users, or all that have credentials, sorted; a user without any has the error RESOURCE_NOT_FOUND."""
    users = (
        None if names is None else [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    )
    answer = client.send(DescribeUserScramCredentialsRequest(users=users))
    check(answer.error_code, answer.error_message)
    return sorted((_user(result) for result in answer.results), key=lambda user: user.name)


def _user(result: Any) -> ScramUser:
    if result.error_code != ErrorCode.NONE:
        return ScramUser(result.user, [], ServerError(result.error_code, result.error_message))
    credentials = sorted(Credential(each.mechanism, each.iterations) for each in result.credential_infos)
    return ScramUser(result.user, credentials)


def salted_password(credential: NewCredential, salt: bytes) -> bytes:
    """The SaltedPassword of RFC 5802; the password as UTF-8, as Kafka has it."""
    return scram.salted_password(
        HASH_NAMES[credential.mechanism], credential.password.encode(), salt, credential.iterations
    )


def alter_users(
    client: AdminClient,
    upsertions: Sequence[NewCredential],
    deletions: Sequence[OldCredential] = (),
) -> None:
    """Sets and deletes credentials, at most one of each user. Raises ServerError for the first that is rejected."""
    salted = [(each, secrets.token_bytes(SALT_BYTES)) for each in upsertions]
    request = AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in deletions
        ],
        upsertions=[
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=each.user,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=salt,
                salted_password=salted_password(each, salt),
            )
            for each, salt in salted
        ],
    )
    answer = client.send(request, CONTROLLER, codes=every_code)
    for result in answer.results:
        check(result.error_code, result.error_message, about=f"user {result.user!r}")
