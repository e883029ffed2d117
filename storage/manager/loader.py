"""LogLoader: loads a log from its directory, and recovers it unless the last stop was clean.

After a clean stop nothing is scanned. Recovery scans the segments from the recovery point on: every batch must have a
valid CRC and length and continue the offsets; the log is truncated at the first invalid byte, later segments are
deleted, and indexes, leader epochs and producer states are rebuilt. Kafka's LogLoader.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.layout import ENTRY_HEADER, ENTRY_HEADER_BYTES, MAGIC_V2
from barnabas.protocol.records.scanning import SegmentScanner
from barnabas.storage.env import Env, read_fully, remove_if_exists
from barnabas.storage.errors import CorruptCheckpointError, CorruptIndexError, suppress_no_space
from barnabas.storage.log.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    LeaderEpochCheckpointFile,
    PartitionMetadataFile,
)
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.leader_epochs import LeaderEpochFileCache
from barnabas.storage.log.local_log import LocalLog, LogSegments
from barnabas.storage.log.producer_replay import follow, rebuild_producer_state
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.log.segment_split import SplitNeededError, check_overflow, split_segment
from barnabas.storage.log.segment_swap import CLEANED_SUFFIX, complete_swaps
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import NO_LEADER_EPOCH
from barnabas.storage.segment.batch_pass import OnProgress, SegmentPass
from barnabas.storage.segment.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from barnabas.config.log_config import LogConfig

_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

logger = logging.getLogger("barnabas.storage")


DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
_NEVER_MS: Final = 1 << 62


def open_log(
    env: Env,
    directory: str,
    topic: str,
    partition: int,
    config: "LogConfig",
    *,
    is_there: bool = False,
    is_clean: bool = False,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    deletions: DeletionQueue | None = None,
    open_segments: OpenSegments | None = None,
    producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
    on_progress: OnProgress | None = None,
) -> UnifiedLog:
    """Opens the log in `directory`, which is created unless it `is_there`, and recovers it unless `is_clean`.

    `log_start_offset` and `recovery_point` are those of the checkpoints of the log directory. The high watermark is the
    log start offset until it is updated. Raises OSError, and CorruptRecordError for damage that cannot be repaired.
    """
    if open_segments is None:
        open_segments = OpenSegments()
    if deletions is None:
        deletions = DeletionQueue(env)
    if not is_there:
        env.mkdir(directory)
    new_loader = partial(
        LogLoader,
        env,
        directory,
        config,
        name=f"{topic}-{partition}",
        log_start_offset=log_start_offset,
        producer_id_expiration_ms=producer_id_expiration_ms,
        open_segments=open_segments,
        on_progress=on_progress,
    )
    loader, offsets = _load(env, directory, new_loader, is_clean, recovery_point)
    local = LocalLog(
        env,
        directory,
        config,
        loader.segments,
        recovery_point=offsets.recovery_point,
        log_end_offset=offsets.log_end_offset,
        deletions=deletions,
        open_segments=open_segments,
    )
    log = UnifiedLog(
        env,
        topic,
        partition,
        local,
        log_start_offset=offsets.log_start_offset,
        leader_epoch_cache=loader.epochs,
        producer_state_manager=loader.producers,
        partition_metadata=PartitionMetadataFile(env, f"{directory}/{PARTITION_METADATA}"),
    )
    for path in loader.unsynced_paths:
        local.sync_with_next_flush(path)
    log.truncated_bytes = offsets.truncated_bytes
    log.unproven_gap = offsets.unproven_gap
    return log


def _load(
    env: Env, directory: str, new_loader: "Callable[..., LogLoader]", is_clean: bool, recovery_point: int
) -> "tuple[LogLoader, LoadedLogOffsets]":
    """Reads the directory; once more where a segment had to be split first, which recovery then goes through."""
    while True:
        loader = new_loader(is_clean=is_clean, recovery_point=recovery_point)
        try:
            return loader, loader.load()
        except SplitNeededError as split:
            logger.warning("%s", split)
            split_segment(env, directory, split)
            is_clean, recovery_point = False, min(recovery_point, split.base_offset)


def _load_epochs(env: Env, directory: str) -> tuple[LeaderEpochFileCache, bool]:
    """What the file says, and whether it has to be found out from the batches because there is no such file."""
    checkpoint = LeaderEpochCheckpointFile(env, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    try:
        entries = checkpoint.read()
    except CorruptCheckpointError as error:
        logger.warning("%s; the leader epochs are read from the batches", error)
        return LeaderEpochFileCache(checkpoint), True
    return LeaderEpochFileCache(checkpoint, entries), not entries and checkpoint.is_missing()


def _has_epoch_before(segment: LogSegment, offset: int) -> bool:
    """Whether the first batch of a segment begins before `offset` and has a leader epoch: older formats have none."""
    header = read_fully(segment.file, ENTRY_HEADER_BYTES, 0)
    segment.release()
    if len(header) < ENTRY_HEADER_BYTES:
        return False
    base_offset, _, epoch, magic = ENTRY_HEADER.unpack(header)
    return bool(base_offset < offset and magic == MAGIC_V2 and epoch >= 0)


class LoadedLogOffsets:
    """Where a loaded log begins and ends, and what recovery has seen."""

    __slots__ = ("log_end_offset", "log_start_offset", "recovery_point", "truncated_bytes", "unproven_gap")

    def __init__(
        self,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        truncated_bytes: int,
        unproven_gap: int | None,
    ) -> None:
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.truncated_bytes = truncated_bytes
        self.unproven_gap = unproven_gap


class LogLoader:
    """Loads one partition directory; used once."""

    def __init__(
        self,
        env: Env,
        directory: str,
        config: "LogConfig",
        *,
        name: str,
        is_clean: bool,
        log_start_offset: int,
        recovery_point: int,
        producer_id_expiration_ms: int,
        open_segments: OpenSegments,
        on_progress: OnProgress | None = None,
    ) -> None:
        """`name`: topic-partition. Raises OSError."""
        names = env.listdir(directory)
        snapshots = ProducerSnapshotFiles(env, directory, names)
        self._env = env
        self._directory = directory
        self._config = config
        self._is_clean = is_clean
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._base_offsets: list[int] = []  # of the segments that were found
        self._first_doubtful = 0  # the base offset of the segment with the recovery point
        self.epochs, self._lacks_epochs = _load_epochs(env, directory)
        self.producers = ProducerStateManager(snapshots, name, producer_id_expiration_ms)
        self._open_segments = open_segments
        self._names = set(names)
        self._on_progress = on_progress
        self._replay_from = 0
        self._truncated_bytes = 0
        self._unproven_gap: int | None = None
        self.segments = LogSegments()
        self.unsynced_paths: list[
            str
        ] = []  # written by recovery, to be synced before the recovery point moves

    def load(self) -> LoadedLogOffsets:
        """Loads `segments`, epochs and producers. Raises OSError, and CorruptRecordError for damage beyond repair."""
        self._remove_leftovers()
        self._load_segments()
        self._check_txn_indexes()
        if self._lacks_epochs:
            self._rebuild_epochs()
        elif not self._is_clean:
            self._recall_epochs()
        if not self._is_clean:
            self._recover()
        if not len(self.segments):
            self.segments.add(self._new_segment(self._log_start_offset))
        end_offset = self._read_end_offset()
        if end_offset < self._log_start_offset:
            end_offset = self._replace_with_empty(end_offset)
        start_offset = max(self._log_start_offset, self.segments[0].base_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(start_offset)
        self.producers.snapshots.remove_stray({segment.base_offset for segment in self.segments})
        rebuild_producer_state(
            self.producers, self.segments, self.segments[0].base_offset, end_offset, self._env.now_ms()
        )
        if not self._is_clean:
            self.producers.remove_expired_producers(self._env.now_ms())
            self._note_unsynced_snapshots()
        recovery_point = end_offset if self._is_clean else min(self._recovery_point, end_offset)
        for segment in self.segments:
            segment.release()  # most partitions are idle; segments open at first use
        return LoadedLogOffsets(
            start_offset, end_offset, recovery_point, self._truncated_bytes, self._unproven_gap
        )

    def _note_unsynced_snapshots(self) -> None:
        """Adds the snapshots of recovery and of recent rolls, which were written without a sync."""
        snapshots = self.producers.snapshots
        first_doubtful = self.segments.from_offset(self._recovery_point)[0].base_offset
        self.unsynced_paths += [snapshots.path(at) for at in snapshots.offsets if at >= first_doubtful]

    # -- files --

    def _remove_leftovers(self) -> None:
        """Removes files of incomplete operations: .deleted, .cleaned, .tmp, indexes without a .log."""
        complete_swaps(self._env, self._directory, self._names)
        for name in sorted(self._names):
            stem, suffix = name[:20], name[20:]
            is_leftover = name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp"))
            is_orphan = suffix in _INDEX_SUFFIXES and stem.isdigit() and stem + LOG_SUFFIX not in self._names
            if is_leftover or is_orphan:
                remove_if_exists(self._env, f"{self._directory}/{name}")
                self._names.discard(name)

    def _load_segments(self) -> None:
        stems = sorted(name[:20] for name in self._names if name[20:] == LOG_SUFFIX and name[:20].isdigit())
        self._base_offsets = [int(stem) for stem in stems]
        self._first_doubtful = max((at for at in self._base_offsets if at <= self._recovery_point), default=0)
        for stem in stems:
            segment = self._segment(int(stem), self._env.size(f"{self._directory}/{stem}{LOG_SUFFIX}"))
            missing = not {stem + OFFSET_INDEX_SUFFIX, stem + TIME_INDEX_SUFFIX} <= self._names
            if missing and self._is_trusted(segment):
                self._recover_indexes(segment)
            self.segments.add(segment)

    def _is_trusted(self, segment: LogSegment) -> bool:
        """Whether recovery skips the segment."""
        return self._is_clean or segment.base_offset < self._first_doubtful

    def _recover_indexes(self, segment: LogSegment) -> None:
        """Recovers a segment that lacks an index, since more of it may be missing: scans and truncates it."""
        logger.warning("%s lacks an index; scanning it and rebuilding the indexes", segment.path)
        scan = segment.new_scanner()
        SegmentPass(self._on_progress).run(segment.file, segment.size, scan)
        self._note_cut(segment, scan)
        segment.complete_recovery(scan)
        self.unsynced_paths += segment.paths_to_sync()

    def _note_cut(self, segment: LogSegment, scan: SegmentScanner) -> None:
        if scan.position >= segment.size:
            return
        following = min((base for base in self._base_offsets if base > segment.base_offset), default=None)
        check_overflow(segment, scan.position, scan.next_offset, following)
        logger.warning(
            "%s is truncated from %d to %d bytes: %s", segment.path, segment.size, scan.position, scan.damage
        )
        self._truncated_bytes += segment.size - scan.position

    def _check_txn_indexes(self) -> None:
        """Checks the transaction indexes of the segments that recovery skips, as Kafka does when it loads a log."""
        for segment in self.segments:
            name = f"{segment.base_offset:020d}{TXN_INDEX_SUFFIX}"
            if name in self._names and self._is_trusted(segment):
                try:
                    segment.txn_index.transactions  # noqa: B018
                except CorruptIndexError as error:
                    logger.warning("%s; rebuilding it from the log", error)
                    self._rebuild_txn_index(segment)

    def _rebuild_txn_index(self, segment: LogSegment) -> None:
        """Rebuilds the transaction index of a segment by replay of the producers up to its end."""
        producers = self._producers_before(segment)
        segment.txn_index.reset()
        scan = segment.new_scanner(follow_from=segment.base_offset)  # up to any damage
        follow(SegmentPass(), segment, scan, producers, aborted_into=segment)
        self.unsynced_paths += segment.paths_to_sync()

    def _producers_before(self, segment: LogSegment) -> ProducerStateManager:
        """The producer state at the base offset of a segment."""
        base_offset = segment.base_offset
        older = [name for name in self._names if name[:20].isdigit() and int(name[:20]) <= base_offset]
        snapshots = ProducerSnapshotFiles(self._env, self._directory, older)
        producers = ProducerStateManager(snapshots, self._directory, _NEVER_MS)
        before = LogSegments([other for other in self.segments if other.base_offset < base_offset])
        start = before[0].base_offset if len(before) else base_offset
        rebuild_producer_state(producers, before, start, base_offset, self._env.now_ms())
        return producers

    def _rebuild_epochs(self) -> None:
        """Rebuilds the leader epochs of the segments that recovery skips, from the headers of their batches."""
        trusted = [segment for segment in self.segments if segment.size and self._is_trusted(segment)]
        for epoch, first_offset in self._epochs_in(trusted):
            self.epochs.assign(epoch, first_offset)
        if trusted:
            with suppress_no_space():
                self.epochs.flush()  # even if empty, or the next start would scan again

    def _recall_epochs(self) -> None:
        """Adds the epochs of records that were deleted and are there again.

        A deletion removes epochs from the file at once, and the log start offset is written later: a kill in between
        undoes the one and not the other. A leader that took the first epoch that is left for that of all records
        before would send them to followers that have diverged there.
        """
        entries = self.epochs.entries
        start = max(self._log_start_offset, self._base_offsets[0] if self._base_offsets else 0)
        if not entries or start >= entries[0][1]:
            return
        first = entries[0][1]
        at = max((at for at in self._base_offsets if at <= start), default=start)
        again = [segment for segment in self.segments if at <= segment.base_offset < first and segment.size]
        if not again or not _has_epoch_before(again[0], first):
            return
        found = [entry for entry in self._epochs_in(again) if entry[1] < first]
        self.epochs.replace([*found, *(entry for entry in entries if entry[0] > found[-1][0])])

    def _epochs_in(self, segments: Iterable[LogSegment]) -> list[tuple[int, int]]:
        """The leader epochs of consecutive segments and where they begin, from the headers of the batches."""
        found: list[tuple[int, int]] = []
        for segment in segments:
            scan = segment.new_scanner(
                check_crc=False, latest_epoch=found[-1][0] if found else NO_LEADER_EPOCH
            )
            SegmentPass(self._on_progress).run(segment.file, segment.size, scan)
            found += scan.take_epochs()
            segment.release()
        return found

    def _segment(self, base_offset: int, size: int) -> LogSegment:
        return LogSegment(
            self._env,
            self._directory,
            base_offset,
            open_segments=self._open_segments,
            size=size,
            index_interval_bytes=self._config.index_interval_bytes,
            index_bytes=self._config.segment_index_bytes,
        )

    def _new_segment(self, base_offset: int) -> LogSegment:
        segment = self._segment(base_offset, 0)
        segment.create_files(is_bare=not self._names or self._names == {PARTITION_METADATA})
        return segment

    def _read_end_offset(self) -> int:
        """The log end offset, from the last segment, which is recovered if it is damaged in spite of a clean stop."""
        active = self.segments[-1]
        try:
            return active.read_next_offset()
        except (CorruptRecordError, CorruptIndexError) as error:
            if not self._is_clean:
                raise
            logger.warning("%s: %s; recovering although the last stop was clean", self._directory, error)
            self._is_clean = False
            self._recovery_point = min(self._recovery_point, active.base_offset)
            self._recover()
            return self.segments[-1].read_next_offset()

    def _replace_with_empty(self, end_offset: int) -> int:
        """Empties a log that ends before its log start offset, and returns that offset as its end."""
        logger.warning(
            "%s ends at %d, before its log start offset %d, from which it continues empty",
            self._directory,
            end_offset,
            self._log_start_offset,
        )
        for segment in reversed(list(self.segments)):
            self._remove_segment(segment)
        self.segments.add(self._new_segment(self._log_start_offset))
        return self._log_start_offset

    def _remove_segment(self, segment: LogSegment) -> None:
        self.segments.remove(segment)
        for path in segment.mark_deleted():
            remove_if_exists(self._env, path)

    # -- recovery --

    def _recover(self) -> None:
        """Scans the segments from the recovery point on, oldest first, and deletes those after a truncated one."""
        if not len(self.segments):
            return
        doubtful = self.segments.from_offset(self._recovery_point)
        first_offset = doubtful[0].base_offset
        start = self.segments[0].base_offset
        trusted = [segment for segment in self.segments if segment.base_offset < first_offset]
        if trusted and first_offset >= self._recovery_point:
            # If a segment begins at the recovery point, the indexes of the one before may be unsynced: the flush of its
            # last records left them out, and the roll completed them after that.
            self._rebuild_indexes(trusted[-1])
        rebuild_producer_state(self.producers, LogSegments(trusted), start, first_offset, self._env.now_ms())
        self._replay_from = self.producers.map_end_offset
        # The epochs come from the batches: a truncation may not be in the file yet.
        self.epochs.truncate_from_end(first_offset)
        reader = SegmentPass(self._on_progress)
        next_offset = first_offset
        for position, segment in enumerate(doubtful):
            if segment.base_offset < next_offset:
                self._drop(doubtful[position:])  # it overlaps the one before, after an incomplete truncation
                return
            self._note_gap(next_offset, segment)
            truncated_before = self._truncated_bytes
            next_offset = self._recover_segment(segment, reader)
            if self._truncated_bytes > truncated_before:
                self._drop(doubtful[position + 1 :])
                return

    def _note_gap(self, end_offset: int, segment: LogSegment) -> None:
        """Notes the first gap between the end of a segment and the next, which is beyond the recovery point.

        Segments are synced one by one: a power cut may take the end of one and leave the next. Compaction leaves such
        gaps as well, and nothing here tells the two apart.
        """
        lost_from = max(end_offset, self._recovery_point)
        if self._unproven_gap is None and lost_from < segment.base_offset:
            self._unproven_gap = lost_from

    def _rebuild_indexes(self, segment: LogSegment) -> None:
        """Rebuilds the indexes of a segment whose .log is durable; damage in it is left for readers to report."""
        producers = self._producers_before(segment)
        segment.txn_index.reset()
        scan = segment.new_scanner(follow_from=segment.base_offset)
        follow(SegmentPass(), segment, scan, producers, aborted_into=segment)
        if not any(read_fully(segment.file, segment.size - scan.position, scan.position)):
            segment.complete_recovery(scan)  # truncates a preallocated rest
        else:
            logger.warning("%s is damaged at byte %d: %s", segment.path, scan.position, scan.damage)
        self.unsynced_paths += [segment.path, *segment.paths_to_sync()]

    def _drop(self, segments: list[LogSegment]) -> None:
        for segment in reversed(segments):
            logger.warning("%s follows damage and is deleted, %d bytes", segment.path, segment.size)
            self._truncated_bytes += segment.size
            self._remove_segment(segment)
        if segments:
            self._env.sync_dir(self._directory)

    def _recover_segment(self, segment: LogSegment, reader: SegmentPass) -> int:
        """Scans a segment and truncates it at the first invalid batch; returns its end offset."""
        if segment.base_offset >= self._replay_from:
            self.producers.map_end_offset = segment.base_offset
            with suppress_no_space():
                self.producers.take_snapshot(sync=False)
            self.producers.remove_expired_producers(self._env.now_ms())
        segment.txn_index.reset()
        scan = segment.new_scanner(latest_epoch=self.epochs.latest_epoch, follow_from=self._replay_from)
        follow(reader, segment, scan, self.producers, aborted_into=segment)
        for epoch, first_offset in scan.take_epochs():
            self.epochs.assign(epoch, first_offset)
        self.producers.map_end_offset = max(scan.next_offset, self._replay_from)
        self._note_cut(segment, scan)
        segment.complete_recovery(scan)
        self.unsynced_paths += segment.paths_to_sync()
        segment.release()
        return scan.next_offset
