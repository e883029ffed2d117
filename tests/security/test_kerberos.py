"""Keys, tickets and contexts over a stand-in for gssapi; and once, where there is a KDC, over the real one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.kerberos import (
    Acceptor,
    GssapiClient,
    KerberosError,
    KerberosLogin,
    KerberosMissingError,
    default_realm,
    kerberos_login,
    library,
)
from barnabas.security.kerberos_options import KerberosOptions
from tests.security.fake_gssapi import FakeGssapi, installed
from tests.support.kdc import REALM, Kdc, require_gssapi, require_kdc

SERVER = KerberosOptions("kafka", "kafka/h@R", True, "/kafka.keytab")
CLIENT = KerberosOptions("kafka", "alice@R", True, "/alice.keytab")


@pytest.fixture
def gssapi(monkeypatch: pytest.MonkeyPatch) -> FakeGssapi:
    return installed(monkeypatch)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KerberosMissingError, match=r"pip install barnabas\[kerberos\].* libkrb5-3"):
        library()
    with pytest.raises(SettingError, match="^sasl.mechanism=GSSAPI needs the extra") as caught:  # noqa: RUF043
        kerberos_login(CLIENT, "sasl.mechanism")
    assert caught.value.key == "sasl.mechanism"


def test_the_default_realm(gssapi: FakeGssapi) -> None:
    assert default_realm() == "R"
    gssapi.realm = None
    assert default_realm() == ""


# ---- a server


def test_a_server_accepts_by_its_keytab_and_remembers_authenticators(gssapi: FakeGssapi) -> None:
    context = Acceptor(SERVER).context()
    assert gssapi.stores == [("accept", {"keytab": "/kafka.keytab", "rcache": "dfl:"})]
    assert (context.is_complete,) == (False,)
    assert context.step(b"AP-REQ alice@R kafka@h") == b"AP-REP"
    assert context.is_complete
    assert context.principal == "alice@R"
    assert context.unwrap(context.wrap(b"x")) == b"x"
    with pytest.raises(KerberosError, match="Message Integrity Check"):
        context.unwrap(b"x")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (SERVER._replace(keytab="/absent"), "Key table file '/absent' not found"),
        (SERVER._replace(keytab="/alice.keytab"), "No key table entry found for kafka/h@R"),
        (SERVER._replace(keytab=None), "No Kerberos credentials available"),
    ],
)
def test_a_server_without_keys_cannot_be(gssapi: FakeGssapi, options: KerberosOptions, why: str) -> None:
    with pytest.raises(KerberosError) as caught:
        Acceptor(options)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("token", "why", "is_retriable"),
    [
        (b"", "Invalid token was supplied", False),
        (b"REPLAY x", "Request is a replay", True),
    ],
)
def test_tokens_that_are_rejected(gssapi: FakeGssapi, token: bytes, why: str, *, is_retriable: bool) -> None:
    with pytest.raises(KerberosError) as caught:
        Acceptor(SERVER).context().step(token)
    assert (str(caught.value), caught.value.is_retriable) == (why, is_retriable)


@pytest.mark.parametrize(
    ("token", "why"), [(b"ANONYMOUS x y", "the client is anonymous"), (b"SPNEGO x y", "it is not Kerberos")]
)
def test_who_is_nobody_by_kerberos(gssapi: FakeGssapi, token: bytes, why: str) -> None:
    context = Acceptor(SERVER).context()
    context.step(token)
    with pytest.raises(KerberosError, match=why):
        _ = context.principal


def test_a_context_that_is_not_complete_wraps_nothing(gssapi: FakeGssapi) -> None:
    with pytest.raises(KerberosError, match="expired"):
        Acceptor(SERVER).context().wrap(b"x")


# ---- a client


def client(options: KerberosOptions = CLIENT) -> GssapiClient:
    return KerberosLogin(options).client("h")


def test_a_login_by_a_keytab(gssapi: FakeGssapi) -> None:
    made = client()
    assert (made.mechanism, made.blocks) == ("GSSAPI", True)
    assert gssapi.stores == []  # nothing is read before the first message
    assert made.initial() == b"AP-REQ alice@R kafka@h"
    ((usage, store),) = gssapi.stores
    assert usage == "initiate"
    assert store is not None
    assert store["client_keytab"] == "/alice.keytab"
    assert store["ccache"].startswith("MEMORY:")
    assert made.respond(b"AP-REP") == b""
    assert made.respond(b"wrapped \1\0\0\0") == b"wrapped \1\0\0\0"
    assert made.respond(b"") is None
    with pytest.raises(SaslClientError, match="goes on after GSSAPI is complete"):
        made.respond(b"x")


def test_a_server_that_does_not_prove_itself_is_left(gssapi: FakeGssapi) -> None:
    made = client()
    made.initial()
    with pytest.raises(SaslClientError, match="Kerberos: Invalid token was supplied"):
        made.respond(b"AP-REQ")


@pytest.mark.parametrize(
    ("offer", "why"), [(b"x", "Message Integrity Check"), (b"wrapped \6\0\0\0", "asks for protection")]
)
def test_offers_that_are_not_taken(gssapi: FakeGssapi, offer: bytes, why: str) -> None:
    made = client()
    made.initial()
    made.respond(b"AP-REP")
    with pytest.raises(SaslClientError, match=why):
        made.respond(offer)


def test_tickets_of_a_cache_come_before_the_keytab(gssapi: FakeGssapi) -> None:
    cached = KerberosOptions("kafka", None, False, None, True, "/alice.ccache")
    assert client(cached).initial() == b"AP-REQ alice@R kafka@h"
    both = CLIENT._replace(uses_ticket_cache=True, ticket_cache="/alice.ccache")
    gssapi.stores.clear()
    client(both).initial()
    assert gssapi.stores == [("initiate", {"ccache": "/alice.ccache"})]


@pytest.mark.parametrize("cache", ["/absent.ccache", "/expired.ccache", None])
def test_without_tickets_the_keytab_counts(gssapi: FakeGssapi, cache: str | None) -> None:
    both = CLIENT._replace(uses_ticket_cache=True, ticket_cache=cache)
    assert client(both).initial() == b"AP-REQ alice@R kafka@h"
    assert len(gssapi.stores) == 2


def test_without_tickets_and_keytab_there_is_no_login(gssapi: FakeGssapi) -> None:
    cached = KerberosOptions("kafka", None, False, None, True, None)
    with pytest.raises(SaslClientError, match="Kerberos: No Kerberos credentials available"):
        client(cached).initial()
    with pytest.raises(SaslClientError, match="Kerberos: No Kerberos credentials available"):
        client(CLIENT._replace(keytab=None)).initial()


def test_logins_are_equal_by_what_they_ask_for(gssapi: FakeGssapi) -> None:
    login = kerberos_login(CLIENT, "sasl.mechanism")
    assert login == KerberosLogin(CLIENT)
    assert hash(login) == hash(KerberosLogin(CLIENT))
    assert login != KerberosLogin(CLIENT._replace(keytab="/other"))
    assert login != "alice"
    assert (repr(login), login.mechanism) == ("<KerberosLogin as alice@R>", "GSSAPI")
    assert KerberosLogin(CLIENT._replace(principal=None)).user == "the principal of the ticket cache"


# ---- the real library


def test_with_a_kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of a login, and the same token again, which is a replay."""
    require_kdc()
    require_gssapi()
    with Kdc(tmp_path) as kdc:
        for name, value in kdc.environment.items():
            monkeypatch.setenv(name, value)
        acceptor = Acceptor(KerberosOptions("kafka", "kafka/localhost", True, kdc.keytab("kafka/localhost")))
        login = KerberosLogin(KerberosOptions("kafka", "alice", True, kdc.keytab("alice")))
        monkeypatch.setenv("KRB5RCACHETYPE", "none")  # has no effect
        ours, theirs = login.client("localhost"), acceptor.context()
        token = ours.initial()
        assert ours.respond(theirs.step(token)) == b""
        assert theirs.principal == f"alice@{REALM}"
        choice = ours.respond(theirs.wrap(b"\1\0\0\0"))
        assert choice is not None
        assert theirs.unwrap(choice) == b"\1\0\0\0"
        with pytest.raises(KerberosError, match="Request is a replay") as caught:
            acceptor.context().step(token)
        assert caught.value.is_retriable
        assert default_realm() == REALM
