"""LogState: what a log knows of itself, and the order that its offsets keep.

    log start offset <= last stable offset <= high watermark <= log end offset

The half of `UnifiedLog` that every other part of it stands on; it is of no use alone.
"""

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas.protocol.wire import uuid_to_string
from barnabas.storage.env import Env
from barnabas.storage.errors import (
    CorruptCheckpointError,
    InconsistentTopicIdError,
    KafkaStorageError,
    OffsetOutOfRangeError,
)
from barnabas.storage.log.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from barnabas.storage.log.disk_space import DiskSpace
from barnabas.storage.log.leader_epochs import LeaderEpochFileCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.log.validator import LogValidator
from barnabas.storage.offsets import (
    FetchIsolation,
    LogOffsetMetadata,
    LogStartOffsetIncrementReason,
)
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.config.log_config import LogConfig

logger = logging.getLogger("barnabas.storage")

_NEVER_SO_MANY: Final = 1 << 60
"""flush.messages is 2^63 - 1 where nothing is flushed by count, and a number of that size is compared slowly."""

_LOG_END: Final = FetchIsolation.LOG_END
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED


class LogState:
    """Identity, health and offsets of one partition's log."""

    __slots__ = (
        "_env",
        "_failure",
        "_flush_messages",
        "_high_watermark_metadata",
        "_last_stable_metadata",
        "_local",
        "_max_segment_ms",
        "_partition_metadata",
        "_segment_bytes",
        "_validator",
        "_warned_of_segment",
        "config",
        "disk_space",
        "first_unstable_offset",
        "high_watermark",
        "leader_epoch_cache",
        "log_start_offset",
        "partition",
        "producer_state_manager",
        "topic",
        "topic_id",
        "truncated_bytes",
    )

    def __init__(
        self,
        env: Env,
        topic: str,
        partition: int,
        local: LocalLog,
        *,
        log_start_offset: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        partition_metadata: PartitionMetadataFile,
    ) -> None:
        self._env = env
        self._local = local
        self._partition_metadata = partition_metadata
        self._failure: str | None = None
        self._warned_of_segment = -1  # the one that retention said something of
        self.disk_space = DiskSpace(env, local.directory)  # a LogManager puts that of the log directory here
        self.topic = topic
        self.partition = partition
        self._go_by(local.config)
        self.topic_id: bytes | None = None
        self.log_start_offset = log_start_offset
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.truncated_bytes = 0  # by the recovery that opening did
        self.high_watermark = log_start_offset
        self._high_watermark_metadata = LogOffsetMetadata(-1)
        self._last_stable_metadata = LogOffsetMetadata(-1)
        self.first_unstable_offset: int | None = None
        self._update_first_unstable_offset()
        self._check_order()
        self._load_topic_id()

    # -- what it is --

    @property
    def name(self) -> str:
        """topic-partition."""
        return f"{self.topic}-{self.partition}"

    @property
    def directory(self) -> str:
        return self._local.directory

    @property
    def log_dir(self) -> str:
        """The log directory (one of log.dirs) that holds the partition's directory."""
        return self._local.directory.rpartition("/")[0]

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._local.log_end_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        return self._local.log_end_offset_metadata

    @property
    def recovery_point(self) -> int:
        """The offset up to which everything is on stable storage."""
        return self._local.recovery_point

    @property
    def size(self) -> int:
        """Bytes of all segments' .log files."""
        return self._local.segments.size

    @property
    def segments(self) -> "Sequence[LogSegment]":
        """The segments, oldest first; for reading only."""
        return list(self._local.segments)

    @property
    def segment_count(self) -> int:
        return len(self._local.segments)

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last leader that is known to have appended; -1 for none."""
        return self.leader_epoch_cache.latest_epoch

    @property
    def is_failed(self) -> bool:
        """Whether the disk failed in a way that could not be undone, or the log is deleted: no appends and no reads."""
        return self._failure is not None

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends: the first offset of an undecided transaction, at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None or unstable > self.high_watermark else unstable

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.directory}, start={self.log_start_offset}, stable={self.last_stable_offset}, "
            f"hw={self.high_watermark}, end={self.log_end_offset})"
        )

    def _check_order(self) -> None:
        stable = self.last_stable_offset
        assert self.log_start_offset <= stable <= self.high_watermark <= self._local.log_end_offset, repr(
            self
        )

    # -- where it lies, and what of it is open --

    def rename_dir(self, directory: str) -> None:
        """Gives the partition's directory another name; the directory above is not synced. Raises OSError."""
        self._env.rename(self.directory, directory)
        self._local.update_directory(directory)
        self.leader_epoch_cache.update_directory(directory)
        self.producer_state_manager.snapshots.directory = directory
        self._partition_metadata.path = f"{directory}/{PARTITION_METADATA}"

    def release(self) -> None:
        """Gives files and maps back; the next use opens them again."""
        for segment in self._local.segments:
            segment.release()

    def share_open_segments(self, ring: OpenSegments) -> None:
        """Gives files and maps back; what opens from here on counts with what is open in `ring`."""
        self.release()
        self._local.share_open_segments(ring)

    # -- taking the place of another log --

    def skip_to(self, offset: int) -> None:
        """Has the next record come at `offset`, beyond the end: what lay before has been compacted away.

        A segment is begun there. Raises OSError.
        """
        self._local.skip_to(offset)
        self.producer_state_manager.map_end_offset = offset

    def take_over(self, other: "LogState") -> None:
        """Knows from here on all that `other` knows, whose batches this log has to the last one.

        Offsets, leader epochs (also those in which nothing was appended), producers (also those whose batches are gone)
        and transactions that are being verified. `other` is not to be appended to any more.
        """
        assert self.log_end_offset == other.log_end_offset, f"{self!r} is no copy of {other!r}"
        self.leader_epoch_cache.take_over(other.leader_epoch_cache)
        self.producer_state_manager.take_over(other.producer_state_manager)
        self.log_start_offset = max(self.log_start_offset, other.log_start_offset)
        self._update_first_unstable_offset()
        self.update_high_watermark(other.high_watermark)

    # -- topic id --

    def _load_topic_id(self) -> None:
        try:
            self.topic_id = self._partition_metadata.read()
        except CorruptCheckpointError as error:
            logger.warning("%s; it is written anew once the topic id is known", error)

    def sync_topic_id_with_next_flush(self) -> None:
        """partition.metadata was written without a sync: it is synced before anything in the log counts as durable."""
        self._local.sync_with_next_flush(self._partition_metadata.path)

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Notes which incarnation of the topic this is. Raises InconsistentTopicIdError, OSError."""
        if self.topic_id is None:
            self._partition_metadata.write(topic_id)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicIdError(
                f"{self.directory} belongs to topic id {uuid_to_string(self.topic_id)}, "
                f"and {self.name} has {uuid_to_string(topic_id)}"
            )

    def update_config(self, config: "LogConfig") -> None:
        """Goes by another configuration from now on."""
        self._local.config = config
        self._go_by(config)
        for segment in self._local.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    def _go_by(self, config: "LogConfig") -> None:
        """Draws from the configuration what every append asks for."""
        self.config = config
        self._validator = LogValidator(self.name, config)
        self._segment_bytes = config.segment_bytes
        self._max_segment_ms = config.max_segment_ms
        self._flush_messages = min(config.flush_messages, _NEVER_SO_MANY)

    # -- failure --

    def _check_online(self) -> None:
        if self._failure is not None:
            raise KafkaStorageError(f"{self.name} is offline: {self._failure}")

    def fail(self, why: str, *, quietly: bool = False) -> None:
        """Takes the log offline: what is on disk is in doubt until it is loaded again."""
        if self._failure is None:
            if not quietly:
                logger.error("%s is offline: %s", self.directory, why)
            self._failure = why

    @contextmanager
    def _failing(self, what: str) -> "Iterator[None]":
        """A failure of the disk within leaves the log in doubt."""
        try:
            yield
        except OSError as error:
            self.fail(f"{what}: {error}")
            raise KafkaStorageError(f"{self.name}: {what}: {error}", cause=error) from error

    # -- watermarks --

    def update_high_watermark(self, offset: int) -> int:
        """Moves the high watermark, within the log start and end offset; returns where it is now."""
        end = self._local.log_end_offset
        if offset >= end:
            offset = end
        elif offset != self.high_watermark:
            offset = max(offset, self.log_start_offset)
        self.high_watermark = offset
        if self.first_unstable_offset is not None:
            if self.producer_state_manager.on_high_watermark_updated(offset):
                self._update_first_unstable_offset()
            self._check_order()
        assert self.log_start_offset <= offset, repr(self)  # the rest of the order is seen to above
        return offset

    def _update_first_unstable_offset(self) -> None:
        first = self.producer_state_manager.first_unstable_offset
        self.first_unstable_offset = None if first is None else max(first, self.log_start_offset)

    def maybe_increment_log_start_offset(self, offset: int, reason: LogStartOffsetIncrementReason) -> bool:
        """Moves the log start offset forward; False when it is there already.

        What is before is not read any more, and its segments go with the next retention round. Raises
        OffsetOutOfRangeError for an offset above the high watermark.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.name} cannot start at {offset}, above its high watermark {self.high_watermark}",
                offset,
                self.log_start_offset,
                self.log_end_offset,
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        logger.info("%s starts at offset %d: %s", self.name, offset, reason.value)
        self.leader_epoch_cache.truncate_from_start(offset)
        self.producer_state_manager.on_log_start_offset_incremented(offset)
        self._update_first_unstable_offset()
        self._check_order()
        return True

    def _limit(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        if isolation is _LOG_END:
            return self._local.log_end_offset_metadata
        if isolation is _TXN_COMMITTED:
            return self.last_stable_offset_metadata
        return self.high_watermark_metadata

    def _forget_positions(self) -> None:
        """What lies below the end of the log may lie elsewhere from now on."""
        self._high_watermark_metadata = self._last_stable_metadata = LogOffsetMetadata(-1)

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its position, which is looked up once for each."""
        offset = self.last_stable_offset
        if offset == self.high_watermark:
            return self.high_watermark_metadata
        if self._last_stable_metadata.message_offset != offset:
            self._last_stable_metadata = self._local.offset_metadata(offset)
        return self._last_stable_metadata

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position, which is looked up once for each unless it is the end of the log."""
        offset = self.high_watermark
        if offset == self._local.log_end_offset:
            return self._local.log_end_offset_metadata
        if self._high_watermark_metadata.message_offset != offset:
            self._high_watermark_metadata = self._local.offset_metadata(offset)
        return self._high_watermark_metadata
