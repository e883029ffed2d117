"""What is known to differ, one entry for each difference, with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.conformance.differential.steps import Step


@dataclass(frozen=True)
class Difference:
    """One place in which two answers to a step differ."""

    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.expected!r}, Barnabas {self.actual!r}"


@dataclass(frozen=True)
class Known:
    """A difference that is known: `api` is the name of the request, `where` a pattern for the whole path.

    `when` looks closer. A sequence ends at a known difference, as the brokers may be in different states then, unless
    `goes_on`.
    """

    api: str
    where: str
    reason: str
    when: Callable[[Step, Difference], bool] = lambda _, __: True
    goes_on: bool = False

    def covers(self, step: Step, difference: Difference) -> bool:
        """Whether this is that difference."""
        return (
            re.fullmatch(self.api, step.name.partition(" ")[0]) is not None
            and re.fullmatch(self.where, difference.path) is not None
            and self.when(step, difference)
        )


KNOWN: Final[tuple[Known, ...]] = ()
"""What stays, as docs/differences.md says."""

OPEN: Final[tuple[Known, ...]] = ()
"""Faults of Barnabas that are being mended: an entry goes when its fault does."""


def known(step: Step, difference: Difference) -> Known | None:
    """The entry that covers a difference; None for a new one."""
    return next((entry for entry in (*KNOWN, *OPEN) if entry.covers(step, difference)), None)
