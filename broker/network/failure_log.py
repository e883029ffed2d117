"""FailureLog: a line for each client that was not let in, without its secrets and not too many of them.

failed authentication: listener SASL, client 192.0.2.7:50000, mechanism PLAIN, user alice: ...
failed authentication: listener SSL, client 192.0.2.7:50002: the peer shows no certificate, ...
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.request import ConnectionInfo

logger = logging.getLogger("barnabas.security")

INTERVAL_S: Final = 1.0
"""Of one address, a line in this time tells of failures; it has the number of those left out."""

MAX_SHOWN_CHARACTERS: Final = 256


class FailureLog:
    """Those of the logins, or of the handshakes of TLS, of a broker."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = RateLimit(INTERVAL_S, now)

    def tls_failed(self, info: ConnectionInfo, reason: str) -> None:
        """The handshake failed, or its certificate names nobody."""
        self._log("authentication", info, "", reason)

    def login_failed(
        self, info: ConnectionInfo, mechanism: str | None, user: str | None, reason: str, *, again: bool
    ) -> None:
        """`again`: it was a re-authentication. None for what was not known yet."""
        who = f", mechanism {mechanism or 'unknown'}, user {'unknown' if user is None else sanitized(user)}"
        self._log("re-authentication" if again else "authentication", info, who, reason)

    def _log(self, what: str, info: ConnectionInfo, who: str, reason: str) -> None:
        left_out = self._limit.admit(info.client_host)
        if left_out is None:
            return
        logger.info(
            "failed %s: listener %s, client %s:%d%s: %s%s",
            what,
            info.listener_name,
            info.client_host,
            info.client_port,
            who,
            sanitized(reason),
            f" (and {left_out} more of this address since the last such line)" if left_out else "",
        )


def sanitized(text: str) -> str:
    """What a client has sent, for a log line: no line break or control character, and not too long."""
    shown = text[:MAX_SHOWN_CHARACTERS]
    clean = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in shown
    )
    return clean if len(text) <= MAX_SHOWN_CHARACTERS else f"{clean}..."
