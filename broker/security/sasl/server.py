"""The seam between the authenticator and the mechanisms of SASL: what one login by one mechanism is.

A mechanism is a `Mechanism`, which makes a `SaslServer` for each login. Another one is another module with such a
class, and an entry in `listener.MECHANISMS`.

Source: javax.security.sasl.SaslServer.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class SaslError(Exception):
    """A login has failed. The text is for the log alone: the client receives the same words for every reason."""


class SaslAuthenticationError(SaslError):
    """A login has failed, and the client may know why: the text is sent to it (SaslAuthenticationException).

    `reason` is for the log, where that may know more than the client.
    """

    def __init__(self, text: str, *, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason or text


class WouldBlockError(Exception):
    """This token takes longer than the loop may wait: it has to be evaluated again, in a thread."""


class SaslRetriableError(SaslError):
    """A login cannot be completed now, and that is no failure: the connection closes, and the client tries again."""


class Login(NamedTuple):
    """What a completed login yields: the user's name, and the end of its credential in ms since 1970; None: no end."""

    authorization_id: str
    token_authenticated: bool = False
    expires_ms: int | None = None


class SaslServer(Protocol):
    """One login. `evaluate` takes the client's tokens one after the other until `login` is set."""

    @property
    def blocks(self) -> bool:
        """Whether `evaluate` may wait for others (a directory service), so that it has to run in a thread."""

    @property
    def user(self) -> str | None:
        """The name that the client gave, once it is known, whether or not the login succeeds."""

    @property
    def login(self) -> Login | None:
        """The result; None until the login is complete."""

    def evaluate(self, token: bytes) -> bytes:
        """The answer to the client's token; may be empty. Raises SaslError, after which the login has failed.

        May raise WouldBlockError where `blocks` was False: then `blocks` is True, and the same token comes again.
        """


class Mechanism(Protocol):
    """A mechanism of one listener."""

    @property
    def name(self) -> str:
        """As clients ask for it: SCRAM-SHA-256."""

    @property
    def max_reauth_ms(self) -> int:
        """connections.max.reauth.ms: how long its sessions last at most; 0 for no limit."""

    def new_server(self) -> SaslServer: ...
