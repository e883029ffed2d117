"""Copies the current log to its future log batch by batch, as a follower replicates its leader.

A `CopyStep` is planned where the state is (the event loop), run where blocking does no harm (a thread; no one else
touches the future log meanwhile), and followed by `follow_offsets`. Source: kafka.server.ReplicaAlterLogDirsThread.

    the future log                              | what the next step does
    --------------------------------------------+--------------------------------------------------------------------
    has what the log in use has not             | before it, `FutureLogs.plan_step` cuts that off
    ends before the log in use begins           | before it, `FutureLogs.plan_step` restarts it at the batch that has
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
"""The maximum of batches in one append, which is written or undone as a whole."""

ANY_EPOCH: Final = (1 << 31) - 1


class SourceChangedError(StorageError):
    """The source was truncated during a step; the next step is planned from its new state."""


class CopyStep:
    """A copy of `size` bytes of the current log. `run` is called once, in any thread."""

    def __init__(self, future: UnifiedLog, records: FileRecords, skips_to: int | None) -> None:
        self._future = future
        self._records = records
        self._skips_to = skips_to
        self.size = records.size

    def run(self) -> None:
        """Appends to the future log only.

        Raises OSError if the source cannot be read, CorruptRecordError if it is damaged, SourceChangedError, and
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
    """Converts an OSError within to a KafkaStorageError of the future log."""
    try:
        yield
    except OSError as error:
        raise storage_error(what, error, undone=False) from error


def plan_step(source: UnifiedLog, future: UnifiedLog, max_bytes: int = STEP_BYTES) -> CopyStep | None:
    """The next step of the future log; None if it has caught up.

    `has_diverged` and `begins_too_early` must be False. Raises CorruptRecordError, KafkaStorageError.
    """
    end = future.log_end_offset
    if end == source.log_end_offset:
        return None
    start = max(end, source.log_start_offset)
    found = source.read(start, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
    return CopyStep(future, found.records, source.log_end_offset if found.records.size == 0 else None)


def first_offset_to_copy(source: UnifiedLog) -> int:
    """The first offset of a copy: that of the batch with the log start offset.

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
    """Groups of whole batches, each of at most PIECE_BATCHES and `max_bytes`, but at least one batch."""
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
    """Whether the future log ends before the source begins."""
    return future.log_end_offset < source.log_start_offset


def has_diverged(source: UnifiedLog, future: UnifiedLog) -> bool:
    """Whether the future log has batches that the source has not, after a truncation of the source."""
    if future.log_end_offset > source.log_end_offset:
        return True
    epoch = future.latest_epoch
    if epoch < 0 or begins_too_early(source, future):
        return False
    found = source.end_offset_for_epoch(epoch)
    return found is None or found.epoch != epoch or found.end_offset < future.log_end_offset


def has_all(source: UnifiedLog, future: UnifiedLog) -> bool:
    """Whether the future log is at least as long as the source, with the same latest epoch."""
    epoch = source.latest_epoch
    found = future.end_offset_for_epoch(epoch)
    same = epoch < 0 or (found is not None and found.epoch == epoch)
    return future.log_end_offset >= source.log_end_offset and same


def common_end(source: UnifiedLog, future: UnifiedLog) -> int:
    """The offset up to which both logs are the same: the lower end of the latest epoch that both have.

    The log start offset of the source if they have none in common.
    """
    known = {epoch for epoch, _ in source.leader_epoch_cache.entries}
    for epoch, _ in reversed(future.leader_epoch_cache.entries):
        if epoch in known:
            ends = source.end_offset_for_epoch(epoch), future.end_offset_for_epoch(epoch)
            return min(end.end_offset for end in ends if end is not None)
    if future.latest_epoch < 0:  # message sets have no epochs
        return min(source.log_end_offset, future.log_end_offset)
    return source.log_start_offset


def follow_offsets(source: UnifiedLog, future: UnifiedLog) -> None:
    """Moves high watermark and log start offset of the future log to those of the source, within its end."""
    future.update_high_watermark(min(source.high_watermark, future.log_end_offset))
    if future.log_start_offset < source.log_start_offset <= future.high_watermark:
        future.maybe_increment_log_start_offset(
            source.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED
        )
