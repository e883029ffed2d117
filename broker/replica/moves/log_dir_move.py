"""Move: one replica on its way to another log directory; alter_log_dirs has the moves and takes their steps."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from barnabas.broker.pending import Pending
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.errors import (
    DiskFullError,
    KafkaStorageError,
    OffsetsOutOfOrderError,
    OutOfResourcesError,
    UnexpectedAppendOffsetError,
    is_fault_of_disk,
)
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog
    from barnabas.storage.manager.hooks import CleanerHooks
    from barnabas.storage.manager.log_dir import LogDir


class Phase(Enum):
    """How far a move is; the value is what users read."""

    CREATE = "beginning"
    COPY = "copying"
    MIRROR = "caught up"
    COMMIT = "committing"
    ENDED = "ended"


class Move:
    """One partition on its way to `target`. `future` is there once its directory is."""

    __slots__ = (
        "begun",
        "copied_bytes",
        "future",
        "has_reported",
        "is_busy",
        "is_failing",
        "on_idle",
        "partition",
        "paused",
        "phase",
        "started_s",
        "target",
        "unflushed_bytes",
    )

    def __init__(self, partition: Partition, target: LogDir, now_s: float) -> None:
        self.partition = partition
        self.target = target
        self.future: UnifiedLog | None = None
        self.phase = Phase.CREATE
        self.begun: Pending[ErrorCode] = Pending()
        self.copied_bytes = 0
        self.unflushed_bytes = 0
        self.started_s = now_s
        self.is_busy = False  # a thread works on the future log
        self.is_failing = False
        self.has_reported = False  # the metadata may name the target already
        self.on_idle: Callable[[], None] | None = None
        self.paused: CleanerHooks | None = None

    @property
    def key(self) -> TopicPartition:
        return self.partition.topic, self.partition.index

    @property
    def is_ended(self) -> bool:
        return self.phase is Phase.ENDED

    @property
    def lag(self) -> int:
        """How many offsets the future log is behind."""
        if self.future is None:
            return 0
        return max(self.partition.log.log_end_offset - self.future.log_end_offset, 0)

    def __str__(self) -> str:
        return f"the move of {self.partition} to {self.target.path}"


_PASSES: Final = (
    DiskFullError,
    OutOfResourcesError,
    # The log in use is damaged: retention, or somebody, may mend it, and then it moves.
    CorruptRecordError,
    OffsetsOutOfOrderError,
    UnexpectedAppendOffsetError,
)


def may_pass(error: BaseException) -> bool:
    """Whether an error in copying says nothing against a disk, so that it is worth trying again."""
    return isinstance(error, _PASSES) or (isinstance(error, OSError) and not is_fault_of_disk(error))


def of_target(error: BaseException | None) -> BaseException | None:
    """An error in flushing as one of the future log's own disk."""
    if isinstance(error, OSError) and not may_pass(error):
        return KafkaStorageError(str(error))
    return error
