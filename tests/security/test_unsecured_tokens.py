"""Tokens that are not signed: what a client makes of its options, and what a broker accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.json_web_tokens import BearerToken, TokenError
from barnabas.security.unsecured_tokens import (
    OptionError,
    ScopeError,
    UnsecuredRules,
    check_unsecured,
    make_unsecured,
    unsecured_rules,
    unsecured_user,
)
from tests.support.tokens import SigningKey, part, unsigned_token

NOW_MS = 1_800_000_000_000
NOW = NOW_MS // 1000
RULES = UnsecuredRules()
ALICE = {"sub": "alice", "exp": NOW + 10}
USER = {"unsecuredLoginStringClaim_sub": "alice"}


def check(token: str, rules: UnsecuredRules = RULES) -> BearerToken:
    return check_unsecured(token, rules, NOW_MS)


def test_what_a_client_makes_a_broker_accepts() -> None:
    options = {
        **USER,
        "unsecuredLoginListClaim_scope": ",read,write",
        "unsecuredLoginNumberClaim_weight": "1.5",
        "unsecuredLoginListClaim_empty": "|",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_a": "b",
        "unsecuredLoginStringClaim_": "no name",
        "other": "x",
    }
    made = make_unsecured(options, NOW_MS)
    assert (made.expires_ms, made.issued_ms) == (NOW_MS + 60_000, NOW_MS)
    assert made.text not in repr(made)
    rules = UnsecuredRules(required_scopes=("read",))
    assert check(made.text, rules) == BearerToken("alice", NOW_MS + 60_000, frozenset({"read", "write"}))


def test_the_user_may_have_another_claim() -> None:
    options = {"unsecuredLoginStringClaim_name": "bob", "unsecuredLoginPrincipalClaimName": "name"}
    assert unsecured_user(options) == "bob"
    rules = unsecured_rules({"unsecuredValidatorPrincipalClaimName": " name "})
    assert check(make_unsecured(options, NOW_MS).text, rules).user == "bob"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "unsecuredLoginStringClaim_sub must be set"),
        ({"unsecuredLoginStringClaim_sub": " "}, "unsecuredLoginStringClaim_sub must be set"),
        ({"unsecuredLoginNumberClaim_sub": "1"}, "unsecuredLoginStringClaim_sub must be set"),
        ({**USER, "unsecuredLoginLifetimeSeconds": "x"}, "unsecuredLoginLifetimeSeconds must be a number"),
        ({**USER, "unsecuredLoginNumberClaim_a": "x"}, "unsecuredLoginNumberClaim_a must be a number"),
        ({**USER, "unsecuredLoginNumberClaim_exp": "1"}, "unsecuredLoginNumberClaim_exp must be left out"),
    ],
)
def test_options_of_a_client_that_are_wrong(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        make_unsecured(options, NOW_MS)


def test_the_rules_of_a_broker() -> None:
    assert unsecured_rules({}) == RULES
    options = {
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorRequiredScope": "a  b",
        "unsecuredValidatorAllowableClockSkewMs": "3000",
    }
    assert unsecured_rules(options) == UnsecuredRules("sub", "scp", ("a", "b"), 3000)
    for wrong in ("-1", "x", "99999999999", "²"):
        with pytest.raises(OptionError, match="unsecuredValidatorAllowableClockSkewMs"):
            unsecured_rules({"unsecuredValidatorAllowableClockSkewMs": wrong})


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({}, RULES),
        ({"iat": NOW}, RULES),
        ({"iat": NOW + 3}, UnsecuredRules(skew_ms=3000)),
        ({"exp": NOW - 2, "iat": NOW - 9}, UnsecuredRules(skew_ms=3000)),
        ({"exp": NOW + 0.001}, RULES),
        ({"exp": 1e300}, RULES),
        ({"scope": "a"}, UnsecuredRules(required_scopes=("a",))),
        ({"scope": ["b", "a", 1]}, UnsecuredRules(required_scopes=("a", "b"))),
    ],
)
def test_claims_that_are_right(claims: dict[str, Any], rules: UnsecuredRules) -> None:
    assert check(unsigned_token({**ALICE, **claims}), rules).user == "alice"


SIGNED = SigningKey().token({"sub": "alice"}, NOW)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "three parts"),
        ("..", "three parts"),
        ("a.b", "three parts"),
        ("a.b.", "no JSON in base64url"),
        ("é.b.", "no JSON in base64url"),
        (f"{part(b'{}')}.{part(b'[]')}.", "no JSON in base64url"),
        (SIGNED, "its algorithm is not none"),
        (SIGNED.rpartition(".")[0] + ".", "its algorithm is not none"),
        (unsigned_token(ALICE, {"alg": "NONE"}), "its algorithm is not none"),
        (unsigned_token(ALICE) + "eA", "it has a signature"),
        (unsigned_token({**ALICE, "sub": 1}), "is no text"),
        (unsigned_token({**ALICE, "sub": " "}), "is no text"),
        (unsigned_token({"sub": "alice"}), "no claim exp"),
        (unsigned_token({**ALICE, "exp": "x"}), "its claim exp is no number"),
        (unsigned_token({**ALICE, "exp": True}), "its claim exp is no number"),
        (unsigned_token({**ALICE, "exp": NOW}), "it has expired"),
        (unsigned_token({**ALICE, "iat": NOW + 1}), "it is issued in the future"),
    ],
)
def test_tokens_that_are_wrong(token: str, reason: str) -> None:
    with pytest.raises(TokenError, match=reason):
        check(token)


def test_a_token_that_ends_before_it_begins() -> None:
    with pytest.raises(TokenError, match="it ends before it begins"):
        check(unsigned_token({**ALICE, "exp": NOW + 1, "iat": NOW + 2}), UnsecuredRules(skew_ms=5000))


def test_a_scope_that_is_missing_is_named() -> None:
    with pytest.raises(ScopeError) as caught:
        check(unsigned_token({**ALICE, "scope": ["a"]}), UnsecuredRules(required_scopes=("a", "b")))
    assert caught.value.scope == "[a, b]"


@given(st.text(max_size=60))
def test_any_text_is_rejected(text: str) -> None:
    with pytest.raises(TokenError):
        check(text)
