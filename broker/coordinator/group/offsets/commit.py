"""The data of offset commits and offset fetches, whatever request they came in."""

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
"""The result of a commit: a code for each of its partitions, in their order."""


class CommitTopic(NamedTuple):
    """Partitions of a topic that exist, and the offsets to commit for them."""

    name: str
    topic_id: Uuid
    partitions: Sequence[CommitPartition]


class OffsetCommit(NamedTuple):
    """A commit of a member. `epoch` is the generation or member epoch (negative: no member's); `retention_ms` -1: the
    broker's."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    epoch: int
    api_version: int
    topics: Sequence[CommitTopic]
    retention_ms: int = -1

    @property
    def names_no_member(self) -> bool:
        """Whether a producer sent it that does not know its member (before KIP-447)."""
        return self.epoch == -1 and not self.member_id and self.group_instance_id is None

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics)


class FetchedOffset(NamedTuple):
    """One partition of OffsetFetch; `offset` is -1 where nothing is committed, or with an `error`."""

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
    """The offsets to fetch: `topics` names, ids (zero: any) and partitions, or None for all.

    `require_stable`: UNSTABLE_OFFSET_COMMIT in place of offsets that an open transaction may change.
    """

    group_id: str
    member_id: str | None
    member_epoch: int
    topics: Sequence[tuple[str, Uuid, Sequence[int]]] | None
    require_stable: bool
