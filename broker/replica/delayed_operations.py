"""What waits in purgatory: acknowledgements for replicas or the disk, deletions for replicas. See also delayed_fetch.

Source: kafka.server.DelayedProduce, DelayedDeleteRecords (the cases are named in the comments).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.broker.waiting.purgatory import DelayedOperation
from barnabas.protocol.errors import ApiError, ErrorCode


class Unacknowledged:
    """An append that is answered when all before `required_offset` is replicated, and with `needs_flush` on the disk.

    `at` is its place among the results of its request.
    """

    __slots__ = ("at", "needs_flush", "partition", "required_offset")

    def __init__(self, partition: Partition, at: int, required_offset: int, needs_flush: bool) -> None:
        self.partition = partition
        self.at = at
        self.required_offset = required_offset
        self.needs_flush = needs_flush


class DelayedProduce(DelayedOperation):
    """Completes when every partition's records are replicated and durable as far as was asked, or can never be.

    A. The partition is gone, offline or led by another: its answer is that error.
    B. acks=all: the high watermark has reached the end of what was appended.
    C. A flush policy asked for an fsync: the recovery point has reached the end of what was appended.

    `pending` has the request's results then; what fails takes its place among them.
    """

    def __init__(
        self,
        delay_ms: int,
        waiting: list[Unacknowledged],
        results: list[AppendResult],
        required_acks: int,
    ) -> None:
        super().__init__(delay_ms)
        self.pending: Pending[list[AppendResult]] = Pending()
        self._waiting = waiting
        self._results = results
        self._needs_replicas = required_acks == ACKS_ALL

    def try_complete(self) -> bool:
        waiting = self._waiting
        for at in range(len(waiting) - 1, -1, -1):
            if not self._still_waits(waiting[at]):
                del waiting[at]
        return not waiting and self.force_complete()

    def _still_waits(self, append: Unacknowledged) -> bool:
        try:
            append.partition.check_leader()
        except ApiError as error:
            self._results[append.at] = AppendError(error.code, error.message)
            return False  # case A
        log = append.partition.log
        if self._needs_replicas and log.high_watermark < append.required_offset:
            return True  # case B
        return append.needs_flush and log.recovery_point < append.required_offset  # case C

    def on_expiration(self) -> None:
        for append in self._waiting:
            self._results[append.at] = AppendError(
                ErrorCode.REQUEST_TIMED_OUT, f"{append.partition} was not replicated or flushed in time."
            )

    def on_complete(self) -> None:
        self.pending.complete(self._results)


class DeletionResult:
    """What became of deleting one partition's records before `required_offset`.

    `low_watermark` is the lowest log start offset among the replicas; -1 where an error left it unknown.
    """

    __slots__ = ("error", "low_watermark", "partition", "required_offset", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.error = ErrorCode.NONE
        self.required_offset = -1
        self.low_watermark = -1

    def fail(self, code: ErrorCode) -> None:
        self.error = code
        self.low_watermark = -1


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
