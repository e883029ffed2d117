"""DelayedFetch: a fetch that waits for enough bytes. Source: kafka.server.DelayedFetch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from barnabas.broker.error_map import MAPPED_ERRORS
from barnabas.broker.fetch.context import FetchParams
from barnabas.broker.fetch.partition import FetchPartition, readable_end
from barnabas.broker.replica.partition import NO_EPOCH
from barnabas.broker.waiting.purgatory import DelayedOperation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, LogOffsetMetadata

_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_LOG_END: Final = FetchIsolation.LOG_END
_UNREADABLE: Final[tuple[type[Exception], ...]] = (OSError, *MAPPED_ERRORS)


class DelayedFetch(DelayedOperation):
    """Completes when `min_bytes` can be read over all partitions, or when one of them needs a response at once.

    A. This broker no longer leads a partition, or it is gone.
    B. The partition's leader epoch is not the one that the reader named.
    C. The fetch offset is past the end (the log was truncated): the response reports it. A reader of committed
       records that is only past the last stable offset waits for it; in Kafka such a reader polls without a pause.
    D. A segment was rolled since: records were added, and bytes across segments are not worth counting.
    E. The accumulated bytes reach min_bytes.
    F. Where they end cannot be looked up: the response has the error, which the append that caused the check must not
       get.

    `entries` are those that were read, each with its `partition` and where its read began (`start`). Of a session they
    are those that do not rest, so that partitions woken during the wait appear among them.
    """

    def __init__(
        self, params: FetchParams, entries: Iterable[FetchPartition], respond: Callable[[], None]
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._entries = entries
        self._respond = respond

    def try_complete(self) -> bool:
        try:
            is_over = self._is_over()
        except _UNREADABLE:
            is_over = True  # case F
        return is_over and self.force_complete()

    def _is_over(self) -> bool:
        """Raises OSError and MAPPED_ERRORS."""
        isolation = self._params.isolation
        available = 0
        for entry in self._entries:
            partition, start = entry.partition, entry.start
            if partition is None or start is None:
                continue  # it is unknown
            if partition.offline or partition.leader_id != partition.local_node_id:
                return True  # case A
            if entry.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch):
                return True  # case B
            log = partition.log
            offset = entry.fetch_offset
            end = readable_end(log, isolation)
            if end == offset:
                continue
            if end < offset:
                if offset <= log.high_watermark:
                    continue
                return True  # case C
            reached = _end_metadata(log, isolation, end)
            if not reached.on_same_segment(start):
                return True  # case D
            available += min(reached.position - start.position, entry.max_bytes)
            if available >= self._params.min_bytes:
                return True  # case E
        return False

    def on_expiration(self) -> None:
        """The response is what can be read now, which on_complete sends."""

    def on_complete(self) -> None:
        self._respond()


def _end_metadata(log: UnifiedLog, isolation: FetchIsolation, end: int) -> LogOffsetMetadata:
    if isolation is _LOG_END or end == log.log_end_offset:
        return log.log_end_offset_metadata
    if isolation is _TXN_COMMITTED:
        return log.last_stable_offset_metadata
    return log.high_watermark_metadata
