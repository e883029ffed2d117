"""The differences between two transcripts, and docs/differences.md, which gives the reason of each that stays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tests.conformance.handover.cluster_view import unlike
from tests.conformance.parity.transcript import Tree

DOCUMENT = Path(__file__).parents[3] / "docs" / "differences.md"
HISTORY = "# Where Barnabas differs from Apache Kafka"
FIRST_RESPONSES = "## First responses of a new broker"
"""The headings of the two tables of the document; each table has its own test."""

_ROW = re.compile(r"^\| `([^`]+)` \|(.*)\|(.*)\|(.*)\|$")
_WHAT = re.compile(r": (?:expected|not expected|not there)")
_CLIENTS_WORDS = re.compile(r"^(\[Error \d+\] \w+): .*")


class Known(NamedTuple):
    """A row of the document: a pattern over step and path, and the reason."""

    where: str
    kafka: str
    ours: str
    reason: str


def known_differences(heading: str) -> list[Known]:
    """The rows under a heading, in order."""
    _, found, rest = f"\n{DOCUMENT.read_text()}".partition(f"\n{heading}\n")
    assert found, f"{DOCUMENT.name} has no {heading}"
    section = rest.partition("\n#")[0]
    rows = [match for line in section.splitlines() if (match := _ROW.match(line))]
    return [Known(match[1], match[2].strip(), match[3].strip(), match[4].strip()) for match in rows]


def differences(kafka: Mapping[str, Tree], ours: Mapping[str, Tree]) -> Iterator[str]:
    """A line for each difference; it begins with the step and the path in its answer."""
    for step, answer in kafka.items():
        yield from unlike(without_error_messages(answer), without_error_messages(ours.get(step)), step)


def without_error_messages(answer: Tree) -> Tree:
    """The answer with each error message replaced by a mark: brokers agree only on whether there is one."""
    if isinstance(answer, dict):
        return {
            key: bool(value) if _is_message(key, answer) else without_error_messages(value)
            for key, value in answer.items()
        }
    if isinstance(answer, str):
        return _CLIENTS_WORDS.sub(r"\1", answer)
    return [without_error_messages(one) for one in answer] if isinstance(answer, list) else answer


def _is_message(key: str, answer: Mapping[str, Tree]) -> bool:
    return key == "error_message" or (key == "message" and "error" in answer)


def unexplained(found: Iterable[str], known: Iterable[Known]) -> tuple[list[str], list[str]]:
    """Differences without a row, and rows without a difference."""
    patterns = [one.where for one in known]
    used: set[str] = set()
    left = []
    for line in found:
        where = _WHAT.split(line, maxsplit=1)[0]
        fitting = [pattern for pattern in patterns if fnmatchcase(where, pattern)]
        used.update(fitting)
        if not fitting:
            left.append(line)
    return left, [pattern for pattern in patterns if pattern not in used]
