"""The errors of the admin commands; their texts are printed to the user."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.protocol.errors import ErrorCode


class AdminError(Exception):
    """A command or a part of it failed: exit code 1."""


class NotReachableError(AdminError):
    """No broker answers within the timeout."""


OnUnreachable = Callable[[int, NotReachableError], None]
"""Called with the id of a broker that does not answer; the others are still asked."""


def raise_it(_broker_id: int, error: NotReachableError) -> None:
    """The OnUnreachable of a caller that needs the answers of all brokers."""
    raise error


class SecurityFailedError(NotReachableError):
    """TLS or the login failed, which no further attempt would change: a certificate, a mechanism, a password."""


class UnsupportedApiError(AdminError):
    """The broker does not serve an API, or only in versions that this client does not know."""


class UnsendableError(AdminError):
    """The values cannot be encoded in any version of the request that the broker serves."""


class BadFileError(AdminError):
    """A file on the command line cannot be read or has the wrong content."""


class ServerError(AdminError):
    """The broker answered with the error `code`; the message is the broker's own if it sent one."""

    def __init__(self, code: int, message: str | None = None, *, about: str = "") -> None:
        self.code = code
        self.message = message or code_text(code)
        self.name = code_name(code)
        super().__init__(f"{about}: {self.message}" if about else self.message)

    def __str__(self) -> str:
        return f"{super().__str__().rstrip('.')} ({self.name})"


def code_name(code: int) -> str:
    """The name of an error code, or its number if only a newer broker knows it."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"


def code_text(code: int) -> str:
    """The meaning of a code, in one line."""
    known = code in ErrorCode._value2member_map_
    return ErrorCode(code).text if known else f"The broker answered with error {code}"


def check(code: int, message: str | None = None, *, about: str = "") -> None:
    """Raises ServerError unless `code` is NONE."""
    if code != ErrorCode.NONE:
        raise ServerError(code, message, about=about)
