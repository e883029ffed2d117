"""Waits for conditions of a cluster that can only be asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LIMIT_S: Final = 60.0
"""A JVM that starts takes ten times as long on a busy machine."""
PAUSE_S: Final = 0.05
"""Between two looks."""


class NeverHappenedError(AssertionError):
    """A condition that did not come true in time."""


def wait_for(what: str, look: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
    """The first answer of `look` that is neither None nor False. Raises NeverHappenedError, with the last problem.

    An OSError or a failed call of the admin client counts as None: nodes come and go.
    """
    from barnabas.cli.admin.errors import AdminError

    deadline = time.monotonic() + limit_s
    problem: object = None
    while True:
        try:
            found = look()
        except (OSError, AdminError) as error:
            problem = error
        else:
            if found is not None and found is not False:
                return found
            problem = found
        if time.monotonic() > deadline:
            raise NeverHappenedError(f"in {limit_s:g} s: {what} ({problem!r})")
        time.sleep(PAUSE_S)


def wait_until(what: str, missing: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Waits until `missing` returns something empty; what it returned last is in the error."""
    last: object = "no answer"

    def look() -> bool:
        nonlocal last
        last = missing()
        return not last

    try:
        wait_for(what, look, limit_s)
    except NeverHappenedError as error:
        raise NeverHappenedError(f"{error}; missing: {last}") from None
