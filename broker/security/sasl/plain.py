"""PLAIN (RFC 4616): the client sends its user's name and password as they are.

A token is `[authzid] NUL user NUL password`. Users come from the options of the listener's JAAS entry, user_<name>=
"<password>", or a class of the operator's own checks them: `sasl.server.callback.handler.class=python:module:Class`,
with the prefix of listener and mechanism. As a complete example, the module `company_logins` in a directory of
PYTHONPATH

    import ldap3

    class DirectoryLogins:
        def __init__(self, options):                 # those of the JAAS entry, a mapping of names to texts
            self.server = ldap3.Server(options["url"])

        def authenticate(self, username, password):  # True: let the user in
            name = f"uid={ldap3.utils.dn.escape_rdn(username)},ou=people,dc=example"
            with ldap3.Connection(self.server, name, password) as connection:
                return connection.bound

and in server.properties

    sasl.enabled.mechanisms=PLAIN
    listener.name.sasl_ssl.plain.sasl.server.callback.handler.class=python:company_logins:DirectoryLogins
    listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
        url="ldaps://directory.example";

There is one object for each listener. `authenticate` runs in threads, several at a time, so that it may wait; an
exception lets nobody in. Error texts for clients are those of Kafka.

Source: org.apache.kafka.common.security.plain.internals.PlainSaslServer, PlainServerCallbackHandler.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Mapping
from typing import Final, Protocol

from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError

logger = logging.getLogger("barnabas.security")

PLAIN: Final = "PLAIN"
USER_PREFIX: Final = "user_"
_TOKEN_PARTS: Final = 3
_MOST_PARTS: Final = 4
"""More are not counted."""


class PlainLogins(Protocol):
    """Who may log in: the method of a hook."""

    def authenticate(self, username: str, password: str) -> bool:
        """Whether this is the user's password. An exception counts as no."""


class JaasLogins:
    """The users in the options of a JAAS entry.

    Digests of the passwords are compared, so that a comparison takes as long for a user that does not exist, wherever
    the passwords differ, and however long the right one is.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {
            key.removeprefix(USER_PREFIX): self._digest(value)
            for key, value in options.items()
            if key.startswith(USER_PREFIX)
        }
        self._nobodys = secrets.token_bytes(32)

    def __len__(self) -> int:
        return len(self._digests)

    def authenticate(self, username: str, password: str) -> bool:
        known = self._digests.get(username, self._nobodys)
        return hmac.compare_digest(self._digest(password), known)

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(errors="surrogatepass"), "sha256")


class PlainServer:
    """One login by PLAIN."""

    def __init__(self, logins: PlainLogins, *, blocks: bool) -> None:
        self._logins = logins
        self.blocks = blocks
        self.user: str | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        authorization_id, username, password = _parts(token)
        self.user = username
        if not username:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        if not self._is_password(username, password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", username):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.login = Login(username)
        return b""

    def _is_password(self, username: str, password: str) -> bool:
        try:
            return self._logins.authenticate(username, password) is True
        except Exception as error:
            # Without the exception's text and traceback: they may contain the password.
            logger.warning("the class that checks logins has failed with %s", type(error).__name__)
            raise SaslAuthenticationError(
                "Authentication failed: credentials for user could not be verified"
            ) from None


class PlainMechanism:
    """PLAIN of one listener."""

    name: Final = PLAIN

    def __init__(self, logins: PlainLogins, max_reauth_ms: int = 0, *, blocks: bool = False) -> None:
        self._logins = logins
        self._blocks = blocks
        self.max_reauth_ms = max_reauth_ms

    def new_server(self) -> PlainServer:
        return PlainServer(self._logins, blocks=self._blocks)


def _parts(token: bytes) -> list[str]:
    """Authorization id, user and password; bytes that are no UTF-8 are replaced, as Java does."""
    parts = token.decode(errors="replace").split("\0", _MOST_PARTS - 1)
    if len(parts) != _TOKEN_PARTS:
        raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    return parts
