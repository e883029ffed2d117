"""PLAIN: tokens, users of a JAAS entry, and a class of the operator's own."""

from __future__ import annotations

import hmac
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.security.sasl import plain
from barnabas.broker.security.sasl.listener import sasl_listener
from barnabas.broker.security.sasl.plain import JaasLogins, PlainMechanism, PlainServer
from barnabas.broker.security.sasl.scram import ScramCredentials
from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError
from barnabas.config.broker_config import BrokerConfig
from tests.support.examples import importable, indented_after

USERS = {"user_alice": "pencil", "user_": "nameless", "user_päul": "ein Paßwort", "other": "x"}


def server() -> PlainServer:
    return PlainMechanism(JaasLogins(USERS)).new_server()


@pytest.mark.parametrize(
    ("token", "user"),
    [
        ("\0alice\0pencil", "alice"),
        ("alice\0alice\0pencil", "alice"),
        ("\0päul\0ein Paßwort", "päul"),
    ],
)
def test_a_login(token: str, user: str) -> None:
    login = server()
    assert login.evaluate(token.encode()) == b""
    assert (login.login, login.user, login.blocks) == (Login(user), user, False)


@pytest.mark.parametrize(
    ("token", "text", "user"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1", None),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2", None),
        (b"\0alice\0pencil\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4", None),
        (b"\0a\0b\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4", None),
        (b"\0\0nameless", "Authentication failed: username not specified", ""),
        (b"\0alice\0", "Authentication failed: password not specified", "alice"),
        (b"\0alice\0Pencil", "Authentication failed: Invalid username or password", "alice"),
        (b"\0Alice\0pencil", "Authentication failed: Invalid username or password", "Alice"),
        (b"\0other\0x", "Authentication failed: Invalid username or password", "other"),
        (b"\0alice\0\xff", "Authentication failed: Invalid username or password", "alice"),
        (
            b"bob\0alice\0pencil",
            "Authentication failed: Client requested an authorization id that is different from username",
            "alice",
        ),
        (b"bob\0alice\0wrong", "Authentication failed: Invalid username or password", "alice"),
    ],
)
def test_a_login_that_fails(token: bytes, text: str, user: str | None) -> None:
    login = server()
    with pytest.raises(SaslAuthenticationError) as caught:
        login.evaluate(token)
    assert str(caught.value) == text
    assert (login.login, login.user) == (None, user)


@given(st.binary(max_size=100))
def test_any_token_fails_or_is_the_right_one(token: bytes) -> None:
    login = server()
    try:
        login.evaluate(token)
    except SaslAuthenticationError:
        assert login.login is None
    else:
        assert login.login in (Login("alice"), Login("päul"))


def test_users_are_counted() -> None:
    assert len(JaasLogins(USERS)) == 3
    assert not JaasLogins({}).authenticate("alice", "")


class Directory:
    """Logins that somebody else keeps."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    def authenticate(self, username: str, password: str) -> bool:
        self.asked.append((username, password))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # whatever an operator's class returns


def test_a_class_of_the_operators_own_lets_users_in() -> None:
    directory = Directory(True)
    mechanism = PlainMechanism(directory, 5000, blocks=True)
    login = mechanism.new_server()
    assert login.blocks
    login.evaluate(b"\0carol\0secret")
    assert login.login == Login("carol")
    assert directory.asked == [("carol", "secret")]
    assert (mechanism.name, mechanism.max_reauth_ms) == ("PLAIN", 5000)


@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
def test_only_true_lets_a_user_in(answer: object) -> None:
    login = PlainMechanism(Directory(answer)).new_server()
    with pytest.raises(SaslAuthenticationError, match="Invalid username or password"):
        login.evaluate(b"\0carol\0secret")


def test_a_class_that_fails_lets_nobody_in_and_no_password_out(caplog: pytest.LogCaptureFixture) -> None:
    login = PlainMechanism(Directory(LookupError("secret is wrong"))).new_server()
    with pytest.raises(SaslAuthenticationError, match="credentials for user could not be verified") as caught:
        login.evaluate(b"\0carol\0secret")
    assert caught.value.__cause__ is None
    assert caplog.messages == ["the class that checks logins has failed with LookupError"]
    assert "secret" not in caplog.text


def test_a_login_costs_the_same_for_users_that_exist_and_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed and compared is counted: for unknown users, and wherever the passwords differ."""
    logins = JaasLogins({"user_alice": "pencil"})
    done: list[tuple[str, int]] = []
    digest, compare = hmac.digest, hmac.compare_digest

    def counting_digest(key: bytes, data: bytes, hash_name: str) -> bytes:
        done.append((hash_name, len(data)))
        return digest(key, data, hash_name)

    def counting_compare(one: bytes, other: bytes) -> bool:
        done.append(("compare", len(one) + len(other)))
        return compare(one, other)

    monkeypatch.setattr(
        plain, "hmac", SimpleNamespace(digest=counting_digest, compare_digest=counting_compare)
    )
    costs = []
    for user, password in (("alice", "pencix"), ("alice", "xencil"), ("nobody", "pencil"), ("", "pencix")):
        done.clear()
        assert not logins.authenticate(user, password)
        costs.append([*done])
    assert costs == [[("sha256", 6), ("compare", 64)]] * 4


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class checks passwords by a directory service, whose library is a stand-in here."""
    documentation = plain.__doc__
    assert documentation is not None
    ldap3 = ModuleType("ldap3")
    asked: list[tuple[str, str]] = []

    class Connection:
        def __init__(self, server: str, name: str, password: str) -> None:
            asked.append((server, name))
            self.bound = password == "pencil"

        def __enter__(self) -> Connection:
            return self

        def __exit__(self, *_: object) -> None: ...

    rdn = SimpleNamespace(escape_rdn=lambda text: text.replace(",", "\\,"))
    vars(ldap3).update(Server=str, Connection=Connection, utils=SimpleNamespace(dn=rdn))
    monkeypatch.setitem(sys.modules, "ldap3", ldap3)
    code = indented_after(documentation, "As a complete example, the module `company_logins`")
    lines = indented_after(documentation, "and in server.properties").replace("\\\n", "")
    settings = dict(line.split("=", 1) for line in lines.splitlines())
    overrides = [f"{key}={value}" for key, value in settings.items()]
    with importable(code, "company_logins", tmp_path):
        config = BrokerConfig.of(None, overrides=overrides)
        server = sasl_listener(config, "SASL_SSL", ScramCredentials()).mechanisms["PLAIN"].new_server()
        assert server.evaluate(b"\0alice,a\0pencil") == b""
        assert asked == [("ldaps://directory.example", "uid=alice\\,a,ou=people,dc=example")]
