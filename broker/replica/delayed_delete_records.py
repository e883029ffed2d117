"""DelayedDeleteRecords: deletions of records that wait for replicas.

Source: kafka.server.DelayedDeleteRecords (the comments name its cases).
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.broker.pending import Pending
from barnabas.broker.replica.partition import Partition
from barnabas.broker.waiting.purgatory import DelayedOperation
from barnabas.protocol.errors import ApiError, ErrorCode


class DeletionResult:
    """The result of deleting one partition's records before `required_offset`.

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
    """Completes when every partition's low watermark has reached the requested offset, or never can.

    A. The partition is gone, offline or led by another broker: its result is that error.
    B. The low watermark is there: no replica has the records any more.

    `pending` completes with `results`.
    """

    def __init__(
        self,
        delay_ms: int,
        waiting: Sequence[tuple[Partition, DeletionResult]],
        results: list[DeletionResult],
    ) -> None:
        super().__init__(delay_ms)
        self.pending: Pending[list[DeletionResult]] = Pending()
        self._waiting = list(waiting)
        self._results = results

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
        self.pending.complete(self._results)
