"""How the HTTP port is protected: what its keys mean together, and its ssl.* settings.

Source of their names: the keys of listeners. barnabas.http.security.protocol says what holds; a key of a protection
that it leaves out is an error, since its author expects it to act.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, TypeVar

from barnabas.config.catalogue import http, tls
from barnabas.config.catalogue.barnabas import BARNABAS_HTTP_PORT
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import Setting

T = TypeVar("T")

PREFIX: Final = "barnabas.http."
OFF: Final = -1
"""The port that opens none."""

_OWN: Final = {name.removeprefix(PREFIX): key for name, key in http.keys.by_name.items()}
_KEY_STORE: Final = (
    tls.SSL_KEYSTORE_TYPE,
    tls.SSL_KEYSTORE_LOCATION,
    tls.SSL_KEYSTORE_PASSWORD,
    tls.SSL_KEY_PASSWORD,
    tls.SSL_KEYSTORE_KEY,
    tls.SSL_KEYSTORE_CERTIFICATE_CHAIN,
)
_TRUST_STORE: Final = (
    tls.SSL_TRUSTSTORE_TYPE,
    tls.SSL_TRUSTSTORE_LOCATION,
    tls.SSL_TRUSTSTORE_PASSWORD,
    tls.SSL_TRUSTSTORE_CERTIFICATES,
)
_SINGLE: Final = (tls.SSL_PROTOCOL, tls.SSL_ENABLED_PROTOCOLS, tls.SSL_CIPHER_SUITES)
_GROUPS: Final[tuple[tuple[ConfigKey[Any], ...], ...]] = (
    _KEY_STORE,
    _TRUST_STORE,
    *((key,) for key in _SINGLE),
)
"""Keys that are taken together from those of the port, or from those of all listeners: a file of the one and the
password of the other would fit nowhere."""


class Values(Protocol):
    """The part of a configuration that is read here."""

    def __getitem__(self, key: ConfigKey[T]) -> T: ...

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """True when any layer sets the key."""


class Settings(Protocol):
    """A configuration that knows where its values are set."""

    def is_set(self, key: ConfigKey[Any]) -> bool:
        """True when any layer sets the key."""

    def setting(self, key: ConfigKey[Any]) -> Setting | None:
        """Where and how the key is set."""


def is_open(values: Values) -> bool:
    """Whether there is an HTTP port."""
    return values[BARNABAS_HTTP_PORT] != OFF


def has_tls(values: Values) -> bool:
    """Whether the port speaks HTTPS."""
    return values[http.BARNABAS_HTTP_SECURITY_PROTOCOL].upper().endswith("SSL")


def has_login(values: Values) -> bool:
    """Whether the port asks for a user and a password."""
    return values[http.BARNABAS_HTTP_SECURITY_PROTOCOL].upper().startswith("SASL_")


def knows_its_clients(values: Values) -> bool:
    """Whether only clients that the operator knows read more than the health of the broker."""
    return has_login(values) or (has_tls(values) and values[http.BARNABAS_HTTP_SSL_CLIENT_AUTH] == "required")


def http_errors(values: Values) -> Iterator[ConfigError]:
    """An error for each key that asks for a protection which is not in force, or lacks what it needs."""
    if not is_open(values):
        return
    protocol_key, jaas = http.BARNABAS_HTTP_SECURITY_PROTOCOL, http.BARNABAS_HTTP_SASL_JAAS_CONFIG
    protocol = values[protocol_key]
    if has_login(values) and not values[jaas]:
        yield protocol_key.error(
            protocol, f"SSL or PLAINTEXT, or {jaas.name} must name the users that log in"
        )
    if not has_login(values) and values.is_set(jaas):
        yield protocol_key.error(protocol, f"SASL_SSL or SASL_PLAINTEXT, as {jaas.name} is set")
    if has_tls(values):
        return
    for name, key in _OWN.items():
        if name.startswith("ssl.") and values.is_set(key):
            yield protocol_key.error(protocol, f"SSL or SASL_SSL, as {key.name} is set")
            return


def http_tls_settings(config: Settings) -> dict[str, Setting]:
    """Where the ssl.* keys that hold for the port are set, by their names without a prefix."""
    found = {}
    for group in _GROUPS:
        own = [(key, _OWN[key.name]) for key in group]
        is_own = any(config.is_set(of_port) for _, of_port in own)
        for key, of_port in own:
            setting = config.setting(of_port if is_own else key)
            if setting is not None:
                found[key.name] = setting
    client_auth = config.setting(http.BARNABAS_HTTP_SSL_CLIENT_AUTH)
    if client_auth is not None:
        found[tls.SSL_CLIENT_AUTH.name] = client_auth
    return found
