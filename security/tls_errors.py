"""Why a TLS handshake failed, for people: a certificate's name, its age, who signed it, or no TLS at all."""

from __future__ import annotations

import ssl
from typing import Final

_NAME_CODES: Final = frozenset({62, 63, 64})
_UNKNOWN_CA_CODES: Final = frozenset({2, 18, 19, 20, 21, 27})
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9

_REASONS: Final = (
    ("WRONG_VERSION_NUMBER", "the peer does not speak TLS: it is a PLAINTEXT or SASL_PLAINTEXT one"),
    ("HTTP_REQUEST", "the peer sends HTTP, and no TLS"),
    ("UNSUPPORTED_PROTOCOL", "the peer offers no version of TLS that is enabled here"),
    ("NO_PROTOCOLS_AVAILABLE", "no version of TLS is enabled on both sides"),
    ("NO_SHARED_CIPHER", "the peer offers no cipher suite that is enabled here"),
    (
        "CERTIFICATE_REQUIRED",
        "the peer asks for a certificate: ssl.keystore.location names none that it accepts",
    ),
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "the peer shows no certificate, and ssl.client.auth=required"),
    ("ALERT_UNKNOWN_CA", "the peer does not know who signed the certificate shown to it"),
    ("ALERT_CERTIFICATE_EXPIRED", "the certificate shown to the peer has expired"),
    ("ALERT_CERTIFICATE_UNKNOWN", "the peer does not accept the certificate shown to it"),
    ("ALERT_BAD_CERTIFICATE", "the peer does not accept the certificate shown to it, or asks for one"),
    ("ALERT_PROTOCOL_VERSION", "the peer accepts no version of TLS that is enabled here"),
    ("ALERT_HANDSHAKE_FAILURE", "the peer finds no cipher suite that both accept, or asks for a certificate"),
    ("ALERT_ACCESS_DENIED", "the peer denies access"),
)


def explain(error: OSError, host: str | None = None) -> str:
    """One line, without the peer's address. `host` is the name that the peer was reached by, of a client."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate(error, host)
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return "the peer closed the connection"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or ""  # OpenSSL does not always have one
        found = (text for name, text in _REASONS if name in reason.replace(" ", "_").upper())
        return next(found, f"TLS: {(reason or str(error)).replace('_', ' ').lower()}")
    return error.strerror or str(error)


def _certificate(error: ssl.SSLCertVerificationError, host: str | None) -> str:
    code, message = error.verify_code, error.verify_message
    if code in _NAME_CODES:
        return (
            f"the certificate is not for {host}: {message} (ssl.endpoint.identification.algorithm, empty, "
            "checks no name)"
        )
    if code == _EXPIRED:
        return "the certificate has expired"
    if code == _NOT_YET_VALID:
        return "the certificate is not valid yet: compare the clocks"
    if code in _UNKNOWN_CA_CODES:
        return f"the certificate is signed by none that ssl.truststore.location trusts: {message}"
    return f"the certificate is not accepted: {message}"
