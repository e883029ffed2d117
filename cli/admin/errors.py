"""Why something that was asked for could not be done. The text is for whoever typed the command."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.protocol.errors import ErrorCode


class AdminError(Exception):
    """Could not be done: exit code 1."""


class NotReachableError(AdminError):
    """No broker answers, or not within the time that there was."""


OnUnreachable = Callable[[int, NotReachableError], None]
"""Called with the id of a broker that does not answer, while the others are asked all the same."""


def raise_it(_broker_id: int, error: NotReachableError) -> None:
    """The OnUnreachable of a caller who needs the answers of all brokers."""
    raise error


class UnsupportedApiError(AdminError):
    """The broker does not serve an API, or no version of it that is known here."""


class UnsendableError(AdminError):
    """No request, or none in a version that the broker serves, can carry what was given."""


class BadFileError(AdminError):
    """A file that was named cannot be read, or is not what it should be."""


class ServerError(AdminError):
    """The broker says no; `code` says why, and the text is the broker's own where it sent one."""

    def __init__(self, code: int, message: str | None = None, *, about: str = "") -> None:
        self.code = code
        self.message = message or code_text(code)
        self.name = code_name(code)
        super().__init__(f"{about}: {self.message}" if about else self.message)

    def __str__(self) -> str:
        return f"{super().__str__().rstrip('.')} ({self.name})"


def code_name(code: int) -> str:
    """The name of an error code; a newer broker may have one that is not known here."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"


def code_text(code: int) -> str:
    """What a code means, in one line."""
    known = code in ErrorCode._value2member_map_
    return ErrorCode(code).text if known else f"The broker answered with error {code}"


def check(code: int, message: str | None = None, *, about: str = "") -> None:
    """Raises ServerError unless `code` is NONE."""
    if code != ErrorCode.NONE:
        raise ServerError(code, message, about=about)
