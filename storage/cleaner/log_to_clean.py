"""LogToClean: how dirty a log is, and which part of it may be compacted now. Functions of a log and the time.

Kafka's LogToClean and the companion of LogCleanerManager.
"""

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from barnabas.storage.segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from barnabas.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from barnabas.storage.env import Env
    from barnabas.storage.log.cleaning_plan import CleaningPlan, SegmentToClean
    from barnabas.storage.log.unified_log import UnifiedLog
    from barnabas.storage.manager.log_dir import LogDir
    from barnabas.storage.offsets import TopicPartition

logger = logging.getLogger("barnabas.cleaner")


class OffsetsToClean(NamedTuple):
    """The dirty part that may be cleaned, from (inclusive) and to (exclusive); `is_reset`: the checkpoint was wrong."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    is_reset: bool = False


class LogToClean(NamedTuple):
    """A log and its cleanable part; bytes count whole segments."""

    log: "UnifiedLog"
    directory: "LogDir"
    offsets: OffsetsToClean
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """How far the oldest dirty record is beyond max.compaction.lag.ms; 0 if it is not."""
    is_requested: bool = False

    @property
    def key(self) -> "TopicPartition":
        return self.log.topic, self.log.partition

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The share of bytes to read that were never compacted, 0 to 1."""
        return self.cleanable_bytes / self.total_bytes

    @property
    def is_due(self) -> bool:
        """Whether the ratio, or the age of a record, demands a cleaning."""
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_offsets(log: "UnifiedLog", checkpoint: int | None, now_ms: int) -> OffsetsToClean:
    """The offsets of the part of a log that may be cleaned; `checkpoint` is the end of the last cleaning.

    It ends at the last stable offset, at the active segment, and at the first segment with a record younger than
    min.compaction.lag.ms, whichever comes first.
    """
    first_dirty, is_reset = _first_dirty_offset(log, checkpoint)
    bound = min(log.last_stable_offset, log.segments[-1].base_offset)
    min_lag_ms = log.config.min_compaction_lag_ms
    if min_lag_ms > 0:
        for segment in _closed_from(log, first_dirty):
            if segment.base_offset >= bound:
                break
            if segment.largest_timestamp > now_ms - min_lag_ms:
                bound = segment.base_offset
                break
    return OffsetsToClean(first_dirty, max(first_dirty, bound), is_reset)


def _first_dirty_offset(log: "UnifiedLog", checkpoint: int | None) -> tuple[int, bool]:
    """The first dirty offset, and whether the checkpoint was outside of the log."""
    start = log.log_start_offset
    if checkpoint is None:
        return start, False
    if checkpoint < start:
        if not log.config.delete:  # with compact,delete the start moves all the time
            logger.warning(
                "%s was compacted up to offset %d, before its log start offset %d; the dirty part begins there",
                log.name,
                checkpoint,
                start,
            )
        return start, True
    if checkpoint > log.log_end_offset:
        logger.warning(
            "%s was compacted up to offset %d, beyond its end %d: it was truncated and counts as dirty from %d",
            log.name,
            checkpoint,
            log.log_end_offset,
            start,
        )
        return start, True
    return checkpoint, False


def _closed_from(log: "UnifiedLog", offset: int) -> list[LogSegment]:
    """The closed segments that may hold the offset or later ones."""
    segments = log.segments
    return [segment for segment, after in pairwise(segments) if after.base_offset > offset]


def cleanable_bytes(log: "UnifiedLog", offsets: OffsetsToClean) -> int:
    """The bytes of the dirty segments that are cleanable as a whole."""
    bound = _segment_bound(log, offsets.first_uncleanable_offset)
    dirty = _closed_from(log, offsets.first_dirty_offset)
    return sum(segment.size for segment in dirty if segment.base_offset < bound)


def log_to_clean(log: "UnifiedLog", directory: "LogDir", offsets: OffsetsToClean, now_ms: int) -> LogToClean:
    """A log with the sizes of its clean and cleanable parts."""
    dirty = _closed_from(log, offsets.first_dirty_offset)
    bound = _segment_bound(log, offsets.first_uncleanable_offset)
    return LogToClean(
        log,
        directory,
        OffsetsToClean(offsets.first_dirty_offset, max(bound, offsets.first_dirty_offset)),
        sum(segment.size for segment in log.segments if segment.base_offset < offsets.first_dirty_offset),
        cleanable_bytes(log, offsets),
        _compaction_delay_ms(log, dirty, now_ms),
    )


def _segment_bound(log: "UnifiedLog", offset: int) -> int:
    """The base offset of the segment that contains an offset."""
    bases = [segment.base_offset for segment in log.segments]
    return max((base for base in bases if base <= offset), default=bases[0])


def _compaction_delay_ms(log: "UnifiedLog", dirty: list[LogSegment], now_ms: int) -> int:
    clean_until_ms = now_ms - log.config.max_compaction_lag_ms
    if clean_until_ms <= 0:
        return 0
    timestamps = [segment.first_batch_timestamp for segment in dirty]
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=clean_until_ms)
    return max(clean_until_ms - earliest, 0)


def paths_to_sync(found: LogToClean) -> list[str]:
    """The .log files that a cleaning reads and that no flush has covered yet."""
    log, bound = found.log, found.offsets.first_uncleanable_offset
    return [
        segment.path
        for segment, after in pairwise(log.segments)
        if log.recovery_point < after.base_offset and segment.base_offset < bound
    ]


class CleanerLimits(NamedTuple):
    """The resources of one worker: log.cleaner.* divided among the workers."""

    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    max_io_bytes_per_second: float


def cleaning_plan(
    found: LogToClean, segments: "tuple[SegmentToClean, ...]", limits: CleanerLimits, now_ms: int
) -> "CleaningPlan":
    """The plan that the worker receives."""
    from barnabas.storage.log.cleaning_plan import CleaningPlan  # a broker that never compacts needs none

    log, config = found.log, found.log.config
    return CleaningPlan(
        directory=log.directory,
        topic=log.topic,
        partition=log.partition,
        segments=segments,
        first_dirty_offset=found.offsets.first_dirty_offset,
        first_uncleanable_offset=found.offsets.first_uncleanable_offset,
        log_start_offset=log.log_start_offset,
        now_ms=now_ms,
        last_records_of_producers=log.producer_state_manager.last_records(),
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        **limits._asdict(),
    )


class SegmentSurvey:
    """Reads the file sizes and times of the segments to clean; `run` is safe in a thread, and raises OSError."""

    def __init__(self, env: "Env", found: LogToClean) -> None:
        bound = found.offsets.first_uncleanable_offset
        self._env = env
        self._directory = found.log.directory
        self._base_offsets = [
            segment.base_offset for segment in found.log.segments[:-1] if segment.base_offset < bound
        ]
        self.segments: tuple[SegmentToClean, ...] = ()

    def run(self) -> None:
        self.segments = tuple(self._survey(base_offset) for base_offset in self._base_offsets)

    def _survey(self, base_offset: int) -> "SegmentToClean":
        from barnabas.storage.log.cleaning_plan import SegmentToClean

        log, index, time_index = (
            segment_path(self._directory, base_offset, suffix)
            for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        )
        env = self._env
        index_bytes, time_index_bytes = (
            env.size(path) if env.exists(path) else 0 for path in (index, time_index)
        )
        return SegmentToClean(base_offset, env.size(log), index_bytes, time_index_bytes, env.mtime_ms(log))
