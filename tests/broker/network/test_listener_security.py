"""How a listener is secured: never with TLS or logins that were forgotten."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from barnabas.broker.network.listener_security import ListenerSecurity, ListenerTls, without_security
from barnabas.broker.request import ANONYMOUS, KafkaPrincipal
from barnabas.broker.security.principals import AuthenticationContext
from barnabas.config.listeners import Listener
from tests.broker.network.socket_harness import Client, Run, harness, until
from tests.broker.network.tls_listeners import client_tls, one, securities, server, write_certificates
from tests.broker.security.sasl.logins import listener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificates(tmp_path)
    return tmp_path


def tls_part(made: ListenerSecurity) -> ListenerTls:
    assert made.tls is not None
    return made.tls


def test_requests_of_a_plaintext_listener_are_anonymous() -> None:
    security = without_security(Listener("PLAINTEXT", None, 9092))
    assert security.initial_principal is ANONYMOUS
    assert (security.sasl, security.tls) == (None, None)


async def test_a_listener_has_the_parts_of_its_protocol_and_no_others(folder: Path) -> None:
    sasl, tls = listener(), tls_part(one(securities(folder)))
    parts = {
        "PLAINTEXT": (None, None),
        "SSL": (None, tls),
        "SASL_PLAINTEXT": (sasl, None),
        "SASL_SSL": (sasl, tls),
    }
    for protocol, right in parts.items():
        assert (ListenerSecurity(protocol, *right).initial_principal is None) is (protocol != "PLAINTEXT")
        for wrong in parts.values():
            if wrong != right:
                with pytest.raises(AssertionError):
                    ListenerSecurity(protocol, *wrong)
    with pytest.raises(AssertionError):
        without_security(Listener("SSL", None, 9093, "SSL"))


def test_requests_over_tls(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder)
        home = server(all_of_them)
        client = await Client.dials(home.ports["SSL"], "localhost", ssl=client_tls(folder))
        assert await client.asks("echo one") == b"one"
        client.send("echo " + "x" * 100_000, "echo two")
        assert await client.answer() == b"x" * 100_000
        assert await client.answer() == b"two"
        (info,) = home.server.connections()
        assert (info.principal, info.security_protocol) == (ANONYMOUS, "SSL")
        probe = home.probe.listener("SSL")
        assert list(probe.connections_by_cipher.items()) == [(("TLS_AES_256_GCM_SHA384", "TLSv1.3"), 1)]
        assert (probe.successful_authentications, probe.failed_authentications) == (1, 0)
        assert probe.successful_authentications_no_reauth == 1
        await client.leaves()
        await home.server.drain(5)
        assert probe.connections_by_cipher == {}
        all_of_them.close()

    run(dialogue())


@pytest.mark.parametrize(
    ("auth", "shows", "principal"),
    [
        ("required", "alice", KafkaPrincipal("alice")),
        ("requested", "alice", KafkaPrincipal("alice")),
        ("requested", None, ANONYMOUS),
        ("none", "alice", ANONYMOUS),
    ],
)
def test_who_a_client_is(
    run: Run, folder: Path, auth: str, shows: str | None, principal: KafkaPrincipal
) -> None:
    async def dialogue() -> None:
        all_of_them = securities(
            folder,
            **{
                "listener.name.ssl.ssl.client.auth": auth,
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            },
        )
        home = server(all_of_them)
        client = await Client.dials(home.ports["SSL"], "localhost", ssl=client_tls(folder, shows))
        assert await client.asks("echo one") == b"one"
        (info,) = home.server.connections()
        assert info.principal == principal
        await client.leaves()
        await home.server.drain(5)
        all_of_them.close()

    run(dialogue())


async def attempt(port: int, tls: ssl.SSLContext) -> None:
    """A request that is not answered."""
    client = await Client.dials(port, "localhost", ssl=tls)
    try:
        await client.asks("echo one")
    finally:
        await client.leaves()


@pytest.mark.parametrize(
    ("rules", "shows", "said"),
    [
        ("DEFAULT", None, "the peer shows no certificate, and ssl.client.auth=required"),
        ("DEFAULT", "stranger", "the certificate is signed by none that ssl.truststore.location trusts"),
        ("RULE:CN=bob/bob/", "alice", "no rule of ssl.principal.mapping.rules matches CN=alice"),
    ],
)
def test_who_is_not_let_in(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture, *, rules: str, shows: str | None, said: str
) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder, ssl__client__auth="required", ssl__principal__mapping__rules=rules)
        home = server(all_of_them)
        with caplog.at_level(logging.INFO, "barnabas.security"):
            for _ in range(2):
                with pytest.raises((OSError, EOFError)):
                    await attempt(home.ports["SSL"], client_tls(folder, shows))
            # the client learns of it from a thread, before the loop does
            await until(lambda: home.probe.listener("SSL").failed_authentications == 2)
        await home.server.drain(5)
        assert "failed authentication: listener SSL, client 127.0.0.1:" in caplog.text
        assert said in caplog.text
        all_of_them.close()

    run(dialogue())


def test_plain_clients_and_tls_clients_at_the_wrong_listener(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder)
        home = server(all_of_them)
        with caplog.at_level(logging.INFO, "barnabas.security"):
            client = await Client.dials(home.ports["SSL"])
            client.send("echo one")
            assert await client.sees_the_end()
            await client.leaves()
        assert "the client sends plain bytes to a TLS listener" in caplog.text
        await home.server.drain(5)
        all_of_them.close()
        async with harness() as plain:
            with pytest.raises((OSError, ssl.SSLError)):
                await Client.dials(plain.port, "localhost", ssl=client_tls(folder))
        assert "a TLS client is at a listener in plain text" in caplog.text

    run(dialogue())


def test_a_resumed_session_brings_the_certificate(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder, ssl__client__auth="required")
        home = server(all_of_them)
        context = client_tls(folder, "alice", maximum_version=ssl.TLSVersion.TLSv1_2)
        names, reused = [], []
        session = None
        for _ in range(2):
            reader_writer = await asyncio.to_thread(_one_exchange, context, home.ports["SSL"], session)
            session, was_reused = reader_writer
            reused.append(was_reused)
            names.append(home.probe.listener("SSL").successful_authentications)
        assert reused == [False, True]
        assert names == [1, 2]
        await home.server.drain(5)
        all_of_them.close()

    run(dialogue())


def _one_exchange(
    context: ssl.SSLContext, port: int, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    import socket

    from tests.broker.scripted import framed

    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as tls,
    ):
        tls.sendall(framed(b"echo one"))
        assert tls.recv(100)
        return tls.session, bool(tls.session_reused)


# ---- a class of the operator's own names clients


class Teams:
    """A team for each name in a certificate, and for each address without one."""

    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        return "Team", context.peer_name or context.client_address


class Nobody:
    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        raise LookupError("nobody\nis known")


def test_it_names_the_clients_of_a_plaintext_listener(run: Run) -> None:
    async def dialogue() -> None:
        security = ListenerSecurity("PLAINTEXT", builder=Teams())
        assert security.initial_principal is None
        async with harness(secure=lambda _: security) as home:
            client = await Client.dials(home.port)
            assert await client.asks("echo one") == b"one"
            (info,) = home.server.connections()
            assert info.principal == KafkaPrincipal("127.0.0.1", "Team")
            await client.leaves()

    run(dialogue())


def test_whom_it_does_not_name_has_no_connection(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        async with harness(secure=lambda _: ListenerSecurity("PLAINTEXT", builder=Nobody())) as home:
            client = await Client.dials(home.port)
            assert await client.sees_the_end()
            assert list(home.server.connections()) == []
            await client.leaves()

    run(dialogue())
    assert (
        "is not let in: principal.builder.class has failed with LookupError: nobody\\nis known" in caplog.text
    )


@pytest.mark.parametrize(("shows", "name"), [("alice", "CN=alice"), (None, "127.0.0.1")])
def test_it_names_the_clients_of_a_tls_listener(run: Run, folder: Path, shows: str | None, name: str) -> None:
    async def dialogue() -> None:
        named = f"python:{__name__}:Teams"
        all_of_them = securities(folder, ssl__client__auth="requested", principal__builder__class=named)
        home = server(all_of_them)
        client = await Client.dials(home.ports["SSL"], "localhost", ssl=client_tls(folder, shows))
        assert await client.asks("echo one") == b"one"
        (info,) = home.server.connections()
        assert info.principal == KafkaPrincipal(name, "Team")
        assert (info.naming.tls.version, info.naming.tls.cipher_suite[:4]) == ("TLSv1.3", "TLS_")
        await client.leaves()
        await home.server.drain(5)
        all_of_them.close()

    run(dialogue())


def test_whom_it_does_not_name_fails_the_handshake(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        all_of_them = securities(folder, principal__builder__class=f"python:{__name__}:Nobody")
        home = server(all_of_them)
        with pytest.raises((OSError, EOFError)):
            await attempt(home.ports["SSL"], client_tls(folder))
        assert home.probe.listener("SSL").failed_authentications == 1
        await home.server.drain(5)
        all_of_them.close()

    run(dialogue())
