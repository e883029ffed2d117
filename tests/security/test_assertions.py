"""Assertions: what is in them, what signs them, and what is reported of files that cannot be used."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from barnabas.security.assertions import AssertionMaker
from barnabas.security.errors import ProviderError, SettingError
from barnabas.security.identity_provider import MAX_BYTES
from tests.support.tokens import SigningKey, unsigned_token

PREFIX = "sasl.oauthbearer.assertion"
RSA, EC = SigningKey("RS256"), SigningKey("ES256")
PASSPHRASE = "correct horse"
NOW_S = 1_700_000_000


def write_key(
    path: Path,
    key: SigningKey = RSA,
    *,
    passphrase: str | None = None,
    kind: PrivateFormat = PrivateFormat.PKCS8,
) -> str:
    how: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        how = BestAvailableEncryption(passphrase.encode())
    path.write_bytes(key.private.private_bytes(Encoding.PEM, kind, how))
    return str(path)


def maker(**values: str) -> AssertionMaker:
    """Of these properties, dots written as underscores."""
    return AssertionMaker(
        {f"{PREFIX}.{key.replace('_', '.')}": text for key, text in values.items()},
        lambda: NOW_S * 1000 + 999,
    )


def claims_of(assertion: str, key: SigningKey = RSA) -> dict[str, Any]:
    """Read and verified by PyJWT alone."""
    found: dict[str, Any] = jwt.decode(
        assertion,
        key.private.public_key(),
        [key.algorithm],
        options={"verify_exp": False, "verify_aud": False, "verify_nbf": False},
    )
    return found


def test_the_claims_and_their_defaults(tmp_path: Path) -> None:
    made = maker(private_key_file=write_key(tmp_path / "key"))
    assertion = made.make()
    assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "typ": "JWT"}
    assert claims_of(assertion) == {"iat": NOW_S, "exp": NOW_S + 300, "nbf": NOW_S - 60}
    made = maker(
        private_key_file=str(tmp_path / "key"),
        claim_iss="me",
        claim_sub="us",
        claim_aud="them",
        claim_exp_seconds="10",
        claim_nbf_seconds="0",
        claim_jti_include="TRUE",
    )
    found = [claims_of(made.make()) for _ in range(2)]
    ids = [each.pop("jti") for each in found]
    times = {"iat": NOW_S, "exp": NOW_S + 10, "nbf": NOW_S}
    assert found == [{"iss": "me", "sub": "us", "aud": "them", **times}] * 2
    assert len({uuid.UUID(each) for each in ids}) == 2


def test_a_template_counts_before_claims_and_behind_what_is_made(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    given = {
        "header": {"kid": "one", "alg": "none"},
        "payload": {"iss": "template", "role": ["a"], "iat": 1},
    }
    template.write_text(json.dumps(given))
    made = maker(
        private_key_file=write_key(tmp_path / "key"),
        template_file=str(template),
        claim_iss="me",
        claim_sub="us",
    )
    assertion = made.make()
    assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "typ": "JWT", "kid": "one"}
    claims = claims_of(assertion)
    assert {name: claims[name] for name in ("iss", "sub", "role", "iat")} == {
        "iss": "template",
        "sub": "us",
        "role": ["a"],
        "iat": NOW_S,
    }
    template.write_text("{}")  # read anew
    assert claims_of(made.make())["iss"] == "me"


@pytest.mark.parametrize("algorithm", ["ES256", "es256"])
@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_keys_of_curves_and_encrypted_ones(tmp_path: Path, algorithm: str, passphrase: str | None) -> None:
    file = write_key(tmp_path / "key", EC, passphrase=passphrase)
    more = {} if passphrase is None else {"private_key_passphrase": passphrase}
    made = maker(private_key_file=file, algorithm=algorithm, **more)
    assertion = made.make()
    assert jwt.get_unverified_header(assertion)["alg"] == algorithm
    if algorithm == "ES256":  # which alone PyJWT takes
        assert claims_of(assertion, EC)["iat"] == NOW_S
    assert PASSPHRASE not in repr(made)
    other = SigningKey("ES256")
    write_key(tmp_path / "key", other, passphrase=passphrase)
    if algorithm == "ES256":
        assert claims_of(made.make(), other)["iat"] == NOW_S


def test_an_assertion_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ready"
    text = RSA.token({"sub": "a"}, 5)
    file.write_text(f" {text}\n")
    made = maker(file=str(file), algorithm="nonsense")  # which is not looked at
    assert made.make() == text
    assert str(file) in repr(made)
    file.write_text(RSA.token({"sub": "b"}, 5))
    assert made.make() == file.read_text()
    for content, why in ((b"opaque", "three parts"), (b"\xff", "it is no ASCII")):
        file.write_bytes(content)
        with pytest.raises(ProviderError, match=f"assertion.file={file} must have a JSON Web Token: .*{why}"):
            made.make()


# ---- what cannot be used


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "private.key.file must be set"),
        ({"private_key_file": "/nowhere"}, "private.key.file=/nowhere cannot be read: No such file"),
        ({"private_key_file": "a\0b"}, "cannot be read: it is no path"),
        ({"file": "/nowhere"}, "assertion.file=/nowhere cannot be read"),
        ({"algorithm": "HS256"}, "algorithm=HS256 must be one of RS256, ES256"),
        ({"claim_iss": " "}, "claim.iss=  must be left out, or have a value"),
        ({"private_key_passphrase": " "}, "passphrase must be left out"),
        ({"template_file": "/nowhere"}, "template.file=/nowhere cannot be read"),
        ({"claim_exp_seconds": "86401"}, "exp.seconds=86401 must be a number from 0 to 86400"),
        ({"claim_nbf_seconds": "-1"}, "nbf.seconds=-1 must be a number from 0 to 3600"),
        ({"claim_jti_include": "1"}, "jti.include=1 must be true or false"),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, values: dict[str, str], reason: str) -> None:
    if values:
        values = {"private_key_file": write_key(tmp_path / "key"), **values}
    with pytest.raises(SettingError, match=reason):
        maker(**values)


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(SettingError, match="must have at most"):
        maker(file=str(tmp_path / "long"))


def test_keys_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "key"
    plain, locked = {"private_key_file": str(file)}, {"private_key_passphrase": PASSPHRASE}
    cases: list[tuple[dict[str, str], Any, str]] = [
        (
            plain,
            lambda: write_key(file, kind=PrivateFormat.TraditionalOpenSSL),
            "must be a private key in PEM, PKCS#8",
        ),
        (plain, lambda: write_key(file, passphrase=PASSPHRASE), "is encrypted: .*passphrase must be set"),
        (plain | locked, lambda: write_key(file), "is not encrypted: .*passphrase must be left out"),
        (plain | locked, lambda: write_key(file, passphrase="other"), "or .*passphrase is wrong"),
        (plain, lambda: write_key(file, EC), "must be a key of RSA, as .*algorithm=RS256 asks for"),
        (plain | {"algorithm": "ES256"}, lambda: write_key(file), "must be a key of EC"),
        (
            plain,
            lambda: file.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            "cannot be used as a private key$",
        ),
    ]
    for values, write, reason in cases:
        write()
        made = maker(**values)
        with pytest.raises(ProviderError, match=reason) as caught:
            made.make()
        assert PASSPHRASE not in str(caught.value)
        assert caught.value.is_final


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "must have a JSON object"),
        ("{", "must have a JSON object"),
        ('{"header": 1}', "must have an object in header"),
        ('{"payload": [1]}', "must have an object in payload"),
        ('{"header": null}', None),
    ],
)
def test_templates_that_cannot_be_used(tmp_path: Path, text: str, reason: str | None) -> None:
    template = tmp_path / "template"
    template.write_text(text)
    made = maker(private_key_file=write_key(tmp_path / "key"), template_file=str(template))
    if reason is None:
        assert made.make()
    else:
        with pytest.raises(ProviderError, match=f"template.file={template} {reason}"):
            made.make()


def test_an_assertion_in_a_file_need_not_be_signed_by_what_is_known_here(tmp_path: Path) -> None:
    """The provider looks at that."""
    (tmp_path / "ready").write_text(unsigned_token({"sub": "a"}) + "x")
    assert maker(file=str(tmp_path / "ready")).make().endswith(".x")
