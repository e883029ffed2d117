"""GSSAPI on the server, over a scripted context; tests/interop/test_kerberos.py has the real one."""

from __future__ import annotations

import pytest

from barnabas.broker.security.sasl.gssapi import GssapiMechanism, GssapiServer
from barnabas.broker.security.sasl.server import Login, SaslError, SaslRetriableError
from barnabas.security.kerberos import KerberosError
from barnabas.security.kerberos_rules import KerberosShortNamer


class ScriptedContext:
    """Of two tokens b"one" and b"two", or of one, b"only", which it answers with nothing."""

    principal = "alice@R"

    def __init__(self) -> None:
        self.is_complete = False

    def step(self, token: bytes) -> bytes:
        if token == b"replay":
            raise KerberosError("Request is a replay", is_retriable=True)
        if token not in (b"one", b"two", b"only"):
            raise KerberosError("Invalid token was supplied")
        self.is_complete = token != b"one"
        return b"" if token == b"only" else b"reply to " + token

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped " + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(b"wrapped "):
            raise KerberosError("A token had an invalid Message Integrity Check (MIC)")
        return token.removeprefix(b"wrapped ")


def server(*rules: str) -> GssapiServer:
    namer = KerberosShortNamer(rules or ("DEFAULT",), "R")
    mechanism = GssapiMechanism(ScriptedContext, namer.name_of, 5)
    assert (mechanism.name, mechanism.max_reauth_ms) == ("GSSAPI", 5)
    made = mechanism.new_server()
    assert made.blocks
    return made


OFFER = b"wrapped \1\0\0\0"


def test_a_login() -> None:
    made = server()
    assert made.evaluate(b"one") == b"reply to one"
    assert (made.user, made.login) == (None, None)
    assert made.evaluate(b"two") == b"reply to two"
    assert made.user == "alice@R"
    assert made.evaluate(b"") == OFFER
    assert made.login is None
    assert made.evaluate(OFFER) == b""
    assert made.login == Login("alice")


def test_without_a_reply_the_offer_comes_in_its_place() -> None:
    made = server()
    assert made.evaluate(b"only") == OFFER
    assert made.evaluate(OFFER + b"kafka@localhost") == b""  # a name that is not followed
    assert made.login == Login("alice")


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ([b"rubbish"], "Kerberos: Invalid token was supplied"),
        ([b"two", b"x"], "the client's message is not empty"),
        ([b"only", b"\1\0\0\0"], "Kerberos: A token had an invalid Message Integrity Check"),
        ([b"only", b"wrapped \2\0\0\0"], "chooses protection 2"),
        ([b"only", b"wrapped \1"], "has 1 bytes"),
    ],
)
def test_what_fails(tokens: list[bytes], why: str) -> None:
    made = server()
    for token in tokens[:-1]:
        made.evaluate(token)
    with pytest.raises(SaslError) as caught:
        made.evaluate(tokens[-1])
    assert why in str(caught.value)
    assert not isinstance(caught.value, SaslRetriableError)
    assert made.login is None


def test_a_replay_is_no_failed_login() -> None:
    with pytest.raises(SaslRetriableError, match="Kerberos: Request is a replay"):
        server().evaluate(b"replay")


def test_whom_no_rule_names_is_not_let_in() -> None:
    made = server("RULE:[2:$1]")
    made.evaluate(b"only")
    with pytest.raises(
        SaslError, match=r"no rule of sasl\.kerberos\.principal\.to\.local\.rules matches alice@R"
    ):
        made.evaluate(OFFER)
    assert made.login is None
