"""The known differences, one entry each, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.broker.coordinator.group.consumer import embedded
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import (
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest, WriteTxnMarkersRequest
from barnabas.protocol.records.compression import CompressionType
from tests.conformance.differential.steps import Step

UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID, INVALID_TXN_STATE, GROUP_ID_NOT_FOUND = -1, 25, 48, 69
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, TRANSACTION_ABORTABLE = 22, 27, 120
READ_COMMITTED: Final = 1
LAST_OF_ATTRIBUTES, CODEC_MASK = 22, 7
LOG_START_IN_FETCH: Final = 5
"""The first version of Fetch whose response has the log start offset."""
UNKNOWN_PARTITION: Final = (3, 100)
LARGEST_METADATA: Final = 4096

ERRORS: Final = r".*\.(error_code|partition_error_code|topic_config_error_code)"
ANYWHERE: Final = r".*"


@dataclass(frozen=True)
class Difference:
    """One place in which two responses differ; `beside` is the struct of Kafka's response around it."""

    path: str
    expected: Any
    actual: Any
    beside: Any = None

    def __str__(self) -> str:
        return f"{self.path}: Kafka {self.expected!r}, Barnabas {self.actual!r}"


@dataclass(frozen=True)
class Known:
    """A known difference: `api` and `where` are patterns for the request's name and for the whole path.

    `when` checks the step and the difference. Each of `after` must hold for some earlier step and this one. An entry
    for the `whole` covers all other differences in the same response as well. A sequence ends at a known difference,
    after which the brokers may be in different states, unless it `continues`.
    """

    api: str
    where: str
    reason: str
    when: Callable[[Step, Difference], bool] = lambda _, __: True
    after: tuple[Callable[[Step, Step], bool], ...] = ()
    whole: bool = False
    continues: bool = False

    def covers(self, step: Step, difference: Difference, earlier: Sequence[Step] = ()) -> bool:
        """Whether the entry covers a difference in a sequence with these `earlier` steps."""
        return (
            re.fullmatch(self.api, step.name.partition(" ")[0]) is not None
            and re.fullmatch(self.where, difference.path) is not None
            and self.when(step, difference)
            and all(any(holds(before, step) for before in earlier) for holds in self.after)
        )


def codes(expected: Any, actual: Any) -> Callable[[Step, Difference], bool]:
    """Matches these values of Kafka and Barnabas; None stands for any."""
    return lambda _, difference: (
        expected in (None, difference.expected) and actual in (None, difference.actual)
    )


def _groups(request: Any) -> set[str]:
    """The groups that a request names."""
    named = [getattr(request, name, None) or [] for name in ("group_ids", "groups_names", "groups")]
    several = {group if isinstance(group, str) else group.group_id for each in named for group in each}
    return several | {str(request.group_id)} if hasattr(request, "group_id") else several


def joins_as_classic(earlier: Step, step: Step) -> bool:
    """Whether `earlier` is a JoinGroup of a group that the step names or lists."""
    if not isinstance(earlier.request, JoinGroupRequest):
        return False
    return isinstance(step.request, ListGroupsRequest) or earlier.request.group_id in _groups(step.request)


def joins_as_classic_under_an_id(earlier: Step, step: Step) -> bool:
    """Whether `earlier` is such a JoinGroup with a member id, which a group without that member rejects."""
    request = earlier.request
    return (
        isinstance(request, JoinGroupRequest) and bool(request.member_id) and joins_as_classic(earlier, step)
    )


def joins_as_consumer(earlier: Step, step: Step) -> bool:
    """Whether in `earlier` a member joins a group that the step names or lists, with the consumer protocol."""
    request = earlier.request
    if not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_epoch != 0:
        return False
    return isinstance(step.request, ListGroupsRequest) or request.group_id in _groups(step.request)


def assigns_custom_bytes(earlier: Step, step: Step) -> bool:
    """Whether `earlier` has an assignment that prevents an upgrade of the step's group to a consumer group."""
    request = earlier.request
    if not isinstance(request, SyncGroupRequest) or request.group_id not in _groups(step.request):
        return False
    return any(_is_custom(bytes(given.assignment)) for given in request.assignments)


def _is_custom(assignment: bytes) -> bool:
    try:
        return bool(embedded.read_assignment(assignment).user_data)
    except embedded.EmbeddedProtocolError:
        return True


def leaves(earlier: Step, step: Step) -> bool:
    """Whether in `earlier` a member leaves a group that the step names."""
    request = earlier.request
    is_it = isinstance(request, LeaveGroupRequest) or (
        isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < 0
    )
    return is_it and not _groups(request).isdisjoint(_groups(step.request))


def commits_too_much(earlier: Step, step: Step) -> bool:
    """Whether `earlier` commits too large metadata in a group that the step names or lists."""
    request = earlier.request
    if not isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
        return False
    is_it = isinstance(step.request, ListGroupsRequest) or request.group_id in _groups(step.request)
    return is_it and any(
        len(part.committed_metadata or "") > LARGEST_METADATA
        for topic in request.topics
        for part in topic.partitions
    )


def _is_deleted(step: Step, difference: Difference) -> bool:
    """Whether the step is a Fetch that waits, and the partition was deleted."""
    return step.may_wait and difference.beside["error_code"] in UNKNOWN_PARTITION


def _is_by_time(step: Step, difference: Difference) -> bool:
    topics: Any = getattr(step.request, "topics", [])
    is_by_time = any(part.timestamp >= 0 for topic in topics for part in topic.partitions)
    return is_by_time and bool(difference.expected == -1)


def _lists_less(_: Step, difference: Difference) -> bool:
    """Whether Kafka's list lacks only empty consumer groups (before version 3 the response has no types)."""
    missing = [group for group in difference.actual if group not in difference.expected]
    return (
        bool(missing)
        and all(group in difference.actual for group in difference.expected)
        and all(group["group_type"] in ("consumer", "") for group in missing)
        and all(group["group_state"] in ("Empty", "") for group in missing)
    )


def _is_past_the_last_stable_offset(step: Step, difference: Difference) -> bool:
    """Whether Kafka answers a fetch of committed records past the last stable offset at once, without records.

    Neither broker answers earlier for a partition that it does not know. An incremental fetch need not name the
    partition, and the response leaves out unchanged partitions.
    """
    request, answer = step.request, difference.expected
    if not isinstance(request, FetchRequest) or request.isolation_level != READ_COMMITTED:
        return False
    if difference.actual != "no answer" or not isinstance(answer, dict) or answer["error_code"]:
        return False
    found = [part for topic in answer["responses"] for part in topic["partitions"]]
    if any(part["error_code"] not in (0, *UNKNOWN_PARTITION) or part["records"] != [0] for part in found):
        return False
    offsets = {(part.partition, part.fetch_offset) for topic in request.topics for part in topic.partitions}
    return request.session_epoch > 0 or any(
        index == part["partition_index"] and offset > part["last_stable_offset"]
        for index, offset in offsets
        for part in found
    )


def writes_a_marker(earlier: Step, step: Step) -> bool:
    """Whether `earlier` writes a marker: markers have the present time, the records of sequences are much older."""
    return isinstance(earlier.request, WriteTxnMarkersRequest) and isinstance(step.request, FetchRequest)


def _ends_with_a_batch(_: Step, difference: Difference) -> bool:
    """Whether Kafka's batches are the first of Barnabas's; the lists begin with a size."""
    expected, actual = difference.expected, difference.actual
    return 1 < len(expected) < len(actual) and actual[1 : len(expected)] == expected[1:]


def _is_below_the_start(_: Step, difference: Difference) -> bool:
    start = difference.beside["log_start_offset"]
    return bool(difference.expected < difference.actual == start)


def deletes_records(earlier: Step, step: Step) -> bool:
    """Whether a log may start within a batch after `earlier`."""
    return isinstance(earlier.request, DeleteRecordsRequest) and isinstance(step.request, FetchRequest)


def produces_an_unknown_codec_unanswered(earlier: Step, step: Step) -> bool:
    """Whether `earlier` is a Produce without acks to several partitions, one with a codec that does not exist."""
    request = earlier.request
    if not isinstance(request, ProduceRequest) or request.acks != 0 or earlier.uid >= step.uid:
        return False
    batches = [bytes(part.records or b"") for topic in request.topic_data for part in topic.partition_data]
    return len(batches) > 1 and any(
        len(data) > LAST_OF_ATTRIBUTES and data[LAST_OF_ATTRIBUTES] & CODEC_MASK > CompressionType.ZSTD
        for data in batches
    )


def _has_null_records(step: Step, difference: Difference) -> bool:
    request = step.request
    return (
        isinstance(request, ProduceRequest)
        and difference.expected == "no answer"
        and any(part.records is None for topic in request.topic_data for part in topic.partition_data)
    )


LOSES_GROUP: Final = (
    "Kafka loses an empty consumer group when an unknown member of the classic protocol tries to join it"
)

LOSES_OWNERSHIP: Final = (
    "Kafka reassigns a classic member's partitions when its group becomes classic and a consumer group again"
)
BELOW_THE_START: Final = (
    "Kafka's last stable offset is the first of the batch in which the log starts, below its start"
)

KNOWN: Final[tuple[Known, ...]] = (
    Known(
        ANYWHERE,
        ERRORS,
        "Kafka fails with UNKNOWN_SERVER_ERROR; Barnabas returns the right error, or handles the request",
        codes(UNKNOWN_SERVER_ERROR, None),
        whole=True,
    ),
    Known(
        "Produce|Fetch|ListOffsets|DeleteRecords|OffsetForLeaderEpoch|DescribeProducers",
        ANYWHERE,
        "Kafka fails on a codec that does not exist, and appends nothing of such a Produce without acks",
        after=(produces_an_unknown_codec_unanswered,),
        whole=True,
    ),
    Known(
        "Produce",
        "",
        "Kafka never answers a Produce in which one of several partitions has null records",
        _has_null_records,
        whole=True,
    ),
    Known(
        "JoinGroup|SyncGroup",
        "",
        "Kafka does not answer the first of two such requests of a member, nor a SyncGroup whose member leaves",
        lambda _, difference: difference.expected == "no answer",
    ),
    Known(
        "IncrementalAlterConfigs|AlterConfigs",
        ERRORS,
        "of several errors in the settings of a resource Kafka reports the first in a hash table",
        lambda _, difference: 0 not in (difference.expected, difference.actual),
        continues=True,
    ),
    Known(
        "Produce|TxnOffsetCommit",
        ERRORS,
        "Kafka verifies for several clients at once, and returns to all the error for the version of one of them",
        lambda _, difference: (
            {difference.expected, difference.actual} == {INVALID_TXN_STATE, TRANSACTION_ABORTABLE}
        ),
        continues=True,
    ),
    Known(
        "EndTxn|InitProducerId",
        "",
        "Kafka leaves a transaction open whose partition has a later producer epoch, or whose marker cannot be written",
        lambda _, difference: difference.expected == "a transaction does not end",
    ),
    Known(
        "ConsumerGroupDescribe|ConsumerGroupHeartbeat|OffsetDelete|DeleteGroups|OffsetCommit|TxnOffsetCommit|OffsetFetch",
        ERRORS,
        LOSES_GROUP,
        lambda _, difference: (
            difference.expected == GROUP_ID_NOT_FOUND and difference.actual in (0, UNKNOWN_MEMBER_ID)
        ),
        after=(joins_as_classic,),
        whole=True,
    ),
    Known(
        "ListGroups",
        r".*\.group_type",
        LOSES_GROUP,
        codes("classic", "consumer"),
        after=(joins_as_classic,),
        whole=True,
    ),
    Known(
        "ListGroups",
        r".*\.protocol_type",
        LOSES_GROUP,
        codes("", "consumer"),
        after=(joins_as_consumer, joins_as_classic_under_an_id),
        whole=True,
    ),
    Known(
        "ListGroups",
        r"\.groups",
        LOSES_GROUP,
        _lists_less,
        after=(joins_as_consumer, joins_as_classic_under_an_id),
        whole=True,
    ),
    Known(
        "ConsumerGroupHeartbeat",
        r"\.member_epoch",
        LOSES_GROUP,
        lambda _, difference: 0 < difference.expected < difference.actual,
        after=(joins_as_consumer, joins_as_classic_under_an_id),
        whole=True,
    ),
    Known(
        "DescribeGroups",
        ERRORS,
        LOSES_GROUP,
        lambda _, difference: (
            (difference.expected, difference.actual) == (0, GROUP_ID_NOT_FOUND)
            and difference.beside["group_state"] == "Empty"
        ),
        after=(joins_as_consumer, joins_as_classic_under_an_id),
        whole=True,
    ),
    Known(
        "OffsetCommit|TxnOffsetCommit",
        ERRORS,
        LOSES_GROUP,
        codes(ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID),
        after=(joins_as_consumer, joins_as_classic_under_an_id),
        whole=True,
    ),
    Known(
        "OffsetFetch",
        ERRORS,
        LOSES_GROUP,
        codes(0, UNKNOWN_MEMBER_ID),
        after=(joins_as_consumer, joins_as_classic_under_an_id),
        whole=True,
    ),
    Known(
        "JoinGroup|SyncGroup",
        "",
        "Kafka completes waiting requests of a classic group also when a consumer cannot join it",
        lambda _, difference: (
            difference.actual == "no answer" and difference.expected["error_code"] == REBALANCE_IN_PROGRESS
        ),
        after=(assigns_custom_bytes, joins_as_consumer),
    ),
    Known(
        "Fetch",
        r".*\.records",
        "Kafka rolls a segment for a marker that it then rejects, and a fetch ends with a segment",
        _ends_with_a_batch,
        after=(writes_a_marker,),
    ),
    Known(
        "Fetch",
        "",
        "Kafka answers a fetch of committed records past the last stable offset at once, without records",
        _is_past_the_last_stable_offset,
    ),
    Known(
        "OffsetDelete|DeleteGroups|DescribeGroups",
        ERRORS,
        "Kafka keeps a group whose first OffsetCommit it has rejected",
        codes(0, GROUP_ID_NOT_FOUND),
        after=(commits_too_much,),
        whole=True,
    ),
    Known(
        "Fetch",
        r".*\.aborted_transactions",
        "Kafka returns null for the aborted transactions of a partition that is deleted while a fetch waits",
        lambda step, difference: (
            (difference.expected, difference.actual) == (None, []) and _is_deleted(step, difference)
        ),
        continues=True,
    ),
    Known(
        "Fetch",
        ERRORS,
        "a topic's partitions are deleted one by one, and a waiting fetch completes after the first",
        lambda step, difference: (
            0 in (difference.expected, difference.actual)
            and not {difference.expected, difference.actual}.isdisjoint(UNKNOWN_PARTITION)
            and step.may_wait
        ),
        whole=True,
    ),
    Known(
        "ConsumerGroupHeartbeat|ConsumerGroupDescribe",
        r"(\.groups\[\d+\]\.members\[\d+\])?\.(target_)?assignment\.topic_partitions(\[\d+\]\.partitions(\[\d+\])?)?",
        LOSES_OWNERSHIP,
        after=(joins_as_classic, leaves),
        whole=True,
    ),
    Known(
        "ConsumerGroupHeartbeat",
        r"\.member_epoch",
        LOSES_OWNERSHIP,
        lambda _, difference: difference.expected > difference.actual > 0,
        after=(joins_as_classic, leaves, joins_as_consumer),
        whole=True,
    ),
    Known(
        "Heartbeat",
        ERRORS,
        "Kafka starts no rebalance to assign partitions in a consumer group that has only classic members",
        codes(0, REBALANCE_IN_PROGRESS),
        after=(joins_as_classic, joins_as_consumer),
    ),
    Known(
        "ListOffsets",
        r".*\.(offset|timestamp|leader_epoch)",
        "Kafka searches only the first segment that is young enough, even if its records are below the log start",
        _is_by_time,
        continues=True,
    ),
    Known(
        "Fetch",
        r".*\.last_stable_offset",
        BELOW_THE_START,
        _is_below_the_start,
        continues=True,
    ),
    Known(
        "Fetch",
        r".*\.last_stable_offset",
        BELOW_THE_START,
        lambda step, difference: (
            step.version < LOG_START_IN_FETCH and difference.expected < difference.actual
        ),
        after=(deletes_records,),
        continues=True,
    ),
)
"""The known differences; docs/differences.md describes them."""


def known(step: Step, differences: Sequence[Difference], earlier: Sequence[Step] = ()) -> list[Known | None]:
    """The entry that covers each of the differences in the responses to one step; None for a new difference."""
    found: list[Known | None] = []
    for difference in differences:
        covering = [entry for entry in KNOWN if entry.covers(step, difference, earlier)]
        found.append(next(iter(sorted(covering, key=lambda entry: not entry.whole)), None))
    whole = next((entry for entry in found if entry is not None and entry.whole), None)
    return found if whole is None else [whole for _ in differences]
