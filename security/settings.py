"""TlsSettings: the ssl.* keys of one listener, or of one client, as they were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KEYSTORE_TYPE: Final = "ssl.keystore.type"
KEYSTORE_LOCATION: Final = "ssl.keystore.location"
KEYSTORE_PASSWORD: Final = "ssl.keystore.password"
KEY_PASSWORD: Final = "ssl.key.password"
KEYSTORE_KEY: Final = "ssl.keystore.key"
KEYSTORE_CERTIFICATE_CHAIN: Final = "ssl.keystore.certificate.chain"
TRUSTSTORE_TYPE: Final = "ssl.truststore.type"
TRUSTSTORE_LOCATION: Final = "ssl.truststore.location"
TRUSTSTORE_PASSWORD: Final = "ssl.truststore.password"
TRUSTSTORE_CERTIFICATES: Final = "ssl.truststore.certificates"
PROTOCOL: Final = "ssl.protocol"
ENABLED_PROTOCOLS: Final = "ssl.enabled.protocols"
CIPHER_SUITES: Final = "ssl.cipher.suites"
CLIENT_AUTH: Final = "ssl.client.auth"
ENDPOINT_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"

DEFAULTS: Final[Mapping[str, str]] = {
    KEYSTORE_TYPE: "JKS",
    TRUSTSTORE_TYPE: "JKS",
    PROTOCOL: "TLSv1.3",
    ENABLED_PROTOCOLS: "TLSv1.2,TLSv1.3",
    CIPHER_SUITES: "",
    CLIENT_AUTH: "none",
    ENDPOINT_IDENTIFICATION: "https",
}
TLS_KEYS: Final = (
    *DEFAULTS,
    KEYSTORE_LOCATION,
    KEYSTORE_PASSWORD,
    KEY_PASSWORD,
    KEYSTORE_KEY,
    KEYSTORE_CERTIFICATE_CHAIN,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_PASSWORD,
    TRUSTSTORE_CERTIFICATES,
)
"""All keys that are read here."""
SECRETS: Final = frozenset(
    {KEYSTORE_PASSWORD, KEY_PASSWORD, KEYSTORE_KEY, KEYSTORE_CERTIFICATE_CHAIN}
    | {TRUSTSTORE_PASSWORD, TRUSTSTORE_CERTIFICATES}
)
"""The keys that are passwords for Kafka: their values are never shown."""


class TlsSettings:
    """The texts of TLS_KEYS by name; a key that is not set has its default, or is None."""

    __slots__ = ("texts",)

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts: Mapping[str, str] = {key: texts[key] for key in TLS_KEYS if key in texts}
        """What was set."""

    def __getitem__(self, key: str) -> str | None:
        return self.texts.get(key, DEFAULTS.get(key))

    def words(self, key: str) -> tuple[str, ...]:
        """The value of a list, each entry once."""
        parts = (part.strip() for part in (self[key] or "").split(","))
        return tuple(dict.fromkeys(part for part in parts if part))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TlsSettings) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(frozenset(self.texts.items()))

    def __repr__(self) -> str:
        """With no secret."""
        shown = (f"{key}={'[hidden]' if key in SECRETS else text}" for key, text in self.texts.items())
        return f"<TlsSettings {' '.join(shown)}>"
