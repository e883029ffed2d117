"""JSON Web Tokens: what is accepted, what is not, and what an attacker tries."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.json_web_keys import parse_keys
from barnabas.security.json_web_tokens import (
    BearerToken,
    TokenError,
    TokenRules,
    UnknownKeyError,
    check_token,
    encoded,
    scopes_of,
    unverified_parts,
)
from tests.support.tokens import SigningKey, key_set, part, unsigned_token

NOW = 1_800_000_000
KEY = SigningKey()
KEYS = parse_keys(key_set(KEY))
RULES = TokenRules()
ALICE = {"sub": "alice"}


def check(token: str, rules: TokenRules = RULES, now_s: int = NOW) -> BearerToken:
    return check_token(token, KEYS, rules, now_s)


def rejected(token: str, rules: TokenRules = RULES, now_s: int = NOW) -> str:
    with pytest.raises(TokenError) as caught:
        check(token, rules, now_s)
    assert not token or token not in str(caught.value)
    return str(caught.value)


# ---- what is accepted


@pytest.mark.parametrize(
    "algorithm",
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed448"],
)
def test_each_algorithm(algorithm: str) -> None:
    key = SigningKey(algorithm, "of this")
    token = key.token({**ALICE, "scope": ["read", "write"]}, NOW)
    found = check_token(token, parse_keys(key_set(KEY, key)), RULES, NOW)
    assert found == BearerToken("alice", (NOW + 300) * 1000, frozenset({"read", "write"}))


def test_a_token_without_a_key_id_is_checked_by_the_key_of_its_type() -> None:
    assert check(KEY.token(ALICE, NOW, headers={"kid": None})).user == "alice"


def test_another_kind_of_content_has_no_effect() -> None:
    assert check(KEY.token(ALICE, NOW, headers={"cty": "json"})).user == "alice"


def test_the_key_of_a_certificate() -> None:
    keys = parse_keys(key_set(KEY.public_jwk(x5t="abc")))
    token = KEY.token(ALICE, NOW, headers={"x5t": "abc"})
    assert check_token(token, keys, RULES, NOW).user == "alice"
    with pytest.raises(UnknownKeyError):
        check_token(KEY.token(ALICE, NOW, headers={"x5t": "abd"}), keys, RULES, NOW)


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({"iss": "anyone"}, RULES),
        ({"iss": "one"}, TokenRules(issuer="one")),
        ({"aud": "kafka"}, TokenRules(audiences=frozenset({"kafka", "other"}))),
        ({"aud": ["x", "kafka"]}, TokenRules(audiences=frozenset({"kafka"}))),
        ({"aud": None}, RULES),
        ({"exp": NOW - 29}, RULES),
        ({"exp": NOW + 1.9, "iat": NOW + 1.1}, TokenRules(skew_s=0)),
        ({"exp": NOW - 99, "iat": NOW - 99}, TokenRules(skew_s=100)),
        ({"nbf": NOW + 30}, RULES),
        ({"iat": NOW + 200}, RULES),
        ({"iat": NOW + 300}, RULES),
        ({"scope": "one and more"}, RULES),
        ({"scope": {"a": 1}}, RULES),
        ({"scope": None}, RULES),
        ({"sub": "\t alice\x00 "}, RULES),
        ({"sub": "other", "preferred_username": "alice"}, TokenRules(user_claim="preferred_username")),
    ],
)
def test_claims_that_are_right(claims: dict[str, Any], rules: TokenRules) -> None:
    now_s = NOW
    claims = {**ALICE, **claims}
    if "exp" in claims and "iat" not in claims:
        claims["iat"] = NOW - 1000
    assert check(KEY.token(claims, NOW), rules, now_s).user == "alice"


# ---- claims that are wrong


@pytest.mark.parametrize(
    ("claims", "rules", "reason"),
    [
        ({"exp": None}, RULES, "it has no claim exp"),
        ({"iat": None}, RULES, "it has no claim iat"),
        ({"exp": "1900000000"}, RULES, "its claim exp is no number"),
        ({"exp": True}, RULES, "its claim exp is no number"),
        ({"iat": [1]}, RULES, "its claim iat is no number"),
        ({"nbf": "x"}, RULES, "its claim nbf is no number"),
        ({"exp": -1, "iat": -2}, RULES, "its claim exp is out of range"),
        ({"iat": -1}, RULES, "its claim iat is out of range"),
        ({"exp": 2**62}, RULES, "its claim exp is out of range"),
        ({"exp": NOW - 30, "iat": NOW - 60}, RULES, "it has expired"),
        ({"exp": NOW, "iat": NOW}, TokenRules(skew_s=0), "it has expired"),
        ({"exp": NOW + 100, "iat": NOW + 101}, RULES, "it ends before it begins"),
        ({"nbf": NOW + 301}, RULES, "it ends before it begins"),
        ({"nbf": NOW + 31}, RULES, "it is not valid yet"),
        ({"iss": 1}, RULES, "its claim iss is no text"),
        ({"jti": []}, RULES, "its claim jti is no text"),
        ({}, TokenRules(issuer="one"), "its claim iss is not sasl.oauthbearer.expected.issuer"),
        ({"iss": "ONE"}, TokenRules(issuer="one"), "its claim iss is not sasl.oauthbearer.expected.issuer"),
        ({}, TokenRules(audiences=frozenset({"kafka"})), "it has no claim aud"),
        ({"aud": "other"}, TokenRules(audiences=frozenset({"kafka"})), "its claim aud names none of"),
        ({"aud": "kafka"}, RULES, "its claim aud names none of"),
        ({"aud": []}, RULES, "its claim aud names none of"),
        ({"aud": 1}, RULES, "its claim aud is neither"),
        ({"aud": ["kafka", 1]}, TokenRules(audiences=frozenset({"kafka"})), "its claim aud is neither"),
        ({"sub": None}, RULES, "its claim sub, which is to name the user, is no text"),
        ({"sub": 7}, RULES, "its claim sub is no text"),
        ({"sub": " \t"}, RULES, "its claim sub, which is to name the user, is blank"),
        ({"name": 7}, TokenRules(user_claim="name"), "its claim name, which is to name the user, is no text"),
        ({"scope": ["a", "a "]}, RULES, "its claim scope is not a list of different texts"),
        ({"scope": ["a", 1]}, RULES, "its claim scope is not a list of different texts"),
        ({"scope": ""}, RULES, "its claim scope is not a list of different texts"),
    ],
)
def test_claims_that_are_wrong(claims: dict[str, Any], rules: TokenRules, reason: str) -> None:
    assert reason in rejected(KEY.token({**ALICE, **claims}, NOW), rules)


def test_numbers_beyond_all_bounds() -> None:
    for number in (b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5000, b"9223372036854775808"):
        payload = b'{"sub":"alice","iat":1,"exp":' + number + b"}"
        assert rejected(KEY.signed(payload)).startswith("its claim")


# ---- what an attacker tries


def hs256(secret: bytes, header: dict[str, Any] | None = None, claims: dict[str, Any] | None = None) -> str:
    signed = ".".join(
        part(json.dumps(each).encode())
        for each in (
            {"alg": "HS256", "kid": "one", **(header or {})},
            claims or {**ALICE, "iat": NOW, "exp": NOW + 300},
        )
    )
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"


CLAIMS = {**ALICE, "iat": NOW, "exp": NOW + 300}
GOOD = KEY.token(ALICE, NOW)
FOREIGN = SigningKey(number=1)
EC_KEY = SigningKey("ES256")
HOSTILE = {
    "nothing": "",
    "dots": "..",
    "many dots": "." * 10_000,
    "two parts": ".".join(GOOD.split(".")[:2]),
    "four parts": f"{GOOD}.{GOOD}",
    "five parts, as of an encrypted token": "a.b.c.d.e",
    "alg none": unsigned_token(CLAIMS),
    "alg None": unsigned_token(CLAIMS, {"alg": "None"}),
    "alg none, with a signature": unsigned_token(CLAIMS) + GOOD.split(".")[2],
    "alg missing": unsigned_token(CLAIMS, {"typ": "JWT"}) + "eA",
    "alg a list": unsigned_token(CLAIMS, {"alg": ["RS256"]}) + "eA",
    "alg null": unsigned_token(CLAIMS, {"alg": None}) + "eA",
    "alg lower case": KEY.token(ALICE, NOW, headers={"alg": "rs256"}),
    "signature removed": GOOD.rpartition(".")[0] + ".",
    "signature of another token": GOOD.rpartition(".")[0]
    + "."
    + KEY.token({"sub": "bob"}, NOW).split(".")[2],
    "signature cut": GOOD[:-10],
    "signature of zeros": GOOD.rpartition(".")[0] + "." + part(bytes(256)),
    "claims exchanged": ".".join(
        (GOOD.split(".")[0], part(json.dumps({**CLAIMS, "sub": "root"}).encode()), GOOD.split(".")[2])
    ),
    "HS256 with the public key as PEM": hs256(KEY.public_pem()),
    "HS256 with the public key as PEM, stripped": hs256(KEY.public_pem().strip()),
    "HS256 with the set of keys": hs256(key_set(KEY)),
    "HS256 with nothing": hs256(b""),
    "another key with the same name": FOREIGN.token(ALICE, NOW),
    "another key, in the header": FOREIGN.token(ALICE, NOW, headers={"jwk": FOREIGN.public_jwk()}),
    "another key, in the header without a name": FOREIGN.token(
        ALICE, NOW, headers={"kid": None, "jwk": FOREIGN.public_jwk()}
    ),
    "another key, at a URL": FOREIGN.token(ALICE, NOW, headers={"jku": "http://169.254.169.254/keys"}),
    "another key, in a file": FOREIGN.token(ALICE, NOW, headers={"jku": "file:///etc/passwd"}),
    "another key, of a certificate at a URL": FOREIGN.token(ALICE, NOW, headers={"x5u": "http://localhost/"}),
    "another key, of a certificate": FOREIGN.token(ALICE, NOW, headers={"x5c": ["AAAA"]}),
    "a key of another type": EC_KEY.token(ALICE, NOW),
    "a key of another type as ours": EC_KEY.token(ALICE, NOW, headers={"alg": "RS256"}, algorithm=None),
    "kid a path": KEY.token(ALICE, NOW, headers={"kid": "../../../../dev/null"}),
    "kid SQL": KEY.token(ALICE, NOW, headers={"kid": "x' UNION SELECT 'secret'; --"}),
    "kid of a megabyte": KEY.token(ALICE, NOW, headers={"kid": "k" * 2**20}),
    "kid a number": KEY.token(ALICE, NOW, headers={"kid": 1}),
    "kid a list": KEY.token(ALICE, NOW, headers={"kid": ["one"]}),
    "kid with a line feed": KEY.token(ALICE, NOW, headers={"kid": "one\n"}),
    "crit": KEY.token(ALICE, NOW, headers={"crit": ["exp"]}),
    "crit, not encoded": KEY.token(ALICE, NOW, headers={"crit": ["b64"], "b64": False}),
    "a token in a token": KEY.signed(GOOD.encode(), headers={"cty": "JWT"}),
    "a token that says so of its claims": KEY.token(ALICE, NOW, headers={"cty": "application/JWT"}),
    "a token in a token, without cty": KEY.signed(GOOD.encode()),
    "a header twice": KEY.signed_raw(
        b'{"alg":"none","kid":"one","alg":"RS256"}', json.dumps(CLAIMS).encode()
    ),
    "a claim twice": KEY.signed(b'{"sub":"root","sub":"alice","iat":%d,"exp":%d}' % (NOW, NOW + 9)),
    "claims a list": KEY.signed(b'["alice"]'),
    "claims a text": KEY.signed(b'"alice"'),
    "claims nothing": KEY.signed(b""),
    "claims no UTF-8": KEY.signed(b'{"sub":"\xff","iat":%d,"exp":%d}' % (NOW, NOW + 9)),
    "claims nested deeply": KEY.signed(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "header nested deeply": part(b"[" * 100_000) + "." + GOOD.partition(".")[2],
    "spaces around": f" {GOOD}",
    "a line feed behind": f"{GOOD}\n",
    "padding": ".".join(f"{each}====" for each in GOOD.split(".")),
    "characters of another base64": GOOD.replace(".", "+.", 1),
    "one character of base64": "A." + GOOD.partition(".")[2],
    "characters beyond ASCII": GOOD.replace(".", "é.", 1),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_what_an_attacker_tries(name: str) -> None:
    rejected(HOSTILE[name])


def test_a_key_that_is_not_known_is_named() -> None:
    token = KEY.token(ALICE, NOW, headers={"kid": "two"})
    with pytest.raises(UnknownKeyError) as caught:
        check(token)
    assert caught.value.key_id == "two"
    with pytest.raises(UnknownKeyError) as caught:
        check_token(EC_KEY.token(ALICE, NOW, headers={"kid": None}), KEYS, RULES, NOW)
    assert caught.value.key_id is None


def test_an_algorithm_needs_the_curve_of_its_key() -> None:
    """ES384 needs P-384, whatever the token says."""
    token = EC_KEY.token(ALICE, NOW, headers={"alg": "ES384"}, algorithm=None)
    with pytest.raises(TokenError, match="curve"):
        check_token(token, parse_keys(key_set(EC_KEY)), RULES, NOW)


@given(st.text(alphabet=st.characters(max_codepoint=0x17F), max_size=60))
def test_any_text_is_a_token_or_a_token_error(text: str) -> None:
    with pytest.raises(TokenError):
        check(text)


@given(st.data())
def test_a_token_with_a_changed_character_is_rejected(data: st.DataObject) -> None:
    """But for the bits that base64 has too many of at the end of a part."""
    ends = [at - 1 for at, each in enumerate(GOOD + ".") if each == "."]
    at = data.draw(st.sampled_from([each for each in range(len(GOOD)) if each not in ends]))
    other = data.draw(st.sampled_from([c for c in "AZaz09-_." if c != GOOD[at]]))
    rejected(GOOD[:at] + other + GOOD[at + 1 :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "iss", "scope", "jti"]), JSON))
def test_signed_claims_of_any_kind_are_a_token_or_a_token_error(claims: dict[str, Any]) -> None:
    token = KEY.signed(json.dumps({**CLAIMS, **claims}).encode())
    try:
        found = check(token)
    except TokenError:
        return
    assert found.user
    assert found.expires_ms > 0


def test_parts_are_read_back() -> None:
    assert unverified_parts(f"{encoded({'alg': 'ü'})}.{encoded({'a': 1})}.x") == ({"alg": "ü"}, {"a": 1})
    assert scopes_of({}, "scope") == frozenset()


def test_digests_of_the_corpus_differ() -> None:
    """No case stands twice under two names."""
    assert len({hashlib.sha256(each.encode()).digest() for each in HOSTILE.values()}) == len(HOSTILE)
