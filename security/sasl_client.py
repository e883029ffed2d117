"""SASL of a client: PLAIN, SCRAM and OAUTHBEARER, from sasl.mechanism, sasl.jaas.config and more properties."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.jaas import JaasEntry, JaasError, parse_value
from barnabas.security.oauthbearer import OAUTHBEARER
from barnabas.security.scram import HASHES
from barnabas.security.scram_client import ScramClient

MECHANISM: Final = "sasl.mechanism"
JAAS_CONFIG: Final = "sasl.jaas.config"
PLAIN: Final = "PLAIN"
CLIENT_MECHANISMS: Final = (PLAIN, *HASHES, OAUTHBEARER)
_MODULES: Final = {
    PLAIN: "PlainLoginModule",
    **dict.fromkeys(HASHES, "ScramLoginModule"),
    OAUTHBEARER: "OAuthBearerLoginModule",
}


class SaslClient(Protocol):
    """One login of a client, as bytes."""

    mechanism: str

    def initial(self) -> bytes:
        """The first message."""

    def respond(self, challenge: bytes, /) -> bytes | None:
        """The answer to a message of the server; None where the login is complete. Raises SaslClientError."""


class ClientLogin(Protocol):
    """With which mechanism a client logs in, as whom. Never shows a secret."""

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """For messages."""

    @property
    def is_ready(self) -> bool:
        """Whether `client` and what it returns need not wait for others."""

    def prepare(self) -> None:
        """Has what a login needs; may wait. Raises SaslClientError."""

    def client(self) -> SaslClient:
        """The client of one login."""


class PlainClient:
    """PLAIN (RFC 4616): name and password in one message, which only TLS protects."""

    mechanism = PLAIN

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


class SaslLogin:
    """A login by name and password. Never shows the password."""

    __slots__ = ("_is_token", "_password", "mechanism", "user")
    is_ready: Final = True

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        self._is_token = is_token

    def prepare(self) -> None:
        """All is there."""

    def client(self, random_bytes: Callable[[int], bytes] = os.urandom) -> SaslClient:
        """The client of one login."""
        if self.mechanism == PLAIN:
            return PlainClient(self.user, self._password)
        return ScramClient(self.mechanism, self.user, self._password, random_bytes, is_token=self._is_token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SaslLogin) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def _all(self) -> tuple[str, str, str, bool]:
        return self.mechanism, self.user, self._password, self._is_token

    def __repr__(self) -> str:
        return f"<SaslLogin {self.mechanism} as {self.user}>"


def parse_login(mechanism: str, jaas: str | None, values: Mapping[str, str] | None = None) -> ClientLogin:
    """The login of a client by sasl.mechanism and sasl.jaas.config; `values` are its properties, of which OAUTHBEARER
    needs more. Raises SettingError.
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

    `values` are the texts of token_settings.LOGIN_KEYS that are set, by these names.

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
        wanted = (
            'clientId="..." clientSecret="..."'
            if mechanism == OAUTHBEARER
            else 'username="..." password="..."'
        )
        example = f"org.apache.kafka.common.security...{module} required {wanted};"
        raise SettingError(jaas_key, None, f"must be set for SASL: {example}")
    names = [entry.login_module.rpartition(".")[2] for entry in entries]
    if module not in names:
        named = ", ".join(names) or "none"
        raise SettingError(jaas_key, None, f"must name {module} for {mechanism}; it names {named}")
    options = entries[names.index(module)].options
    if mechanism == OAUTHBEARER:
        from barnabas.security.token_login import oauthbearer_login  # it speaks HTTP, and reads tokens

        return oauthbearer_login(values, options, jaas_key=jaas_key)
    user, password = options.get("username"), options.get("password")
    if not user or password is None:
        raise SettingError(jaas_key, None, "must have the options username and password")
    is_token = options.get("tokenauth", "").lower() == "true"
    return SaslLogin(mechanism, user, password, is_token=is_token)
