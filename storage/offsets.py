"""Small values that storage takes and returns; each is named as in Kafka's storage module."""

from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.storage.env import File, read_fully

TopicPartition: TypeAlias = tuple[str, int]
"""A partition, by its topic and its index."""

UNKNOWN_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1


class AppendOrigin(IntEnum):
    """Who appends; decides which checks a batch must pass."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


class FetchIsolation(IntEnum):
    """The end of the records that a reader may see."""

    LOG_END = 0  # followers
    HIGH_WATERMARK = 1  # consumers, read_uncommitted
    TXN_COMMITTED = 2  # consumers, read_committed: up to the last stable offset


class LogStartOffsetIncrementReason(Enum):
    """Why the log start offset moved; the value is the text of the log line."""

    CLIENT_RECORD_DELETION = "a client deleted records"
    LEADER_OFFSET_INCREMENTED = "the leader's log start offset moved"
    SEGMENT_DELETION = "segments were deleted"
    SNAPSHOT_GENERATED = "a snapshot covers what is before"


class LogOffsetMetadata:
    """An offset and, if known, the segment and the byte position at which its batch begins."""

    __slots__ = ("message_offset", "position", "segment_base_offset")

    def __init__(self, message_offset: int, segment_base_offset: int = -1, position: int = -1) -> None:
        self.message_offset = message_offset
        self.segment_base_offset = segment_base_offset
        self.position = position

    def on_same_segment(self, other: "LogOffsetMetadata") -> bool:
        """Whether both positions are known and in one segment, so that their difference is bytes of log."""
        return self.segment_base_offset == other.segment_base_offset and self.position >= 0 <= other.position

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogOffsetMetadata):
            return NotImplemented
        return (self.message_offset, self.segment_base_offset, self.position) == (
            other.message_offset,
            other.segment_base_offset,
            other.position,
        )

    def __hash__(self) -> int:
        return hash((self.message_offset, self.segment_base_offset, self.position))

    def __repr__(self) -> str:
        return f"LogOffsetMetadata({self.message_offset}, {self.segment_base_offset}, {self.position})"


class TimestampAndOffset(NamedTuple):
    """A record's timestamp (ms) and offset, and the epoch of the leader that appended it (-1 when unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


class EpochEndOffset(NamedTuple):
    """A leader epoch and the offset at which the next one begins (the log's end for the latest)."""

    epoch: int
    end_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction whose records, from `first_offset` on, a read_committed consumer must skip."""

    producer_id: int
    first_offset: int


class FileRecords:
    """A slice of a segment's .log: whole record batches, not copied until `read`.

    It holds the open file, so it can be read after the segment was rolled, renamed or deleted. All its bytes were
    appended before it was made, so they never change.
    """

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File | None, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        """The bytes; fewer than `size` only after a truncation."""
        if self.file is None or self.size == 0:
            return b""
        return read_fully(self.file, self.size, self.position)

    def slice(self, position: int, size: int) -> "FileRecords":
        """`size` bytes from `position` on, counted from the beginning of this slice."""
        assert 0 <= position <= position + size <= self.size
        return FileRecords(self.file, self.position + position, size)

    def __repr__(self) -> str:
        return f"FileRecords(position={self.position}, size={self.size})"


class FetchDataInfo:
    """The result of a read. `records.size` is 0 if there is nothing at or after the offset yet."""

    __slots__ = (
        "aborted_transactions",
        "fetch_offset_metadata",
        "first_entry_incomplete",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "records",
    )

    def __init__(
        self,
        fetch_offset_metadata: LogOffsetMetadata,
        records: FileRecords,
        *,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        first_entry_incomplete: bool = False,
        aborted_transactions: list[AbortedTransaction] | None = None,
    ) -> None:
        self.fetch_offset_metadata = fetch_offset_metadata
        self.records = records
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.first_entry_incomplete = first_entry_incomplete
        self.aborted_transactions = aborted_transactions

    @property
    def fetch_offset(self) -> int:
        return self.fetch_offset_metadata.message_offset


class LogAppendInfo:
    """The result of an append, with the offsets in the log.

    `log_append_time_ms` is set under LogAppendTime only; `conversion_count` counts the records of batches that were
    rebuilt for another format or codec; a `duplicate` was not written and has the offsets of its first append.
    """

    __slots__ = (
        "conversion_count",
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_count",
    )

    def __init__(  # noqa: PLR0917 (every append makes one)
        self,
        first_offset: int,
        last_offset: int,
        log_start_offset: int,
        record_count: int = 0,
        log_append_time_ms: int = NO_TIMESTAMP,
        conversion_count: int = 0,
        *,
        duplicate: bool = False,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.record_count = record_count
        self.log_append_time_ms = log_append_time_ms
        self.conversion_count = conversion_count
        self.duplicate = duplicate

    def __repr__(self) -> str:
        return f"LogAppendInfo({self.first_offset}..{self.last_offset}, duplicate={self.duplicate})"
