"""MetadataLog: where metadata records are kept, as those see it who decide them and who replay them.

Today the log is this node's own (`raft_log.EmbeddedRaftLog`); one that is fetched from a quorum of controllers fits
behind the same interface, with `append` going to the quorum's leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.protocol.schema import Message

MAX_RECORDS_PER_USER_OP: Final = 10_000
"""One request is one atomic batch of records, and has to stay one that can be written. As in QuorumController."""


class MetadataLogError(Exception):
    """The metadata log cannot be what it claims, is newer than this broker, or belongs to another node."""


class MetadataBatch(NamedTuple):
    """Committed records, in order: none where offsets passed that hold nothing for the image.

    `last_offset` is that of the last record, `epoch` that of the leader who wrote it: what the image holds once
    these are replayed. A metadata transaction is never divided.
    """

    records: Sequence[Message]
    last_offset: int
    epoch: int


class MetadataLog(Protocol):
    """What the controller and the loader need of a metadata log. Blocking; one caller at a time."""

    @property
    def leader_epoch(self) -> int:
        """The epoch in which records are appended."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    def load(self) -> Iterator[MetadataBatch]:
        """Everything that is committed, from the latest snapshot on. Raises MetadataLogError, StorageError, OSError."""

    def append(self, batches: Sequence[Sequence[Message]]) -> int:
        """Appends each inner list as one atomic batch; returns the end offset once all of them are durable.

        Raises StorageError or OSError; none of the batches is there then.
        """
