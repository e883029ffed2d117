"""LocalLog: the ordered segments of one partition; append, read, roll, truncate, delete.

It has the log end offset and the recovery point, but no producers, epochs or watermarks. Not thread-safe, but
`FlushJob.run` may run on another thread.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from barnabas.storage.env import Buffer, Env, File
from barnabas.storage.errors import OffsetOutOfRangeError
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.flush import FlushJob
from barnabas.storage.log.segment_swap import finish_swap
from barnabas.storage.offsets import (
    AbortedTransaction,
    FetchDataInfo,
    FileRecords,
    LogOffsetMetadata,
    TimestampAndOffset,
)
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.segment import AppendedBatch, LogSegment
from barnabas.storage.segment.times import find_offset_by_timestamp, find_offset_of_max_timestamp

if TYPE_CHECKING:
    from barnabas.config.log_config import LogConfig

EMPTY_RECORDS: Final = FileRecords(None, 0, 0)
NOWHERE: Final = LogOffsetMetadata(-1)


class LogSegments:
    """The segments by base offset; the last is the active one. Never empty after loading."""

    __slots__ = ("_base_offsets", "_segments", "_youngest", "active")

    active: LogSegment

    def __init__(self, segments: list[LogSegment] | None = None) -> None:
        self._segments = segments or []
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self._changed()

    def _changed(self) -> None:
        self._youngest: list[int] | None = None
        if self._segments:
            self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __getitem__(self, position: int) -> LogSegment:
        return self._segments[position]

    def add(self, segment: LogSegment) -> None:
        """Inserts a segment in order, or replaces the one with the same base offset."""
        position = bisect_left(self._base_offsets, segment.base_offset)
        if position < len(self._segments) and self._base_offsets[position] == segment.base_offset:
            self._segments[position] = segment
        else:
            self._base_offsets.insert(position, segment.base_offset)
            self._segments.insert(position, segment)
        self._changed()

    def remove(self, segment: LogSegment) -> None:
        position = bisect_left(self._base_offsets, segment.base_offset)
        assert self._segments[position] is segment
        del self._base_offsets[position], self._segments[position]
        self._changed()

    def floor_position(self, offset: int) -> int:
        """The position of the last segment that begins at or before the offset; -1 if there is none."""
        return bisect_right(self._base_offsets, offset) - 1

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segments that may hold the offset or later ones."""
        return self._segments[max(self.floor_position(offset), 0) :]

    def from_timestamp(self, timestamp_ms: int) -> list[LogSegment]:
        """The segments from the first one with the timestamp or a larger one; always includes the active segment.

        The largest timestamps of the closed segments are cached.
        """
        if self._youngest is None:
            closed = (segment.max_timestamp_so_far for segment in self._segments[:-1])
            self._youngest = list(accumulate(closed, max))
        return self._segments[bisect_left(self._youngest, timestamp_ms) :]

    def slice(self, position: int, count: int) -> list[LogSegment]:
        """At most `count` segments from a position on."""
        return self._segments[position : position + count]

    @property
    def size(self) -> int:
        """Bytes of all .log files."""
        return sum(segment.size for segment in self._segments)


class LocalLog:
    """The segments of one partition and their end offset."""

    __slots__ = (
        "_deletions",
        "_end_metadata",
        "_env",
        "_generation",
        "_limits",
        "_open_segments",
        "_sealed_since_flush",
        "_unsynced_paths",
        "config",
        "directory",
        "last_flush_ms",
        "log_end_offset",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        env: Env,
        directory: str,
        config: "LogConfig",
        segments: LogSegments,
        *,
        recovery_point: int,
        log_end_offset: int,
        deletions: DeletionQueue,
        open_segments: OpenSegments,
    ) -> None:
        self._env = env
        self._open_segments = open_segments
        self._deletions = deletions
        self._generation = (
            0  # truncations so far: a flush prepared before one must not move the recovery point
        )
        self._sealed_since_flush: list[LogSegment] = []
        self._unsynced_paths: list[str] = []
        self.directory = directory
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        self.last_flush_ms = env.now_ms()
        self.active_segment.roll_jitter_ms = self._random_jitter_ms()  # as after a roll
        self._set_log_end_offset(log_end_offset)

    @property
    def active_segment(self) -> LogSegment:
        return self.segments.active

    def _set_log_end_offset(self, offset: int) -> None:
        """Sets the log end offset other than by an append; drops cached positions, which may have changed."""
        self.log_end_offset = offset
        self._end_metadata: LogOffsetMetadata | None = None  # created when needed
        self._limits = (NOWHERE, NOWHERE)  # the limits of the last two reads, where the next ones start

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The end of the log with its position."""
        metadata = self._end_metadata
        if metadata is None:
            active = self.segments.active
            metadata = LogOffsetMetadata(self.log_end_offset, active.base_offset, active.size)
            self._end_metadata = metadata
        return metadata

    # -- append and roll --

    def append(
        self, last_offset: int, buffers: Sequence[Buffer], size: int, batches: Sequence[AppendedBatch]
    ) -> None:
        """Writes batches that end at `last_offset` to the active segment. Raises KafkaStorageError."""
        segment = self.segments.active
        assert last_offset >= self.log_end_offset, f"offset {last_offset} in {segment}, which ends later"
        segment.append(buffers, size, batches)
        self.log_end_offset = last_offset + 1
        self._end_metadata = None

    def _new_segment(self, base_offset: int) -> LogSegment:
        """An empty segment by the configuration, without files yet."""
        return LogSegment(
            self._env,
            self.directory,
            base_offset,
            open_segments=self._open_segments,
            size=0,
            index_interval_bytes=self.config.index_interval_bytes,
            index_bytes=self.config.segment_index_bytes,
            roll_jitter_ms=self._random_jitter_ms(),
        )

    def _create_files(self, segment: LogSegment) -> None:
        segment.create_files(self.config.segment_bytes if self.config.preallocate else 0)

    def _random_jitter_ms(self) -> int:
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return int.from_bytes(self._env.random_bytes(8), "big") % bound if bound > 0 else 0

    def roll(self, base_offset: int) -> LogSegment:
        """Closes the active segment and starts one at `base_offset` (the log end offset at least).

        Raises OSError; then the active segment is unchanged.
        """
        base_offset = max(base_offset, self.log_end_offset)
        active = self.active_segment
        segment = self._new_segment(base_offset)
        if active.base_offset == base_offset:
            # An empty segment whose indexes count as full is replaced by one with new files.
            assert active.size == 0, f"{active} has data at its own base offset"
            active.close()
            self._create_files(segment)
        else:
            active.on_become_inactive()
            self._create_files(segment)
            self._sealed_since_flush.append(active)
        self.segments.add(segment)
        self._set_log_end_offset(self.log_end_offset)
        return segment

    def skip_to(self, offset: int) -> None:
        """Rolls a segment at `offset`, beyond the end, where the next batch is appended. Raises OSError."""
        assert offset > self.log_end_offset, f"{offset} is not beyond {self.log_end_offset}"
        self.roll(offset)
        self._set_log_end_offset(offset)

    def share_open_segments(self, ring: OpenSegments) -> None:
        """Registers segments that open with `ring` from now on; none may be open."""
        self._open_segments = ring
        for segment in self.segments:
            segment.share_open_segments(ring)

    # -- read --

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        max_offset_metadata: LogOffsetMetadata,
        *,
        min_one_message: bool,
    ) -> FetchDataInfo:
        """Batches of one segment, from the one with `start_offset` on and below `max_offset_metadata`.

        Raises OffsetOutOfRangeError for an offset beyond the end or before the first segment.
        """
        if start_offset == max_offset_metadata.message_offset:
            return FetchDataInfo(max_offset_metadata, EMPTY_RECORDS)
        found = self._read_on(start_offset, max_bytes, max_offset_metadata)
        if found is not None:
            return found
        at = self.segments.floor_position(start_offset)
        if start_offset > self.log_end_offset or at < 0:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} is not within {self.segments[0].base_offset}..{self.log_end_offset}",
                start_offset,
                self.segments[0].base_offset,
                self.log_end_offset,
            )
        if start_offset > max_offset_metadata.message_offset:
            return FetchDataInfo(self.offset_metadata(start_offset), EMPTY_RECORDS)
        for position in range(at, len(self.segments)):
            segment = self.segments[position]
            max_position = self._max_position(segment, max_offset_metadata)
            found = segment.read(start_offset, max_bytes, max_position, min_one_message=min_one_message)
            if found is not None:
                return found
        # All batches at or after the offset were compacted or deleted.
        return FetchDataInfo(self.log_end_offset_metadata, EMPTY_RECORDS)

    def _read_on(
        self, start_offset: int, max_bytes: int, max_offset_metadata: LogOffsetMetadata
    ) -> FetchDataInfo | None:
        """All batches from `start_offset` to the limit, if one of the last two reads had its limit there; else None.

        The case of a consumer at the end of the log: its position is cached, so neither an index nor the file is
        searched, and many consumers of one log read from the same offset. For the active segment only, and not if
        `max_bytes` is less than there is.
        """
        newest, older = self._limits
        if newest is not max_offset_metadata:
            self._limits = (max_offset_metadata, newest)
        start = newest if newest.message_offset == start_offset else older
        segment = self.segments.active
        size = max_offset_metadata.position - start.position
        if (
            start.message_offset != start_offset
            or not start.segment_base_offset == segment.base_offset == max_offset_metadata.segment_base_offset
            or not 0 < size <= max_bytes
        ):
            return None
        segment.was_used = True
        return FetchDataInfo(start, FileRecords(segment.file, start.position, size))

    def _max_position(self, segment: LogSegment, limit: LogOffsetMetadata) -> int:
        """The end position in a segment for a read below `limit`."""
        if limit.segment_base_offset == segment.base_offset:
            return limit.position
        return segment.size if segment.base_offset < limit.segment_base_offset else 0

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Segment and position of the batch with the offset, or of the next one. Raises CorruptRecordError."""
        if offset >= self.log_end_offset:
            return self.log_end_offset_metadata
        for position in range(max(self.segments.floor_position(offset), 0), len(self.segments)):
            segment = self.segments[position]
            found = segment.translate_offset(offset)
            if found is not None:
                return LogOffsetMetadata(offset, segment.base_offset, found[0])
        return self.log_end_offset_metadata

    def collect_aborted_transactions(self, info: FetchDataInfo) -> list[AbortedTransaction]:
        """The aborted transactions that overlap a read, whose end offset is rounded up by the offset index.

        Kafka's LocalLog.addAbortedTransactions, which therefore includes one at the offset even for an empty read.
        """
        if info.records is EMPTY_RECORDS:
            return []
        start = info.fetch_offset_metadata
        at = self.segments.floor_position(start.segment_base_offset)
        end = -1
        found: list[AbortedTransaction] = []
        for position in range(at, len(self.segments)):
            index = self.segments[position].txn_index
            if not index.transactions:
                continue  # the usual case, in which the end of the read is not needed
            if end < 0:
                end = self._offset_after(at, start.position + info.records.size)
            transactions, is_complete = index.collect(start.message_offset, end)
            found += transactions
            if is_complete:
                break
        return found

    def _offset_after(self, at: int, position: int) -> int:
        """An offset at or after the end of the batches before a byte position in the `at`-th segment."""
        offset = self.segments[at].indexed_offset_after(position)
        if offset is not None:
            return offset
        return self.segments[at + 1].base_offset if at + 1 < len(self.segments) else self.log_end_offset

    def fetch_offset_by_timestamp(self, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `start_offset` on with the timestamp or a larger one."""
        for segment in self.segments.from_timestamp(timestamp_ms):
            if segment.max_timestamp_so_far >= timestamp_ms:
                found = find_offset_by_timestamp(segment, timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp."""
        youngest = max(self.segments, key=lambda segment: segment.max_timestamp_so_far)
        return find_offset_of_max_timestamp(youngest)

    # -- flush --

    @property
    def unflushed_messages(self) -> int:
        """The number of offsets beyond the recovery point."""
        return max(self.log_end_offset - self.recovery_point, 0)

    @property
    def has_rolled_since_flush(self) -> bool:
        return bool(self._sealed_since_flush)

    @property
    def has_unflushed(self) -> bool:
        """Whether there is anything to flush."""
        return self.unflushed_messages > 0 or self.has_rolled_since_flush or bool(self._unsynced_paths)

    def sync_with_next_flush(self, path: str) -> None:
        """Adds a file that was written without a sync (a producer snapshot) to the next flush."""
        self._unsynced_paths.append(path)

    def prepare_flush(self) -> FlushJob:
        """A job that makes the log durable up to its end.

        It leaves out the indexes of the active segment, which recovery rebuilds after a crash in any case.
        """
        segments = self.segments.from_offset(self.recovery_point)
        # The roll may have trimmed a preallocated segment that lies before the recovery point.
        trimmed = [one for one in self._sealed_since_flush if one.base_offset < segments[0].base_offset]
        files: list[File] = [segment.file for segment in (*trimmed, *segments)]
        paths = [path for segment in self._sealed_since_flush for path in segment.paths_to_sync()]
        has_new_files = bool(paths or self._unsynced_paths) or segments[-1].base_offset >= self.recovery_point
        job = FlushJob(
            self._env,
            up_to_offset=self.log_end_offset,
            generation=self._generation,
            files=files,
            paths=paths,
            unsynced_paths=self._unsynced_paths,
            directory=self.directory if has_new_files else None,
            sealed_segments=tuple(self._sealed_since_flush),
        )
        self._unsynced_paths = []
        return job

    def put_off_flush(self, job: FlushJob) -> None:
        """Returns the paths of a job that could not sync them to the next one."""
        self._unsynced_paths[:0] = job.unsynced_paths

    def complete_flush(self, job: FlushJob) -> None:
        """Moves the recovery point to the offset that the job covers."""
        self.last_flush_ms = self._env.now_ms()
        covered = job.sealed_segments
        self._sealed_since_flush = [segment for segment in self._sealed_since_flush if segment not in covered]
        if job.generation == self._generation:
            self.recovery_point = max(self.recovery_point, job.up_to_offset)

    # -- truncation and deletion --

    def delete_segments(self, segments: Sequence[LogSegment], extra_paths: Sequence[str] = ()) -> None:
        """Removes segments from the log and renames their files, which are removed after file.delete.delay.ms."""
        doomed = list(extra_paths)
        for segment in segments:
            self.segments.remove(segment)
            if segment in self._sealed_since_flush:
                self._sealed_since_flush.remove(segment)
            doomed += segment.mark_deleted()
        self.delete_later(doomed)

    def delete_later(self, paths: list[str]) -> None:
        """Queues renamed files for removal after file.delete.delay.ms."""
        if paths:
            self._deletions.add(self.config.file_delete_delay_ms, paths)

    def segments_of(self, base_offsets: Sequence[int]) -> list[LogSegment] | None:
        """The closed segments with these base offsets; None unless all exist and are adjacent."""
        at = self.segments.floor_position(base_offsets[0])
        found = self.segments.slice(max(at, 0), len(base_offsets))
        is_whole = [segment.base_offset for segment in found] == list(base_offsets)
        return found if is_whole and found[-1] is not self.active_segment else None

    def replace_segments(
        self, old: Sequence[LogSegment], size: int, extra_paths: Sequence[str] = ()
    ) -> LogSegment:
        """Replaces `old` by the cleaned segment whose files end in .swap, with a .log of `size` bytes.

        Steps 3 and 4 of `segment_swap`. Earlier reads of the old ones stay readable. Raises OSError; then the log must
        be loaded again, which completes the swap.
        """
        base_offset = old[0].base_offset
        self.delete_segments(old, extra_paths)
        finish_swap(self._env, self.directory, base_offset)
        segment = LogSegment(
            self._env,
            self.directory,
            base_offset,
            open_segments=self._open_segments,
            size=size,
            index_interval_bytes=self.config.index_interval_bytes,
            index_bytes=self.config.segment_index_bytes,
        )
        self.segments.add(segment)
        return segment

    def truncate_to(self, offset: int) -> list[LogSegment]:
        """Truncates the log to end at `offset`; returns the segments that were deleted. Durable on return.

        Deletes the later segments first, last to first, so that a crash in between never leaves a gap. Raises OSError;
        then the log at and after `offset` is in doubt.
        """
        self._generation += 1
        self.recovery_point = min(self.recovery_point, offset)
        self.log_end_offset = offset
        try:
            doomed = [segment for segment in self.segments if segment.base_offset > offset]
            if doomed:
                self.delete_segments(doomed[::-1])
                self._env.sync_dir(self.directory)
            if self.active_segment in self._sealed_since_flush:
                self._sealed_since_flush.remove(self.active_segment)
            self.active_segment.truncate_to(offset)
        finally:
            self._set_log_end_offset(offset)
        return doomed

    def truncate_fully_and_start_at(self, offset: int) -> list[LogSegment]:
        """Empties the log, which continues at `offset`; returns the segments that were deleted. Raises OSError."""
        self._generation += 1
        self.recovery_point = min(offset, self.recovery_point)
        doomed = list(self.segments)
        segment = self._new_segment(offset)
        try:
            self.delete_segments(doomed[::-1])
            self._create_files(segment)
            self._env.sync_dir(self.directory)
        finally:
            self.segments = LogSegments([segment])
            self._set_log_end_offset(offset)
        return doomed

    def update_directory(self, directory: str) -> None:
        """Follows a rename of the directory."""
        self.directory = directory
        for segment in self.segments:
            segment.update_directory(directory)

    def close(self) -> None:
        """Closes the segments, which trims their indexes."""
        for segment in self.segments:
            segment.close()
