"""HTTPS: clients of the standard library, hostile ones, certificates that are replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barnabas.broker.http.server import HttpServer
from barnabas.broker.http.tls import HttpTls, say_goodbye
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.security.tls_listener import ReplacementRules, TlsListener
from barnabas.broker.startup.http_security import http_security
from barnabas.config.broker_config import BrokerConfig
from barnabas.security.settings import TlsSettings
from tests.broker.http.test_login import basic
from tests.broker.network.tls_listeners import CA, client_tls, pem, write_certificates

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="pencil";'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificates(tmp_path)
    return tmp_path


def config_of(folder: Path, **changes: str) -> BrokerConfig:
    """Names are those after barnabas.http., with __ for their dots."""
    settings = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/broker.pem",
        **{name.replace("__", "."): text for name, text in changes.items()},
    }
    return BrokerConfig.of(b"", overrides=[f"barnabas.http.{key}={text}" for key, text in settings.items()])


class Served:
    def __init__(self, config: BrokerConfig) -> None:
        security = http_security(config)
        assert security.tls is not None
        self.tls = security.tls
        self.http = HttpServer(asyncio.get_running_loop(), config, Metrics(), lambda: None, security=security)
        self.port = self.http.bind("127.0.0.1", 0)
        self.http.start()

    async def ask(self, path: str, context: ssl.SSLContext, authorization: str | None = None) -> int:
        return await asyncio.to_thread(self._ask, path, context, authorization)

    def _ask(self, path: str, context: ssl.SSLContext, authorization: str | None) -> int:
        headers = {} if authorization is None else {"Authorization": authorization}
        request = urllib.request.Request(f"https://localhost:{self.port}{path}", None, headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as reply:
                assert reply.read()
                return int(reply.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code


@pytest.fixture
async def served(folder: Path) -> AsyncIterator[Served]:
    served = Served(config_of(folder))
    yield served
    served.http.close()


async def test_a_client_that_trusts_the_authority_is_served(served: Served, folder: Path) -> None:
    for path in ("/metrics", "/health/live", "/"):
        assert await served.ask(path, client_tls(folder)) == 200
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        await served.ask("/metrics", ssl.create_default_context())


async def test_the_end_of_an_answer_is_said(served: Served, folder: Path) -> None:
    """A client that reads to the end can tell an answer from one that was cut off."""
    reader, writer = await asyncio.open_connection("localhost", served.port, ssl=client_tls(folder))
    writer.write(b"GET /health/live HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"alive\n")
    writer.close()


@pytest.mark.parametrize(
    "hello", [b"GET /metrics HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x00\x01\x00", b"\0" * 300, b""]
)
async def test_what_is_no_handshake_is_closed(served: Served, folder: Path, hello: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(hello)
    with contextlib.suppress(OSError):  # the broker may have closed it already
        writer.write_eof()
        assert b"HTTP" not in await reader.read()
    writer.close()
    assert await served.ask("/health/live", client_tls(folder)) == 200


async def test_old_versions_are_refused(served: Served, folder: Path) -> None:
    context = client_tls(folder)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(urllib.error.URLError):
        await served.ask("/health/live", context)


async def test_certificates_of_clients(folder: Path) -> None:
    served = Served(
        config_of(
            folder,
            ssl__client__auth="required",
            ssl__truststore__type="PEM",
            ssl__truststore__location=f"{folder}/ca.pem",
        )
    )
    try:
        assert await served.ask("/metrics", client_tls(folder, "alice")) == 200
        for name in (None, "stranger"):
            with pytest.raises(OSError, match=r"(?i)alert|reset|eof|closed"):
                await served.ask("/health/live", client_tls(folder, name))
    finally:
        served.http.close()


async def test_a_login_over_tls(folder: Path) -> None:
    served = Served(config_of(folder, security__protocol="SASL_SSL", sasl__jaas__config=JAAS))
    try:
        assert await served.ask("/metrics", client_tls(folder)) == 401
        assert await served.ask("/metrics", client_tls(folder), basic("alice", "pencil")) == 200
    finally:
        served.http.close()


# ---- replaced certificates


class Reloaded:
    """The TLS of a port whose files change, and a clock."""

    def __init__(self, folder: Path, interval_s: float = 60.0) -> None:
        self.now = 0.0
        self.file = folder / "broker.pem"
        settings = TlsSettings({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.file)})
        stores = TlsListener("http", settings, ReplacementRules())
        self.tls = HttpTls(stores, ReplacementRules(), interval_s, lambda: self.now)

    def write(self, text: str) -> None:
        before = self.file.stat().st_mtime_ns
        self.file.write_text(text)
        os.utime(self.file, ns=(before + 1, before + 1))

    @property
    def counts(self) -> tuple[int, int]:
        self.tls.context()
        return self.tls.stores.reloads, self.tls.stores.reload_failures


def test_a_renewed_certificate_is_used_by_the_first_request_of_an_interval(folder: Path) -> None:
    reloaded = Reloaded(folder)
    before = reloaded.tls.context()
    reloaded.write(pem(CA.issue("broker", ["localhost", "127.0.0.1"])))
    reloaded.now = 59.9
    assert reloaded.counts == (0, 0)
    reloaded.now = 60.0
    assert reloaded.counts == (1, 0)
    assert reloaded.tls.context() is not before
    reloaded.now = 200.0
    assert reloaded.counts == (1, 0)


@pytest.mark.parametrize("name", ["nonsense", "another"])
def test_what_may_not_take_its_place_leaves_the_old_one(folder: Path, name: str) -> None:
    reloaded = Reloaded(folder)
    before = reloaded.tls.context()
    reloaded.write("nonsense" if name == "nonsense" else pem(CA.issue("another")))
    for now in (60.0, 120.0):
        reloaded.now = now
        assert reloaded.counts == (0, 1)
    assert reloaded.tls.context() is before


def test_without_an_interval_files_are_left_alone(folder: Path) -> None:
    reloaded = Reloaded(folder, 0.0)
    reloaded.write("nonsense")
    reloaded.now = 1e9
    assert reloaded.counts == (0, 0)


def test_a_plain_connection_needs_no_goodbye() -> None:
    with socket.socket() as plain:
        say_goodbye(plain)
        assert plain.gettimeout() is None
