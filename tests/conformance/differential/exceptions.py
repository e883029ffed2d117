"""What is known to differ, one entry for each difference, with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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


def _kafka_stumbles(_: Step, difference: Difference) -> bool:
    return bool(difference.expected == -1)


_STUMBLES: Final = Known(
    ".*",
    r".*\.(error_code|partition_error_code|topic_config_error_code)",
    "Kafka stumbles (UNKNOWN_SERVER_ERROR); Barnabas says what is wrong, or does it",
    _kafka_stumbles,
)
"""Covers all other differences in that answer as well."""

KNOWN: Final[tuple[Known, ...]] = ()
"""What stays, as docs/differences.md says."""


def _mixes_ids_and_names(step: Step, _: Difference) -> bool:
    topics = getattr(step.request, "topics", None) or []
    by_id = [any(topic.topic_id) for topic in topics]
    return any(by_id) and not all(by_id)


def _has_special_timestamp(step: Step, _: Difference) -> bool:
    topics: Any = getattr(step.request, "topics", [])
    stamps = [part.timestamp for topic in topics for part in topic.partitions]
    return any(stamp < -2 for stamp in stamps)


def _is_zstd_too_early(step: Step, difference: Difference) -> bool:
    return step.version < 7 and difference.expected == 76


OPEN: Final[tuple[Known, ...]] = (
    Known("Produce", r".*\.error_code", "open: zstd in Produce 3 to 6 is checked late", _is_zstd_too_early),
    Known("Metadata", ".*", "open: Metadata that mixes ids and names", _mixes_ids_and_names),
    Known(
        "ListOffsets",
        r".*",
        "open: a special timestamp that ListOffsets' version lacks, and the greatest timestamp -1",
        _has_special_timestamp,
    ),
)
"""Faults of Barnabas that are being mended: an entry goes when its fault does."""


def known(step: Step, differences: Sequence[Difference]) -> list[Known | None]:
    """The entry that covers each of the differences in the answers to one step; None for a new one."""
    if any(_STUMBLES.covers(step, difference) for difference in differences):
        return [_STUMBLES for _ in differences]
    entries = (*KNOWN, *OPEN)
    return [
        next((entry for entry in entries if entry.covers(step, difference)), None)
        for difference in differences
    ]
