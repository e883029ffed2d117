"""Delegation tokens: their secrets, and the credentials of logins by them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.security.sasl.scram import Credential
from barnabas.broker.security.tokens import DelegationTokens
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from barnabas.protocol.messages.security import ScramMechanism
from barnabas.protocol.schema import Message

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
KEY = "a key of all brokers"
SALT = b"a salt"


def token(token_id: str = "t", owner: str = "User:alice", expiry_ms: int = 5000) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=owner,
        requester=owner,
        renewers=[],
        max_timestamp=9000,
        expiration_timestamp=expiry_ms,
        token_id=token_id,
    )


class World:
    """Tokens that follow an image, at a time of day that the test sets."""

    def __init__(self, key: str | None = KEY) -> None:
        self.now_ms = 1000
        self.image = MetadataImage.empty()
        self.tokens = DelegationTokens(key, lambda: self.now_ms)

    def apply(self, *records: Message) -> None:
        self.image, delta = replayed(self.image, records)
        self.tokens.apply(self.image, delta)

    def credential(self, token_id: str = "t", salt: bytes = SALT) -> Credential | None:
        return self.tokens.credential(token_id, SHA_256, salt)


@pytest.fixture
def world() -> World:
    found = World()
    found.apply(token())
    return found


def test_the_secret_of_a_token_is_the_hmac_of_its_id(world: World) -> None:
    assert world.tokens.hmac("t") == hmac.digest(KEY.encode(), b"t", hashlib.sha512)
    assert World("another").tokens.hmac("t") != world.tokens.hmac("t")


def test_the_credential_is_the_one_of_the_secret_in_base_64(world: World) -> None:
    found = world.credential()
    assert found is not None
    password = base64.b64encode(world.tokens.hmac("t"))
    salted = hashlib.pbkdf2_hmac("sha256", password, SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert found == Credential(
        "alice",
        SALT,
        4096,
        hashlib.sha256(client_key).digest(),
        hmac.digest(salted, b"Server Key", "sha256"),
        token_authenticated=True,
        expires_ms=5000,
    )


def test_keys_are_computed_once_for_each_mechanism(world: World) -> None:
    tokens = world.tokens
    assert not tokens.is_ready("t", SHA_256)
    first = world.credential()
    assert (tokens.is_ready("t", SHA_256), tokens.is_ready("t", SHA_512)) == (True, False)
    assert world.credential() == first
    other = tokens.credential("t", SHA_512, SALT)
    assert other is not None
    assert len(other.stored_key) == 64
    salted_otherwise = world.credential(salt=b"another")
    assert salted_otherwise is not None
    assert first is not None
    assert salted_otherwise.stored_key != first.stored_key


def test_keys_are_dropped_when_the_token_changes_or_is_removed(world: World) -> None:
    assert world.credential() is not None
    world.apply(token("other"))
    assert world.tokens.is_ready("t", SHA_256)
    world.apply(token(expiry_ms=7000))
    assert not world.tokens.is_ready("t", SHA_256)
    renewed = world.credential()
    assert renewed is not None
    assert renewed.expires_ms == 7000
    world.apply(RemoveDelegationTokenRecord(token_id="t"))
    assert world.credential() is None
    assert world.tokens.is_ready("t", SHA_256)  # nothing to compute


def test_the_end_of_a_session_is_the_earlier_of_expiry_and_maximum(world: World) -> None:
    world.apply(token(expiry_ms=99_999))
    found = world.credential()
    assert found is not None
    assert found.expires_ms == 9000


def test_nobody_logs_in_by_a_token_that_is_unknown_or_has_expired(world: World) -> None:
    assert world.credential("unknown") is None
    assert world.tokens.is_ready("unknown", SHA_256)
    world.now_ms = 5000
    assert world.credential() is not None
    world.now_ms = 5001
    assert world.credential() is None
    assert world.tokens.is_ready("t", SHA_256)


def test_nobody_becomes_a_user_by_a_token_of_another_kind_of_principal(world: World) -> None:
    world.apply(token(owner="Group:alice"))
    assert world.credential() is None


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_there_are_no_tokens(key: str | None) -> None:
    world = World(key)
    world.apply(token())
    assert not world.tokens.is_enabled
    assert world.credential() is None
    assert world.tokens.is_ready("t", SHA_256)
    assert world.tokens.id_of(b"anything") is None
    world.apply(token("u"))
    with pytest.raises(AssertionError):
        world.tokens.hmac("t")


def test_a_token_is_found_by_its_secret_while_it_is_in_the_metadata(world: World) -> None:
    tokens = world.tokens
    secrets = {token_id: tokens.hmac(token_id) for token_id in "tuv"}
    assert [tokens.id_of(secrets[each]) for each in "tuv"] == ["t", None, None]
    world.apply(token("u"), token("v"))
    world.apply(RemoveDelegationTokenRecord(token_id="t"), token("v", expiry_ms=1), token("w"))
    assert [tokens.id_of(secrets[each]) for each in "tuv"] == [None, "u", "v"]
    assert tokens.id_of(b"") is None
    world.apply(RemoveDelegationTokenRecord(token_id="never there"))


class RemovedMeanwhile(DelegationTokens):
    """Tokens that are removed while their keys are computed in a thread."""

    def hmac(self, token_id: str) -> bytes:
        secret = super().hmac(token_id)
        self.apply(MetadataImage.empty(), MetadataDelta(token_changes={token_id}))
        return secret


def test_keys_of_a_token_that_goes_while_they_are_computed_are_not_kept() -> None:
    tokens = RemovedMeanwhile(KEY, lambda: 0)
    image, delta = replayed(MetadataImage.empty(), [token()])
    tokens.apply(image, delta)
    assert tokens.credential("t", SHA_256, SALT) is not None
    assert not any(kept(tokens))


def kept(tokens: DelegationTokens) -> Iterator[object]:
    yield from tokens._keys
