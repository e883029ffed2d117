"""SaslSession: a client that is logged in, and until when (KIP-368)."""

from __future__ import annotations

from typing import Final

from barnabas.broker.request import KafkaPrincipal

MIN_REAUTHENTICATION_INTERVAL_S: Final = 1.0
"""A client may not begin again sooner than this after it began the last time."""


class SaslSession:
    """The outcome of a login.

    `ends_at` is a moment of the monotonic clock, in seconds; None: the session has no end. Where it has one, the
    client may log in again before, on the same connection, and every request after it closes the connection.
    """

    __slots__ = ("_renewal_began_at", "ends_at", "mechanism", "principal", "supports_reauthentication")

    def __init__(
        self,
        mechanism: str,
        principal: KafkaPrincipal,
        ends_at: float | None = None,
        *,
        supports_reauthentication: bool = False,
        previous: SaslSession | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.principal = principal
        self.ends_at = ends_at
        self.supports_reauthentication = supports_reauthentication
        self._renewal_began_at: float | None = None if previous is None else previous._renewal_began_at

    def is_over(self, now: float) -> bool:
        return self.ends_at is not None and now > self.ends_at

    def begin_renewal(self, now: float) -> bool:
        """Whether a SaslHandshake begins a re-authentication now; if so, that is remembered."""
        began_at = self._renewal_began_at
        if self.ends_at is None or (
            began_at is not None and now - began_at < MIN_REAUTHENTICATION_INTERVAL_S
        ):
            return False
        self._renewal_began_at = now
        return True


def session_lifetime_ms(expires_ms: int | None, max_reauth_ms: int, now_ms: int) -> int | None:
    """How long a session lasts: to the end of its credential, and at most max_reauth_ms if that is above 0.

    None: it has no end.
    """
    limits = [] if expires_ms is None else [expires_ms - now_ms]
    if max_reauth_ms > 0:
        limits.append(max_reauth_ms)
    return max(0, min(limits)) if limits else None
