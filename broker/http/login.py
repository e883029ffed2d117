"""The login of the HTTP port: a user and a password with each request (basic authentication, RFC 7617).

    GET /metrics                                        401, WWW-Authenticate: Basic
    GET /metrics, Authorization: Basic <user:password>  200; 401 after a while where they are wrong

Imported where the port has logins. Passwords are compared as those of PLAIN are: in constant time, for users that do
not exist as well.
"""

from __future__ import annotations

import binascii
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from typing import Final

from barnabas.broker.network.failure_log import FailureLog
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.security.sasl.plain import PlainLogins

CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="Barnabas", charset="UTF-8"')
LISTENER: Final = "http"
"""What log lines and metrics call the port; names of listeners have capitals."""

MECHANISM: Final = "basic"


class BasicLogin:
    """Who may ask for the pages of the HTTP port. Called by threads that serve requests, several at a time."""

    def __init__(
        self,
        users: PlainLogins,
        failure_delay_s: float,
        wait: Callable[[float], None] = time.sleep,
        failures: FailureLog | None = None,
    ) -> None:
        """A failure takes `failure_delay_s`, in which its connection keeps one of the few threads."""
        self._users = users
        self._failure_delay_s = failure_delay_s
        self._wait = wait
        self._log = failures or FailureLog()
        self._lock = threading.Lock()
        self.failures = 0

    def admits(self, authorization: str | None, client: tuple[str, int]) -> bool:
        """Whether a request may be served: `authorization` is its header, None without one."""
        if authorization is None:  # most clients ask without it first
            return False
        given = credentials(authorization)
        if given is not None and all(given) and self._users.authenticate(*given) is True:
            return True
        self._failed(client, None if given is None else given[0])
        self._wait(self._failure_delay_s)
        return False

    def _failed(self, client: tuple[str, int], user: str | None) -> None:
        host, port = client
        info = ConnectionInfo(
            connection_id=0,
            listener_name=LISTENER,
            client_host=host,
            client_port=port,
            local_host="",
            local_port=0,
            principal=None,
        )
        reason = "no user and password can be read" if user is None else "invalid user name or password"
        with self._lock:
            self.failures += 1
            self._log.login_failed(info, MECHANISM, user, reason, again=False)


def credentials(authorization: str) -> tuple[str, str] | None:
    """User and password in an Authorization header; None where it has none of the kind."""
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != MECHANISM:
        return None
    try:
        user, colon, password = b64decode(token.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
