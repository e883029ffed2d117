"""Basic authentication: what is read from the header, and who is let in, over HTTP and without."""

from __future__ import annotations

import asyncio
import base64
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.http.login import BasicLogin, credentials
from barnabas.broker.http.server import HttpSecurity, HttpServer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.network.failure_log import FailureLog
from barnabas.broker.security.sasl.plain import JaasLogins
from barnabas.config.broker_config import BrokerConfig
from tests.broker.http.test_hosts import answer

CLIENT = ("192.0.2.7", 50_000)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ALICE = basic("alice", "a pencil: or two")


class Harness:
    """A login that knows alice, and what it has waited for."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.now = 0.0
        users = JaasLogins({"user_alice": "a pencil: or two", "user_empty": ""})
        self.login = BasicLogin(users, 0.1, self.waited.append, FailureLog(lambda: self.now))

    def admits(self, authorization: str | None) -> bool:
        return self.login.admits(authorization, CLIENT)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_user_with_its_password_is_let_in(harness: Harness) -> None:
    assert harness.admits(ALICE)
    assert harness.admits(ALICE.replace("Basic ", "bASIC  "))
    assert (harness.waited, harness.login.failures) == ([], 0)


def test_without_a_header_the_answer_comes_at_once(harness: Harness) -> None:
    assert not harness.admits(None)
    assert (harness.waited, harness.login.failures) == ([], 0)


@pytest.mark.parametrize(
    ("authorization", "user"),
    [
        (basic("alice", "a pen"), "alice"),
        (basic("alice", ""), "alice"),
        (basic("empty", ""), "empty"),
        (basic("", "a pencil: or two"), ""),
        (basic("mallory", "a pencil: or two"), "mallory"),
        (basic("a\nb", "x"), "a\\nb"),
        ("Bearer abc", None),
        ("Basic", None),
        ("Basic !", None),
        ("Basic " + base64.b64encode(b"alice").decode(), None),
        ("Basic " + base64.b64encode(b"\xff:x").decode(), None),
        ("", None),
    ],
)
def test_others_are_not_and_wait(
    harness: Harness, authorization: str, user: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barnabas.security")
    assert not harness.admits(authorization)
    assert (harness.waited, harness.login.failures) == ([0.1], 1)
    reason = "no user and password can be read" if user is None else "invalid user name or password"
    assert caplog.messages == [
        "failed authentication: listener http, client 192.0.2.7:50000, mechanism basic, "
        f"user {'unknown' if user is None else user}: {reason}"
    ]


def test_a_flood_of_failures_is_one_line_a_second_of_an_address(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barnabas.security")
    for now in (0.0, 0.5, 1.5):
        harness.now = now
        harness.admits(basic("alice", "wrong"))
    assert len(caplog.messages) == 2
    assert caplog.messages[1].endswith("(and 1 more of this address since the last such line)")
    assert "wrong" not in caplog.text
    assert harness.login.failures == 3


@given(st.text())
def test_a_header_is_read_or_not_and_never_raises(text: str) -> None:
    for header in (
        text,
        f"Basic {text}",
        "Basic " + base64.b64encode(text.encode(errors="replace")).decode(),
    ):
        found = credentials(header)
        assert found is None or len(found) == 2


@given(st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"])), st.text())
def test_user_and_password_are_those_that_were_sent(user: str, password: str) -> None:
    clean = password.encode(errors="ignore").decode()
    assert credentials(basic(user, clean)) == (user, clean)


# ---- over the wire


class Reply(NamedTuple):
    status: int
    challenge: str | None
    body: str


class Served:
    """An HTTP port with that login."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.reason: str | None = None
        self.http = HttpServer(
            asyncio.get_running_loop(),
            BrokerConfig(),
            Metrics(),
            lambda: self.reason,
            security=HttpSecurity(login=self.harness.login),
        )
        self.port = self.http.bind("127.0.0.1", 0)
        self.http.start()

    async def ask(self, path: str, authorization: str | None = None, method: str = "GET") -> Reply:
        headers = {} if authorization is None else {"Authorization": authorization}
        url = f"http://127.0.0.1:{self.port}{path}"
        return await asyncio.to_thread(_ask, urllib.request.Request(url, None, headers, method=method))


def _ask(request: urllib.request.Request) -> Reply:
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return Reply(reply.status, reply.headers["WWW-Authenticate"], reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers["WWW-Authenticate"], error.read().decode())


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    yield served
    served.http.close()


PAGES = [
    "/",
    "/metrics",
    "/compaction",
    "/topics/orders/compact",
    "/nothing",
    "/health/live/",
]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS"])
async def test_no_page_is_served_without_a_login(served: Served, path: str, method: str) -> None:
    for authorization in (None, basic("alice", "wrong")):
        reply = await served.ask(path, authorization, method)
        assert reply.status == 401
        assert reply.challenge == 'Basic realm="Barnabas", charset="UTF-8"'
        assert reply.body == ("" if method == "HEAD" else "a login is required\n")


async def test_pages_are_served_to_a_user(served: Served) -> None:
    assert (await served.ask("/metrics", ALICE)).status == 200
    assert (await served.ask("/nothing", ALICE)).status == 404
    assert (await served.ask("/metrics", ALICE, "POST")).status == 405


@pytest.mark.parametrize("authorization", [None, "Basic nonsense", basic("alice", "wrong")])
async def test_health_asks_for_no_login_and_names_nothing(served: Served, authorization: str | None) -> None:
    assert await served.ask("/health/live", authorization) == (200, None, "alive\n")
    assert await served.ask("/health/ready", authorization) == (200, None, "ready\n")
    served.reason = "failed log directories: /data/secret"
    reply = await served.ask("/health/ready", authorization)
    assert reply == (503, None, "not ready; the broker's log says why\n")
    assert served.harness.waited == []
    assert (await served.ask("/health/live", authorization, "POST")).status == 401


async def test_a_foreign_name_comes_before_the_login(served: Served) -> None:
    lines = ("GET /metrics HTTP/1.1", "Host: evil.example", f"Authorization: {ALICE}")
    assert (await answer(served.port, *lines)).startswith("421 ")


async def test_two_authorization_headers_let_nobody_in(served: Served) -> None:
    """WSGI joins them by a comma."""
    lines = ("GET /metrics HTTP/1.0", f"Authorization: {basic('a', 'b')}", f"Authorization: {ALICE}")
    assert (await answer(served.port, *lines)).startswith("401 ")


async def test_a_body_is_read_before_the_answer(served: Served) -> None:
    lines = ("POST /topics/orders/compact HTTP/1.0", "Content-Length: 2", "", "{}")
    assert (await answer(served.port, *lines)).startswith("401 ")
