"""Cipher suites by IANA's names, which Kafka's settings have, and by those of OpenSSL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL offers, under one name in both worlds. Python's ssl cannot choose among them."""

_EXCHANGES: Final = (
    ("TLS_ECDHE_ECDSA_WITH_", "ECDHE-ECDSA-"),
    ("TLS_ECDHE_RSA_WITH_", "ECDHE-RSA-"),
    ("TLS_DHE_RSA_WITH_", "DHE-RSA-"),
)
_CIPHERS: Final = (
    ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
    ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    ("AES_256_CBC_SHA", "AES256-SHA"),
    ("AES_128_CBC_SHA", "AES128-SHA"),
    ("AES_256_CCM", "AES256-CCM"),
    ("AES_128_CCM", "AES128-CCM"),
)
_EPHEMERAL: Final = {
    f"{iana}{cipher}": f"{openssl}{name}"
    for iana, openssl in _EXCHANGES
    for cipher, name in _CIPHERS
    if not (iana == "TLS_ECDHE_RSA_WITH_" and cipher.endswith("CCM"))
}
OPENSSL_NAMES: Final[Mapping[str, str]] = {
    **_EPHEMERAL,
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
"""The suites of TLS 1.2."""

_IANA_NAMES: Final[Mapping[str, str]] = {openssl: iana for iana, openssl in OPENSSL_NAMES.items()}


def iana_name(openssl: str) -> str:
    """The name of a suite that a connection uses, as Kafka's metrics have it."""
    return _IANA_NAMES.get(openssl, openssl)
