"""How a future log gets what the log in use has: copied batch by batch, as a follower gets it from its leader.

A `CopyStep` is planned where the state is (the event loop), run where blocking does no harm (a thread; nobody else
touches the future log meanwhile), and followed by `follow_offsets`. Source: kafka.server.ReplicaAlterLogDirsThread.

    the future log                              | what the next step does
    --------------------------------------------+--------------------------------------------------------------------
    has what the log in use has not             | before it, `FutureLogs.plan_step` cuts that off
    ends before the log in use begins           | before it, `FutureLogs.plan_step` begins it anew at the batch that has
                                                | the log start offset
    ends before the log in use ends             | appends the batches from there on, as they are
    the same, and no batch is left: those were  | begins a segment where the log in use ends
    compacted away                              |
    ends where the log in use ends              | nothing: it has caught up
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from barnabas.protocol.records.batch import entry_header
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.layout import ENTRY_HEADER_BYTES
from barnabas.storage.errors import StorageError, storage_error
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, FileRecords, LogStartOffsetIncrementReason

STEP_BYTES: Final = 1 << 20
PIECE_BATCHES: Final = 64
"""So many batches are appended in one go: what is written in one piece is undone in one piece."""

ANY_EPOCH: Final = (1 << 31) - 1


class SourceChangedError(StorageError):
    """What was to be copied was cut off meanwhile; a new step finds out what there is now."""


class CopyStep:
    """One piece of the way: `size` bytes of the log in use. `run` it once, in a thread if you like."""

    __slots__ = ("_future", "_records", "_skips_to", "size")

    def __init__(self, future: UnifiedLog, records: FileRecords, skips_to: int | None) -> None:
        self._future = future
        self._records = records
        self._skips_to = skips_to
        self.size = records.size

    def run(self) -> None:
        """Appends to the future log, and touches no other.

        Raises OSError where the source cannot be read, CorruptRecordError where it is damaged, SourceChangedError, and
        KafkaStorageError for the future log's own disk.
        """
        if self._skips_to is not None:
            with storage_failure(self._future.name):
                self._future.skip_to(self._skips_to)
            return
        data = self._records.read()
        if len(data) < self.size:
            raise SourceChangedError(f"{self._future.name} was cut while it was copied")
        for piece in pieces(data, self._future.config.segment_bytes):
            self._future.append_as_follower(piece, ANY_EPOCH, is_copy=True)

    def __repr__(self) -> str:
        return f"CopyStep({self._future!r}, {self._records}, skips_to={self._skips_to})"


@contextmanager
def storage_failure(what: str) -> Iterator[None]:
    """An error of the disk within is the future log's own."""
    try:
        yield
    except OSError as error:
        raise storage_error(what, error, undone=False) from error


def plan_step(source: UnifiedLog, future: UnifiedLog, max_bytes: int = STEP_BYTES) -> CopyStep | None:
    """The next step of the future log; None when it has caught up.

    It has nothing that the source has not (`has_diverged`), and begins no later than it must (`begins_too_early`).
    Raises CorruptRecordError, KafkaStorageError.
    """
    end = future.log_end_offset
    if end == source.log_end_offset:
        return None
    start = max(end, source.log_start_offset)
    found = source.read(start, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
    return CopyStep(future, found.records, source.log_end_offset if found.records.size == 0 else None)


def first_offset_to_copy(source: UnifiedLog) -> int:
    """Where a copy begins: with the batch that has the log start offset.

    Raises CorruptRecordError, KafkaStorageError.
    """
    start = source.log_start_offset
    found = source.read(start, 1, FetchIsolation.LOG_END, min_one_message=True)
    first = next(batches(_read(source, found.records)), None)
    return source.log_end_offset if first is None else first.base_offset


def _read(source: UnifiedLog, records: FileRecords) -> bytes:
    try:
        return records.read()
    except OSError as error:
        raise storage_error(source.name, error, undone=True) from error


def pieces(data: bytes, max_bytes: int) -> Iterator[memoryview]:
    """Whole batches, up to PIECE_BATCHES and `max_bytes` at a time, and never less than one."""
    view = memoryview(data)
    start = position = count = 0
    while len(data) - position >= ENTRY_HEADER_BYTES:
        _, size, _ = entry_header(data, position)
        if size > len(data) - position:
            break
        if count == PIECE_BATCHES or (count and position + size - start > max_bytes):
            yield view[start:position]
            start, count = position, 0
        position += size
        count += 1
    if count:
        yield view[start:position]


def begins_too_early(source: UnifiedLog, future: UnifiedLog) -> bool:
    """Whether all that the future log has lies before what the source still has."""
    return future.log_end_offset < source.log_start_offset


def has_diverged(source: UnifiedLog, future: UnifiedLog) -> bool:
    """Whether the future log has what the source has not: the source was cut, or took another way."""
    if future.log_end_offset > source.log_end_offset:
        return True
    epoch = future.latest_epoch
    if epoch < 0 or begins_too_early(source, future):
        return False
    found = source.end_offset_for_epoch(epoch)
    return found is None or found.epoch != epoch or found.end_offset < future.log_end_offset


def has_all(source: UnifiedLog, future: UnifiedLog) -> bool:
    """Whether the future log is at least as long as the source, and went the same way."""
    epoch = source.latest_epoch
    found = future.end_offset_for_epoch(epoch)
    same = epoch < 0 or (found is not None and found.epoch == epoch)
    return future.log_end_offset >= source.log_end_offset and same


def common_end(source: UnifiedLog, future: UnifiedLog) -> int:
    """The offset up to which both logs are the same: the end of the latest epoch that both have, in the shorter one.

    The log start offset of the source where there is none.
    """
    known = {epoch for epoch, _ in source.leader_epoch_cache.entries}
    for epoch, _ in reversed(future.leader_epoch_cache.entries):
        if epoch in known:
            ends = source.end_offset_for_epoch(epoch), future.end_offset_for_epoch(epoch)
            return min(end.end_offset for end in ends if end is not None)
    if future.latest_epoch < 0:  # message sets tell no epochs
        return min(source.log_end_offset, future.log_end_offset)
    return source.log_start_offset


def follow_offsets(source: UnifiedLog, future: UnifiedLog) -> None:
    """Moves high watermark and log start offset of the future log to those of the source, as far as it has come."""
    future.update_high_watermark(min(source.high_watermark, future.log_end_offset))
    if future.log_start_offset < source.log_start_offset <= future.high_watermark:
        future.maybe_increment_log_start_offset(
            source.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED
        )
