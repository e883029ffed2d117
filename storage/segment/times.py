"""Searches of a segment by time: the first record with a timestamp or a larger one, and the largest timestamp."""

from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.protocol.records.searching import ANY_TIME
from barnabas.storage.env import read_fully
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.offsets import NO_LEADER_EPOCH, TimestampAndOffset
from barnabas.storage.segment.scan import seek_batch
from barnabas.storage.segment.segment import LogSegment


def find_offset_by_timestamp(
    segment: LogSegment, timestamp_ms: int, starting_offset: int
) -> TimestampAndOffset | None:
    """The first record at or after `starting_offset` with the timestamp or a larger one.

    Raises CorruptRecordError, InvalidRecordError.
    """
    try:
        return _find(segment, timestamp_ms, starting_offset)
    except CorruptIndexError as error:
        segment.rebuild_wrong_indexes(error)
        return _find(segment, timestamp_ms, starting_offset)


def _find(segment: LogSegment, timestamp_ms: int, starting_offset: int) -> TimestampAndOffset | None:
    youngest, indexed = segment.time_index.lookup(timestamp_ms)
    position = segment.position_near(max(indexed, starting_offset))
    if youngest != NO_TIMESTAMP and indexed >= starting_offset:
        position = _check_entry(segment, position, youngest, indexed)
    while True:
        found = seek_batch(segment.file, position, segment.size, starting_offset, timestamp_ms)
        if found is None:
            return None
        position, size, _, _ = found
        for batch in batches(read_fully(segment.file, size, position)):
            for record in batch.records():
                if record.timestamp >= timestamp_ms and record.offset >= starting_offset:
                    epoch = batch.partition_leader_epoch
                    return TimestampAndOffset(record.timestamp, record.offset, epoch)
        position += size


def _check_entry(segment: LogSegment, position: int, youngest: int, offset: int) -> int:
    """The position, at or after `position`, of the batch that a time index entry names, after a check of the entry.

    Raises CorruptIndexError if the entry does not match this segment.
    """
    found = seek_batch(segment.file, position, segment.size, offset, ANY_TIME)
    if found is None:
        raise CorruptIndexError(f"the time index knows of offset {offset}, and the segment ends before")
    if found[3] != youngest:
        raise CorruptIndexError(f"timestamp {found[3]} at offset {offset}, and the time index has {youngest}")
    return found[0]


def find_offset_of_max_timestamp(segment: LogSegment) -> TimestampAndOffset | None:
    """The first record with the largest timestamp, or the first record if none has one (-1); None without records.

    Raises CorruptRecordError, InvalidRecordError.
    """
    timestamp = segment.max_timestamp_so_far
    found = find_offset_by_timestamp(segment, timestamp, segment.base_offset)
    if found is None and timestamp >= 0:
        return TimestampAndOffset(timestamp, segment.offset_of_max_timestamp, NO_LEADER_EPOCH)
    return found
