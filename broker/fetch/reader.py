"""ReplicaReader: reads from many partitions at once, and waits while they have too little to give.

Source: kafka.server.ReplicaManager (fetchMessages, readFromLog).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from broker.error_map import MAPPED_ERRORS, error_code_of
from broker.fetch.context import FetchContext, FetchParams
from broker.fetch.delayed_fetch import DelayedFetch, readable_end
from broker.fetch.partition import FetchPartition, size_of
from broker.fetch.session import LOOK_AROUND_MS, FetchSession
from broker.pending import Pending
from broker.probes import TopicProbe
from broker.replica.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from storage.errors import KafkaStorageError
from storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from broker.replica.replica_manager import ReplicaManager

R = TypeVar("R")
PartitionData = FetchResponse.PartitionData

CONSUMER: Final = -1
"""The replica id of a reader that is no replica."""

UNKNOWN_PARTITION: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK


class ReplicaReader:
    """The reading half of a ReplicaManager."""

    def __init__(self, replicas: ReplicaManager, probe: TopicProbe, now_ms: Callable[[], int]) -> None:
        self._replicas = replicas
        self._probe = probe
        self._now_ms = now_ms

    def fetch(
        self, params: FetchParams, context: FetchContext, answer: Callable[[list[PartitionData]], R]
    ) -> R | Pending[R]:
        """What `answer` makes of the data of each of the context's partitions, read in their order.

        Pending while there is less than `min_bytes` to give. Partitions of a consumer's session that have nothing new
        to say are put to rest.
        """
        session = context.session if params.replica_id == CONSUMER else None
        if session is not None and session.last_used_ms // LOOK_AROUND_MS != session.looked_around:
            _look_around(session, params.isolation)
            context.look_again()
        data, is_answer = self._read(params, context, session)
        if is_answer:
            self._count(params, context, session, data)
            return answer(data)
        return self._fetch_later(params, context, session, answer)

    def _fetch_later(
        self,
        params: FetchParams,
        context: FetchContext,
        session: FetchSession | None,
        answer: Callable[[list[PartitionData]], R],
    ) -> Pending[R]:
        """The same, where there was too little."""
        pending: Pending[R] = Pending()

        def respond() -> None:
            context.look_again()
            again, _ = self._read(params, context, session)
            self._count(params, context, session, again)
            pending.complete(answer(again))
            if session is not None and session.is_closed:
                session.close()

        self._wait(params, context, session, respond)
        return pending

    def _wait(
        self,
        params: FetchParams,
        context: FetchContext,
        session: FetchSession | None,
        respond: Callable[[], None],
    ) -> None:
        """Partitions of a session watch for it, whether they rest or not; else the fetch stands under each key."""
        purgatory = self._replicas.fetch_purgatory
        if session is None:
            keys = [request.source.key for request in context.partitions if request.source is not None]
            purgatory.try_complete_else_watch(DelayedFetch(params, context.partitions, respond), keys)
            return
        for request in context.partitions:
            if request.source is not None and request.place is None:
                request.place = purgatory.watch(request.source.key, request)
        operation = DelayedFetch(params, session.active, respond)
        purgatory.try_complete_else_watch(operation, (), session.waiting)

    def _count(
        self,
        params: FetchParams,
        context: FetchContext,
        session: FetchSession | None,
        answers: Sequence[PartitionData],
    ) -> None:
        """Tells the probe what goes out."""
        probe = self._probe
        is_consumer = params.replica_id == CONSUMER
        for request, data in zip(context.partitions, answers, strict=True):
            if data.error_code:
                probe.fetch_failed(request.topic or "")
            elif is_consumer:
                probe.fetched(request.topic or "", size_of(data))
        if session is not None:
            for topic, count in session.resting.items():
                probe.fetched_nothing(topic, count)

    def _read(
        self, params: FetchParams, context: FetchContext, session: FetchSession | None
    ) -> tuple[list[PartitionData], bool]:
        """One read of each partition, and whether that is an answer: nobody waits, or there is enough, or something is
        wrong.

        The first that has records gives at least one whole batch, whatever its size; after that the rest of `max_bytes`
        is the limit. A partition that nobody knows is not worth an answer of its own while others can be waited for: a
        reader that was not told yet that one of its topics is gone must not be sent round in circles.
        """
        answers: list[PartitionData] = []
        total = 0
        left = params.max_bytes
        is_wrong = False
        knows_any = session is not None and bool(session.resting)
        for request in context.partitions:
            limit = left if left < request.max_bytes else request.max_bytes
            try:
                data = self._read_partition(params, request, limit, min_one_message=not total)
            except MAPPED_ERRORS as error:
                data = self._failed(request, error)
                if data.error_code not in UNKNOWN_PARTITION:
                    knows_any = is_wrong = True
            else:
                knows_any = True
                if request.source is None:  # it diverges
                    is_wrong = True
                elif size := size_of(data):
                    total += size
                    left = max(0, left - size)
                elif session is not None:
                    self._maybe_rest(params, session, request, data)
            answers.append(data)
        return answers, is_wrong or not knows_any or total >= params.min_bytes or params.max_wait_ms <= 0

    def _maybe_rest(
        self, params: FetchParams, session: FetchSession, request: FetchPartition, data: PartitionData
    ) -> None:
        """After a read without records."""
        if session.answers_all:
            request.answered(data)
            request.data = data
        if request.source is not None and _has_nothing_new(request, params.isolation):
            if request.place is None:
                request.place = self._replicas.fetch_purgatory.watch(request.source.key, request)
            session.rest(request)

    def _read_partition(
        self, params: FetchParams, request: FetchPartition, limit: int, *, min_one_message: bool
    ) -> PartitionData:
        """Raises one of MAPPED_ERRORS."""
        request.source = None
        partition = self._replicas.partition(request.topic, request.partition, request.topic_id)
        partition.check_leader(request.current_leader_epoch)
        log = partition.log
        data = PartitionData.make(
            partition_index=request.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if request.last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(request.last_fetched_epoch, request.fetch_offset)
            if diverging is not None:
                data.diverging_epoch = FetchResponse.EpochEndOffset(
                    epoch=diverging.epoch, end_offset=diverging.end_offset
                )
                return data
        if (
            request.fetch_offset == log.high_watermark
            and params.isolation is _HIGH_WATERMARK
            and not log.is_failed
        ):  # whoever has read everything asks for this, each time: it needs no look into the log
            request.source = partition
            request.start = log.high_watermark_metadata
            return data
        info = log.read(request.fetch_offset, limit, params.isolation, min_one_message=min_one_message)
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
            self._follower_fetched(partition, params.replica_id, request)
        request.source = partition
        request.start = info.fetch_offset_metadata
        return data

    def _follower_fetched(self, partition: Partition, replica_id: int, request: FetchPartition) -> None:
        if partition.follower_fetched(
            replica_id, request.fetch_offset, request.fetcher_log_start_offset, self._now_ms()
        ):
            self._replicas.complete_waiting(partition.key)
        self._replicas.delete_records_purgatory.check_and_complete(partition.key)

    def _failed(self, request: FetchPartition, error: Exception) -> PartitionData:
        if isinstance(error, KafkaStorageError):
            partition = self._replicas.partition(request.topic, request.partition, request.topic_id)
            self._replicas.read_failed(partition, error)
        code = error_code_of(error)
        return PartitionData.make(
            partition_index=request.partition,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=[] if code in UNKNOWN_PARTITION else None,  # as Kafka has it
            records=b"",
        )


def _look_around(session: FetchSession, isolation: FetchIsolation) -> None:
    session.look_around(lambda request: _has_nothing_new(request, isolation))


def _has_nothing_new(request: FetchPartition, isolation: FetchIsolation) -> bool:
    """Whether a consumer's read of the partition would find no records, no error and no number but what it was told."""
    partition = request.source
    if partition is None or partition.log.is_failed:
        return False
    log = partition.log
    return (
        request.fetch_offset >= readable_end(log, isolation)
        and request.high_watermark == log.high_watermark
        and request.log_start_offset == log.log_start_offset
        and request.last_fetched_epoch < 0
    )
