"""The rules of SCRAM credentials, and their records."""

from __future__ import annotations

import base64
import hashlib

import pytest

from barnabas.broker.controller.scram_admin import (
    Change,
    Deletion,
    Upsertion,
    alter,
    credential_record,
    describe,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import SCRAM
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import MAX_ITERATIONS, MIN_ITERATIONS

SHA_256, SHA_512 = 1, 2


def upsertion(
    user: str = "alice",
    mechanism: int = SHA_256,
    iterations: int = MIN_ITERATIONS,
    salted_password: bytes = b"salted",
) -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", salted_password)


class World:
    """Credentials that changes apply to as in the metadata."""

    def __init__(self) -> None:
        self.image = MetadataImage.empty()

    def alter(self, *changes: Change) -> dict[str, ErrorCode]:
        records, outcomes = alter(self.image.scram, SCRAM, changes)
        self.image, _ = replayed(self.image, records)
        return {user: ErrorCode.NONE if error is None else error.code for user, error in outcomes.items()}

    def described(self, *users: str) -> dict[str, object]:
        return {
            found.user: found.error.code if found.error else list(found.credentials)
            for found in describe(self.image.scram, users)
        }


def test_the_keys_of_the_example_in_rfc_7677() -> None:
    """User `user`, password `pencil`: the client's proof there is checked with these two keys."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    record = credential_record(Upsertion("user", SHA_256, 4096, salt, salted))
    auth = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac_sha256(record.stored_key, auth)
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == record.stored_key
    verifier = hmac_sha256(record.server_key, auth)
    assert base64.b64encode(verifier) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert record.salt == salt


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    import hmac

    return hmac.digest(key, message, "sha256")


def test_the_other_mechanism_has_longer_keys() -> None:
    record = credential_record(upsertion(mechanism=SHA_512))
    assert (len(record.stored_key), len(record.server_key)) == (64, 64)


def test_credentials_can_be_set_changed_and_deleted() -> None:
    world = World()
    assert world.alter(upsertion("alice"), upsertion("bob", SHA_512, 8192)) == {"alice": 0, "bob": 0}
    assert world.described() == {"alice": [(SHA_256, 4096)], "bob": [(SHA_512, 8192)]}
    world.alter(upsertion("alice", SHA_512, 5000))
    assert world.described("alice") == {"alice": [(SHA_256, 4096), (SHA_512, 5000)]}
    assert world.alter(Deletion("alice", SHA_256), Deletion("bob", SHA_512)) == {"alice": 0, "bob": 0}
    assert world.described() == {"alice": [(SHA_512, 5000)]}
    assert world.alter(Deletion("bob", SHA_512)) == {"bob": ErrorCode.RESOURCE_NOT_FOUND}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion("alice", 7), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=MIN_ITERATIONS - 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=MAX_ITERATIONS + 1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted_password=b""), ErrorCode.UNKNOWN_SERVER_ERROR),
        (Deletion("alice", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_invalid_changes_are_rejected(change: Change, code: ErrorCode) -> None:
    world = World()
    assert world.alter(change) == {change.user: code}
    assert world.described() == {}


@pytest.mark.parametrize("iterations", [MIN_ITERATIONS, MAX_ITERATIONS])
def test_the_bounds_of_iterations_are_allowed(iterations: int) -> None:
    assert World().alter(upsertion(iterations=iterations)) == {"alice": ErrorCode.NONE}


def test_a_user_altered_twice_in_a_request_is_rejected() -> None:
    world = World()
    world.alter(upsertion("alice"))
    for changes in (
        [upsertion("alice", SHA_256, 5000), upsertion("alice", SHA_512)],
        [Deletion("alice", SHA_256), upsertion("alice", SHA_512)],
        [Deletion("alice", SHA_256), Deletion("alice", SHA_256), upsertion("alice")],
    ):
        assert world.alter(*changes, upsertion("bob")) == {
            "bob": ErrorCode.NONE,
            "alice": ErrorCode.DUPLICATE_RESOURCE,
        }
        assert world.described("alice") == {"alice": [(SHA_256, 4096)]}


def test_old_metadata_versions_have_no_credentials() -> None:
    records, outcomes = alter({}, SCRAM - 1, [upsertion()])
    assert records == []
    assert outcomes["alice"] is not None
    assert outcomes["alice"].code is ErrorCode.UNSUPPORTED_VERSION
    assert outcomes["alice"].message == "The current metadata.version does not support SCRAM"


def test_descriptions_of_duplicate_users_and_users_without_credentials() -> None:
    world = World()
    world.alter(upsertion("alice"), upsertion("bob"))
    assert world.described("alice", "alice", "bob", "carol") == {
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": [(SHA_256, 4096)],
        "carol": ErrorCode.RESOURCE_NOT_FOUND,
    }
