"""DelayedProduce: acknowledgements that wait for replicas or the disk.

Source: kafka.server.DelayedProduce (the comments name its cases).
"""

from __future__ import annotations

from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.broker.waiting.purgatory import DelayedOperation
from barnabas.protocol.errors import ApiError, ErrorCode


class Unacknowledged:
    """An append to acknowledge when all before `required_offset` is replicated and, with `needs_flush`, synced.

    `at` is its index among the results of its request.
    """

    __slots__ = ("at", "needs_flush", "partition", "required_offset")

    def __init__(self, partition: Partition, at: int, required_offset: int, needs_flush: bool) -> None:
        self.partition = partition
        self.at = at
        self.required_offset = required_offset
        self.needs_flush = needs_flush


class DelayedProduce(DelayedOperation):
    """Completes when every partition's records are replicated and durable as far as was asked, or can never be.

    A. The partition is gone, offline or led by another broker: its result is that error.
    B. acks=all: the high watermark has reached the end of what was appended. The result is an error where the ISR has
       become too small meanwhile: the records are in the log, and may be in too few.
    C. A flush policy asked for an fsync: the recovery point has reached the end of what was appended.

    `pending` completes with the request's results; an error replaces the result of its partition.
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
        if self._needs_replicas:
            if log.high_watermark < append.required_offset:
                return True  # case B
            if not append.partition.has_enough_in_sync:
                self._results[append.at] = AppendError(
                    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                    f"{append.partition} has too few replicas in sync since the records were appended.",
                )
                return False
        return append.needs_flush and log.recovery_point < append.required_offset  # case C

    def on_expiration(self) -> None:
        for append in self._waiting:
            self._results[append.at] = AppendError(
                ErrorCode.REQUEST_TIMED_OUT, f"{append.partition} was not replicated or flushed in time."
            )

    def on_complete(self) -> None:
        self.pending.complete(self._results)
