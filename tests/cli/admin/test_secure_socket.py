"""TLS of the admin client, to a server in a thread."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.secure_socket import TlsFailedError, rejection, wrap
from barnabas.security.client_settings import ClientSecurity
from barnabas.security.contexts import server_context
from barnabas.security.settings import TlsSettings
from tests.security.test_contexts import CA, own
from tests.support.certificates import Authority


def secured(ca: Authority = CA) -> ClientSecurity:
    return ClientSecurity(
        "SSL", TlsSettings({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.pem})
    )


def exchange(
    security: ClientSecurity, serve: Callable[[socket.socket], Any], host: str = "localhost"
) -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.settimeout(20)

    def run() -> None:
        try:
            serve(theirs)
        except OSError:
            theirs.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        return wrap(ours, security, host)
    except BaseException:
        ours.close()
        raise
    finally:
        thread.join()
        theirs.close()


def tls_server(**texts: str) -> Callable[[socket.socket], None]:
    context = server_context(*own(**texts))  # type: ignore[arg-type]  # names of settings

    def serve(plain: socket.socket) -> None:
        context.wrap_socket(plain, server_side=True).close()

    return serve


def leave(plain: socket.socket) -> None:
    plain.recv(10_000)
    plain.close()


def test_a_handshake() -> None:
    with exchange(secured(), tls_server()) as wrapped:
        assert isinstance(wrapped, ssl.SSLSocket)
        assert wrapped.version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("security", "host", "said"),
    [
        (secured(Authority("Other")), "localhost", "signed by none that ssl.truststore.location trusts"),
        (secured(), "other", "the certificate is not for other"),
    ],
)
def test_why_a_handshake_fails(security: ClientSecurity, host: str, said: str) -> None:
    with pytest.raises(TlsFailedError, match=said):
        exchange(security, tls_server(), host)


def test_a_server_without_tls() -> None:
    with pytest.raises(TlsFailedError, match="does not speak TLS"):
        exchange(secured(), lambda plain: plain.sendall(b"\0\0\0\x10plain"))
    with pytest.raises(OSError, match="the peer closed the connection"):
        exchange(secured(), leave)


def test_a_rejection_after_the_handshake() -> None:
    with exchange(secured(), tls_server(client_auth="required")) as wrapped:
        with pytest.raises(OSError) as caught:
            wrapped.recv(1)
        assert isinstance(caught.value, OSError)
        assert "asks for a certificate" in (rejection(caught.value) or "")
    assert rejection(OSError("x")) is None
    assert rejection(ssl.SSLError(1, "x")) is None


def test_stores_that_cannot_be_read_are_named() -> None:
    ours, theirs = socket.socketpair()
    missing = ClientSecurity("SSL", TlsSettings({"ssl.truststore.location": "/missing"}))
    with ours, theirs, pytest.raises(AdminError, match=r"ssl.truststore.location=/missing cannot be read"):
        wrap(ours, missing, "localhost")
