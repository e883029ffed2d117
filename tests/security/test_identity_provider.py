"""Requests to an identity provider: what is asked, what is accepted, and how a bad provider is bounded."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security import identity_provider
from barnabas.security.errors import ProviderError, SettingError
from barnabas.security.identity_provider import Limits, UrlError, check_url, file_of, get, is_file, post
from tests.support.certificates import Authority
from tests.support.identity_provider import IdentityProvider

SHORT = Limits(0.3, 0.3, 0.3)


@contextmanager
def peer(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """The URL of something that does with a connection what it likes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        serve(connection)
            except OSError:
                pass  # closed

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/keys"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def failure(act: Callable[[], object]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        act()
    return caught.value


# ---- URLs


@pytest.mark.parametrize(
    "text",
    ["http://h/keys", "https://h:8443/a?b=c", "http://[::1]:1/", "file:///a/b", "file:/a/b", " http://h "],
)
def test_urls(text: str) -> None:
    assert check_url(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be a URL of http, https or file"),
        ("/etc/keys", "must be a URL of http, https or file"),
        ("ftp://h/keys", "must be a URL of http, https or file"),
        ("http://", "with a host"),
        ("http:///keys", "with a host"),
        ("http://h:0/", "with a host"),
        ("http://h:x/", "must be a URL"),
        ("http://[::1/", "must be a URL"),
        ("http://user:secret@h/", "must have no user name in it"),
        ("file://other/keys", "of this machine"),
        ("file:", "of this machine"),
    ],
)
def test_texts_that_are_no_urls(text: str, reason: str) -> None:
    with pytest.raises(UrlError, match=reason) as caught:
        check_url(text)
    assert "secret" not in str(caught.value)


@given(st.text(max_size=20) | st.text(max_size=10).map("http://".__add__))
def test_any_text_is_a_url_or_not(text: str) -> None:
    with suppress(UrlError):
        assert check_url(text) == text.strip()


# ---- files


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b"{}")
    url = f"file://{path}"
    assert (is_file(url), file_of(url), get(url)) == (True, str(path), b"{}")
    path.write_bytes(bytes(identity_provider.MAX_BYTES + 1))
    assert failure(lambda: get(url)).is_final
    path.unlink()
    assert str(failure(lambda: get(url))) == f"{path} cannot be read: No such file or directory"


# ---- HTTP


def test_get_and_post() -> None:
    with IdentityProvider({"alice": "x"}) as provider:
        assert b'"kid"' in get(provider.keys_url)
        assert get(provider.url) == b"{}"
        error = failure(
            lambda: post(provider.token_url, "grant_type=x&a=b+c", {"Authorization": "Basic YTpi"})
        )
        assert str(error) == (
            f"{provider.token_url} answers with HTTP 401: invalid_client - Invalid client credentials"
        )
        assert error.is_final
        assert provider.requests[-1] == ("/token", {"grant_type": ["x"], "a": ["b c"]})
        assert get(f"{provider.url}/a?b=c") == b"{}"
        assert provider.requests[-1][0] == "/a?b=c"


@pytest.mark.parametrize(
    ("status", "body", "reason", "is_final"),
    [
        (503, b"", "answers with HTTP 503", False),
        (429, b"{}", "answers with HTTP 429", False),
        (408, b"<html>", "answers with HTTP 408", False),
        (404, b'{"error":"gone"}', "answers with HTTP 404: gone", True),
        (400, b'{"error":"a\\nforged line"}', "answers with HTTP 400", True),
        (400, b'{"error":7}', "answers with HTTP 400", True),
        (501, b"", "answers with HTTP 501", True),
        (204, b"", "answers with HTTP 204", False),
        (302, b"", "answers with HTTP 302", False),
        (200, b"", "answers with nothing", False),
    ],
)
def test_answers_that_are_none(status: int, body: bytes, reason: str, is_final: bool) -> None:
    with IdentityProvider() as provider:
        provider.failure = (status, body)
        error = failure(lambda: get(provider.keys_url))
    assert str(error) == f"{provider.keys_url} {reason}"
    assert error.is_final is is_final


def test_redirects_to_the_same_place_are_followed() -> None:
    with IdentityProvider() as provider:
        provider.failure, provider.headers = (302, b""), {"Location": "/other"}
        error = failure(lambda: get(provider.keys_url))
        assert str(error) == f"{provider.keys_url} redirects more than 3 times"
        assert provider.asked("/other") == 3


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "https://127.0.0.1/keys",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/keys",
        "//elsewhere/keys",
        "ftp://127.0.0.1/",
    ],
)
def test_redirects_elsewhere_are_not(location: str) -> None:
    with IdentityProvider() as provider:
        provider.failure, provider.headers = (307, b""), {"Location": location}
        error = failure(lambda: get(provider.keys_url))
    assert str(error) == f"{provider.keys_url} redirects to another scheme, host or port"
    assert error.is_final


# ---- providers that are slow, large, or broken


def test_no_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    error = failure(lambda: get(url))
    assert str(error) == f"{url} does not answer: Connection refused"
    assert not error.is_final


def test_a_provider_that_says_nothing() -> None:
    done = threading.Event()
    with peer(lambda connection: done.wait(10)) as url:
        assert str(failure(lambda: get(url, limits=SHORT))) == f"{url} does not answer in time"
        done.set()


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b""])
def test_a_provider_that_drips(start: bytes) -> None:
    """Each piece comes in time, and all of them together never."""
    done = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        while not done.wait(0.02):
            connection.sendall(b"x")

    with peer(drip) as url:
        assert str(failure(lambda: get(url, limits=SHORT))) == f"{url} does not answer in time"
        done.set()


def test_a_provider_that_answers_without_end() -> None:
    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(65536))

    with peer(flood) as url:
        error = failure(lambda: get(url))
    assert str(error) == f"{url} answers with more than 1048576 bytes"
    assert error.is_final


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"rubbish\r\n\r\n", "does not answer: rubbish"),
        (b"", "does not answer: Remote end closed connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "closes the connection within its answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", "does not answer: got more than 100 headers"),
    ],
)
def test_a_provider_that_speaks_no_http(answer: bytes, reason: str) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with peer(serve) as url:
        assert reason in str(failure(lambda: get(url)))


# ---- HTTPS

AUTHORITY = Authority("Provider CA")


def server_context(tmp_path: Path) -> ssl.SSLContext:
    server = AUTHORITY.issue("provider", names=["127.0.0.1"])
    file = tmp_path / "server.pem"
    file.write_text(server.key_pem() + server.chain_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def test_https_with_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cadata=AUTHORITY.pem)

    def broken() -> ssl.SSLContext:
        raise SettingError("ssl.truststore.location", "x", "must be a file")

    with IdentityProvider(context=server_context(tmp_path)) as provider:
        assert b'"kid"' in get(provider.keys_url, trusting)
        error = failure(lambda: get(provider.keys_url, ssl.create_default_context))
        assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        assert "must be a file" in str(failure(lambda: get(provider.keys_url, broken)))
