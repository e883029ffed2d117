"""ReplicaReader: reads from many partitions at once, and waits while they have too little to give.

Source: kafka.server.ReplicaManager (fetchMessages, readFromLog).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.delayed_operations import DelayedFetch
from broker.error_map import MAPPED_ERRORS, error_code_of
from broker.fetch_session import FetchPartition
from broker.partition_io import FetchParams, FetchResult, TopicProbe
from broker.request import Pending
from protocol.errors import ErrorCode
from storage.errors import DiskFullError, KafkaStorageError, OutOfResourcesError
from storage.offsets import FileRecords
from storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from broker.replica_manager import ReplicaManager

CONSUMER: Final = -1
"""The replica id of a reader that is no replica."""

UNKNOWN_PARTITION: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
NOBODYS_FAULT: Final = (DiskFullError, OutOfResourcesError)
"""What passes without anything being in doubt; after any other failure a log directory is not to be trusted."""

_NO_RECORDS: Final = FileRecords(None, 0, 0)


def log_dir_of(log: UnifiedLog) -> str:
    """The log directory (one of log.dirs) that holds the partition's directory."""
    return log.directory.rpartition("/")[0]


class ReplicaReader:
    """The reading half of a ReplicaManager."""

    def __init__(self, replicas: ReplicaManager, probe: TopicProbe, now_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._probe = probe
        self._now_ms = now_ms

    def fetch(
        self, params: FetchParams, requests: Sequence[FetchPartition]
    ) -> list[FetchResult] | Pending[list[FetchResult]]:
        """Reads every partition of `requests`, in order; pending while there is less than `min_bytes` to give."""
        results = self._read(params, requests)
        if self._is_answer(params, results):
            self._count(params, requests, results)
            return results
        waiting = [
            (
                request,
                self._replicas.partition(request.topic, request.partition),
                result.data.fetch_offset_metadata,
            )
            for request, result in zip(requests, results, strict=True)
            if result.data is not None
        ]
        pending: Pending[list[FetchResult]] = Pending()

        def respond() -> None:
            again = self._read(params, requests)
            self._count(params, requests, again)
            pending.complete(again)

        keys = [(partition.topic, partition.index) for _, partition, _ in waiting]
        self._replicas.fetch_purgatory.try_complete_else_watch(DelayedFetch(params, waiting, respond), keys)
        return pending

    def _count(
        self, params: FetchParams, requests: Sequence[FetchPartition], results: Sequence[FetchResult]
    ) -> None:
        """Tells the probe what goes out."""
        for request, result in zip(requests, results, strict=True):
            if result.error is not ErrorCode.NONE:
                self._probe.fetch_failed(request.topic or "")
            elif params.replica_id == CONSUMER:
                self._probe.fetched(request.topic or "", result.size)

    @staticmethod
    def _is_answer(params: FetchParams, results: Sequence[FetchResult]) -> bool:
        """Whether `results` go out as they are: nobody waits, or there is enough, or something is wrong.

        A partition that nobody knows is not worth an answer of its own while others can be waited for: a reader that
        was not told yet that one of its topics is gone must not be sent round in circles.
        """
        known = [result for result in results if result.error not in UNKNOWN_PARTITION]
        if params.max_wait_ms <= 0 or not known:
            return True
        total = 0
        for result in known:
            if result.error is not ErrorCode.NONE or result.diverging_epoch is not None:
                return True
            total += result.size
        return total >= params.min_bytes

    def _read(self, params: FetchParams, requests: Sequence[FetchPartition]) -> list[FetchResult]:
        """One read of each partition. The first that has records gives at least one whole batch, whatever its size;
        after that the rest of `max_bytes` is the limit."""
        results = []
        left = params.max_bytes
        min_one_message = True
        for request in requests:
            result = FetchResult()
            results.append(result)
            try:
                self._read_partition(params, request, min(left, request.max_bytes), min_one_message, result)
            except MAPPED_ERRORS as error:
                result.error = error_code_of(error)
                if isinstance(error, KafkaStorageError):
                    self._read_failed(request, error)
                continue
            if result.size:
                min_one_message = False
                left = max(0, left - result.size)
        return results

    def _read_failed(self, request: FetchPartition, error: KafkaStorageError) -> None:
        """An error of the disk itself takes the log directory offline, as it does when something is written."""
        if isinstance(error.__cause__, OSError) and not isinstance(error, NOBODYS_FAULT):
            log = self._replicas.partition(request.topic, request.partition, request.topic_id).log
            self._replicas.log_dir_failed(log_dir_of(log), str(error))

    def _read_partition(
        self,
        params: FetchParams,
        request: FetchPartition,
        limit: int,
        min_one_message: bool,
        result: FetchResult,
    ) -> None:
        partition = self._replicas.partition(request.topic, request.partition, request.topic_id)
        partition.check_leader(request.current_leader_epoch)
        log = partition.log
        result.log_start_offset = log.log_start_offset
        result.high_watermark = log.high_watermark
        result.last_stable_offset = log.last_stable_offset
        if request.last_fetched_epoch >= 0:
            result.diverging_epoch = partition.diverging_epoch(
                request.last_fetched_epoch, request.fetch_offset
            )
            if result.diverging_epoch is not None:
                return
        data = partition.read(request.fetch_offset, limit, params.isolation, min_one_message=min_one_message)
        if data.first_entry_incomplete:
            data.records = _NO_RECORDS  # half a batch is of no use to anybody
        result.data = data
        if params.replica_id >= 0:
            key = (partition.topic, partition.index)
            if partition.follower_fetched(
                params.replica_id, request.fetch_offset, request.fetcher_log_start_offset, self._now_ms()
            ):
                self._replicas.complete_waiting(key)
            self._replicas.delete_records_purgatory.check_and_complete(key)
