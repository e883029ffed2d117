"""ClientSecurity: security.protocol of a client, and all that this protocol needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.security.errors import SettingError
from barnabas.security.sasl_client import JAAS_CONFIG, LOGIN_KEYS, MECHANISM, ClientLogin, parse_login
from barnabas.security.settings import TLS_KEYS, TlsSettings
from barnabas.security.stores import ReadFile, load_stores, read_file

if TYPE_CHECKING:
    import ssl

PROTOCOL: Final = "security.protocol"
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CLIENT_KEYS: Final = (
    PROTOCOL,
    MECHANISM,
    JAAS_CONFIG,
    *LOGIN_KEYS,
    *(key for key in TLS_KEYS if key != "ssl.client.auth"),
)
"""The keys of a client's properties that are read here."""
DEFAULT_MECHANISM: Final = "GSSAPI"


class ClientSecurity(NamedTuple):
    """How a client speaks with brokers. None for what its protocol does not have."""

    protocol: str = PLAINTEXT
    tls: TlsSettings | None = None
    login: ClientLogin | None = None

    def context(self, read: ReadFile = read_file) -> ssl.SSLContext | None:
        """The context of its connections, with the stores as they are now. Raises SettingError."""
        if self.tls is None:
            return None
        from barnabas.security.contexts import client_context

        return client_context(self.tls, load_stores(self.tls, read))


NO_SECURITY: Final = ClientSecurity()


def client_security(values: Mapping[str, str]) -> ClientSecurity:
    """From a client's properties. Raises SettingError."""
    protocol = values.get(PROTOCOL, PLAINTEXT).strip().upper()
    if protocol not in PROTOCOLS:
        raise SettingError(PROTOCOL, values[PROTOCOL], f"must be one of {', '.join(PROTOCOLS)}")
    return security_of(
        protocol,
        TlsSettings(values),
        lambda: parse_login(values.get(MECHANISM, DEFAULT_MECHANISM), values.get(JAAS_CONFIG), values),
    )


def security_of(protocol: str, tls: TlsSettings, read_login: Callable[[], ClientLogin]) -> ClientSecurity:
    """The parts that `protocol` has. Raises what `read_login` raises."""
    has_login = protocol.startswith("SASL_")
    return ClientSecurity(
        protocol, tls if protocol.endswith("SSL") else None, read_login() if has_login else None
    )
