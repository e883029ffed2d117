"""ReplicaReader: reads from many partitions at once, and waits while they have less than `min_bytes`.

Source: kafka.server.ReplicaManager (fetchMessages, readFromLog).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.error_map import MAPPED_ERRORS, error_code_of
from barnabas.broker.fetch.context import FetchContext, FetchParams
from barnabas.broker.fetch.delayed_fetch import DelayedFetch, FetchExpirations
from barnabas.broker.fetch.partition import FetchPartition, size_of
from barnabas.broker.fetch.session import FetchSession
from barnabas.broker.pending import Pending
from barnabas.broker.probes import TopicProbe
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from barnabas.broker.fetch.leader_throttle import LeaderThrottle
    from barnabas.broker.replica.replication_traffic import ReplicationTraffic

PartitionData = FetchResponse.PartitionData

CONSUMER: Final = -1
"""The replica id of a reader that is no replica."""

UNKNOWN_PARTITION: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors of partitions that are not looked up: they are unknown, or to the client they are."""
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK


class ReplicaSelector(Protocol):
    """Chooses the replica from which a consumer should read.

    Source: org.apache.kafka.common.replica.ReplicaSelector.
    """

    def select(self, partition: Partition, rack: str, listener: str, fetch_offset: int) -> int | None:
        """The node of a follower of the partition, which this broker leads; None where the leader is as good."""


class ReplicaReader:
    """Reads the partitions of a ReplicaManager. `selector` is the replica.selector.class, None without one; `throttle`
    and `traffic` are the replication quota of a cluster's member and the bytes that its followers are sent, None where
    the node is alone."""

    def __init__(
        self,
        replicas: ReplicaManager,
        probe: TopicProbe,
        selector: ReplicaSelector | None = None,
        throttle: LeaderThrottle | None = None,
        traffic: ReplicationTraffic | None = None,
    ) -> None:
        self._replicas = replicas
        self._purgatory = replicas.fetch_purgatory
        self._probe = probe
        self._selector = selector
        self._throttle = throttle
        self._traffic = traffic
        self.expirations = FetchExpirations()

    def read(
        self, params: FetchParams, context: FetchContext
    ) -> list[PartitionData] | Pending[list[PartitionData]]:
        """The data of each of the context's partitions, read in their order; pending while they have less than
        `min_bytes`.

        Partitions of a session that have nothing new are put to rest. When a pending result completes,
        the context's partitions are those that were read for it.
        """
        session = context.session if params.replica_id >= CONSUMER else None
        if session is not None and session.maybe_check_resting(params.isolation, params.follower):
            context.refresh()
        data, is_answer = self._read(params, context, session, is_first=True)
        if is_answer:
            self._count(params, context, session, data)
            return data
        pending: Pending[list[PartitionData]] = Pending()
        self._wait(params, context, session, partial(self._read_again, params, context, session, pending))
        return pending

    def _read_again(
        self,
        params: FetchParams,
        context: FetchContext,
        session: FetchSession | None,
        pending: Pending[list[PartitionData]],
    ) -> None:
        """The wait is over: the response is what can be read now."""
        context.refresh()
        data, _ = self._read(params, context, session, is_first=False)
        self._count(params, context, session, data)
        pending.complete(data)
        if context.session is not None:
            context.session.fetch_ended()

    def _wait(
        self,
        params: FetchParams,
        context: FetchContext,
        session: FetchSession | None,
        respond: Callable[[], None],
    ) -> None:
        """The partitions of a session watch their keys, whether they rest or not; other fetches watch the keys
        themselves."""
        throttle = self._throttle if params.replica_id >= 0 else None
        if session is not None:
            session.watch(self._purgatory)
            operation = DelayedFetch(params, session.active, respond, self.expirations, throttle)
            self._purgatory.try_complete_else_watch(operation, (), session.waiting)
            return
        keys = [entry.partition.key for entry in context.partitions if entry.partition is not None]
        operation = DelayedFetch(params, context.partitions, respond, self.expirations, throttle)
        if context.session is None:
            self._purgatory.try_complete_else_watch(operation, keys)
        else:
            self._purgatory.try_complete_else_watch(operation, keys, context.session.waiting)

    def _count(
        self,
        params: FetchParams,
        context: FetchContext,
        session: FetchSession | None,
        results: Sequence[PartitionData],
    ) -> None:
        """Counts the response in the probe, and a follower's in the throttle and the traffic."""
        probe = self._probe
        is_consumer = params.replica_id == CONSUMER
        for entry, data in zip(context.partitions, results, strict=True):
            if data.error_code:
                probe.fetch_failed(entry.topic or "")
            elif is_consumer:
                probe.fetched(entry.topic or "", size_of(data))
            elif params.replica_id >= 0 and entry.partition is not None and (size := size_of(data)):
                if self._throttle is not None:
                    self._throttle.record(entry.partition, size)
                if self._traffic is not None:
                    self._traffic.sent(entry.partition.key, params.replica_id, size)
        if session is not None and is_consumer:
            for topic, count in session.resting.items():
                probe.fetched_nothing(topic, count)

    def _read(
        self, params: FetchParams, context: FetchContext, session: FetchSession | None, *, is_first: bool
    ) -> tuple[list[PartitionData], bool]:
        """Reads each partition once; returns whether that is the response: for no wait, enough bytes, or an error.

        The first that has records gives at least one whole batch, whatever its size; after that the rest of `max_bytes`
        is the limit. An unknown partition alone does not end the wait for others: a reader that does not know yet that
        one of its topics was deleted would poll without a pause. Only the first read of a request says what a
        follower has: later ones may be long after it was sent.
        """
        results: list[PartitionData] = []
        total = 0
        left = params.max_bytes
        is_wrong = False
        knows_any = session is not None and bool(session.resting)
        for entry in context.partitions:
            limit = left if left < entry.max_bytes else entry.max_bytes
            try:
                data = self._read_partition(
                    params, entry, limit, min_one_message=not total, is_first=is_first
                )
            except MAPPED_ERRORS as error:
                data = self._failed(entry, error)
                if data.error_code not in UNKNOWN_PARTITION:
                    knows_any = is_wrong = True
            else:
                knows_any = True
                if entry.partition is None:  # the reader's log diverges, or another replica is better for it
                    is_wrong = True
                elif size := size_of(data):
                    total += size
                    left = max(0, left - size)
                elif session is not None:
                    session.maybe_rest(entry, data, params.isolation, self._purgatory, params.follower)
            results.append(data)
        return results, is_wrong or not knows_any or total >= params.min_bytes or params.max_wait_ms <= 0

    def _read_partition(
        self,
        params: FetchParams,
        entry: FetchPartition,
        limit: int,
        *,
        min_one_message: bool,
        is_first: bool,
    ) -> PartitionData:
        """Raises one of MAPPED_ERRORS."""
        entry.partition = None
        if entry.is_denied:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self._replicas.partition(entry.topic, entry.index, entry.topic_id)
        if params.only_leader:
            partition.check_leader(entry.current_leader_epoch)
        else:
            partition.check_readable(entry.current_leader_epoch)
        if params.replica_id >= 0:
            partition.check_follower(params.replica_id, entry.current_leader_epoch)
        log = partition.log
        data = PartitionData.make(
            partition_index=entry.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if self._selector is not None and params.rack and partition.is_leader and params.replica_id < 0:
            preferred = self._selector.select(partition, params.rack, params.listener, entry.fetch_offset)
            if preferred is not None:
                data.preferred_read_replica = preferred
                return data
        if entry.last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(entry.last_fetched_epoch, entry.fetch_offset)
            if diverging is not None:
                data.diverging_epoch = FetchResponse.EpochEndOffset(
                    epoch=diverging.epoch, end_offset=diverging.end_offset
                )
                return data
        if (
            entry.fetch_offset == log.high_watermark
            and params.isolation is _HIGH_WATERMARK
            and not log.is_failed
        ):  # a reader that has read everything asks for this, each time: it needs no look into the log
            entry.partition = partition
            entry.start = log.high_watermark_metadata
            return data
        info = log.read(entry.fetch_offset, limit, params.isolation, min_one_message=min_one_message)
        if (
            not info.first_entry_incomplete
        ):  # half a batch is of no use to a reader, nor what was aborted in it
            data.records = info.records
            if info.aborted_transactions is not None:
                data.aborted_transactions = [
                    FetchResponse.AbortedTransaction(
                        producer_id=aborted.producer_id, first_offset=aborted.first_offset
                    )
                    for aborted in info.aborted_transactions
                ]
        if params.replica_id >= 0:
            self._follower_read(partition, params, entry, data, is_first=is_first)
        entry.partition = partition
        entry.start = info.fetch_offset_metadata
        return data

    def _follower_read(
        self,
        partition: Partition,
        params: FetchParams,
        entry: FetchPartition,
        data: PartitionData,
        *,
        is_first: bool,
    ) -> None:
        """Notes what the follower has, and removes the records that it does not get now."""
        if is_first and partition.follower_fetched(
            params.replica_id,
            entry.fetch_offset,
            entry.fetcher_log_start_offset,
            broker_epoch=params.replica_epoch,
        ):
            self._replicas.complete_waiting(partition.key)
        throttle = self._throttle
        if throttle is not None and throttle.should_throttle(partition, params.replica_id):
            data.records = b""

    def _failed(self, entry: FetchPartition, error: Exception) -> PartitionData:
        if isinstance(error, KafkaStorageError):
            partition = self._replicas.partition(entry.topic, entry.index, entry.topic_id)
            self._replicas.read_failed(partition, error)
        code = error_code_of(error)
        return PartitionData.make(
            partition_index=entry.index,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=[] if code in UNKNOWN_PARTITION else None,  # as Kafka has it
            records=b"",
        )
