"""PartitionLogs: the logs of a coordinator's topic, as its runtime uses them.

Source: org.apache.kafka.coordinator.common.runtime.PartitionWriter, kafka.coordinator.group.CoordinatorPartitionWriter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.broker.error_map import MAPPED_ERRORS, error_code_of
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.errors import InvalidProducerEpochError, OutOfResourcesError
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin, FetchIsolation, FileRecords

_NO_TIMEOUT_MS: Final = (1 << 31) - 1
"""Appended records are committed some day, or never; a batch has a timeout of its own."""

_LEADER_ONLY: Final = 1
"""Appends do not wait for followers (acks=1): a HighWatermarkListener waits for the commit."""


class LogLimits(NamedTuple):
    """The offset of a partition's next record, and the most bytes of a batch."""

    next_offset: int
    max_batch_bytes: int


class PartitionLogs(Protocol):
    """The logs of a coordinator's topic, by the partition's index. Used on the event loop alone."""

    def check(self, partition: int, *, is_needed: bool = True) -> LogLimits:
        """Raises ApiError where the partition cannot be appended to or read; and on a full disk unless `is_needed`."""

    def check_batch(self, partition: int, batch: bytes, guard: VerificationGuard | None) -> None:
        """Raises ApiError where the log would reject a batch of a producer's transaction."""

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | Pending[AppendResult]:
        """Appends a batch. Pending until it is committed; an AppendError where it is not appended.

        Once the batch is in the log it does not fail any more, and where this broker resigns it never completes.
        """

    def uncommitted(self, partition: int) -> Pending[object] | None:
        """None where all records in the log are committed; else completes when those up to now are.

        Never completes where this broker stops leading before that. Raises ApiError.
        """

    def start_verification(
        self, partition: int, producer_id: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard to append with once the coordinator has verified the transaction; None where no verification is
        needed. Raises ApiError."""

    def contents(self, partition: int) -> Sequence[FileRecords]:
        """All that is in the log now, in order; may be read on any thread.

        Raises ApiError; OutOfResourcesError where a retry may succeed.
        """

    def read_failed(self, partition: int, error: OSError) -> None:
        """Takes the log directory offline, since its disk failed to read the log."""


class HighWatermarkListener:
    """Completes `pending` when the high watermark of a partition has reached `end_offset` (exclusive).

    A Watcher of the produce purgatory, which is checked whenever a high watermark moves. Where this broker stops
    leading, or the disk fails, it leaves and never completes, since the coordinator resigns.
    """

    def __init__(self, partition: Partition, end_offset: int, purgatory: DelayedOperationPurgatory) -> None:
        self.pending: Pending[object] = Pending()
        self._partition = partition
        self._end_offset = end_offset
        self._watchers = purgatory.watch(partition.key, self)

    @property
    def is_waiting(self) -> bool:
        return not self.pending.done

    def wake(self) -> None:
        """Nothing: what has changed is read in `look`."""

    def look(self) -> int:
        partition = self._partition
        is_leader = partition.is_leader and not partition.offline
        if is_leader and partition.log.high_watermark < self._end_offset:
            return 0
        self._watchers.pop(self, None)
        if is_leader:
            self.pending.complete(None)
        return int(is_leader)


class ReplicaLogs:
    """PartitionLogs over the ReplicaManager."""

    def __init__(self, topic: str, replica_manager: ReplicaManager) -> None:
        self._topic = topic
        self._replica_manager = replica_manager

    def check(self, partition: int, *, is_needed: bool = True) -> LogLimits:
        found = self._replica_manager.partition(self._topic, partition)
        found.check_leader()
        log = found.log
        if len(found.isr) < found.min_insync_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"{found} has too few replicas in sync: {len(found.isr)}."
            )
        if not is_needed and log.disk_space.is_full:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, str(log.disk_space.reject()))
        return LogLimits(log.log_end_offset, min(log.config.max_message_bytes, log.config.segment_bytes))

    def check_batch(self, partition: int, batch: bytes, guard: VerificationGuard | None) -> None:
        log = self._replica_manager.partition(self._topic, partition).log
        try:
            log.producer_state_manager.check_append(RecordBatch(batch), AppendOrigin.COORDINATOR, guard)
        except MAPPED_ERRORS as error:
            raise ApiError(error_code_of(error), str(error)) from error

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | Pending[AppendResult]:
        answer = self._replica_manager.append_records(
            [(self._topic, partition, ZERO_UUID, batch, None)],
            _LEADER_ONLY,
            _NO_TIMEOUT_MS,
            origin=AppendOrigin.COORDINATOR,
            guards={(self._topic, partition): guard} if guard is not None else None,
            transaction_version=transaction_version,
        )
        if isinstance(answer, Pending) and not answer.done:  # a flush policy asks for an fsync
            return self._when_flushed(partition, answer)
        return self._when_committed(partition, _only(answer))

    def _when_committed(self, partition: int, result: AppendResult) -> AppendResult | Pending[AppendResult]:
        """`result`, at once where the high watermark has passed the append already: always with one replica."""
        found = self._replica_manager.find(self._topic, partition)
        if isinstance(result, AppendError) or found is None or found.log.high_watermark > result.last_offset:
            return result
        return self._listen(found, result.last_offset + 1).then(lambda _: result)

    def _when_flushed(self, partition: int, flushed: Pending[list[AppendResult]]) -> Pending[AppendResult]:
        """The result of an append that waits for its fsync: then for the high watermark.

        An error means that this broker stopped leading, or that the disk failed, while the batch is in the log: the
        shard is about to be unloaded, which answers its clients.
        """
        answer: Pending[AppendResult] = Pending()

        def synced(results: list[AppendResult]) -> None:
            if isinstance(results[0], AppendError):
                return
            committed = self._when_committed(partition, results[0])
            if isinstance(committed, Pending):
                committed.add_done_callback(answer.complete)
            else:
                answer.complete(committed)

        flushed.add_done_callback(synced)
        return answer

    def _listen(self, partition: Partition, end_offset: int) -> Pending[object]:
        return HighWatermarkListener(partition, end_offset, self._replica_manager.produce_purgatory).pending

    def uncommitted(self, partition: int) -> Pending[object] | None:
        found = self._replica_manager.partition(self._topic, partition)
        found.check_leader()
        end_offset = found.log.log_end_offset
        return None if found.log.high_watermark >= end_offset else self._listen(found, end_offset)

    def start_verification(
        self, partition: int, producer_id: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        found = self._replica_manager.partition(self._topic, partition)
        found.check_leader()
        try:
            return found.log.start_transaction_verification(
                producer_id, -1, epoch, supports_epoch_bump=supports_epoch_bump
            )
        except InvalidProducerEpochError as error:
            raise ApiError(error_code_of(error), str(error)) from error

    def contents(self, partition: int) -> Sequence[FileRecords]:
        found = self._replica_manager.partition(self._topic, partition)
        found.check_leader()
        try:
            return _slices(found.log)
        except OutOfResourcesError:
            raise
        except MAPPED_ERRORS as error:
            self._replica_manager.read_failed(found, error)
            raise ApiError(error_code_of(error), str(error)) from error

    def read_failed(self, partition: int, error: OSError) -> None:
        found = self._replica_manager.find(self._topic, partition)
        if found is not None:
            self._replica_manager.log_dir_failed(found.log.log_dir, str(error))


def _slices(log: UnifiedLog) -> list[FileRecords]:
    """Every segment's part of the log."""
    found = []
    for segment in log.segments:
        start = max(segment.base_offset, log.log_start_offset)
        if start >= log.log_end_offset:
            break
        data = log.read(start, segment.size, FetchIsolation.LOG_END, min_one_message=True)
        if data.records.size and data.fetch_offset_metadata.segment_base_offset == segment.base_offset:
            found.append(data.records)
    return found


def _only(answer: Sequence[AppendResult] | Pending[list[AppendResult]]) -> AppendResult:
    """The result of an append to one partition. A pending one is complete already."""
    if not isinstance(answer, Pending):
        return answer[0]
    found: list[AppendResult] = []
    answer.add_done_callback(found.extend)
    return found[0]
