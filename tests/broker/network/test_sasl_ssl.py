"""Logins over TLS: the transport and the authenticator of one connection together, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.network.socket_harness import Client, Run, ServerHarness, until
from tests.broker.network.tls_listeners import client_tls, securities, server, write_certificates
from tests.broker.scripted import framed as in_frame
from tests.support.sasl import framed, plain_entry, plain_token, request

HANDSHAKE = framed(request(SaslHandshakeRequest(mechanism="PLAIN"), 1))


def token(password: str) -> bytes:
    return framed(request(SaslAuthenticateRequest(auth_bytes=plain_token("alice", password)), 2))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificates(tmp_path)
    return tmp_path


def secure(folder: Path, **changes: str) -> ListenerSecurities:
    settings = {
        "listeners": "SECURE://127.0.0.1:0",
        "listener__security__protocol__map": "SECURE:SASL_SSL",
        "sasl__enabled__mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": plain_entry(alice="pencil"),
    }
    return securities(folder, **{**settings, **changes})


def serving(made: ListenerSecurities, **options: int) -> ServerHarness:
    return server(made, "SECURE", "SASL_SSL", **options)


async def dial(home: ServerHarness, folder: Path, name: str | None = None) -> Client:
    return await Client.dials(home.ports["SECURE"], "localhost", ssl=client_tls(folder, name))


async def end(home: ServerHarness, made: ListenerSecurities) -> None:
    await home.server.drain(5)
    made.close()


async def attempt(home: ServerHarness, folder: Path) -> None:
    """A login that does not begin."""
    client = await dial(home, folder)
    try:
        client.writer.write(HANDSHAKE)
        await client.answer()
    finally:
        await client.leaves()


@pytest.mark.parametrize("auth", ["none", "required"])
def test_a_client_logs_in_and_the_certificate_names_nobody(run: Run, folder: Path, auth: str) -> None:
    async def dialogue() -> None:
        made = secure(folder, **{"listener.name.secure.ssl.client.auth": auth})
        home = serving(made)
        client = await dial(home, folder, "alice")
        client.writer.write(HANDSHAKE)
        await client.answer()
        assert [info.principal for info in home.server.connections()] == [None]
        client.writer.write(token("pencil"))
        await client.answer()
        assert await client.asks("echo one") == b"one"
        (info,) = home.server.connections()
        assert (str(info.principal), info.security_protocol) == ("User:alice", "SASL_SSL")
        probe = home.probe.listener("SECURE")
        assert (probe.successful_authentications, probe.failed_authentications) == (1, 0)
        assert list(probe.connections_by_cipher.values()) == [1]
        client.send("echo " + "x" * 100_000, "echo two")
        assert await client.answer() == b"x" * 100_000
        assert await client.answer() == b"two"
        await client.leaves()
        await end(home, made)
        assert probe.connections_by_cipher == {}

    run(dialogue())


def test_requests_behind_the_login_in_one_record_are_answered(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        made = secure(folder)
        home = serving(made)
        client = await dial(home, folder)
        client.writer.write(HANDSHAKE + token("pencil") + in_frame(b"echo one") + in_frame(b"echo two"))
        await client.answer()
        await client.answer()
        assert [await client.answer(), await client.answer()] == [b"one", b"two"]
        await client.leaves()
        await end(home, made)

    run(dialogue())


def test_a_certificate_is_checked_before_the_login(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def dialogue() -> None:
        made = secure(folder, **{"listener.name.secure.ssl.client.auth": "required"})
        home = serving(made)
        with caplog.at_level(logging.INFO, "barnabas.security"):
            with pytest.raises((OSError, EOFError)):
                await attempt(home, folder)
            await until(lambda: home.probe.listener("SECURE").failed_authentications == 1)
        assert "failed authentication: listener SECURE" in caplog.text
        assert "the peer shows no certificate" in caplog.text
        assert home.server.authentications is not None
        assert len(home.server.authentications) == 0
        await end(home, made)

    run(dialogue())


def test_who_cannot_log_in_is_told_and_sent_away(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        made = secure(folder)
        home = serving(made)
        client = await dial(home, folder)
        began = asyncio.get_running_loop().time()
        client.writer.write(HANDSHAKE + token("wrong"))
        await client.answer()
        assert b"Authentication failed" in await client.answer()
        assert await client.sees_the_end()
        assert asyncio.get_running_loop().time() - began >= 0.009  # the delay of the harness
        await client.leaves()
        assert home.handler.handled == []
        assert home.probe.listener("SECURE").failed_authentications == 1
        await end(home, made)

    run(dialogue())


@pytest.mark.parametrize("stage", ["connected", "TLS", "handshake"])
def test_one_deadline_is_for_tls_and_login(run: Run, folder: Path, stage: str) -> None:
    async def dialogue() -> None:
        made = secure(folder, barnabas__authentication__timeout__ms="200")
        home = serving(made, authentication_timeout_ms=200)
        if stage == "connected":
            client = await Client.dials(home.ports["SECURE"])
        else:
            client = await dial(home, folder)
        if stage == "handshake":
            client.writer.write(HANDSHAKE)
            await client.answer()
        assert await client.sees_the_end()
        await client.leaves()
        assert home.probe.listener("SECURE").failed_authentications == 1
        await end(home, made)

    run(dialogue())


def test_plain_bytes_at_a_listener_of_tls_are_rejected(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        made = secure(folder)
        home = serving(made)
        client = await Client.dials(home.ports["SECURE"])
        client.writer.write(HANDSHAKE)
        assert await client.sees_the_end()
        await client.leaves()
        assert home.probe.listener("SECURE").failed_authentications == 1
        await end(home, made)

    run(dialogue())


def test_a_stop_waits_for_no_login(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        made = secure(folder)
        home = serving(made)
        client, half = await dial(home, folder), await Client.dials(home.ports["SECURE"])
        client.writer.write(HANDSHAKE)
        await client.answer()
        assert await home.server.drain(5) == 0
        assert await client.sees_the_end()
        assert await half.sees_the_end()
        await asyncio.gather(client.leaves(), half.leaves())
        made.close()

    run(dialogue())


def test_tls_stays_when_the_client_speaks_an_old_version(run: Run, folder: Path) -> None:
    async def dialogue() -> None:
        made = secure(folder)
        home = serving(made)
        old = client_tls(folder, maximum_version=ssl.TLSVersion.TLSv1_2)
        client = await Client.dials(home.ports["SECURE"], "localhost", ssl=old)
        client.writer.write(HANDSHAKE + token("pencil"))
        await client.answer()
        await client.answer()
        assert await client.asks("echo one") == b"one"
        await client.leaves()
        await end(home, made)

    run(dialogue())
