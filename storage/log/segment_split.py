"""Splits a segment whose offsets exceed the range of its indexes (LogSegment.splitOverflowedSegment).

Index entries hold offsets as 32 bits relative to the base offset. Appends and compaction keep to that, but brokers
before Kafka 1.0 wrote such segments by compaction; their records are valid, only in the wrong file. Loading detects one
when it scans a segment.
"""

from contextlib import closing
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
    """A segment must be split at `position` (bytes), where the batch with `first_offset` begins."""

    def __init__(self, message: str, base_offset: int, position: int, first_offset: int) -> None:
        super().__init__(message, base_offset)
        self.position = position
        self.first_offset = first_offset


def check_overflow(segment: "LogSegment", position: int, next_offset: int, following: int | None) -> None:
    """Raises SplitNeededError if a scan stopped at `position` at a valid batch that is too far from the base offset.

    `next_offset`: the one after the last batch before `position`; `following`: the base offset of the next segment. No
    checksum covers a batch's base offset, so it counts only between these two: never in the last segment, which no
    compaction has written. Raises OSError.
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
    """Replaces a segment by two without indexes, before and from the position. Raises OSError.

    It works as a swap: after a crash, loading completes or reverts it (`segment_swap`).
    """
    head = segment_path(directory, split.base_offset, LOG_SUFFIX)
    tail = segment_path(directory, split.first_offset, LOG_SUFFIX)
    with closing(env.open(head, write=False)) as source:
        _copy(env, source, 0, split.position, head + CLEANED_SUFFIX)
        _copy(env, source, split.position, source.size(), tail + CLEANED_SUFFIX)
    env.sync_dir(directory)
    for path in (tail, head):  # while the head is a .cleaned, loading reverts both
        env.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    env.sync_dir(directory)
    complete_swaps(env, directory, set(env.listdir(directory)))


def _copy(env: Env, source: File, start: int, end: int, path: str) -> None:
    with closing(env.open(path, create=True)) as target:
        target.truncate(0)
        for position in range(start, end, _COPY_BYTES):
            data = read_fully(source, min(_COPY_BYTES, end - position), position)
            write_fully(target, (data,), position - start, len(data))
        target.sync()
