"""SASL of a client: PLAIN, SCRAM, GSSAPI and OAUTHBEARER, from sasl.mechanism, sasl.jaas.config and more properties."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.jaas import JaasEntry, JaasError, parse_value
from barnabas.security.kerberos_options import (
    CLIENT_EXAMPLE,
    GSSAPI,
    LOGIN_MODULE,
    SERVICE_NAME,
    KerberosOptionsError,
    client_options,
)
from barnabas.security.oauthbearer import OAUTHBEARER
from barnabas.security.scram import HASHES, salted_password
from barnabas.security.scram_client import ScramClient
from barnabas.security.token_settings import TOKEN_LOGIN_KEYS

MECHANISM: Final = "sasl.mechanism"
JAAS_CONFIG: Final = "sasl.jaas.config"
PLAIN: Final = "PLAIN"
LOGIN_KEYS: Final = (SERVICE_NAME, *TOKEN_LOGIN_KEYS)
"""The properties that a login needs beside mechanism and login module."""
CLIENT_MECHANISMS: Final = (PLAIN, *HASHES, GSSAPI, OAUTHBEARER)
KEPT_SALTS: Final = 16
"""Servers whose salts a login knows: brokers of one cluster have the same, as they have the same metadata."""
_MODULES: Final = {
    PLAIN: "PlainLoginModule",
    **dict.fromkeys(HASHES, "ScramLoginModule"),
    GSSAPI: LOGIN_MODULE.rpartition(".")[2],
    OAUTHBEARER: "OAuthBearerLoginModule",
}


class SaslClient(Protocol):
    """One login of a client, as bytes."""

    mechanism: str

    @property
    def blocks(self) -> bool:
        """Whether making a message may wait for others (a KDC, an identity provider), so that it is not for an event
        loop.
        """

    def initial(self) -> bytes:
        """The first message."""

    def respond(self, challenge: bytes, /) -> bytes | None:
        """The answer to a message of the server; None where the login is complete. Raises SaslClientError."""


class PlainClient:
    """PLAIN (RFC 4616): name and password in one message, which only TLS protects."""

    mechanism = PLAIN
    blocks = False

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\0{user}\0{password}".encode()

    def initial(self) -> bytes:
        """The only message."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """The server answers with nothing."""
        if challenge:
            raise SaslClientError("the server goes on after PLAIN is complete")
        return None


class ClientLogin(Protocol):
    """With which mechanism, as whom: makes the client of each login. Never shows a secret."""

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """For messages."""

    def client(self, host: str, /) -> SaslClient:
        """The client of one login at the server on this host."""


class SaslLogin:
    """By name and password: with which mechanism, as whom. Never shows the password.

    Keeps what SCRAM computes of the password, so that only the first login at a server takes milliseconds for that.
    """

    __slots__ = ("_is_token", "_password", "_salt_password", "mechanism", "user")

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        self._is_token = is_token
        self._salt_password = lru_cache(KEPT_SALTS)(salted_password)

    def client(self, host: str = "", random_bytes: Callable[[int], bytes] = os.urandom) -> SaslClient:
        """The client of one login, which is the same for all hosts."""
        if self.mechanism == PLAIN:
            return PlainClient(self.user, self._password)
        return ScramClient(
            self.mechanism,
            self.user,
            self._password,
            random_bytes,
            is_token=self._is_token,
            salt_password=self._salt_password,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SaslLogin) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def _all(self) -> tuple[str, str, str, bool]:
        return self.mechanism, self.user, self._password, self._is_token

    def __repr__(self) -> str:
        return f"<SaslLogin {self.mechanism} as {self.user}>"


def parse_login(mechanism: str, jaas: str | None, values: Mapping[str, str] | None = None) -> ClientLogin:
    """The login of a client by sasl.mechanism and sasl.jaas.config; `values` are its properties, of which GSSAPI and
    OAUTHBEARER need more. Raises SettingError about one of them.
    """
    try:
        entries = None if jaas is None else [parse_value(jaas)]
    except JaasError as error:
        raise SettingError(JAAS_CONFIG, None, f"must be the entry of one login module: {error}") from None
    return login_of(mechanism, entries, values or {}, mechanism_key=MECHANISM, jaas_key=JAAS_CONFIG)


def login_of(
    mechanism: str,
    entries: Sequence[JaasEntry] | None,
    values: Mapping[str, str],
    *,
    mechanism_key: str,
    jaas_key: str,
) -> ClientLogin:
    """The login by one of these login modules, None where none is configured. Raises SettingError about the keys.

    `values` are the texts of LOGIN_KEYS that are set, by these names.

    Class names count without their package: that of Kafka's own is another in clients that carry a copy of them.
    """
    mechanism = mechanism.strip().upper()
    if mechanism not in CLIENT_MECHANISMS:
        raise SettingError(
            mechanism_key,
            mechanism,
            f"must be one of {', '.join(CLIENT_MECHANISMS)}: this client has no other",
        )
    module = _MODULES[mechanism]
    if entries is None:
        raise SettingError(jaas_key, None, f"must be set for SASL: {_example(mechanism)}")
    names = [entry.login_module.rpartition(".")[2] for entry in entries]
    if module not in names:
        named = ", ".join(names) or "none"
        raise SettingError(jaas_key, None, f"must name {module} for {mechanism}; it names {named}")
    options = entries[names.index(module)].options
    if mechanism == GSSAPI:
        return _kerberos_login(options, values.get(SERVICE_NAME), mechanism_key, jaas_key)
    if mechanism == OAUTHBEARER:
        from barnabas.security.token_login import oauthbearer_login  # it speaks HTTP, and reads tokens

        return oauthbearer_login(values, options, jaas_key=jaas_key)
    user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise SettingError(jaas_key, None, "must have the options username and password")
    is_token = options.get("tokenauth", "").lower() == "true"
    return SaslLogin(mechanism, user, password, is_token=is_token)


def _example(mechanism: str) -> str:
    """An entry of a login module, for the error where there is none."""
    if mechanism == GSSAPI:
        return CLIENT_EXAMPLE
    wanted = (
        'clientId="..." clientSecret="..."' if mechanism == OAUTHBEARER else 'username="..." password="..."'
    )
    return f"org.apache.kafka.common.security...{_MODULES[mechanism]} required {wanted};"


def _kerberos_login(
    options: Mapping[str, str], service_name: str | None, mechanism_key: str, jaas_key: str
) -> ClientLogin:
    from barnabas.security.kerberos import kerberos_login

    try:
        found = client_options(options, service_name)
    except KerberosOptionsError as error:
        raise SettingError(jaas_key, None, f"must {error}") from None
    return kerberos_login(found, mechanism_key)
