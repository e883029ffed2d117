"""What is known to differ, one entry for each difference, with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from protocol.messages.produce import ProduceRequest
from tests.conformance.differential.steps import Step

CORRUPT_MESSAGE, UNKNOWN_MEMBER_ID, INVALID_CONFIG, INVALID_REQUEST = 2, 25, 40, 42
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 47
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
GROUP_ID_NOT_FOUND, UNSUPPORTED_COMPRESSION_TYPE = 69, 76
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TXN_STATE, TRANSACTION_ABORTABLE = 48, 120
UNKNOWN_SERVER_ERROR = -1
LOG_APPEND_TIME = 0x08

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


# ---- what stays


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
)
"""What stays, as docs/differences.md says."""


# ---- what is being mended


def _mixes_ids_and_names(step: Step, _: Difference) -> bool:
    topics = getattr(step.request, "topics", None) or []
    by_id = [any(topic.topic_id) for topic in topics]
    return any(by_id) and not all(by_id)


def _has_special_timestamp(step: Step, _: Difference) -> bool:
    topics: Any = getattr(step.request, "topics", [])
    stamps = [part.timestamp for topic in topics for part in topic.partitions]
    return any(stamp < -2 for stamp in stamps)


def _is_by_time(step: Step, difference: Difference) -> bool:
    topics: Any = getattr(step.request, "topics", [])
    is_by_time = any(part.timestamp >= 0 for topic in topics for part in topic.partitions)
    return is_by_time and bool(difference.expected == -1)


def _is_zstd_too_early(step: Step, difference: Difference) -> bool:
    return step.version < 7 and bool(difference.expected == UNSUPPORTED_COMPRESSION_TYPE)


def _has_cursor(step: Step, _: Difference) -> bool:
    return getattr(step.request, "cursor", None) is not None


def _is_of_log_append_time(_: Step, difference: Difference) -> bool:
    return bool(difference.expected & LOG_APPEND_TIME)


OPEN: Final[tuple[Known, ...]] = (
    Known(
        "Produce",
        ERRORS,
        "open: verification begins for a fenced batch",
        codes(0, OUT_OF_ORDER_SEQUENCE_NUMBER),
        whole=True,
    ),
    Known(
        "DescribeTopicPartitions",
        ANYWHERE,
        "open: the cursor's position belongs to its topic alone",
        _has_cursor,
    ),
    Known(
        "DescribeGroups",
        r".*\.member_assignment(\[1\])?",
        "open: the assignment of a consumer group that becomes classic",
        lambda _, difference: difference.actual in (b"", []),
    ),
    Known(
        "ConsumerGroupDescribe|ConsumerGroupHeartbeat",
        r".*\.assignor_name",
        "open: of two assignors asked for equally often uniform wins",
        lambda _, difference: difference.expected == "uniform",
        whole=True,
    ),
    Known(
        "ListOffsets",
        ANYWHERE,
        "open: a special timestamp that ListOffsets' version lacks, and the greatest timestamp -1",
        _has_special_timestamp,
    ),
    Known(
        "ListOffsets",
        r".*\.(offset|timestamp|leader_epoch)",
        "open: Kafka finds nothing by time where the log starts between transactional records and their marker",
        _is_by_time,
        goes_on=True,
    ),
    Known(
        "Fetch",
        r".*\.last_stable_offset",
        "open: the last stable offset where the log starts inside a batch of an open transaction",
        lambda _, difference: (
            difference.expected < difference.actual == difference.beside["log_start_offset"]
        ),
        goes_on=True,
    ),
    Known(
        "TxnOffsetCommit",
        ERRORS,
        "open: an empty transactional id is looked at before the epoch",
        codes(INVALID_PRODUCER_EPOCH, INVALID_REQUEST),
        goes_on=True,
    ),
    Known(
        "Produce",
        ERRORS,
        "open: a batch with a producer id and an epoch below -1 is appended",
        codes(INVALID_PRODUCER_EPOCH, 0),
        whole=True,
    ),
    Known(
        "Fetch", r".*\.attributes", "open: unknown attribute bits with LogAppendTime", _is_of_log_append_time
    ),
    Known(
        "CreateTopics",
        ERRORS,
        "open: of two faults in one CreateTopics the configuration comes first",
        lambda _, difference: difference.expected == INVALID_CONFIG and difference.actual != 0,
        goes_on=True,
    ),
    Known("Produce", ERRORS, "open: zstd in Produce 3 to 6 is checked late", _is_zstd_too_early),
    Known(
        "Produce",
        ERRORS,
        "open: a transactional batch that is cut short makes a request transactional",
        codes(None, TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        whole=True,
    ),
    Known(
        "ConsumerGroupHeartbeat",
        r"\.assignment\.topic_partitions",
        "open: what a member gave up when it came back with the classic protocol is free at once",
        lambda _, difference: difference.actual == [],
    ),
    Known(
        "Produce",
        ERRORS,
        "open: a batch of a format that there is not makes all of the request CORRUPT_MESSAGE",
        lambda _, difference: difference.expected == CORRUPT_MESSAGE and difference.actual != 0,
        whole=True,
    ),
    Known("Metadata", ANYWHERE, "open: Metadata that mixes ids and names", _mixes_ids_and_names),
    Known(
        "Fetch",
        r".*\.aborted_transactions",
        "open: aborted_transactions null, and not empty, where a batch is beyond the byte limit",
        lambda _, difference: difference.expected in (None, []) and difference.actual in (None, []),
        goes_on=True,
    ),
    Known(
        "WriteTxnMarkers",
        ERRORS,
        "open: a marker with an epoch below -1 is written",
        codes(INVALID_PRODUCER_EPOCH, 0),
        whole=True,
    ),
    Known(
        "Fetch|DescribeProducers",
        r".*\.(max_timestamp|last_timestamp)",
        "open: the greatest timestamp of records that are all before -1 is -1",
        lambda _, difference: difference.expected == -1 and difference.actual < -1,
        goes_on=True,
    ),
)
"""Faults of Barnabas that are being mended: an entry goes when its fault does."""


def known(step: Step, differences: Sequence[Difference]) -> list[Known | None]:
    """The entry that covers each of the differences in the answers to one step; None for a new one."""
    found: list[Known | None] = []
    for difference in differences:
        covering = [entry for entry in (*KNOWN, *OPEN) if entry.covers(step, difference)]
        found.append(next(iter(sorted(covering, key=lambda entry: not entry.whole)), None))
    whole = next((entry for entry in found if entry is not None and entry.whole), None)
    return found if whole is None else [whole for _ in differences]
