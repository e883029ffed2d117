"""What a commit asks for, whichever request brought it, and what a fetch of offsets finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest
from barnabas.protocol.wire import Uuid

CommitPartition = (
    OffsetCommitRequest.OffsetCommitRequestPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
)
Codes = Sequence[ErrorCode]
"""What came of a commit, a code for each of its partitions, in their order."""


class CommitTopic(NamedTuple):
    """Partitions of a topic that exist, and the offsets to commit for them."""

    name: str
    topic_id: Uuid
    partitions: Sequence[CommitPartition]


class OffsetCommit(NamedTuple):
    """Who commits what. `epoch` is the generation or member epoch (negative: nobody's); `retention_ms` -1: as the
    broker has it."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    epoch: int
    api_version: int
    topics: Sequence[CommitTopic]
    retention_ms: int = -1

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)


class FetchedOffset(NamedTuple):
    """What OffsetFetch says of one partition; `offset` -1: nothing is committed, or `error` says why it is not told."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    name: str
    topic_id: Uuid
    partitions: Sequence[FetchedOffset]


class OffsetFetch(NamedTuple):
    """Which offsets are asked for: `topics` names, ids (zero: any) and partitions, or None: all that there are.

    `require_stable`: those on which a transaction has yet to decide are not told.
    """

    group_id: str
    member_id: str | None
    member_epoch: int
    topics: Sequence[tuple[str, Uuid, Sequence[int]]] | None
    require_stable: bool
