"""The exchange of RFC 7677, and what a bad server could do."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.errors import SaslClientError
from barnabas.security.scram_client import ScramClient

SALT = b"salt" * 4


def client(
    mechanism: str = "SCRAM-SHA-256", user: str = "user", password: str = "pencil", *, is_token: bool = False
) -> ScramClient:
    return ScramClient(mechanism, user, password, bytes, is_token=is_token)


NONCE = base64.b64encode(bytes(24)).decode()


def server_final(mechanism: str, password: str, first_bare: str, first: str, final: bytes) -> bytes:
    """What a server that knows the password answers, after it has checked the proof."""
    kind = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    without_proof, _, proof = final.decode().rpartition(",p=")
    signed = ",".join((first_bare, first, without_proof)).encode()
    salted = hashlib.pbkdf2_hmac(kind, password.encode(), SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", kind)
    signature = hmac.digest(hashlib.new(kind, client_key).digest(), signed, kind)
    assert base64.b64decode(proof) == bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", kind), signed, kind))


def server_first(nonce: str = NONCE + "more", salt: bytes = SALT, iterations: str = "4096") -> str:
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login(mechanism: str) -> None:
    user = client(mechanism)
    assert user.initial() == f"n,,n=user,r={NONCE}".encode()
    first = server_first()
    final = user.respond(first.encode())
    assert final is not None
    assert final.startswith(f"c=biws,r={NONCE}more,p=".encode())
    assert not user.is_complete
    assert user.respond(server_final(mechanism, "pencil", f"n=user,r={NONCE}", first, final)) is None
    assert user.is_complete


def test_the_example_of_rfc_7677() -> None:
    user = client()
    user._nonce = "rOprNGfwEbeRWgbNEkqO"
    user._first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert user.respond(first.encode()) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert user.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_names_are_escaped_and_tokens_marked() -> None:
    assert client(user="a=b,c").initial() == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()
    assert client(is_token=True).initial().endswith(b",tokenauth=true")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (server_first(nonce="other").encode(), "does not continue"),
        (server_first(nonce=NONCE).encode(), "does not continue"),
        (server_first(salt=b"").encode(), "no salt"),
        (b"r=" + NONCE.encode() + b"x,s=*,i=4096", "no salt"),
        (server_first(iterations="x").encode(), "no number of iterations"),
        (server_first(iterations="1" * 10).encode(), "no number of iterations"),
        (server_first(iterations="4095").encode(), "4095 iterations; 4096 to"),
        (server_first(iterations="1000001").encode(), "iterations; 4096 to"),
        (b"\xff", "is no text"),
        (b"", "does not continue"),
    ],
)
def test_a_server_that_does_not_follow_the_rules(message: bytes, said: str) -> None:
    with pytest.raises(SaslClientError, match=said):
        client().respond(message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"v=" + base64.b64encode(bytes(32)), "does not know the password either"),
        (b"v=*", "does not know the password either"),
        (b"e=other-error", "rejects the login: other-error"),
    ],
)
def test_a_server_that_cannot_prove_itself(message: bytes, said: str) -> None:
    user = client()
    user.respond(server_first().encode())
    with pytest.raises(SaslClientError, match=said):
        user.respond(message)
    assert not user.is_complete


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_answers_raise_sasl_client_error_or_none(first: bytes, second: bytes) -> None:
    user = client()
    with contextlib.suppress(SaslClientError):
        user.respond(first)
        user.respond(second)
    assert not user.is_complete
