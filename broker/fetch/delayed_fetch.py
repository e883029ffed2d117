"""DelayedFetch: a fetch that waits for enough bytes. Source: kafka.server.DelayedFetch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from barnabas.broker.error_map import MAPPED_ERRORS
from barnabas.broker.fetch.context import FetchParams
from barnabas.broker.fetch.partition import FetchPartition, readable_end
from barnabas.broker.replica.partition import NO_EPOCH, Partition
from barnabas.broker.waiting.purgatory import DelayedOperation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, LogOffsetMetadata

if TYPE_CHECKING:
    from barnabas.broker.fetch.leader_throttle import LeaderThrottle

_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_LOG_END: Final = FetchIsolation.LOG_END
_UNREADABLE: Final[tuple[type[Exception], ...]] = (OSError, *MAPPED_ERRORS)


class FetchExpirations:
    """How many fetches have waited until their timeout (DelayedFetchMetrics), of consumers and of followers."""

    __slots__ = ("consumer", "follower")

    def __init__(self) -> None:
        self.consumer = 0
        self.follower = 0


class DelayedFetch(DelayedOperation):
    """Completes when `min_bytes` can be read over all partitions, or when one of them needs a response at once.

    A. This broker no longer leads a partition (for readers that may only read from the leader), or it is gone, or it is
       being truncated.
    B. The partition's leader epoch is not the one that the reader named.
    C. The fetch offset is past the end (the log was truncated): the response reports it. A reader of committed
       records that is only past the last stable offset waits for it; in Kafka such a reader polls without a pause.
    D. A segment was rolled since: records were added, and bytes across segments are not worth counting.
    E. The accumulated bytes reach min_bytes.
    F. Where they end cannot be looked up: the response has the error, which the append that caused the check must not
       get.
    H. A follower, read by a consumer, has been truncated and now diverges from what the reader has: the response says
       where. A leader's log does not change so.

    Partitions whose records a follower does not get now, because of the leader's `throttle`, do not count in D and E:
    the response would not have the records, and the follower would ask again without a pause. When the rate has
    fallen, the next append completes the fetch, or its timeout does.

    `entries` are those that were read, each with its `partition` and where its read began (`start`). Of a session they
    are those that do not rest, so that partitions woken during the wait appear among them.
    """

    def __init__(
        self,
        params: FetchParams,
        entries: Iterable[FetchPartition],
        respond: Callable[[], None],
        expirations: FetchExpirations,
        throttle: LeaderThrottle | None = None,
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._entries = entries
        self._respond = respond
        self._expirations = expirations
        self._throttle = throttle

    def try_complete(self) -> bool:
        try:
            is_over = self._is_over()
        except _UNREADABLE:
            is_over = True  # case F
        return is_over and self.force_complete()

    def _is_over(self) -> bool:
        """Raises OSError and MAPPED_ERRORS."""
        isolation = self._params.isolation
        only_leader = self._params.only_leader
        available = 0
        for entry in self._entries:
            partition, start = entry.partition, entry.start
            if partition is None or start is None:
                continue  # it is unknown
            is_leader = partition.leader_id == partition.local_node_id
            if partition.offline or not (is_leader or partition.may_be_read(only_leader)):
                return True  # case A
            if entry.current_leader_epoch not in (NO_EPOCH, partition.leader_epoch) or (
                not is_leader and _diverges(partition, entry)
            ):
                return True  # cases B and H
            log = partition.log
            offset = entry.fetch_offset
            end = readable_end(log, isolation)
            if end == offset:
                continue
            if end < offset:
                if offset <= log.high_watermark:
                    continue
                return True  # case C
            throttle = self._throttle
            if throttle is not None and throttle.should_throttle(partition, self._params.replica_id):
                continue
            reached = _end_metadata(log, isolation, end)
            if not reached.on_same_segment(start):
                return True  # case D
            available += min(reached.position - start.position, entry.max_bytes)
            if available >= self._params.min_bytes:
                return True  # case E
        return False

    def on_expiration(self) -> None:
        """Counts it; the response is what can be read now, which on_complete sends."""
        if self._params.replica_id >= 0:
            self._expirations.follower += 1
        else:
            self._expirations.consumer += 1

    def on_complete(self) -> None:
        self._respond()


def _diverges(partition: Partition, entry: FetchPartition) -> bool:
    last_epoch = entry.last_fetched_epoch
    return last_epoch >= 0 and partition.diverging_epoch(last_epoch, entry.fetch_offset) is not None


def _end_metadata(log: UnifiedLog, isolation: FetchIsolation, end: int) -> LogOffsetMetadata:
    if isolation is _LOG_END or end == log.log_end_offset:
        return log.log_end_offset_metadata
    if isolation is _TXN_COMMITTED:
        return log.last_stable_offset_metadata
    return log.high_watermark_metadata
