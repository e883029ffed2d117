from __future__ import annotations

import ssl

import pytest

from barnabas.security.contexts import client_context, server_context
from barnabas.security.settings import TlsSettings
from barnabas.security.stores import Stores
from barnabas.security.tls_errors import explain
from tests.security.test_contexts import CA, client, own, shake_hands
from tests.support.certificates import Authority


def failure(server: ssl.SSLContext, us: ssl.SSLContext, host: str = "localhost") -> str:
    with pytest.raises(OSError) as caught:
        shake_hands(server, us, host)
    assert isinstance(caught.value, OSError)
    return explain(caught.value, host)


def test_what_a_client_has_against_a_certificate() -> None:
    server = server_context(*own())
    assert "the certificate is not for other: Hostname mismatch" in failure(server, client(), "other")
    assert "the certificate is not for 127.0.0.2: IP address mismatch" in failure(
        server, client(), "127.0.0.2"
    )
    assert "signed by none that ssl.truststore.location trusts" in failure(server, client(Authority().pem))
    old = server_context(*own(CA.issue("old", ["localhost"], ends_in_days=-1)))
    assert failure(old, client()) == "the certificate has expired"


def test_what_a_server_has_against_a_client() -> None:
    server = server_context(*own(client_auth="required"))
    assert failure(server, client()) == "the peer shows no certificate, and ssl.client.auth=required"
    new = server_context(*own(enabled_protocols="TLSv1.3"))
    assert "version of TLS" in failure(new, client(protocol="TLSv1.2"))


def verification(code: int, text: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, text)
    error.verify_code, error.verify_message = code, text
    return error


def ssl_error(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, "text")
    error.reason = reason  # type: ignore[assignment]  # OpenSSL does not always have one
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (verification(9, "x"), "the certificate is not valid yet: compare the clocks"),
        (verification(23, "revoked"), "the certificate is not accepted: revoked"),
        (ssl.SSLEOFError(8, "EOF"), "the peer closed the connection"),
        (
            ssl_error("WRONG_VERSION_NUMBER"),
            "the peer does not speak TLS: it is a PLAINTEXT or SASL_PLAINTEXT one",
        ),
        (ssl_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "asks for a certificate"),
        (ssl_error("SSLV3_ALERT_BAD_CERTIFICATE"), "does not accept the certificate shown to it"),
        (ssl_error("SOMETHING_ELSE"), "TLS: something else"),
        (ssl_error(None), "TLS: "),
        (OSError(104, "Connection reset by peer"), "Connection reset by peer"),
        (OSError("odd"), "odd"),
    ],
)
def test_reasons(error: OSError, said: str) -> None:
    assert said in explain(error)


def test_no_context_is_made_of_nothing() -> None:
    assert client_context(TlsSettings({}), Stores(None, None)).check_hostname
