"""What waits in purgatory: acknowledgements for replicas or the disk, fetches for enough bytes.

Source: kafka.server.DelayedProduce, DelayedDeleteRecords, DelayedFetch (its cases are named in the comments).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.fetch_session import FetchPartition
from broker.partition import ACKS_ALL, Partition
from broker.partition_io import AppendError, AppendResult, DeletionResult, FetchParams, Unacknowledged
from broker.purgatory import DelayedOperation
from protocol.errors import ApiError, ErrorCode
from storage.offsets import FetchIsolation, LogOffsetMetadata


class DelayedProduce(DelayedOperation):
    """Completes when every partition's records are replicated and durable as far as was asked, or can never be.

    A. The partition is gone, offline or led by another: its answer is that error.
    B. acks=all: the high watermark has reached the end of what was appended.
    C. A flush policy asked for an fsync: the recovery point has reached the end of what was appended.

    What fails takes its place in `results`.
    """

    def __init__(
        self,
        delay_ms: int,
        waiting: Sequence[Unacknowledged],
        results: list[AppendResult],
        required_acks: int,
        respond: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._waiting = waiting
        self._results = results
        self._needs_replicas = required_acks == ACKS_ALL
        self._respond = respond

    def try_complete(self) -> bool:
        self._waiting = [item for item in self._waiting if self._still_waits(*item)]
        return not self._waiting and self.force_complete()

    def _still_waits(self, partition: Partition, at: int, required_offset: int, needs_flush: bool) -> bool:
        try:
            partition.check_leader()
        except ApiError as error:
            self._results[at] = AppendError(error.code, error.message)
            return False  # case A
        log = partition.log
        if self._needs_replicas and log.high_watermark < required_offset:
            return True  # case B
        return needs_flush and log.recovery_point < required_offset  # case C

    def on_expiration(self) -> None:
        for partition, at, _, _ in self._waiting:
            self._results[at] = AppendError(
                ErrorCode.REQUEST_TIMED_OUT, f"{partition} was not replicated or flushed in time."
            )

    def on_complete(self) -> None:
        self._respond()


class DelayedDeleteRecords(DelayedOperation):
    """Completes when every partition's low watermark has reached what was asked for, or never can.

    A. The partition is gone, offline or led by another: its answer is that error.
    B. The low watermark is there: no replica has the records any more.
    """

    def __init__(
        self,
        delay_ms: int,
        waiting: Sequence[tuple[Partition, DeletionResult]],
        respond: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._waiting = list(waiting)
        self._respond = respond

    def try_complete(self) -> bool:
        self._waiting = [item for item in self._waiting if self._still_waits(*item)]
        return not self._waiting and self.force_complete()

    @staticmethod
    def _still_waits(partition: Partition, result: DeletionResult) -> bool:
        try:
            partition.check_leader()
        except ApiError as error:
            result.fail(error.code)
            return False  # case A
        result.low_watermark = partition.low_watermark
        return result.low_watermark < result.required_offset  # case B

    def on_expiration(self) -> None:
        for _, result in self._waiting:
            result.error = ErrorCode.REQUEST_TIMED_OUT  # the low watermark says how far it came

    def on_complete(self) -> None:
        self._respond()


class DelayedFetch(DelayedOperation):
    """Completes when `min_bytes` can be read over all partitions, or when one of them has to be answered at once.

    A. This broker no longer leads a partition, or it is gone.
    B. The partition's leader epoch is not the one that the reader named.
    C. The fetch offset is past the end (the log was truncated): the reader has to hear of it. Who reads committed
       records and is past the last stable offset alone waits for it; Kafka has him ask without a pause.
    D. A segment was rolled since: there is news, and bytes between segments are not worth counting.
    E. The accumulated bytes reach min_bytes.

    `waiting` has each partition with where its first read ended up.
    """

    def __init__(
        self,
        params: FetchParams,
        waiting: Sequence[tuple[FetchPartition, Partition, LogOffsetMetadata]],
        respond: Callable[[], None],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._waiting = waiting
        self._respond = respond

    def try_complete(self) -> bool:
        isolation = self._params.isolation
        min_bytes = self._params.min_bytes
        available = 0
        for request, partition, start in self._waiting:
            if partition.offline or not partition.is_leader:
                return self.force_complete()  # case A
            if request.current_leader_epoch not in (-1, partition.leader_epoch):
                return self.force_complete()  # case B
            end = _readable_end(partition, isolation)
            if end == request.fetch_offset:
                continue
            if end < request.fetch_offset:
                if request.fetch_offset <= partition.log.high_watermark:
                    continue
                return self.force_complete()  # case C
            reached = _end_metadata(partition, isolation, end)
            if not reached.on_same_segment(start):
                return self.force_complete()  # case D
            available += min(reached.position - start.position, request.max_bytes)
            if available >= min_bytes:
                return self.force_complete()  # case E
        return False

    def on_expiration(self) -> None:
        """The time is over: whatever is there is the answer, which on_complete gives."""

    def on_complete(self) -> None:
        self._respond()


def _readable_end(partition: Partition, isolation: FetchIsolation) -> int:
    log = partition.log
    if isolation is FetchIsolation.HIGH_WATERMARK:
        return log.high_watermark
    if isolation is FetchIsolation.TXN_COMMITTED:
        return log.last_stable_offset
    return log.log_end_offset


def _end_metadata(partition: Partition, isolation: FetchIsolation, end: int) -> LogOffsetMetadata:
    log = partition.log
    if isolation is FetchIsolation.LOG_END or end == log.log_end_offset:
        return log.log_end_offset_metadata
    if isolation is FetchIsolation.TXN_COMMITTED:
        return log.last_stable_offset_metadata
    return log.high_watermark_metadata
