"""LogDirMove: the move of one replica to another log directory; alter_log_dirs holds the moves and runs their steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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


class MovePhase(Enum):
    """The phase of a move; users read the value."""

    CREATE = "beginning"
    COPY = "copying"
    MIRROR = "caught up"
    COMMIT = "committing"
    ENDED = "ended"


@dataclass(slots=True, eq=False, repr=False)
class LogDirMove:
    """The move of one partition to the log directory `target`. `future` is None until its directory exists."""

    partition: Partition
    target: LogDir
    started_s: float
    future: UnifiedLog | None = None
    phase: MovePhase = MovePhase.CREATE
    begun: Pending[ErrorCode] = field(default_factory=Pending)
    copied_bytes: int = 0
    unflushed_bytes: int = 0
    is_busy: bool = False
    """A thread works on the future log."""
    is_failing: bool = False
    has_reported: bool = False
    """The metadata may name the target already."""
    on_idle: Callable[[], None] | None = None
    paused: CleanerHooks | None = None

    @property
    def key(self) -> TopicPartition:
        return self.partition.topic, self.partition.index

    @property
    def is_ended(self) -> bool:
        return self.phase is MovePhase.ENDED

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
    # The log in use is damaged: once retention or an operator has removed the damage, it can move.
    CorruptRecordError,
    OffsetsOutOfOrderError,
    UnexpectedAppendOffsetError,
)


def may_pass(error: BaseException) -> bool:
    """Whether an error in copying is no fault of a disk, so that the move is retried."""
    return isinstance(error, _PASSES) or (isinstance(error, OSError) and not is_fault_of_disk(error))


def of_target(error: BaseException | None) -> BaseException | None:
    """Turns an error in flushing into one of the future log's own disk."""
    if isinstance(error, OSError) and not may_pass(error):
        return KafkaStorageError(str(error))
    return error
