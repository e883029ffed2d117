"""UnifiedLog: one partition's log as the broker knows it.

Over the segments (`LocalLog`) it keeps the offsets that bound readers (`LogOffsets`). An append validates batches,
assigns offsets, writes, and updates producer states and leader epochs in one uninterrupted step: no part of a batch is
visible before all of it is. Not thread-safe, but `FlushJob.run` may run on another thread.
"""

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from barnabas.protocol.records.batch import (
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
)
from barnabas.protocol.records.entries import batches
from barnabas.protocol.wire import uuid_to_string
from barnabas.storage.env import Buffer, Env, remove_tree
from barnabas.storage.errors import (
    CorruptCheckpointError,
    DiskFullError,
    InconsistentTopicIdError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    OffsetsOutOfOrderError,
    OutOfResourcesError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
    is_fault_of_disk,
    read_error,
    storage_error,
    suppress_no_space,
)
from barnabas.storage.log.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from barnabas.storage.log.disk_space import DiskSpace
from barnabas.storage.log.flush import FlushJob
from barnabas.storage.log.leader_epochs import LeaderEpochFileCache
from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.log_offsets import LogOffsets
from barnabas.storage.log.producer_entry import BatchMetadata
from barnabas.storage.log.producer_replay import apply_batch, rebuild_producer_state, take_missing_snapshot
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.log.retention import deletable_segments, warn_of_the_future
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.log.validator import LogValidator, ValidatedRecords
from barnabas.storage.offsets import (
    AppendOrigin,
    EpochEndOffset,
    FetchDataInfo,
    FetchIsolation,
    LogAppendInfo,
    LogOffsetMetadata,
    LogStartOffsetIncrementReason,
    TimestampAndOffset,
)
from barnabas.storage.segment.names import DELETED_SUFFIX
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.config.log_config import LogConfig
    from barnabas.storage.log.cleaning_plan import CleanedSegment

logger = logging.getLogger("barnabas.storage")

_MAX_FLUSH_MESSAGES: Final = 1 << 60
"""flush.messages is 2^63 - 1 when no flush is due by count; mypyc compares a number of that size slowly."""

# A lookup of an enum member is slow, and every append and read needs these.
_CLIENT: Final = AppendOrigin.CLIENT
_RAFT_LEADER: Final = AppendOrigin.RAFT_LEADER
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED


class UnifiedLog:
    """The log of one partition. Opened by `storage.manager.loader.open_log`."""

    __slots__ = (
        "_env",
        "_failure",
        "_flush_messages",
        "_local",
        "_max_segment_ms",
        "_partition_metadata",
        "_segment_bytes",
        "_validator",
        "_warned_of_segment",
        "config",
        "disk_space",
        "leader_epoch_cache",
        "offsets",
        "partition",
        "producer_state_manager",
        "topic",
        "topic_id",
        "truncated_bytes",
        "unproven_gap",
    )

    def __init__(
        self,
        env: Env,
        topic: str,
        partition: int,
        local: LocalLog,
        *,
        log_start_offset: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        partition_metadata: PartitionMetadataFile,
    ) -> None:
        self._env = env
        self._local = local
        self._partition_metadata = partition_metadata
        self._failure: str | None = None
        self._warned_of_segment = -1  # the last one that retention has warned of
        self.disk_space = DiskSpace(env, local.directory)  # LogManager sets that of the log directory
        self.topic = topic
        self.partition = partition
        self._apply_config(local.config)
        self.topic_id: bytes | None = None
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.truncated_bytes = 0  # by the recovery when the log was opened
        self.unproven_gap: int | None = None
        """The offset where the first gap begins that a power cut may have left; set when the log was opened."""
        self.offsets = LogOffsets(local, producer_state_manager, log_start_offset)
        self._load_topic_id()

    # -- identity, size, offsets --

    @property
    def name(self) -> str:
        """topic-partition."""
        return f"{self.topic}-{self.partition}"

    @property
    def directory(self) -> str:
        return self._local.directory

    @property
    def log_dir(self) -> str:
        """The log directory (one of log.dirs) that holds the partition's directory."""
        return self._local.directory.rpartition("/")[0]

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._local.log_end_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        return self._local.log_end_offset_metadata

    @property
    def recovery_point(self) -> int:
        """The offset up to which everything is on stable storage."""
        return self._local.recovery_point

    @property
    def size(self) -> int:
        """Bytes of all segments' .log files."""
        return self._local.segments.size

    @property
    def segments(self) -> "Sequence[LogSegment]":
        """The segments, oldest first; a copy."""
        return list(self._local.segments)

    @property
    def segment_count(self) -> int:
        return len(self._local.segments)

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last leader that appended; -1 if unknown."""
        return self.leader_epoch_cache.latest_epoch

    @property
    def is_failed(self) -> bool:
        """Whether the log takes no appends or reads: a failed write could not be undone, or the log was deleted."""
        return self._failure is not None

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers may ask for."""
        return self.offsets.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which everything is replicated, exclusive."""
        return self.offsets.high_watermark

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        return self.offsets.high_watermark_metadata

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends: the first offset of an undecided transaction, at most the high watermark."""
        return self.offsets.last_stable_offset

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        return self.offsets.last_stable_offset_metadata

    def __repr__(self) -> str:
        return f"UnifiedLog({self.offsets!r})"

    # -- directory and open files --

    def rename_dir(self, directory: str) -> None:
        """Renames the partition's directory, without a sync of the directory above. Raises OSError."""
        self._env.rename(self.directory, directory)
        self._local.update_directory(directory)
        self.leader_epoch_cache.update_directory(directory)
        self.producer_state_manager.snapshots.directory = directory
        self._partition_metadata.path = f"{directory}/{PARTITION_METADATA}"

    def release(self) -> None:
        """Closes files and maps; the next use opens them again."""
        for segment in self._local.segments:
            segment.release()

    def share_open_segments(self, ring: OpenSegments) -> None:
        """Closes files and maps; segments opened from here on count in `ring`."""
        self.release()
        self._local.share_open_segments(ring)

    # -- topic id and configuration --

    def _load_topic_id(self) -> None:
        try:
            self.topic_id = self._partition_metadata.read()
        except CorruptCheckpointError as error:
            logger.warning("%s; it is rewritten once the topic id is known", error)

    def sync_topic_id_with_next_flush(self) -> None:
        """Has the next flush sync partition.metadata, which was written without a sync."""
        self._local.sync_with_next_flush(self._partition_metadata.path)

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Stores the topic id in partition.metadata. Raises InconsistentTopicIdError, OSError."""
        if self.topic_id is None:
            self._partition_metadata.write(topic_id)
            self.topic_id = topic_id
        elif self.topic_id != topic_id:
            raise InconsistentTopicIdError(
                f"{self.directory} belongs to topic id {uuid_to_string(self.topic_id)}, "
                f"and {self.name} has {uuid_to_string(topic_id)}"
            )

    def update_config(self, config: "LogConfig") -> None:
        """Replaces the configuration."""
        self._local.config = config
        self._apply_config(config)
        for segment in self._local.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    def _apply_config(self, config: "LogConfig") -> None:
        """Caches the values that every append needs."""
        self.config = config
        self._validator = LogValidator(self.name, config)
        self._segment_bytes = config.segment_bytes
        self._max_segment_ms = config.max_segment_ms
        self._flush_messages = min(config.flush_messages, _MAX_FLUSH_MESSAGES)

    # -- failure --

    def _check_online(self) -> None:
        if self._failure is not None:
            raise KafkaStorageError(f"{self.name} is offline: {self._failure}")

    def fail(self, why: str, *, quietly: bool = False) -> None:
        """Takes the log offline: the state on disk is in doubt until it is loaded again."""
        if self._failure is None:
            if not quietly:
                logger.error("%s is offline: %s", self.directory, why)
            self._failure = why

    @contextmanager
    def _failing(self, what: str) -> "Iterator[None]":
        """Fails the log on an OSError within, which leaves the files in doubt."""
        try:
            yield
        except OSError as error:
            self.fail(f"{what}: {error}")
            raise KafkaStorageError(f"{self.name}: {what}: {error}", cause=error) from error

    # -- offsets --

    def update_high_watermark(self, offset: int) -> int:
        """Moves the high watermark, within the log start and end offset; returns the new one."""
        return self.offsets.update_high_watermark(offset)

    def maybe_increment_log_start_offset(self, offset: int, reason: LogStartOffsetIncrementReason) -> bool:
        """Moves the log start offset forward; False if it is there already.

        Records before it are not read any more, and retention deletes their segments. Raises OffsetOutOfRangeError for
        an offset above the high watermark.
        """
        offsets = self.offsets
        if offset > offsets.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.name} cannot start at {offset}, above its high watermark {self.high_watermark}",
                offset,
                self.log_start_offset,
                self.log_end_offset,
            )
        if offset <= offsets.log_start_offset:
            return False
        offsets.log_start_offset = offset
        logger.info("%s starts at offset %d: %s", self.name, offset, reason.value)
        self.leader_epoch_cache.truncate_from_start(offset)
        self.producer_state_manager.on_log_start_offset_incremented(offset)
        offsets.update_first_unstable_offset()
        offsets.check_order()
        return True

    # -- append --

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        verification_guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Validates batches, assigns offsets and appends them; returns the first offsets of a repeated batch.

        Batches of a Raft leader have offsets already, and must be of its epoch. `verification_guard` comes from
        `start_transaction_verification`; `transaction_version` is that of the transaction which a marker ends.

        Raises CorruptRecordError, InvalidRecordError, UnsupportedCompressionError (from protocol.records), and
        RecordTooLargeError, RecordBatchTooLargeError, InvalidTimestampError, OutOfOrderSequenceError,
        InvalidProducerEpochError, InvalidTxnStateError, KafkaStorageError, and DiskFullError, for clients also when
        only reserved room is left (`disk_space`). After any of them nothing was appended.
        """
        if self._failure is not None:
            self._check_online()
        if origin is _RAFT_LEADER:
            return self._append_numbered(records, leader_epoch, origin)
        now_ms = self._env.now_ms()
        valid = self._validator.validate(records, self._local.log_end_offset, leader_epoch, origin, now_ms)
        if valid.size > self._segment_bytes:
            self._reject_size(valid)
        for batch in valid.of_producers:
            known = self.producer_state_manager.check_append(
                batch, origin, verification_guard, transaction_version
            )
            if known is not None:
                return self._duplicate(known)
        if self.disk_space.is_full and origin is _CLIENT:
            raise self.disk_space.reject()
        return self._append(valid, now_ms)

    def append_as_follower(
        self, records: Buffer, leader_epoch: int, *, is_copy: bool = False
    ) -> LogAppendInfo:
        """Appends batches with the offsets that a leader assigned, up to the first of an epoch above `leader_epoch`.

        With `is_copy` they come from a log of this broker, which may hold message sets, and a batch larger than
        segment.bytes; a leader sends neither. Raises CorruptRecordError, OffsetsOutOfOrderError,
        UnexpectedAppendOffsetError, RecordBatchTooLargeError, KafkaStorageError.
        """
        self._check_online()
        return self._append_numbered(records, leader_epoch, AppendOrigin.REPLICATION, is_copy=is_copy)

    def start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> VerificationGuard | None:
        """A guard, to be taken before the coordinator verifies a transaction; see `storage.log.txn_verification`.

        None if the transaction is open already. Raises InvalidProducerEpochError for an old epoch.
        """
        return self.producer_state_manager.start_verification(
            producer_id,
            sequence,
            epoch,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=self._env.now_ms(),
        )

    def _append_numbered(
        self, records: Buffer, leader_epoch: int, origin: AppendOrigin, *, is_copy: bool = False
    ) -> LogAppendInfo:
        valid = ValidatedRecords(self._local.log_end_offset)
        last_offset = -1
        for batch in batches(records):
            batch.ensure_valid()
            if batch.last_offset <= last_offset:
                raise OffsetsOutOfOrderError(
                    f"offset {batch.last_offset} after {last_offset} for {self.name}"
                )
            if not (is_copy or isinstance(batch, RecordBatch)):
                raise CorruptRecordError(
                    f"a message set for {self.name} from a leader that has record batches"
                )
            if origin is _RAFT_LEADER and batch.partition_leader_epoch != leader_epoch:
                raise InvalidRecordError(
                    f"a batch of epoch {batch.partition_leader_epoch} for {self.name} from the leader of {leader_epoch}"
                )
            if batch.partition_leader_epoch > leader_epoch:
                break
            last_offset = batch.last_offset
            # A message of an old format has every attribute of a batch that is used from here on.
            valid.add_batch(cast(RecordBatch, batch), ())
        if not valid.batches:
            return LogAppendInfo(-1, -1, self.offsets.log_start_offset)
        # They follow each other, so that one buffer has them all: a system call takes no more than IOV_MAX (1024).
        valid.buffers.append(memoryview(records)[: valid.size])
        if valid.first_offset < self._local.log_end_offset:
            raise UnexpectedAppendOffsetError(
                f"{self.name} ends at {self.log_end_offset} and got offsets {valid.first_offset}..{last_offset}",
                valid.first_offset,
                last_offset,
            )
        if valid.size > self._segment_bytes and not (is_copy and len(valid.batches) == 1):
            self._reject_size(valid)
        return self._append(valid, self._env.now_ms())

    def _reject_size(self, valid: ValidatedRecords) -> None:
        raise RecordBatchTooLargeError(
            f"an append of {valid.size} bytes to {self.name}; segment.bytes is {self.config.segment_bytes}"
        )

    def _append(self, valid: ValidatedRecords, now_ms: int) -> LogAppendInfo:
        local, first_offset, last_offset = self._local, valid.first_offset, valid.next_offset - 1
        try:
            try:
                should_roll = local.segments.active.should_roll(
                    now_ms,
                    valid.size,
                    last_offset,
                    valid.max_timestamp,
                    self._segment_bytes,
                    self._max_segment_ms,
                )
            except OSError as error:
                raise storage_error(self.name, error, undone=True) from error
            if should_roll:
                self._roll(first_offset)
            try:
                local.append(last_offset, valid.buffers, valid.size, valid.appended)
            except KafkaStorageError as error:
                if not error.undone:
                    self.fail(str(error))
                raise
        except DiskFullError:
            self.disk_space.ran_out()
            raise
        self._append_to_state(valid)
        self.disk_space.take(valid.size)
        return LogAppendInfo(
            first_offset,
            last_offset,
            self.offsets.log_start_offset,
            valid.record_count,
            valid.log_append_time_ms,
            valid.conversion_count,
        )

    def _append_to_state(self, valid: ValidatedRecords) -> None:
        """Updates leader epochs, producers and transactions with batches that were written."""
        producers = self.producer_state_manager
        epochs = self.leader_epoch_cache
        for batch in valid.batches:
            epoch = batch.partition_leader_epoch
            if epoch != epochs.latest_epoch and epoch >= 0:
                epochs.assign(epoch, batch.base_offset)
        for batch in valid.of_producers:
            self._append_to_producers(batch)
        producers.map_end_offset = valid.next_offset

    def _append_to_producers(self, batch: RecordBatch) -> None:
        segment = self._local.segments.active
        try:
            apply_batch(self.producer_state_manager, batch, segment)
        except OSError as error:
            self.fail(f"{segment.txn_index.path}: {error}")
            raise KafkaStorageError(f"{segment.txn_index.path}: {error}", cause=error) from error
        if batch.attributes & (TRANSACTIONAL_MASK | CONTROL_MASK):
            self.offsets.update_first_unstable_offset()

    def _duplicate(self, known: BatchMetadata) -> LogAppendInfo:
        return LogAppendInfo(
            known.first_offset,
            known.last_offset,
            self.offsets.log_start_offset,
            known.offset_delta + 1,
            known.timestamp,  # as Kafka does for either type of timestamp
            duplicate=True,
        )

    # -- roll --

    def roll(self) -> None:
        """Starts a new segment, unless the active one is empty. Raises KafkaStorageError."""
        if self._local.active_segment.size:
            self._roll(self._local.log_end_offset)

    def _roll(self, base_offset: int) -> None:
        """Starts a segment at `base_offset`, with a snapshot of the producers there.

        On failure the active segment is unchanged and takes appends that still fit.
        """
        try:
            segment = self._local.roll(base_offset)
        except OSError as error:
            raise storage_error(f"{self.name}: a new segment at {base_offset}", error, undone=True) from error
        producers = self.producer_state_manager
        producers.map_end_offset = max(producers.map_end_offset, segment.base_offset)
        try:
            path = producers.take_snapshot(sync=False)
        except OSError as error:
            logger.warning("%s: no snapshot of the producers at %d: %s", self.name, base_offset, error)
            return  # an older snapshot serves, with more to replay
        if path is not None:
            self._local.sync_with_next_flush(path)

    # -- read --

    def read(
        self, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool
    ) -> FetchDataInfo:
        """Batches from the one with `start_offset` to the limit of `isolation`.

        At most `max_length` bytes, but with `min_one_message` the whole first batch. Raises OffsetOutOfRangeError;
        CorruptRecordError if the segment is damaged; KafkaStorageError.
        """
        if self._failure is not None:
            self._check_online()
        offsets = self.offsets
        if start_offset < offsets.log_start_offset or start_offset > self._local.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} of {self.name} is not within {self.log_start_offset}..{self.log_end_offset}",
                start_offset,
                self.log_start_offset,
                self._local.log_end_offset,
            )
        try:
            limit = offsets.limit(isolation)
            info = self._local.read(start_offset, max_length, limit, min_one_message=min_one_message)
            if isolation is _TXN_COMMITTED:
                info.aborted_transactions = self._local.collect_aborted_transactions(info)
        except OSError as error:
            raise read_error(self.name, error) from error
        info.high_watermark = offsets.high_watermark
        info.last_stable_offset = offsets.last_stable_offset
        info.log_start_offset = offsets.log_start_offset
        return info

    # -- by time and by epoch --

    def fetch_offset_by_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record with this timestamp or a larger one; None if there is none.

        Raises CorruptRecordError, InvalidRecordError, KafkaStorageError.
        """
        try:
            return self._local.fetch_offset_by_timestamp(timestamp_ms, self.log_start_offset)
        except OSError as error:
            raise read_error(self.name, error) from error

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None in an empty log. Raises as `fetch_offset_by_timestamp`."""
        try:
            return self._local.offset_of_max_timestamp()
        except OSError as error:
            raise read_error(self.name, error) from error

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """The end of the epoch, or of the largest one below it (OffsetForLeaderEpoch); None if unknown."""
        return self.leader_epoch_cache.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """Starts a leader's epoch, before its first append."""
        self.leader_epoch_cache.assign(epoch, start_offset)

    # -- flush --

    @property
    def unflushed_messages(self) -> int:
        return self._local.unflushed_messages

    def needs_flush(self, now_ms: int | None = None) -> bool:
        """Whether a flush is due: flush.messages, flush.ms (where `now_ms` is given), or a roll since the last one."""
        local = self._local
        unflushed = local.log_end_offset - local.recovery_point
        if unflushed >= self._flush_messages or local.has_rolled_since_flush:
            return not self.is_failed
        if now_ms is None:
            return False
        return unflushed > 0 and now_ms >= local.last_flush_ms + self.config.flush_ms and not self.is_failed

    def prepare_flush(self) -> FlushJob:
        """A job that syncs all that was appended so far. See `storage.log.flush`.

        One job of a log at a time. Raises KafkaStorageError if a file cannot be opened.
        """
        try:
            job = self._local.prepare_flush()
        except OSError as error:
            raise storage_error(self.name, error, undone=True) from error
        if self.leader_epoch_cache.is_dirty:
            self.leader_epoch_cache.hand_to(job)
        return job

    def complete_flush(self, job: FlushJob) -> None:
        """Moves the recovery point to the offset that a job covers.

        Raises KafkaStorageError if a sync failed; then the log is offline, since the kernel may have dropped dirty
        pages and a second fsync would not report it. Raises DiskFullError or OutOfResourcesError, and stays online, if
        there was no room for the leader epochs or no descriptor for a sync; the next job moves the recovery point.
        """
        assert job.is_done, "the job has not run"
        if job.error is not None:
            self.fail(f"fsync: {job.error}")
            raise KafkaStorageError(f"{self.name}: fsync: {job.error}", cause=job.error) from job.error
        if job.put_off_by is not None:
            self.leader_epoch_cache.is_dirty = True
            self._local.put_off_flush(job)
            raise storage_error(self.name, job.put_off_by, undone=True) from job.put_off_by
        self._local.complete_flush(job)

    def flush(self) -> None:
        """Prepares, runs and completes a flush job, if there is anything to sync. Raises KafkaStorageError."""
        if self._local.has_unflushed or self.leader_epoch_cache.is_dirty:
            job = self.prepare_flush()
            job.run()
            self.complete_flush(job)

    # -- replacing another log --

    def skip_to(self, offset: int) -> None:
        """Starts a segment at `offset`, beyond the end, because all records before it were compacted away.

        Raises OSError.
        """
        self._local.skip_to(offset)
        self.producer_state_manager.map_end_offset = offset

    def take_over(self, other: "UnifiedLog") -> None:
        """Takes over the state of `other`, of which this log has all batches; `other` gets no appends any more.

        The state: offsets, leader epochs (also those without a batch), producers (also those whose batches were
        deleted) and transactions that are being verified.
        """
        assert self.log_end_offset == other.log_end_offset, f"{self!r} is no copy of {other!r}"
        self.leader_epoch_cache.take_over(other.leader_epoch_cache)
        self.producer_state_manager.take_over(other.producer_state_manager)
        self.offsets.log_start_offset = max(self.log_start_offset, other.log_start_offset)
        self.offsets.update_first_unstable_offset()
        self.update_high_watermark(other.high_watermark)

    # -- truncation, deletion, end --

    def truncate_to(self, offset: int) -> bool:
        """Truncates the log so that `offset` is its end; False if it ended at or before it.

        Durable on return. Raises KafkaStorageError.
        """
        if offset >= self.log_end_offset:
            # A leader that had appended nothing yet may have left an epoch that begins at the end.
            self.leader_epoch_cache.truncate_from_end(self.log_end_offset)
            return False
        if offset < self._local.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        with self._failing("truncation"):
            try:
                self._remove_snapshots(self._local.truncate_to(offset))
            finally:
                self.offsets.reset(min(self.log_start_offset, offset))
            self.leader_epoch_cache.truncate_from_end(offset)
            self.rebuild_producer_state()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log; the next record gets `offset`. Raises KafkaStorageError."""
        with self._failing("truncation"):
            try:
                self._remove_snapshots(self._local.truncate_fully_and_start_at(offset))
            finally:
                self.offsets.reset(offset)
            self.leader_epoch_cache.clear_and_flush()
            self.producer_state_manager.truncate_fully_and_start_at(offset)
            self._env.sync_dir(self.directory)  # without it a crash restores the snapshots
            self.offsets.update_first_unstable_offset()

    def _remove_snapshots(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            self.producer_state_manager.snapshots.remove(segment.base_offset)

    def rebuild_producer_state(self) -> None:
        """Rebuilds the producer state from the latest snapshot and the log. Raises OSError."""
        local = self._local
        rebuild_producer_state(
            self.producer_state_manager,
            local.segments,
            local.segments[0].base_offset,
            local.log_end_offset,
            self._env.now_ms(),
        )
        self.producer_state_manager.on_high_watermark_updated(self.high_watermark)
        self.offsets.update_first_unstable_offset()

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention by time, by size or by log start offset allows; returns how many.

        Their files are renamed at once and removed after file.delete.delay.ms. Raises KafkaStorageError.
        """
        with self._failing("retention"):
            now_ms = self._env.now_ms()
            try:
                doomed = deletable_segments(
                    self._local, self.config, self.log_start_offset, self.high_watermark, now_ms
                )
                self._warned_of_segment = warn_of_the_future(
                    self._local, self.config, len(doomed), now_ms, self._warned_of_segment
                )
            except OSError as error:
                if is_fault_of_disk(error):
                    raise
                raise read_error(self.name, error) from error  # only reads so far: no file is in doubt
            if not doomed:
                return 0
            if len(doomed) == len(self._local.segments) and not self._roll_for_retention():
                doomed.pop()
            start = self._local.segments[len(doomed)].base_offset
            self.maybe_increment_log_start_offset(start, LogStartOffsetIncrementReason.SEGMENT_DELETION)
            path = take_missing_snapshot(self.producer_state_manager, self._local.segments, start, now_ms)
            if path is not None:
                self._local.sync_with_next_flush(path)
            self._local.delete_segments(doomed)
            # After the segments: a crash in between leaves extra snapshots, and none is missing.
            snapshots = self.producer_state_manager.snapshots
            paths = [snapshots.detach(segment.base_offset, DELETED_SUFFIX) for segment in doomed]
            self._local.delete_later([path for path in paths if path])
        return len(doomed)

    def _roll_for_retention(self) -> bool:
        """Rolls so that the active segment can be deleted too; False, for a later round, if there is no room."""
        try:
            self._roll(self.log_end_offset)
        except (DiskFullError, OutOfResourcesError):
            return False
        return True

    def replace_segments(self, cleaned: "CleanedSegment") -> bool:
        """Replaces segments by the cleaned one whose files end in .swap: the last steps of `segment_swap`.

        False, with no change, if those segments are no longer as they were when the cleaning began. Raises
        KafkaStorageError.
        """
        self._check_online()
        old = self._local.segments_of(cleaned.replaces)
        if old is None:
            return False
        with self._failing("swapping a compacted segment in"):
            snapshots = self.producer_state_manager.snapshots
            vanished = [base_offset for base_offset in cleaned.replaces if base_offset != cleaned.base_offset]
            paths = [snapshots.detach(base_offset, DELETED_SUFFIX) for base_offset in vanished]
            self._local.replace_segments(old, cleaned.size, [path for path in paths if path])
        self.offsets.forget_positions()
        return True

    def close(self) -> None:
        """Saves the producers, trims the indexes, closes files. Flush first for a clean stop. Raises OSError."""
        if not self.is_failed:
            producers = self.producer_state_manager
            producers.map_end_offset = self.log_end_offset
            with suppress_no_space():  # an older snapshot serves, with more to replay
                producers.take_snapshot(sync=True)
            if self.leader_epoch_cache.is_dirty:
                self.leader_epoch_cache.flush()
        self._local.close()

    def delete(self) -> None:
        """Removes the log's directory at once. Raises OSError."""
        self.release()
        self.fail("it was deleted")
        remove_tree(self._env, self.directory)
