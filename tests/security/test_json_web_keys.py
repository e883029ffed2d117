from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.json_web_keys import JsonWebKeys, JsonWebKeysError, fits_curve, parse_keys
from tests.support.tokens import SigningKey, key_set

RSA = SigningKey()
EC = SigningKey("ES256", "curve")
EDWARDS = SigningKey("EdDSA", "edwards")


def ids(keys: JsonWebKeys, algorithm: str, key_id: str | None, **thumbprints: str) -> str | None:
    found = keys.select(algorithm, key_id, thumbprints)
    return None if found is None else found.key_id


def test_keys_of_each_type() -> None:
    keys = parse_keys(key_set(RSA, EC, EDWARDS))
    assert len(keys) == 3
    assert keys.key_ids == {"one", "curve", "edwards"}
    assert ids(keys, "RS256", "one") == ids(keys, "PS512", "one") == ids(keys, "RS256", None) == "one"
    assert ids(keys, "ES256", "curve") == ids(keys, "ES256", None) == "curve"
    assert ids(keys, "EdDSA", "edwards") == "edwards"
    assert ids(keys, "RS256", "curve") is None
    assert ids(keys, "RS256", "two") is None


def test_among_several_those_of_the_algorithm_and_of_the_curve() -> None:
    keys = parse_keys(
        key_set(
            RSA.public_jwk(kid="a", alg="RS512"),
            RSA.public_jwk(kid="b", alg="RS256"),
            RSA.public_jwk(kid="c", alg=None),
            SigningKey("ES384").public_jwk(kid="d", alg=None),
            EC.public_jwk(kid="e", alg=None),
        )
    )
    assert ids(keys, "RS256", None) == "b"
    assert ids(keys, "PS256", None) == "c"
    assert ids(keys, "RS512", "b") == "b"  # the only one of its name
    assert ids(keys, "ES256", None) == "e"
    wrong = keys.select("ES256", "d")
    assert wrong is not None
    assert not fits_curve("ES256", wrong)
    assert fits_curve("ES384", wrong)


def test_thumbprints_of_certificates_must_agree() -> None:
    keys = parse_keys(key_set(RSA.public_jwk(x5t="a", **{"x5t#S256": "b"})))
    assert ids(keys, "RS256", None, x5t="a") == "one"
    assert ids(keys, "RS256", None, x5t="b") is None
    assert ids(parse_keys(key_set(RSA)), "RS256", None, x5t="b") == "one"


def private_jwk() -> dict[str, Any]:
    from jwt.algorithms import RSAAlgorithm

    found: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(RSA.private))
    del found["key_ops"]
    return found


def test_of_a_private_key_the_public_part_is_used() -> None:
    found = parse_keys(key_set({**private_jwk(), "kid": "one"})).select("RS256", "one")
    assert found is not None
    assert isinstance(found.public_key, rsa.RSAPublicKey)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"kty": "oct", "kid": "one", "alg": "HS256", "k": "c2VjcmV0"},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": 1, "e": "AQAB"},
        {"kty": ["RSA"]},
        {"kty": "EC", "crv": ["P-256"]},
        RSA.public_jwk(use="enc"),
        RSA.public_jwk(key_ops=["encrypt"]),
        RSA.public_jwk(kid=1),
        RSA.public_jwk(alg=1),
        RSA.public_jwk(kty="EC"),
        RSA.public_jwk(n="!"),
        SigningKey(bits=1024).public_jwk(),
        EC.public_jwk(x="AQAB"),
        EC.public_jwk(crv="P-256K"),
        EC.public_jwk(crv="P-384"),
        EDWARDS.public_jwk(crv="X25519"),
        EDWARDS.public_jwk(x="AQAB"),
    ],
)
def test_keys_that_cannot_check_a_token_are_left_out(entry: dict[str, Any]) -> None:
    assert parse_keys(key_set(EC, entry)).key_ids == {"curve"}
    with pytest.raises(JsonWebKeysError, match="none of its 1 keys can check"):
        parse_keys(key_set(entry))


def test_operations_may_name_what_is_needed() -> None:
    assert len(parse_keys(key_set(RSA.public_jwk(key_ops=["verify"])))) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it is no JSON Web Key Set: it is no JSON"),
        (b"<html>", "it is no JSON Web Key Set: it is no JSON"),
        (b"{}", "it has no list of keys"),
        (b'{"keys":{}}', "it has no list of keys"),
        (b'{"keys":[]}', "none of its 0 keys"),
        (b'{"keys":["a",1,null]}', "none of its 3 keys"),
        (b'{"keys":[],"keys":[]}', "a name occurs twice"),
    ],
)
def test_what_is_no_set_of_keys(text: bytes, reason: str) -> None:
    with pytest.raises(JsonWebKeysError, match=reason):
        parse_keys(text)


FIELDS = st.sampled_from(["kty", "kid", "alg", "use", "crv", "n", "e", "x", "y", "key_ops", "x5t"])
WORDS = st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "sig", "AQAB", "RS256"])


@given(st.lists(st.dictionaries(FIELDS, WORDS | st.text(max_size=4) | st.integers() | st.none()), max_size=3))
def test_any_keys_are_used_left_out_or_rejected(entries: list[dict[str, Any]]) -> None:
    with suppress(JsonWebKeysError):  # of a number that does not fit into 64 bits
        assert len(parse_keys(key_set(RSA, *entries))) >= 1
