"""UnifiedLog: one partition's log as the broker knows it.

Over the segments (`LocalLog`) it keeps the offsets that readers and replicas go by, always in the order

    log start offset <= last stable offset <= high watermark <= log end offset

and, for every append, validation, offset assignment, producer states and leader epochs, in one uninterrupted step:
nothing of a batch is visible until all of it is. Not thread-safe; of a flush, `FlushJob.run` may leave the thread.
"""

import logging
from typing import TYPE_CHECKING, Final, cast

from barnabas.protocol.records.batch import (
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
)
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import Buffer, remove_tree
from barnabas.storage.errors import (
    DiskFullError,
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
from barnabas.storage.log.flush import FlushJob
from barnabas.storage.log.producer_entry import BatchMetadata
from barnabas.storage.log.producer_replay import apply_batch, rebuild_producer_state, take_missing_snapshot
from barnabas.storage.log.retention import deletable_segments, warn_of_the_future
from barnabas.storage.log.state import LogState
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.log.validator import ValidatedRecords
from barnabas.storage.offsets import (
    AppendOrigin,
    EpochEndOffset,
    FetchDataInfo,
    FetchIsolation,
    LogAppendInfo,
    LogStartOffsetIncrementReason,
    TimestampAndOffset,
)
from barnabas.storage.segment.names import DELETED_SUFFIX
from barnabas.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from barnabas.storage.log.cleaning_plan import CleanedSegment

logger = logging.getLogger("barnabas.storage")

# A member of an enum is looked up slowly, and these are asked for with every append and read.
_CLIENT: Final = AppendOrigin.CLIENT
_RAFT_LEADER: Final = AppendOrigin.RAFT_LEADER
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED


class UnifiedLog(LogState):
    """The log of one partition. Made by `log_loader.open_log`."""

    __slots__ = ()

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
        """Validates batches, numbers them and appends them; answers a repeated one with its first offsets.

        What a Raft leader appends is numbered already, and must be of its epoch. `verification_guard` is what
        `start_transaction_verification` gave, `transaction_version` that of the transaction which a marker ends.

        Raises CorruptRecordError, InvalidRecordError, UnsupportedCompressionError (from protocol.records), and
        RecordTooLargeError, RecordBatchTooLargeError, InvalidTimestampError, OutOfOrderSequenceError,
        InvalidProducerEpochError, InvalidTxnStateError, KafkaStorageError, and DiskFullError, for clients also where
        there is room that is not for them (`disk_space`). Whatever it raises, nothing was appended.
        """
        if self._failure is not None:
            self._check_online()
        if origin is _RAFT_LEADER:
            return self._append_numbered(records, leader_epoch, origin)
        now_ms = self._env.now_ms()
        valid = self._validator.validate(records, self._local.log_end_offset, leader_epoch, origin, now_ms)
        if valid.size > self._segment_bytes:
            self._refuse_size(valid)
        for batch in valid.of_producers:
            known = self.producer_state_manager.check_append(
                batch, origin, verification_guard, transaction_version
            )
            if known is not None:
                return self._duplicate(known)
        if self.disk_space.is_full and origin is _CLIENT:
            raise self.disk_space.refuse()
        return self._append(valid, now_ms)

    def append_as_follower(
        self, records: Buffer, leader_epoch: int, *, is_copy: bool = False
    ) -> LogAppendInfo:
        """Appends batches that a leader has numbered, as they are; those of an epoch above `leader_epoch` are left out.

        With `is_copy` they come from a log of this broker, which may hold what no leader sends: message sets, and a
        batch that is larger than segment.bytes. Raises CorruptRecordError, OffsetsOutOfOrderError,
        UnexpectedAppendOffsetError, RecordBatchTooLargeError, KafkaStorageError.
        """
        self._check_online()
        return self._append_numbered(records, leader_epoch, AppendOrigin.REPLICATION, is_copy=is_copy)

    def start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool = False
    ) -> VerificationGuard | None:
        """To be called before the coordinator is asked about a transaction; see `storage.log.txn_verification`.

        None where the transaction is open already. Raises InvalidProducerEpochError for an epoch that is over.
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
            end = batch.position + batch.size_in_bytes
            # A message of an old format answers whatever is asked of a batch from here on.
            valid.add_batch(cast(RecordBatch, batch), (memoryview(batch.buffer)[batch.position : end],))
        if not valid.batches:
            return LogAppendInfo(-1, -1, self.log_start_offset)
        if valid.first_offset < self._local.log_end_offset:
            raise UnexpectedAppendOffsetError(
                f"{self.name} ends at {self.log_end_offset} and is given offsets {valid.first_offset}..{last_offset}",
                valid.first_offset,
                last_offset,
            )
        if valid.size > self._segment_bytes and not (is_copy and len(valid.batches) == 1):
            self._refuse_size(valid)
        return self._append(valid, self._env.now_ms())

    def _refuse_size(self, valid: ValidatedRecords) -> None:
        raise RecordBatchTooLargeError(
            f"{valid.size} bytes for {self.name} in one piece; segment.bytes is {self.config.segment_bytes}"
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
        self._take_in(valid)
        self.disk_space.take(valid.size)
        return LogAppendInfo(
            first_offset,
            last_offset,
            self.log_start_offset,
            valid.record_count,
            valid.log_append_time_ms,
            valid.conversion_count,
        )

    def _take_in(self, valid: ValidatedRecords) -> None:
        """What follows from batches that are in the log now: epochs, producers, transactions."""
        producers = self.producer_state_manager
        epochs = self.leader_epoch_cache
        for batch in valid.batches:
            epoch = batch.partition_leader_epoch
            if epoch != epochs.latest_epoch and epoch >= 0:
                epochs.assign(epoch, batch.base_offset)
        for batch in valid.of_producers:
            self._follow_producer(batch)
        producers.map_end_offset = valid.next_offset

    def _follow_producer(self, batch: RecordBatch) -> None:
        segment = self._local.segments.active
        try:
            apply_batch(self.producer_state_manager, batch, segment)
        except OSError as error:
            self.fail(f"{segment.txn_index.path}: {error}")
            raise KafkaStorageError(f"{segment.txn_index.path}: {error}", cause=error) from error
        if batch.attributes & (TRANSACTIONAL_MASK | CONTROL_MASK):
            self._update_first_unstable_offset()

    def _duplicate(self, known: BatchMetadata) -> LogAppendInfo:
        return LogAppendInfo(
            known.first_offset,
            known.last_offset,
            self.log_start_offset,
            known.offset_delta + 1,
            known.timestamp,  # whatever the topic's type of timestamp, as Kafka does
            duplicate=True,
        )

    # -- roll --

    def roll(self) -> None:
        """Starts a new segment, unless the active one is empty. Raises KafkaStorageError."""
        if self._local.active_segment.size:
            self._roll(self._local.log_end_offset)

    def _roll(self, base_offset: int) -> None:
        """Starts a segment at `base_offset`, with a snapshot of the producers at that point.

        When that fails, the active segment stays what it was and takes appends that still fit.
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
            return  # an older one does, with more to replay
        if path is not None:
            self._local.sync_with_next_flush(path)

    # -- read --

    def read(
        self, start_offset: int, max_length: int, isolation: FetchIsolation, *, min_one_message: bool
    ) -> FetchDataInfo:
        """Batches from the one with `start_offset` on, as far as `isolation` lets the reader see.

        At most `max_length` bytes, though with `min_one_message` the first batch comes whole. Raises
        OffsetOutOfRangeError; CorruptRecordError where the segment is damaged; KafkaStorageError.
        """
        if self._failure is not None:
            self._check_online()
        if start_offset < self.log_start_offset or start_offset > self._local.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} of {self.name} is not within {self.log_start_offset}..{self.log_end_offset}",
                start_offset,
                self.log_start_offset,
                self._local.log_end_offset,
            )
        try:
            limit = self._limit(isolation)
            info = self._local.read(start_offset, max_length, limit, min_one_message=min_one_message)
            if isolation is _TXN_COMMITTED:
                info.aborted_transactions = self._local.collect_aborted_transactions(info)
        except OSError as error:
            raise read_error(self.name, error) from error
        info.high_watermark = self.high_watermark
        info.last_stable_offset = self.last_stable_offset
        info.log_start_offset = self.log_start_offset
        return info

    # -- by time and by epoch --

    def fetch_offset_by_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record at least as young as the timestamp; None when there is none.

        Raises CorruptRecordError, InvalidRecordError, KafkaStorageError.
        """
        try:
            return self._local.fetch_offset_by_timestamp(timestamp_ms, self.log_start_offset)
        except OSError as error:
            raise read_error(self.name, error) from error

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record that has the youngest timestamp; None in an empty log. Raises as the search by time does."""
        try:
            return self._local.offset_of_max_timestamp()
        except OSError as error:
            raise read_error(self.name, error) from error

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """Where the epoch, or the largest one below it, ends (OffsetForLeaderEpoch); None when that is not known."""
        return self.leader_epoch_cache.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """Notes that a leader's epoch begins, as becoming leader does before anything is appended."""
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
        """Decides what has to be synced for everything appended so far to be durable. See `storage.log.flush`.

        One job of a log at a time. Raises KafkaStorageError when a file cannot be opened.
        """
        try:
            job = self._local.prepare_flush()
        except OSError as error:
            raise storage_error(self.name, error, undone=True) from error
        if self.leader_epoch_cache.is_dirty:
            self.leader_epoch_cache.hand_to(job)
        return job

    def complete_flush(self, job: FlushJob) -> None:
        """Moves the recovery point to where a job reached.

        Raises KafkaStorageError when it failed; the log is offline then: the kernel may have dropped what it could
        not write, and a second fsync would not tell. Not so DiskFullError and OutOfResourcesError: no fsync failed,
        there was no descriptor for one, or no room for the leader epochs; the recovery point waits for the next job.
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
        """All three steps at once, on the calling thread, if there is anything to do. Raises KafkaStorageError."""
        if self._local.has_unflushed or self.leader_epoch_cache.is_dirty:
            job = self.prepare_flush()
            job.run()
            self.complete_flush(job)

    # -- truncation, deletion, end --

    def truncate_to(self, offset: int) -> bool:
        """Cuts the log so that `offset` is the next to be appended; False when it ended at or before it.

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
                self._forget_snapshots(self._local.truncate_to(offset))
            finally:
                self._after_truncation(min(self.log_start_offset, offset))
            self.leader_epoch_cache.truncate_from_end(offset)
            self.rebuild_producer_state()
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log; it goes on at `offset`. Raises KafkaStorageError."""
        with self._failing("truncation"):
            try:
                self._forget_snapshots(self._local.truncate_fully_and_start_at(offset))
            finally:
                self._after_truncation(offset)
            self.leader_epoch_cache.clear_and_flush()
            self.producer_state_manager.truncate_fully_and_start_at(offset)
            self._env.sync_dir(self.directory)  # or a crash brings snapshots back
            self._update_first_unstable_offset()

    def _forget_snapshots(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            self.producer_state_manager.snapshots.remove(segment.base_offset)

    def _after_truncation(self, log_start_offset: int) -> None:
        """Brings the offsets in order again, before anything else can fail."""
        self.first_unstable_offset = None
        self.log_start_offset = log_start_offset
        end = self._local.log_end_offset
        if self.high_watermark >= end or self.high_watermark < log_start_offset:
            self.high_watermark = end
        self._forget_positions()
        self._check_order()

    def rebuild_producer_state(self) -> None:
        """Follows the producers through the log again, from the latest snapshot. Raises OSError."""
        local = self._local
        rebuild_producer_state(
            self.producer_state_manager,
            local.segments,
            local.segments[0].base_offset,
            local.log_end_offset,
            self._env.now_ms(),
        )
        self.producer_state_manager.on_high_watermark_updated(self.high_watermark)
        self._update_first_unstable_offset()

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention lets go, by time, by size and below the log start; how many.

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
                raise read_error(self.name, error) from error  # it was only a look, and nothing is in doubt
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
            # After the segments: a crash in between leaves snapshots too many, and none too few.
            snapshots = self.producer_state_manager.snapshots
            paths = [snapshots.detach(segment.base_offset, DELETED_SUFFIX) for segment in doomed]
            self._local.delete_later([path for path in paths if path])
        return len(doomed)

    def _roll_for_retention(self) -> bool:
        """A new segment, so that the active one may go too; without room for one it waits until the others went."""
        try:
            self._roll(self.log_end_offset)
        except (DiskFullError, OutOfResourcesError):
            return False
        return True

    def replace_segments(self, cleaned: "CleanedSegment") -> bool:
        """Puts a cleaned segment whose files wait as .swap in the place of those that it stands for.

        The last steps of `segment_swap`, in one piece. False, and nothing done, where those segments are not there any
        more as they were when the cleaning began. Raises KafkaStorageError.
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
        self._forget_positions()
        return True

    def close(self) -> None:
        """Trims the indexes, saves the producers, gives files back. Flush first for a clean stop. Raises OSError."""
        if not self.is_failed:
            producers = self.producer_state_manager
            producers.map_end_offset = self.log_end_offset
            with suppress_no_space():  # an older one does, with more to replay
                producers.take_snapshot(sync=True)
            if self.leader_epoch_cache.is_dirty:
                self.leader_epoch_cache.flush()
        self._local.close()

    def delete(self) -> None:
        """Removes the log with its directory, at once. Raises OSError."""
        self.release()
        self.fail("it was deleted")
        remove_tree(self._env, self.directory)
