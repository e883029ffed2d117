"""Cleaner: compacts one log, from files to files, so that every key keeps its last value (Kafka's Cleaner).

First pass: reads the dirty segments, oldest first, and puts each key's last offset into an `OffsetMap` until they end
or the map is full. Second pass: copies all segments up to there, grouped into segments of at most segment.bytes,
without the records whose key occurs again later. The results have the suffix .cleaned until the broker swaps them in;
the log itself is not changed.

The result is that of Kafka's cleaner, byte for byte for uncompressed batches. Two rules are stricter: a batch with a
wrong checksum ends the cleaning, so that damage neither hides keys nor gets a valid checksum; and clients cannot make
keys that collide (see `offset_map`).

It blocks, and runs in a process of its own. Memory: `dedupe_buffer_bytes` for the map, less for few keys and an
eighth more while it grows to that; plus six times the larger of `io_buffer_bytes` and the largest batch, plus six
times the largest uncompressed batch, plus `segment_index_bytes` twice for the indexes of the segment being written,
plus 300 bytes for each aborted transaction in the log.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from barnabas.protocol.records.batch import MAGIC_V2, CorruptRecordError, RecordBatch, entry_header
from barnabas.protocol.records.cleaning import KeyMapper
from barnabas.protocol.records.layout import ENTRY_HEADER_BYTES
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.cleaner.batch_filter import BatchFilter
from barnabas.storage.cleaner.cleaned_segment import CleanedSegmentWriter
from barnabas.storage.cleaner.cleaned_transactions import AbortedTransactionFiles, CleanedTransactions
from barnabas.storage.cleaner.offset_map import SECRET_BYTES, OffsetMap
from barnabas.storage.cleaner.throttler import Throttler
from barnabas.storage.env import Env, File, read_fully
from barnabas.storage.errors import CorruptIndexError, LogCleaningAbortedError
from barnabas.storage.log.cleaning_plan import (
    CleanedSegment,
    CleaningPlan,
    CleaningResult,
    CleaningStats,
    SegmentToClean,
)
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET, OffsetIndex
from barnabas.storage.segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, segment_path


def clean(
    env: Env,
    plan: CleaningPlan,
    on_progress: Callable[[float], None] = lambda fraction: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> CleaningResult:
    """Executes a plan; `on_progress` is called with the fraction done (0 to 1), a hundred times at most.

    Raises LogCleaningAbortedError soon after `should_stop` returns True, OffsetMapTooSmallError, SegmentOverflowError,
    CorruptRecordError, InvalidRecordError and UnsupportedCompressionError for a log that cannot be cleaned,
    CorruptIndexError, OSError. On any error it removes its files, unless that fails too.
    """
    return Cleaner(env, plan, on_progress=on_progress, should_stop=should_stop).clean()


class Cleaner:
    """One cleaning of one log."""

    def __init__(
        self,
        env: Env,
        plan: CleaningPlan,
        *,
        on_progress: Callable[[float], None] = lambda fraction: None,
        should_stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` returns seconds for the throttle and the statistics. Raises OffsetMapTooSmallError, OSError."""
        self._env = env
        self._plan = plan
        self._on_progress = on_progress
        self._clock = clock

        # Does not refer to `self`: in a cycle the map, which is most of the memory, would outlive the cleaning until
        # the garbage collector runs, and a worker that cleans one log after the other would hold several.
        def check_stop() -> None:
            if should_stop():
                raise LogCleaningAbortedError(f"the cleaning of {plan.log_name} was stopped")

        self._check_stop = check_stop
        self._throttler = Throttler(plan.max_io_bytes_per_second, clock=clock, sleep=sleep, check=check_stop)
        secret = env.random_bytes(SECRET_BYTES)
        self._offset_map = OffsetMap(plan.dedupe_buffer_bytes, plan.load_factor, secret)
        self._aborted_files = AbortedTransactionFiles(env, plan.directory)
        self._writers: list[CleanedSegmentWriter] = []
        self._map_bytes_read = 0
        self._map_messages_read = 0
        self._done_bytes = 0
        self._total_bytes = 0
        self._percent = 0

    def clean(self) -> CleaningResult:
        """Runs both passes; to be called once."""
        first_dirty_offset = max(self._plan.first_dirty_offset, self._plan.log_start_offset)
        dirty = self._dirty_segments(first_dirty_offset)
        if not dirty:
            return CleaningResult((), first_dirty_offset, CleaningStats())
        started = self._clock()
        self._total_bytes = sum(segment.size for segment in (*dirty, *self._plan.segments))
        try:
            self._build_offset_map(dirty, first_dirty_offset)
            mapped = self._clock()
            segments, batch_filter, written = self._clean_groups(first_dirty_offset)
        except BaseException:
            self._remove_all()
            raise
        stats = CleaningStats(
            map_bytes_read=self._map_bytes_read,
            map_messages_read=self._map_messages_read,
            bytes_read=sum(segment.size for segment in self._segments_to_clean()),
            bytes_written=written,
            messages_read=batch_filter.records.messages_read,
            messages_written=batch_filter.records.messages_kept,
            invalid_messages_read=batch_filter.records.invalid_messages,
            buffer_utilization=self._offset_map.utilization,
            index_seconds=mapped - started,
            clean_seconds=self._clock() - mapped,
        )
        return CleaningResult(tuple(segments), self._offset_map.latest_offset + 1, stats)

    def _dirty_segments(self, first_dirty_offset: int) -> list[SegmentToClean]:
        """The segments from the one with `first_dirty_offset` on."""
        if first_dirty_offset >= self._plan.first_uncleanable_offset:
            return []
        segments = list(self._plan.segments)
        at = sum(segment.base_offset <= first_dirty_offset for segment in segments)
        return segments[max(at - 1, 0) :]

    def _segments_to_clean(self) -> list[SegmentToClean]:
        """The segments from the first to the last one that the map covers."""
        end_offset = self._offset_map.latest_offset + 1
        return [segment for segment in self._plan.segments if segment.base_offset < end_offset]

    def _remove_all(self) -> None:
        for writer in self._writers:
            try:
                writer.remove()
            except OSError:
                continue  # the error of the cleaning is raised already

    # -- reading --

    def _advance(self, size: int) -> None:
        self._done_bytes += size
        percent = 100 * self._done_bytes // max(self._total_bytes, 1)
        if percent > self._percent:
            self._percent = percent
            self._on_progress(min(self._done_bytes / self._total_bytes, 1.0))

    def _open(self, segment: SegmentToClean) -> File:
        return self._env.open(
            segment_path(self._plan.directory, segment.base_offset, LOG_SUFFIX), write=False
        )

    def _read_chunk(self, file: File, position: int, segment: SegmentToClean) -> bytes:
        """A buffer of batches, or the next batch if it is larger. Raises CorruptRecordError, OSError."""
        self._check_stop()
        left = segment.size - position
        chunk = read_fully(file, min(self._plan.io_buffer_bytes, left), position)
        if len(chunk) < min(ENTRY_HEADER_BYTES, left):
            chunk = read_fully(file, min(ENTRY_HEADER_BYTES, left), position)
        if len(chunk) < ENTRY_HEADER_BYTES:
            raise self._corrupt(segment, position, f"{len(chunk)} bytes are too few for a batch")
        _, size, _ = entry_header(chunk)
        if size > len(chunk):
            if size > left:
                raise self._corrupt(segment, position, f"a batch claims {size} of {left} bytes")
            chunk = read_fully(file, size, position)
            if len(chunk) < size:
                raise self._corrupt(segment, position, f"the file ends within a batch of {size} bytes")
        self._throttler.observe(len(chunk))
        return chunk

    def _corrupt(self, segment: SegmentToClean, position: int, why: str) -> CorruptRecordError:
        path = segment_path(self._plan.directory, segment.base_offset, LOG_SUFFIX)
        return CorruptRecordError(f"{path}, position {position}: {why}")

    # -- first pass --

    def _build_offset_map(self, dirty: Sequence[SegmentToClean], first_offset: int) -> None:
        transactions = CleanedTransactions()
        end_offset = self._plan.first_uncleanable_offset
        base_offset = dirty[0].base_offset
        transactions.add_aborted(self._aborted_files.overlapping(base_offset, first_offset, end_offset))
        mapper = KeyMapper(
            self._offset_map.table,
            first_offset=first_offset,
            end_offset=end_offset,
            max_entries=self._offset_map.max_entries,
        )
        next_offsets = [segment.base_offset for segment in dirty[1:]] + [end_offset]
        for segment, next_offset in zip(dirty, next_offsets, strict=True):
            self._map_segment(segment, mapper, transactions)
            if mapper.is_full:
                break  # the map covers only a part of this segment
            # Offsets at the end of the segment that were removed count as covered.
            self._offset_map.update_latest_offset(next_offset - 1)
        self._map_messages_read = mapper.messages_read

    def _map_segment(
        self, segment: SegmentToClean, mapper: KeyMapper, transactions: CleanedTransactions
    ) -> None:
        position = self._first_position(segment, mapper.first_offset)
        self._advance(position)
        with closing(self._open(segment)) as file:
            while position < segment.size and not mapper.is_full:
                chunk = self._read_chunk(file, position, segment)
                size = self._map_chunk(chunk, mapper, transactions)
                position += size
                self._map_bytes_read += size
                self._advance(size)

    def _first_position(self, segment: SegmentToClean, first_offset: int) -> int:
        """The position in a segment to start from for an offset, by its index; 0 without a valid index."""
        if first_offset <= segment.base_offset:
            return 0
        path = segment_path(self._plan.directory, segment.base_offset, OFFSET_INDEX_SUFFIX)
        try:
            index = OffsetIndex.load(self._env, path, segment.base_offset, self._plan.segment_index_bytes)
        except (CorruptIndexError, FileNotFoundError):
            return 0
        try:
            return index.lookup(first_offset)[1]
        finally:
            index.unmap()

    def _map_chunk(self, chunk: bytes, mapper: KeyMapper, transactions: CleanedTransactions) -> int:
        """Adds the keys of the whole batches; returns the bytes of the batches that were added completely."""
        at = 0
        while True:
            at = mapper.map_plain_batches(chunk, at)
            batch = None if mapper.is_full else _batch_at(chunk, at)
            if batch is None:
                return at
            self._map_batch(batch, mapper, transactions)
            if mapper.is_full:
                return at
            if batch.last_offset >= mapper.first_offset:
                self._offset_map.update_latest_offset(batch.last_offset)
            at += batch.size_in_bytes

    def _map_batch(
        self, batch: RecordBatch | LegacyEntry, mapper: KeyMapper, transactions: CleanedTransactions
    ) -> None:
        batch.ensure_valid()
        if isinstance(batch, LegacyEntry):
            self._map_legacy(batch, mapper)
        elif batch.is_control:
            transactions.may_discard(batch)
            mapper.messages_read += 1
        elif batch.is_transactional and transactions.may_discard(batch):
            mapper.messages_read += batch.record_count
        else:
            mapper.map_records(batch.uncompressed_payload(), batch.record_count, batch.base_offset)

    def _map_legacy(self, entry: LegacyEntry, mapper: KeyMapper) -> None:
        for record in entry.records(check_inner=True):
            if record.key is not None and mapper.first_offset <= record.offset < mapper.end_offset:
                if len(self._offset_map) >= mapper.max_entries:
                    mapper.is_full = True
                    return
                self._offset_map.put(record.key, record.offset)
            mapper.messages_read += 1

    # -- second pass --

    def _clean_groups(self, first_dirty_offset: int) -> tuple[list[CleanedSegment], BatchFilter, int]:
        """The cleaned segments, the filter with its counters, and the bytes written."""
        transactions = CleanedTransactions()
        batch_filter = BatchFilter(self._plan, self._offset_map, transactions)
        horizon_ms = legacy_delete_horizon_ms(self._plan, first_dirty_offset)
        groups = group_segments_by_size(
            self._segments_to_clean(),
            self._plan.segment_bytes,
            self._plan.segment_index_bytes,
            self._plan.first_uncleanable_offset,
        )
        cleaned = [self._clean_group(group, batch_filter, transactions, horizon_ms) for group in groups]
        self._env.sync_dir(self._plan.directory)
        return cleaned, batch_filter, sum(segment.size for segment in cleaned)

    def _clean_group(
        self,
        group: Sequence[SegmentToClean],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
        legacy_horizon_ms: int,
    ) -> CleanedSegment:
        writer = CleanedSegmentWriter(
            self._env,
            self._plan.directory,
            group[0].base_offset,
            index_interval_bytes=self._plan.index_interval_bytes,
            index_bytes=self._plan.segment_index_bytes,
        )
        self._writers.append(writer)
        for segment in group:
            base_offset, end_offset = segment.base_offset, self._end_offset(segment)
            transactions.add_aborted(self._aborted_files.overlapping(base_offset, base_offset, end_offset))
            batch_filter.keeps_legacy_deletes = segment.last_modified_ms > legacy_horizon_ms
            self._clean_into(segment, batch_filter, writer)
        writer.finish(transactions.take_retained(), group[-1].last_modified_ms)
        return CleanedSegment(
            writer.base_offset, writer.size, tuple(segment.base_offset for segment in group)
        )

    def _end_offset(self, segment: SegmentToClean) -> int:
        """The offset at which the next segment begins."""
        later = (
            other.base_offset for other in self._plan.segments if other.base_offset > segment.base_offset
        )
        return min(later, default=self._plan.first_uncleanable_offset)

    def _clean_into(
        self, segment: SegmentToClean, batch_filter: BatchFilter, writer: CleanedSegmentWriter
    ) -> None:
        position = 0
        with closing(self._open(segment)) as file:
            while position < segment.size:
                chunk = self._read_chunk(file, position, segment)
                size = self._clean_chunk(chunk, batch_filter, writer)
                position += size
                self._advance(size)

    def _clean_chunk(self, chunk: bytes, batch_filter: BatchFilter, writer: CleanedSegmentWriter) -> int:
        """Filters the whole batches of a chunk; returns their bytes."""
        records = batch_filter.records
        at = 0
        while True:
            at = records.filter_plain_batches(chunk, at)
            if records.written <= self._plan.io_buffer_bytes:
                batch = _batch_at(chunk, at)
                if batch is None:
                    self._write(batch_filter, writer)
                    return at
                batch_filter.filter(batch)
                at += batch.size_in_bytes
            if records.written > self._plan.io_buffer_bytes:
                self._write(batch_filter, writer)

    def _write(self, batch_filter: BatchFilter, writer: CleanedSegmentWriter) -> None:
        records = batch_filter.records
        if records.written:
            writer.append(records.taken(), records.appended)
            self._throttler.observe(records.written)
            records.clear()


def _batch_at(chunk: bytes, at: int) -> RecordBatch | LegacyEntry | None:
    """The whole batch at a position; None if the chunk ends within it. Raises CorruptRecordError."""
    if len(chunk) - at < ENTRY_HEADER_BYTES:
        return None
    _, size, magic = entry_header(chunk, at)
    if size > len(chunk) - at:
        return None
    return RecordBatch(chunk, at) if magic == MAGIC_V2 else LegacyEntry(chunk, at)


def legacy_delete_horizon_ms(plan: CleaningPlan, first_dirty_offset: int) -> int:
    """The time after which a segment must have been modified to keep tombstones of formats without a delete horizon.

    It is delete.retention.ms before the last clean segment was modified (in ms; 0 without clean segments).
    """
    clean = [segment for segment in plan.segments if segment.base_offset < first_dirty_offset]
    return clean[-1].last_modified_ms - plan.delete_retention_ms if clean else 0


def group_segments_by_size(
    segments: Sequence[SegmentToClean], max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[list[SegmentToClean]]:
    """Groups of adjacent segments that fit into one segment, by bytes of log and of each index, and by offsets.

    The last offset of a group is at most 2^31 - 1 beyond its base offset; a segment ends where the next one begins, or
    at the first uncleanable offset. An empty segment fits anywhere.
    """
    groups: list[list[SegmentToClean]] = []
    ends = [segment.base_offset for segment in segments[1:]] + [first_uncleanable_offset]
    for segment, end_offset in zip(segments, ends, strict=False):
        if groups and _fits(groups[-1], segment, end_offset - 1, max_size, max_index_size):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: Sequence[SegmentToClean],
    segment: SegmentToClean,
    last_offset: int,
    max_size: int,
    max_index_size: int,
) -> bool:
    together = (*group, segment)
    return (
        sum(each.size for each in together) <= max_size
        and sum(each.index_bytes for each in together) <= max_index_size
        and sum(each.time_index_bytes for each in together) <= max_index_size
        and (segment.size == 0 or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
