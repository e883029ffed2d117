"""Searches of a segment by time: which record is the first that is young enough, and which the youngest."""

from protocol.records.batch import batches
from storage.env import read_fully
from storage.errors import CorruptIndexError
from storage.offsets import NO_LEADER_EPOCH, TimestampAndOffset
from storage.scan import BatchHeader, batch_headers
from storage.segment import LogSegment


def find_offset_by_timestamp(
    segment: LogSegment, timestamp_ms: int, starting_offset: int
) -> TimestampAndOffset | None:
    """The first record at or after `starting_offset` that is at least as young as the timestamp.

    Raises CorruptRecordError, InvalidRecordError.
    """
    try:
        return _find(segment, timestamp_ms, starting_offset)
    except CorruptIndexError as error:
        segment.rebuild_wrong_indexes(error)
        return _find(segment, timestamp_ms, starting_offset)


def _find(segment: LogSegment, timestamp_ms: int, starting_offset: int) -> TimestampAndOffset | None:
    youngest, indexed = segment.time_index.lookup(timestamp_ms)
    offset = max(indexed, starting_offset)
    is_checked = youngest < 0 or offset > indexed
    for header in batch_headers(segment.file, segment.position_near(offset), segment.size):
        if not is_checked:
            is_checked = _check_entry(header, youngest, indexed)
        if header.max_timestamp >= timestamp_ms and header.last_offset >= starting_offset:
            for record_timestamp, record_offset in _records_of(segment, header):
                if record_timestamp >= timestamp_ms and record_offset >= starting_offset:
                    return TimestampAndOffset(record_timestamp, record_offset, header.leader_epoch)
    if not is_checked:
        raise CorruptIndexError(f"the time index knows of offset {indexed}, and the segment ends before")
    return None


def _check_entry(header: BatchHeader, youngest: int, offset: int) -> bool:
    """Holds a time index entry against the batches up to its offset; whether this one settled it.

    Raises CorruptIndexError when the entry cannot be one of this segment.
    """
    is_there: bool = header.last_offset >= offset
    if header.max_timestamp > youngest or (is_there and header.max_timestamp != youngest):
        raise CorruptIndexError(
            f"timestamp {header.max_timestamp} up to offset {offset}, and the index has {youngest}"
        )
    return is_there


def find_offset_of_max_timestamp(segment: LogSegment) -> TimestampAndOffset | None:
    """The first record that has the youngest timestamp. Raises CorruptRecordError, InvalidRecordError."""
    timestamp = segment.max_timestamp_so_far
    if timestamp < 0:
        return None
    found = find_offset_by_timestamp(segment, timestamp, segment.base_offset)
    return found or TimestampAndOffset(timestamp, segment.offset_of_max_timestamp, NO_LEADER_EPOCH)


def _records_of(segment: LogSegment, header: BatchHeader) -> list[tuple[int, int]]:
    """(timestamp, offset) of each record of a batch."""
    data = read_fully(segment.file, header.size, header.position)
    return [(record.timestamp, record.offset) for batch in batches(data) for record in batch.records()]
