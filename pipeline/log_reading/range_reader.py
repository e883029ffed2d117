"""Reads the records of a range from the files that hold them at the time.

Reading follows offsets: from the next one, the segment is looked up that holds it, and so on to the end of the
range. A segment that was compacted meanwhile has fewer records, one that is open stays readable after it was deleted,
and one that is gone before it was opened is looked up again. So each offset is read once, in order, whatever happens to
the files. Offsets before the first segment there is are lost.

Files are read in pieces and not mapped: a broker that recovers from a crash, or follows another leader, truncates logs,
and access to a mapped page that was truncated kills the process. The price is a copy within the cache.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from barnabas.pipeline.log_reading.arrow_columns import DEFAULT_COLUMNS, ArrowColumns
from barnabas.pipeline.log_reading.directories import (
    PartitionDirectory,
    list_segments,
    topic_id_of,
)
from barnabas.pipeline.log_reading.errors import (
    BusyDirectoryError,
    LogReadingError,
    NoSuchLogError,
)
from barnabas.pipeline.log_reading.log_view import MAX_TRIES, report_loss
from barnabas.pipeline.log_reading.planning import LogRange
from barnabas.pipeline.log_reading.segments import ListedSegment, OpenedSegment, open_segment
from barnabas.pipeline.log_reading.transactions import AbortedTransactions
from barnabas.protocol.records.batch import CorruptRecordError, RecordBatch
from barnabas.protocol.records.errors import InvalidRecordError, UnsupportedCompressionError
from barnabas.storage.env import Env
from barnabas.storage.segment.batch_reading import Batch

_UNREADABLE: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)


@dataclass(frozen=True, slots=True)
class Reading:
    """How ranges are read: which columns, whether checksums are checked, and whether lost offsets are an error."""

    columns: Sequence[str] = DEFAULT_COLUMNS
    check_crc: bool = True
    fail_on_data_loss: bool = True


def read_range(env: Env, wanted: LogRange, reading: Reading = Reading()) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow record batches, none of them empty. Control records are left out.

    Raises DataLossError, LogReadingError for what is damaged, OSError.
    """
    columns = ArrowColumns(wanted.topic, wanted.partition, reading.columns)
    aborted = AbortedTransactions(wanted.aborted)
    walk = RangeWalk(env, wanted, fail_on_data_loss=reading.fail_on_data_loss)
    for batch in walk:
        if isinstance(batch, RecordBatch) and (batch.is_control or (aborted and aborted.has(batch))):
            continue
        try:
            if reading.check_crc:
                batch.ensure_valid()
            columns.add(batch, walk.least_offset, wanted.end_offset)
        except _UNREADABLE as error:
            raise LogReadingError(f"{walk.path}: {error}") from error
        if columns.is_full and columns.row_count:
            yield _taken(columns, walk.path)
    if columns.row_count:
        yield _taken(columns, walk.path)


def _taken(columns: ArrowColumns, path: str) -> pa.RecordBatch:
    try:
        return columns.take()
    except OverflowError as error:
        raise LogReadingError(
            f"{path}: a record has a time beyond those that Spark knows, perhaps in nanoseconds where milliseconds "
            f"are due: the option columns can leave it out ({error})"
        ) from error


class RangeWalk:
    """Iterates over the batches with offsets of a range, in order and each offset once. For the latest batch
    `least_offset` is its first new offset, and `path` its file.
    """

    def __init__(self, env: Env, wanted: LogRange, *, fail_on_data_loss: bool) -> None:
        self._env = env
        self._wanted = wanted
        self._fail_on_data_loss = fail_on_data_loss
        self._partition = PartitionDirectory(wanted.topic, wanted.partition, wanted.path)
        self._next_offset = wanted.first_offset
        self._has_begun = False
        self.least_offset = wanted.first_offset
        self.path = wanted.path

    def __iter__(self) -> Iterator[Batch]:
        """Raises DataLossError, LogReadingError, OSError."""
        end = self._wanted.end_offset
        while self._next_offset < end:
            found = self._find()
            if found is None:
                return
            self._has_begun = True
            segment, position = found
            self.path = segment.path
            yield from self._batches(segment, position)

    def _batches(self, segment: OpenedSegment, position: int) -> Iterator[Batch]:
        try:
            for batch in segment.batches(position):
                following = batch.last_offset + 1
                if following <= self._next_offset:
                    continue
                if self._next_offset >= self._wanted.end_offset or self._begins_behind(batch):
                    self._next_offset = self._wanted.end_offset
                    return
                self.least_offset, self._next_offset = self._next_offset, following
                yield batch
                if following >= self._wanted.end_offset:
                    return
        except CorruptRecordError as error:
            raise LogReadingError(f"{segment.path}: {error}") from error

    def _begins_behind(self, batch: Batch) -> bool:
        return isinstance(batch, RecordBatch) and batch.base_offset >= self._wanted.end_offset

    # -- finding the segment --

    def _find(self) -> tuple[OpenedSegment, int] | None:
        """The next segment to read and the position in it; None at the end. Raises DataLossError where lost offsets are
        an error.
        """
        for _ in range(MAX_TRIES):
            try:
                found = self._find_once()
            except FileNotFoundError:
                continue  # retention or compaction deleted it after the listing
            if found is not None and self._is_another_topic():
                self._lose(self._wanted.end_offset, "the topic was deleted and created again")
                return None
            return found
        raise BusyDirectoryError(
            f"{self._wanted.path} changed during each of {MAX_TRIES} attempts to read it"
        )

    def _is_another_topic(self) -> bool:
        """Whether the directory is that of a later topic. Called once a segment is open, which may belong to that
        topic."""
        planned = self._wanted.topic_id
        return bool(planned) and topic_id_of(self._env, self._wanted.path) not in (b"", planned)

    def _find_once(self) -> tuple[OpenedSegment, int] | None:
        hint = self._hinted()
        if hint is not None:
            return hint
        try:
            segments = list_segments(self._env, self._partition.path)
        except NoSuchLogError:
            segments = []
        if not segments:
            self._lose(
                self._wanted.end_offset, "the partition is gone, or this machine does not see its directory"
            )
            return None
        if segments[0].base_offset > self._next_offset:
            self._lose(min(segments[0].base_offset, self._wanted.end_offset), "the log starts later now")
            if self._next_offset >= self._wanted.end_offset:
                return None
        return self._first_from(segments)

    def _first_from(self, segments: Sequence[ListedSegment]) -> tuple[OpenedSegment, int] | None:
        """The position of the next offset, or of the first after it that compaction kept."""
        bases = [segment.base_offset for segment in segments]
        for listed in segments[bisect_right(bases, self._next_offset) - 1 :]:
            if listed.base_offset >= self._wanted.end_offset:
                return None
            segment = open_segment(self._env, listed)
            position = self._position_in(segment)
            if position is not None:
                return segment, position
        self._lose(self._wanted.end_offset, "the log ends before")
        return None

    def _position_in(self, segment: OpenedSegment) -> int | None:
        try:
            return segment.position_of(self._next_offset)
        except CorruptRecordError as error:
            if segment.find_end(check_crc=False).offset <= self._next_offset:
                return None  # a batch that is not whole at the end of the last segment does not count yet
            raise LogReadingError(f"{segment.path}: {error}") from error

    def _hinted(self) -> tuple[OpenedSegment, int] | None:
        """The position of the first batch by the plan, if it is still right; used once, at the beginning."""
        wanted = self._wanted
        if wanted.position < 0 or self._has_begun:
            return None
        listed = ListedSegment(wanted.path, wanted.segment_base_offset)
        try:
            segment = open_segment(self._env, listed)
            batch = segment.batch_at(wanted.position)
        except (FileNotFoundError, CorruptRecordError, StopIteration):
            return None
        is_there = isinstance(batch, RecordBatch) and (
            batch.base_offset == wanted.first_offset
            or (wanted.position == 0 and batch.base_offset <= wanted.first_offset)
        )
        return (segment, wanted.position) if is_there else None

    def _lose(self, upto: int, why: str) -> None:
        """Reports that offsets before `upto` are lost."""
        report_loss(self._partition, self._next_offset, upto, why, fail=self._fail_on_data_loss)
        self._next_offset = upto
