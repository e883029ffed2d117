"""Divides the offsets to read into ranges, for many readers that work independently.

A range is a stretch of offsets of one partition, and the position in a file that comes with it is a hint: a reader
compares it with the files, since a segment may have been compacted or deleted by then. Cuts lie at entries of the
sparse offset index, so that planning reads indexes and a header for each cut, and no records.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.pipeline.log_reading.errors import LogReadingError
from barnabas.pipeline.log_reading.log_view import LogView
from barnabas.pipeline.log_reading.segments import OpenedSegment
from barnabas.pipeline.log_reading.transactions import Aborted
from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.errors import InvalidRecordError, UnsupportedCompressionError
from barnabas.storage.env import Env

DEFAULT_RANGE_BYTES: Final = 128 * 1024 * 1024
"""The bytes that Spark gives a task when it reads files (`spark.sql.files.maxPartitionBytes`)."""
MIN_TIMESTAMP: Final = -(1 << 63)
MAX_TIMESTAMP: Final = (1 << 63) - 1


class LogRange(NamedTuple):
    """The records of one partition from `first_offset` on and below `end_offset`.

    The batch that has the first begins at byte `position` of the segment at `segment_base_offset`, or did when that was
    planned; -1 where it is not known. `size_bytes` is about the size of the range in the .log files. `topic_id` is
    which topic of that name was planned, empty where it is not known.
    """

    topic: str
    partition: int
    path: str
    first_offset: int
    end_offset: int
    segment_base_offset: int = -1
    position: int = -1
    size_bytes: int = 0
    aborted: tuple[Aborted, ...] = ()
    topic_id: bytes = b""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Bounds of timestamps: from `first_ms` to before `end_ms`.

    `disorder_ms`: how much older than the youngest before it a record may be. Only if it is known does an upper bound
    end the reading early. Transaction markers, with the broker's time, and deleted records count too: time indexes
    contain them.
    """

    first_ms: int = MIN_TIMESTAMP
    end_ms: int = MAX_TIMESTAMP
    disorder_ms: int | None = None

    @property
    def closing_ms(self) -> int | None:
        """No record after one with this timestamp is within the bounds."""
        if self.disorder_ms is None or self.end_ms == MAX_TIMESTAMP:
            return None
        return self.end_ms + self.disorder_ms


ANY_TIME: Final = TimeBounds()


def first_offset_of(env: Env, view: LogView, timestamp_ms: int) -> int | None:
    """The first offset that a reader sees whose record is at least as young; None without such a record.

    Segments whose time indexes show only older records are skipped. Raises FileNotFoundError where one is gone,
    LogReadingError for what is damaged.
    """
    for number in range(len(view.segments)):
        segment = view.open(env, number)
        is_closed = number + 1 < len(view.segments)
        if is_closed and segment.is_older_than(timestamp_ms):
            continue
        with _damage_named(segment):
            found = segment.first_offset_of(timestamp_ms, view.log_start_offset)
            if found is None and is_closed:
                segment.ensure_passed(view.segments[number + 1].base_offset)
        if found is not None:
            return found if found < view.end_offset else None
    return None


@contextmanager
def _damage_named(segment: OpenedSegment) -> Iterator[None]:
    """Adds the name of the file to errors about damage."""
    try:
        yield
    except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError) as error:
        raise LogReadingError(f"{segment.path}: {error}") from error


def plan_ranges(
    env: Env,
    view: LogView,
    first_offset: int,
    end_offset: int,
    *,
    range_bytes: int = DEFAULT_RANGE_BYTES,
    times: TimeBounds = ANY_TIME,
) -> list[LogRange]:
    """The offsets from `first_offset` on and below `end_offset`, both within the view, cut into ranges in order.

    Together they cover every record with such an offset whose time may be within the bounds. Raises FileNotFoundError
    where a segment is gone, LogReadingError for what is damaged.
    """
    assert view.log_start_offset <= first_offset <= end_offset <= view.end_offset, (
        view,
        first_offset,
        end_offset,
    )
    pieces = list(_pieces(env, view, first_offset, end_offset, range_bytes, times))
    return [
        piece._replace(
            aborted=view.aborted.within(piece.first_offset, piece.end_offset), topic_id=view.topic_id
        )
        for piece in _joined(pieces, range_bytes)
    ]


def _pieces(  # noqa: PLR0917 (plan_ranges' own)
    env: Env, view: LogView, first: int, end: int, range_bytes: int, times: TimeBounds
) -> Iterator[LogRange]:
    """Ranges within one segment each, without those that are too old or too young."""
    for number, listed in enumerate(view.segments):
        is_last = number + 1 == len(view.segments)
        segment_end = end if is_last else min(view.segments[number + 1].base_offset, end)
        segment_first = max(first, listed.base_offset)
        if segment_first >= segment_end:
            continue
        segment = view.open(env, number)
        if is_too_old(segment, times, is_last=is_last):
            continue
        wanted = _Stretch(segment_first, segment_end).within(segment, times)
        template = LogRange(
            view.partition.topic, view.partition.partition, view.partition.path, 0, 0, listed.base_offset
        )
        with _damage_named(segment):
            pieces = list(_cut(segment, template, wanted, range_bytes))
        # A segment that is being swapped in is about to be renamed.
        yield from (piece._replace(position=-1) for piece in pieces) if listed.suffix else pieces
        if _is_closed_by(segment, times):
            return


def is_too_old(segment: OpenedSegment, times: TimeBounds, *, is_last: bool) -> bool:
    """Whether no record of a segment is young enough; False for the active one, whose index may lack entries."""
    return not is_last and times.first_ms > MIN_TIMESTAMP and segment.is_older_than(times.first_ms)


def _is_closed_by(segment: OpenedSegment, times: TimeBounds) -> bool:
    closing_ms, index = times.closing_ms, segment.time_index
    return closing_ms is not None and index.entries > 0 and index.last_timestamp >= closing_ms


class _Stretch(NamedTuple):
    """Offsets from the first to before the end."""

    first: int
    end: int

    def within(self, segment: OpenedSegment, times: TimeBounds) -> "_Stretch":
        """The part that may have such a time, by the time index."""
        first, end = self
        index = segment.time_index
        if times.first_ms > MIN_TIMESTAMP and index.entries:
            timestamp, offset = index.lookup(times.first_ms - 1)
            if timestamp >= 0:
                first = max(first, offset + 1)  # no record up to there is younger than that entry
        closing_ms = times.closing_ms
        if closing_ms is not None and index.entries:
            slot = _first_slot_at(segment, closing_ms)
            if slot is not None:
                end = min(end, index.entry(slot)[1] + 1)
        return _Stretch(first, max(first, end))


def _first_slot_at(segment: OpenedSegment, timestamp_ms: int) -> int | None:
    """The first entry of the time index that is at least as young."""
    index = segment.time_index
    low, high = 0, index.entries
    while low < high:
        middle = (low + high) >> 1
        if index.entry(middle)[0] < timestamp_ms:
            low = middle + 1
        else:
            high = middle
    return low if low < index.entries else None


def _cut(
    segment: OpenedSegment, template: LogRange, wanted: _Stretch, range_bytes: int
) -> Iterator[LogRange]:
    """Ranges of about `range_bytes` each; a cut is where a batch begins that the offset index points to."""
    if wanted.first >= wanted.end:
        return
    first, position = wanted.first, segment.position_of(wanted.first)
    last_position = segment.position_of(wanted.end)
    if position is None:
        segment.ensure_passed(wanted.first)
        return  # compaction removed all records there
    end_position = segment.size if last_position is None else last_position
    for cut_offset, cut_position in _cuts(segment, position, end_position, range_bytes):
        if first < cut_offset < wanted.end:
            size = cut_position - position
            yield template._replace(
                first_offset=first, end_offset=cut_offset, position=position, size_bytes=size
            )
            first, position = cut_offset, cut_position
    size = max(end_position - position, 0)
    yield template._replace(first_offset=first, end_offset=wanted.end, position=position, size_bytes=size)


def _cuts(
    segment: OpenedSegment, position: int, end_position: int, range_bytes: int
) -> Iterator[tuple[int, int]]:
    """(first offset, position) of batches that lie about `range_bytes` apart, evenly; they confirm what the index says.

    An entry is of one batch, or of all that were appended at once, as compaction and older brokers write it: it has
    the last offset of the last of them, and the position of the first.
    """
    index = segment.offset_index
    start, span = position, end_position - position
    count = -(-span // range_bytes)
    while (number := (position - start) * count // max(span, 1) + 1) < count:
        slot = segment.slot_from(max(start + number * span // count, position + 1))
        if slot >= index.entries:
            return
        last_offset, cut_position = index.entry(slot)
        if cut_position >= end_position:
            return
        try:
            batch = segment.batch_at(cut_position)
            first_offset = batch.base_offset
            if not segment.base_offset <= first_offset <= last_offset:
                return
        except (CorruptRecordError, StopIteration):
            return  # an index of another segment: what is left is one range
        yield first_offset, cut_position
        position = cut_position


def _joined(pieces: Iterable[LogRange], range_bytes: int) -> Iterator[LogRange]:
    """Joins small ranges that follow each other without a gap: segments may be much smaller than ranges."""
    open_range: LogRange | None = None
    for piece in pieces:
        if (
            open_range is not None
            and open_range.end_offset == piece.first_offset
            and open_range.size_bytes + piece.size_bytes <= range_bytes
        ):
            open_range = open_range._replace(
                end_offset=piece.end_offset, size_bytes=open_range.size_bytes + piece.size_bytes
            )
            continue
        if open_range is not None:
            yield open_range
        open_range = piece
    if open_range is not None:
        yield open_range
