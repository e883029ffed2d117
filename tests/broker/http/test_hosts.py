"""The Host headers that the HTTP port accepts, and its responses to others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from barnabas.broker.http import hosts as http_hosts
from barnabas.broker.http.server import HttpServer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.config.broker_config import BrokerConfig

STRANGE = "rebound.example.com"


def status(host: str | None, protocol: str = "HTTP/1.1", **settings: str) -> int:
    """200 for an accepted request, else the status of the rejection."""
    overrides = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    found = http_hosts.rejection(host, protocol, BrokerConfig.of(None, overrides=overrides))
    return 200 if found is None else found.status


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9644",
        "10.1.2.3:1",
        "192.0.2.7.",
        "[::1]",
        "[::1]:9644",
        "[2001:DB8::1]:80",
        "[::ffff:10.0.0.1]",
    ],
)
def test_addresses_are_accepted(host: str) -> None:
    assert status(host) == 200


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:9644", "localhost.", "localhost:", "a.localhost", "broker:9644", "my_broker-1"],
)
def test_local_names_are_accepted(host: str) -> None:
    assert status(host) == 200


@pytest.mark.parametrize(
    "host", ["host.docker.internal:9644", "broker.local", "broker.kafka.svc.cluster.local"]
)
def test_names_in_reserved_domains_are_accepted(host: str) -> None:
    assert status(host) == 200


@pytest.mark.parametrize(
    "host",
    [
        STRANGE,
        f"{STRANGE}:9644",
        f"{STRANGE.upper()}.",
        "localhost.example.com",
        "localhost.example.com.",
        "127.0.0.1.example.com",
        "127.1",
        "0x7f.0.0.1",
        "notlocal.localx",
        "xlocalhost.xinternal",
        "broker.kafka.svc",
    ],
)
def test_public_names_are_rejected(host: str) -> None:
    assert status(host) == 421


def test_the_rejection_names_the_configuration_key() -> None:
    found = http_hosts.rejection(f"{STRANGE}:9644", "HTTP/1.1", BrokerConfig())
    assert found is not None
    assert f"{STRANGE}, " in found.text
    assert "barnabas.http.allowed.hosts" in found.text


@pytest.mark.parametrize(
    "settings",
    [
        {"listeners": "PLAINTEXT://Broker.Example.com:9092"},
        {"advertised_listeners": "PLAINTEXT://broker.example.com:9092"},
        {"barnabas_http_host": "broker.example.com"},
        {"barnabas_http_allowed_hosts": "other.example.com, BROKER.example.com."},
        {"barnabas_http_allowed_hosts": ".example.com"},
        {"barnabas_http_allowed_hosts": ".broker.example.com"},
        {"barnabas_http_allowed_hosts": "*"},
    ],
)
def test_names_of_this_broker_are_accepted(settings: dict[str, str]) -> None:
    assert status("broker.example.com:1234") == 421
    assert status("broker.example.com:1234", **settings) == 200
    assert status("BROKER.example.com.", **settings) == 200


def test_allowed_names_match_whole_and_allowed_suffixes_match_labels() -> None:
    assert status("a.b.example", barnabas_http_allowed_hosts="b.example") == 421
    assert status("b.example.a", barnabas_http_allowed_hosts=".b.example") == 421
    assert status("ab.example", barnabas_http_allowed_hosts=".b.example") == 421
    assert status("x.a.b.example", barnabas_http_allowed_hosts=".b.example") == 200


def test_the_hostname_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status("node7.example.com") == 421
    monkeypatch.setattr(socket, "gethostname", lambda: "Node7.example.com")
    assert status("node7.example.com") == 200


def test_other_names_stay_rejected_where_some_are_allowed() -> None:
    assert (
        status(STRANGE, barnabas_http_allowed_hosts="broker.example.com,.svc", barnabas_http_host="") == 421
    )


@pytest.mark.parametrize(
    "host",
    [
        f"localhost,{STRANGE}",
        ",localhost",
        f"localhost@{STRANGE}",
        f"http://{STRANGE}",
        "localhost:x",
        "localhost:1:2",
        "::1",
        "[::1",
        "[localhost]",
        "[1::2::3]",
        "lo calhost",
        "b\u00fccher",
        ".",
        ":9644",
        "a" * 254,
    ],
)
@pytest.mark.parametrize("settings", [{}, {"barnabas_http_allowed_hosts": "*"}])
def test_an_invalid_host_is_a_bad_request(host: str, settings: dict[str, str]) -> None:
    assert status(host, **settings) == 400


def test_a_missing_host_is_accepted_only_in_http_1_0() -> None:
    assert status(None) == 400
    assert status(None, "HTTP/1.0") == 200
    assert status(None, "HTTP/0.9") == 200
    assert status("") == 200
    assert status(STRANGE, "HTTP/1.0") == 421


# ---- over the wire


@pytest.fixture
async def served() -> AsyncIterator[int]:
    http = HttpServer(asyncio.get_running_loop(), BrokerConfig(), Metrics(), lambda: None)
    port = http.bind("127.0.0.1", 0)
    http.start()
    yield port
    http.close()


async def answer(port: int, *lines: str) -> str:
    """The status line and the body of the response to these lines."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return f"{head.splitlines()[0].partition(' ')[2]}: {body}"


@pytest.mark.parametrize("path", ["/", "/metrics", "/health/live", "/compaction", "/nothing"])
async def test_a_page_under_a_foreign_name_is_rejected(served: int, path: str) -> None:
    told = await answer(served, f"GET {path} HTTP/1.1", f"Host: {STRANGE}:{served}")
    assert told.startswith(f"421 Misdirected Request: {STRANGE}, ")


async def test_requests_for_the_broker_are_served(served: int) -> None:
    for host in (f"localhost:{served}", f"127.0.0.1:{served}", "broker:9644"):
        assert await answer(served, "GET /health/live HTTP/1.1", f"Host: {host}") == "200 OK: alive\n"
    assert await answer(served, "GET /health/live HTTP/1.0") == "200 OK: alive\n"


async def test_several_hosts_are_a_bad_request(served: int) -> None:
    for second in ("localhost", STRANGE):
        told = await answer(served, "GET /health/live HTTP/1.1", "Host: localhost", f"Host: {second}")
        assert told.startswith("400 Bad Request: ")


async def test_an_absolute_target_is_rejected(served: int) -> None:
    """Only proxies get such requests; they must not bypass the check."""
    line = f"GET http://localhost:{served}/health/live HTTP/1.1"
    assert (await answer(served, line, f"Host: {STRANGE}")).startswith("421 ")
    assert (await answer(served, line, f"Host: localhost:{served}")).startswith("404 ")


async def test_the_first_rejection_is_logged(served: int, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        await answer(served, "GET /metrics HTTP/1.1", f"Host: {STRANGE}")
    (warning,) = caplog.messages
    assert STRANGE in warning
    assert "barnabas.http.allowed.hosts" in warning
