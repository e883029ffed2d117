"""Which tokens are accepted, and how first messages are read, beside Apache Kafka's own validator and parser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.security.json_web_keys import parse_keys
from barnabas.security.json_web_tokens import TokenError, TokenRules, check_token
from barnabas.security.oauthbearer import MessageError, parse_initial
from tests.conformance.java_tokens import JavaTokens
from tests.security.test_json_web_tokens import HOSTILE
from tests.support.tokens import SigningKey, key_set

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

KEYS = [
    SigningKey(),
    SigningKey("RS256", "two", number=1),
    *(SigningKey(name, name) for name in ("ES256", "ES384", "ES512", "EdDSA")),
]
SET = key_set(*KEYS)
OURS = parse_keys(SET)
RULES = [
    TokenRules(),
    TokenRules(issuer="https://one", audiences=frozenset({"kafka", "other"})),
    TokenRules(user_claim="name"),
]
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTokens]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_bytes(SET)
    running = JavaTokens(f"file://{path}")
    yield running
    running.close()


@pytest.fixture(params=RULES, ids=["no rules", "issuer and audience", "another claim"])
def rules(java: JavaTokens, request: pytest.FixtureRequest) -> TokenRules:
    found: TokenRules = request.param
    java.configure(found.issuer or "", ",".join(sorted(found.audiences)), found.user_claim)
    return found


def decision(token: str, rules: TokenRules) -> tuple[str, int] | None:
    try:
        found = check_token(token, OURS, rules, int(time.time()))
    except TokenError:
        return None
    return found.user, found.expires_ms


WORDS = st.sampled_from(["", " ", "alice", "\t bob ", "kafka", "other", "https://one", "ü"])
TIMES = st.integers(-400, 400).map(lambda offset: int(time.time()) + offset * 10 + 5)
"""Never within 5 s of a limit, since the two clocks are read one after the other."""
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.just(2**62),
    st.just(-1),
    st.just(0.5),
    st.just("5"),
    st.just([]),
    st.just({}),
)
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "sub": WORDS | ODD,
        "name": WORDS | ODD,
        "iss": WORDS | ODD,
        "jti": WORDS | ODD,
        "aud": WORDS | st.lists(WORDS | st.just(1), max_size=3) | ODD,
        "scope": WORDS | st.lists(WORDS | st.just(1), max_size=3) | ODD,
        "exp": TIMES | TIMES.map(lambda when: when + 0.9) | ODD,
        "iat": TIMES | ODD,
        "nbf": TIMES | ODD,
    },
)
LIKELY = {"sub": "alice", "name": "alice", "iss": "https://one", "aud": "kafka"}


@QUICK
@given(claims=CLAIMS, with_likely=st.booleans(), key=st.sampled_from(KEYS))
def test_claims(
    java: JavaTokens, rules: TokenRules, claims: dict[str, Any], with_likely: bool, key: SigningKey
) -> None:
    now_s = int(time.time())
    likely = LIKELY if rules.audiences else {**LIKELY, "aud": None}
    base = {**likely, "iat": now_s, "exp": now_s + 300} if with_likely else {}
    full = {name: value for name, value in {**base, **claims}.items() if name in claims or value is not None}
    token = key.signed(json.dumps(full).encode())
    assert decision(token, rules) == java.validate(token)


@QUICK
@given(
    signer=st.sampled_from(KEYS),
    key_id=st.sampled_from([None, "one", "two", "three", "ES256", "ES384", ""]),
    algorithm=st.sampled_from([None, "RS256", "RS512", "PS256", "ES256", "ES384", "HS256", "none", "RS", ""]),
)
def test_keys_and_algorithms(
    java: JavaTokens, rules: TokenRules, signer: SigningKey, key_id: str | None, algorithm: str | None
) -> None:
    """The signature is by the algorithm of the header where the key can do that."""
    now_s = int(time.time())
    claims = {"sub": "alice", "name": "bob", "iss": "https://one", "iat": now_s, "exp": now_s + 300}
    if rules.audiences:
        claims["aud"] = "kafka"
    fits = algorithm is not None and algorithm[:2] in ("RS", "PS") and signer.algorithm == "RS256"
    headers = {"kid": key_id} if algorithm is None else {"kid": key_id, "alg": algorithm}
    chosen = algorithm if fits and algorithm != "RS" else None
    header = {"alg": signer.algorithm, **headers}
    text = json.dumps({name: value for name, value in header.items() if value is not None})
    token = signer.signed_raw(text.encode(), json.dumps(claims).encode(), chosen)
    assert decision(token, rules) == java.validate(token)


STRICTER = {
    "padding",  # jose4j takes padding, of any length
    "characters of another base64",  # and skips characters that are none
    "characters beyond ASCII",
    "spaces around",  # Kafka trims a token; no first message can carry these
    "a line feed behind",
    "claims no UTF-8",  # jose4j replaces such bytes
    "a token in a token",  # jose4j reads a token of the same provider within
}
"""Cases of the corpus that Kafka may take as the token that is around them."""


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in STRICTER])
def test_what_an_attacker_tries(java: JavaTokens, rules: TokenRules, name: str) -> None:
    """Neither takes it: the clock of the corpus is in the future, so that all tokens are current."""
    assert decision(HOSTILE[name], rules) is None
    assert java.validate(HOSTILE[name]) is None


PIECES = st.sampled_from(
    [
        b"n,",
        b"n,,",
        b"n,a=",
        b"alice",
        b",",
        b"\x01",
        b"\x01\x01",
        b"auth=",
        b"auth=Bearer t",
        b"Bearer",
        b" ",
        b"==",
        b"a=b",
        b"=2C",
        b"=3D",
        b"=",
        b"y,",
        b"bearer  x.y-z",
        b"\n",
        b"\xc3\xa4",
        b"\x7f",
        b"\x00",
        b"1",
        b"auth=x",
    ]
)
MESSAGES = st.lists(PIECES, max_size=12).map(b"".join) | st.tuples(
    st.sampled_from([b"n,,\x01", b"n,a=x,\x01", b"n,a==2C\x01,\x01"]),
    st.lists(
        st.sampled_from(
            [b"auth=Bearer t\x01", b"auth=BEARER  t=\x01", b"a=b\x01", b"a= \t\x01", b"auth=x t\x01"]
        )
    ),
    st.sampled_from([b"\x01", b"", b"\x01\x01", b"x"]),
).map(lambda parts: parts[0] + b"".join(parts[1]) + parts[2])


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=MESSAGES)
def test_first_messages(java: JavaTokens, message: bytes) -> None:
    try:
        found = parse_initial(message)
    except MessageError:
        assert java.parse(message) is None
    else:
        assert java.parse(message) == (found.token, found.authorization_id)
