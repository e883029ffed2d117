"""A segment whose offsets reach further than its indexes can say is split in two (LogSegment.splitOverflowedSegment).

Index entries hold an offset as 32 bits from the segment's base offset on. Nothing that is appended or compacted today
goes beyond that, but compaction by brokers before Kafka 1.0 did, and such a directory must not lose its records: they
are whole, they only stand in the wrong file. Loading meets one when it reads a segment through.
"""

from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import Env, File, read_fully, write_fully
from barnabas.storage.errors import SegmentOverflowError
from barnabas.storage.log.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX, complete_swaps
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET
from barnabas.storage.segment.names import LOG_SUFFIX, segment_path
from barnabas.storage.segment.scan import batch_headers

if TYPE_CHECKING:
    from barnabas.storage.segment.segment import LogSegment

_COPY_BYTES: Final = 1 << 20


class SplitNeededError(SegmentOverflowError):
    """From `position` (bytes) on, where the batch with `first_offset` begins, a segment needs another base offset."""

    def __init__(self, message: str, base_offset: int, position: int, first_offset: int) -> None:
        super().__init__(message, base_offset)
        self.position = position
        self.first_offset = first_offset


def check_overflow(segment: "LogSegment", position: int, next_offset: int, following: int | None) -> None:
    """Told where a pass over a segment stopped: raises SplitNeededError if what stands there is whole, but too far off.

    `next_offset`: the one after the last batch before `position`; `following`: the base offset of the next segment. No
    checksum covers a batch's base offset, so it is believed only where it fits between the two: in the last segment, of
    which compaction has made nothing, never. Raises OSError.
    """
    if following is None:
        return
    try:
        header = next(batch_headers(segment.file, position, segment.size), None)
        if header is None or header.last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
            return
        batch = next(iter(batches(read_fully(segment.file, header.size, position))))
        batch.ensure_valid()
    except CorruptRecordError:
        return
    if next_offset <= batch.base_offset <= batch.last_offset < following:
        raise SplitNeededError(
            f"{segment.path} reaches from offset {segment.base_offset} to {batch.last_offset}, further than "
            f"{MAX_RELATIVE_OFFSET}: it is split at byte {position}",
            segment.base_offset,
            position,
            batch.base_offset,
        )


def split_segment(env: Env, directory: str, split: SplitNeededError) -> None:
    """Puts two segments in the place of one: up to the position, and from there on. Without indexes. Raises OSError.

    As a swap: a crash leaves what loading completes or takes back (`segment_swap`).
    """
    head = segment_path(directory, split.base_offset, LOG_SUFFIX)
    tail = segment_path(directory, split.first_offset, LOG_SUFFIX)
    source = env.open(head, write=False)
    try:
        _copy(env, source, 0, split.position, head + CLEANED_SUFFIX)
        _copy(env, source, split.position, source.size(), tail + CLEANED_SUFFIX)
    finally:
        source.close()
    env.sync_dir(directory)
    for path in (tail, head):  # as long as the first is a .cleaned, loading takes both back
        env.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    env.sync_dir(directory)
    complete_swaps(env, directory, set(env.listdir(directory)))


def _copy(env: Env, source: File, start: int, end: int, path: str) -> None:
    target = env.open(path, create=True)
    try:
        target.truncate(0)
        for position in range(start, end, _COPY_BYTES):
            data = read_fully(source, min(_COPY_BYTES, end - position), position)
            write_fully(target, (data,), position - start, len(data))
        target.sync()
    finally:
        target.close()
