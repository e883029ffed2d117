"""One login by OAUTHBEARER: messages, answers, and who checks tokens."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.security.sasl.authenticator import Fate, SaslAuthenticator
from barnabas.broker.security.sasl.jwks import ProviderKeys, RefreshTimes
from barnabas.broker.security.sasl.listener import SaslListener
from barnabas.broker.security.sasl.oauthbearer import (
    LONG_BYTES,
    HookTokens,
    OAuthBearerMechanism,
    OAuthBearerServer,
    SignedTokens,
    UnsecuredTokens,
)
from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError, SaslError, WouldBlockError
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.security.json_web_tokens import TokenRules
from barnabas.security.unsecured_tokens import UnsecuredRules
from tests.broker.security.sasl.logins import FakeDoors, ManualClock, connection_info
from tests.support.sasl import request
from tests.support.tokens import SigningKey, key_set, unsigned_token

KEY = SigningKey()
NOW_MS = 50_000
RULES = TokenRules()
UNSECURED = UnsecuredRules()
INVALID = b'{"status":"invalid_token"}'


def provider() -> ProviderKeys:
    keys = ProviderKeys("http://x", lambda: key_set(KEY), RefreshTimes(), lambda: NOW_MS)
    keys.fetched(keys.fetch_now())
    return keys


def signed(keys: ProviderKeys | None = None, rules: TokenRules = RULES) -> OAuthBearerMechanism:
    used = keys or provider()
    return OAuthBearerMechanism(SignedTokens(used, rules, lambda: NOW_MS), 0, used)


def message(token: str, authorization_id: str = "", more: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01{more}\x01".encode()


GOOD = KEY.token({"sub": "alice"}, NOW_MS / 1000)
EXPIRED = KEY.token({"sub": "alice", "exp": 1, "iat": 0}, NOW_MS / 1000)


@pytest.mark.parametrize(
    "text", [message(GOOD), message(GOOD, "alice"), message(GOOD, more="logicalCluster=x\x01")]
)
def test_a_login(text: bytes) -> None:
    server = signed().new_server()
    assert not server.blocks
    assert server.evaluate(text) == b""
    assert server.login == Login("alice", expires_ms=NOW_MS + 300_000)
    assert server.user == "alice"


def test_a_long_token_is_for_a_thread() -> None:
    longest = message(GOOD, more=f"x={'a' * (LONG_BYTES - len(message(GOOD)) - 3)}\x01")
    assert len(longest) == LONG_BYTES
    assert signed().new_server().evaluate(longest) == b""
    server = signed().new_server()
    long = message(KEY.token({"sub": "alice", "roles": ["a role"] * 9000}, NOW_MS / 1000))
    with pytest.raises(WouldBlockError):
        server.evaluate(long)
    assert server.blocks
    assert server.evaluate(long) == b""
    assert server.login == Login("alice", expires_ms=NOW_MS + 300_000)


def test_a_token_that_is_rejected_is_answered_and_then_fails() -> None:
    server = signed().new_server()
    assert server.evaluate(message(EXPIRED)) == INVALID
    assert (server.login, server.user) == (None, "alice")
    with pytest.raises(SaslAuthenticationError) as caught:
        server.evaluate(b"\x01")
    assert str(caught.value) == INVALID.decode()
    assert caught.value.reason == "the token is rejected: it has expired"


def test_after_a_token_that_is_rejected_another_may_come() -> None:
    """As in Kafka."""
    server = signed().new_server()
    assert server.evaluate(message(EXPIRED)) == INVALID
    assert server.evaluate(message(GOOD)) == b""
    assert server.login is not None


@pytest.mark.parametrize("text", [b"", b"\x01", b"\0alice\0secret", message("a b")])
def test_messages_that_are_wrong(text: bytes) -> None:
    server = signed().new_server()
    with pytest.raises(SaslError) as caught:
        server.evaluate(text)
    assert not isinstance(
        caught.value, SaslAuthenticationError
    )  # the client learns no more than that it failed
    assert (server.login, server.user) == (None, None)


def test_an_abort_counts_once() -> None:
    server = signed().new_server()
    server.evaluate(message(EXPIRED))
    with pytest.raises(SaslAuthenticationError):
        server.evaluate(b"\x01")
    with pytest.raises(SaslError, match="not of its form"):
        server.evaluate(b"\x01")


def test_another_authorization_id() -> None:
    server = signed().new_server()
    with pytest.raises(SaslAuthenticationError) as caught:
        server.evaluate(message(GOOD, "bob"))
    assert str(caught.value) == (
        "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
        "principal name (alice)"
    )
    assert server.login is None


def test_a_key_that_is_not_known_is_asked_for() -> None:
    keys = provider()
    asked: list[int] = []
    keys.wanted = lambda: asked.append(1)
    server = signed(keys).new_server()
    token = KEY.token({"sub": "alice"}, NOW_MS / 1000, headers={"kid": "two"})
    assert server.evaluate(message(token)) == INVALID
    assert asked == [1]


def test_the_user_in_the_log_is_of_the_claim_that_counts() -> None:
    rules = TokenRules(issuer="one", user_claim="name")
    for claims, user in (({"sub": "x", "name": "bob"}, "bob"), ({"sub": "x"}, None), ({"name": 1}, None)):
        server = signed(rules=rules).new_server()
        assert server.evaluate(message(KEY.token(claims, NOW_MS / 1000))) == INVALID
        assert server.user == user
    server = signed().new_server()
    assert server.evaluate(message("rubbish")) == INVALID
    assert server.user is None


# ---- unsigned tokens


def unsigned(rules: UnsecuredRules = UNSECURED) -> OAuthBearerServer:
    mechanism = OAuthBearerMechanism(UnsecuredTokens(rules, lambda: NOW_MS))
    assert mechanism.takes_unsigned
    assert not signed().takes_unsigned
    return mechanism.new_server()


def test_unsigned_tokens() -> None:
    server = unsigned()
    assert server.evaluate(message(unsigned_token({"sub": "alice", "exp": 60}))) == b""
    assert server.login == Login("alice", expires_ms=60_000)
    server = unsigned()
    assert server.evaluate(message(unsigned_token({"sub": "alice", "exp": 50}))) == INVALID
    assert server.user == "alice"
    assert signed().new_server().evaluate(message(unsigned_token({"sub": "alice", "exp": 60}))) == INVALID


def test_a_scope_that_is_missing() -> None:
    server = unsigned(UnsecuredRules(required_scopes=("a", 'b"')))
    answer = b'{"status":"insufficient_scope", "scope":"[a, b\\"]"}'
    assert server.evaluate(message(unsigned_token({"sub": "alice", "exp": 60}))) == answer
    with pytest.raises(SaslAuthenticationError) as caught:
        server.evaluate(b"\x01")
    assert str(caught.value) == answer.decode()


# ---- a class of the operator's own


class Hook:
    """Answers what it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def validate(self, token: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def hooked(answer: Any) -> OAuthBearerServer:
    server = OAuthBearerMechanism(HookTokens(Hook(answer))).new_server()
    assert server.blocks
    return server


def test_a_hook_that_accepts() -> None:
    server = hooked(("alice", 60_000.5))
    assert server.evaluate(message("opaque")) == b""
    assert server.login == Login("alice", expires_ms=60_000)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "the class that checks tokens rejects it"),
        (ZeroDivisionError("opaque"), "the class that checks tokens has failed"),
        (True, "has returned neither None nor a user and an end"),
        (("alice",), "has returned neither None nor a user and an end"),
        (("", 1), "has returned no user with an end"),
        (("alice", None), "has returned no user with an end"),
    ],
)
def test_a_hook_that_does_not(answer: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    server = hooked(answer)
    assert server.evaluate(message("opaque")) == INVALID
    with pytest.raises(SaslAuthenticationError) as caught:
        server.evaluate(b"\x01")
    assert reason in caught.value.reason
    assert "opaque" not in caplog.text
    assert server.user is None


# ---- a whole login


def test_the_session_ends_with_the_token_and_the_log_knows_why_a_login_failed() -> None:
    listener = SaslListener({"OAUTHBEARER": signed()}, 10_000)
    for token, fate in ((GOOD, Fate.COMPLETE), (EXPIRED, Fate.CONTINUE)):
        clock = ManualClock()
        login = SaslAuthenticator(listener, connection_info(), FakeDoors(), clock.clock)
        login.receive(request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1))
        step = login.receive(request(SaslAuthenticateRequest(auth_bytes=message(token)), 2))
        assert step.fate is fate
        if fate is Fate.COMPLETE:
            assert login.session is not None
            assert login.session.ends_at == clock.now_s + 300
    step = login.receive(request(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2))
    assert step.fate is Fate.FAIL
    assert step.failure == ("the token is rejected: it has expired", "OAUTHBEARER", "alice")
    assert step.answer is not None
    assert INVALID in b"".join(bytes(each) for each in step.answer)  # type: ignore[arg-type]  # no records
