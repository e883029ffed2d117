"""What is known to differ, one entry for each difference, with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from protocol.messages.produce import ProduceRequest
from tests.conformance.differential.steps import Step

UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID, INVALID_TXN_STATE, GROUP_ID_NOT_FOUND = -1, 25, 48, 69
TRANSACTION_ABORTABLE = 120

ERRORS: Final = r".*\.(error_code|partition_error_code|topic_config_error_code)"
ANYWHERE: Final = r".*"


@dataclass(frozen=True)
class Difference:
    """One place in which two answers to a step differ; `beside` is the struct of Kafka's answer that it stands in."""

    path: str
    expected: Any
    actual: Any
    beside: Any = None

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.expected!r}, Barnabas {self.actual!r}"


@dataclass(frozen=True)
class Known:
    """A difference that is known: `api` and `where` are patterns, for the request's name and for the whole path.

    `when` looks closer. An entry that covers the `whole` covers all other differences in the same answer as well. A
    sequence ends at a known difference, as the brokers may be in different states then, unless it `goes_on`.
    """

    api: str
    where: str
    reason: str
    when: Callable[[Step, Difference], bool] = lambda _, __: True
    whole: bool = False
    goes_on: bool = False

    def covers(self, step: Step, difference: Difference) -> bool:
        """Whether this is that difference."""
        return (
            re.fullmatch(self.api, step.name.partition(" ")[0]) is not None
            and re.fullmatch(self.where, difference.path) is not None
            and self.when(step, difference)
        )


def codes(expected: int | None, actual: int | None) -> Callable[[Step, Difference], bool]:
    """Where Kafka has the one code and Barnabas the other; None stands for any."""
    return lambda _, difference: (
        expected in (None, difference.expected) and actual in (None, difference.actual)
    )


def _is_by_time(step: Step, difference: Difference) -> bool:
    topics: Any = getattr(step.request, "topics", [])
    is_by_time = any(part.timestamp >= 0 for topic in topics for part in topic.partitions)
    return is_by_time and bool(difference.expected == -1)


def _has_null_records(step: Step, difference: Difference) -> bool:
    request = step.request
    return (
        isinstance(request, ProduceRequest)
        and difference.expected == "no answer"
        and any(part.records is None for topic in request.topic_data for part in topic.partition_data)
    )


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        ANYWHERE,
        ERRORS,
        "Kafka stumbles (UNKNOWN_SERVER_ERROR); Barnabas says what is wrong, or does it",
        codes(UNKNOWN_SERVER_ERROR, None),
        whole=True,
    ),
    Known(
        "Produce",
        "",
        "Kafka never answers a Produce in which one of several partitions has null for its records",
        _has_null_records,
        whole=True,
    ),
    Known(
        "JoinGroup|SyncGroup",
        "",
        "Kafka answers neither the first of two such requests of a member, nor a SyncGroup whose member leaves",
        lambda _, difference: difference.expected == "no answer",
    ),
    Known(
        "IncrementalAlterConfigs|AlterConfigs",
        ERRORS,
        "of several faults in the settings of a resource Kafka reports the first in a hash table",
        lambda _, difference: 0 not in (difference.expected, difference.actual),
        goes_on=True,
    ),
    Known(
        "Produce|TxnOffsetCommit",
        ERRORS,
        "Kafka verifies for several clients at once, with the error that the version of one of them has",
        lambda _, difference: (
            {difference.expected, difference.actual} == {INVALID_TXN_STATE, TRANSACTION_ABORTABLE}
        ),
        goes_on=True,
    ),
    Known(
        "EndTxn|InitProducerId",
        "",
        "Kafka leaves a transaction open whose partition has heard of a later epoch, or whose marker cannot be written",
        lambda _, difference: difference.expected == "a transaction does not end",
    ),
    Known(
        "ConsumerGroupDescribe|ConsumerGroupHeartbeat|OffsetDelete",
        ERRORS,
        "Kafka forgets an empty consumer group when an unknown member of the classic protocol tries to join it",
        lambda _, difference: (
            difference.expected == GROUP_ID_NOT_FOUND and difference.actual in (0, UNKNOWN_MEMBER_ID)
        ),
        whole=True,
    ),
    Known(
        "ConsumerGroupHeartbeat|ConsumerGroupDescribe",
        r"(\.groups\[\d+\]\.members\[\d+\])?\.assignment\.topic_partitions(\[\d+\]\.partitions)?",
        "Kafka gives away what a classic member owns when its group becomes classic and a consumer group again",
        lambda _, difference: len(difference.expected) != len(difference.actual),
        whole=True,
    ),
    Known(
        "ListOffsets",
        r".*\.(offset|timestamp|leader_epoch)",
        "Kafka searches only the first segment that is young enough, also where the log starts behind its records",
        _is_by_time,
        goes_on=True,
    ),
    Known(
        "Fetch",
        r".*\.last_stable_offset",
        "Kafka's last stable offset is the first of the batch in which the log starts, below its start",
        lambda _, difference: (
            difference.expected < difference.actual == difference.beside["log_start_offset"]
        ),
        goes_on=True,
    ),
)
"""What stays, as docs/differences.md says."""
"""Faults of Barnabas that are being mended: an entry goes when its fault does."""


def known(step: Step, differences: Sequence[Difference]) -> list[Known | None]:
    """The entry that covers each of the differences in the answers to one step; None for a new one."""
    found: list[Known | None] = []
    for difference in differences:
        covering = [entry for entry in KNOWN if entry.covers(step, difference)]
        found.append(next(iter(sorted(covering, key=lambda entry: not entry.whole)), None))
    whole = next((entry for entry in found if entry is not None and entry.whole), None)
    return found if whole is None else [whole for _ in differences]
