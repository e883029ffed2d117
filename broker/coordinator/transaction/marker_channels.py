"""TransactionMarkerChannelManager: sends transaction markers to the leaders of partitions, here and in other brokers.

Each broker has a queue and one request under way; what gathers meanwhile goes with the next one. Markers for partitions
whose leader is not known, or not alive, wait until an image has one.
Source: kafka.coordinator.transaction.TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels, error_of
from barnabas.broker.coordinator.txn import MarkerWriter, TransactionMarker
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.node_client.channel import NodeClientError
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.schema import Message
from barnabas.storage.offsets import TopicPartition

logger = logging.getLogger("barnabas.transactions")

Codes = Mapping[TopicPartition, ErrorCode]

_rate_limit: Final = RateLimit()


class _Entry:
    """A marker for partitions of one leader, on its way there."""

    __slots__ = ("is_current", "marker", "partitions", "pending")

    def __init__(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], is_current: Callable[[], bool]
    ) -> None:
        self.marker = marker
        self.partitions = partitions
        self.is_current = is_current
        self.pending: Pending[Codes] = Pending()

    def fail(self, error: ErrorCode) -> None:
        self.pending.complete(dict.fromkeys(self.partitions, error))

    def answer(self, codes: Codes) -> None:
        """Completes with the codes of its partitions; one that the response lacks is sent again."""
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        self.pending.complete({partition: codes.get(partition, missing) for partition in self.partitions})


class _Queue:
    """The markers for one broker; `is_busy` while a request is under way."""

    __slots__ = ("entries", "is_busy")

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.is_busy = False


class TransactionMarkerChannelManager:
    """A MarkerSender. `local` writes to the partitions that this broker leads. Lives on the event loop."""

    def __init__(self, brokers: BrokerChannels, local: MarkerWriter) -> None:
        self._brokers = brokers
        self._local = local
        self._queues: dict[int, _Queue] = {}
        self._unknown: list[_Entry] = []

    @property
    def unknown_destinations(self) -> int:
        """How many markers wait for a leader (UnknownDestinationQueueSize)."""
        return len(self._unknown)

    def send(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], is_current: Callable[[], bool]
    ) -> Sequence[Pending[Codes]]:
        """One result for each leader, and one for each partition without a leader.

        A broker that cannot be reached gives NETWORK_EXCEPTION.
        """
        answers = []
        for leader, found in self._by_leader(partitions).items():
            if leader == self._brokers.node_id:
                answers.append(self._local.write(marker, found))
            elif leader is None:
                entries = [_Entry(marker, [partition], is_current) for partition in found]
                self._unknown.extend(entries)
                answers.extend(entry.pending for entry in entries)
            else:
                entry = _Entry(marker, found, is_current)
                answers.append(entry.pending)
                self._enqueue(leader, entry)
        return answers

    def _by_leader(self, partitions: Sequence[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        found: dict[int | None, list[TopicPartition]] = {}
        for partition in partitions:
            found.setdefault(self._leader(partition), []).append(partition)
        return found

    def _leader(self, partition: TopicPartition) -> int | None:
        """The leader; None while there is none that is alive. A deleted partition has no other than this broker, which
        answers that it is unknown."""
        topic = self._brokers.image().topics.get(partition[0])
        known = None if topic is None else topic.partitions.get(partition[1])
        return self._brokers.node_id if known is None else self._brokers.alive(known.leader)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Sends the markers that waited for a leader, and gives back those that wait for a broker which does not lead
        their partitions any more."""
        if not (delta.changed_topics or delta.deleted_topics or delta.broker_changes or delta.created_topics):
            return
        waiting, self._unknown = self._unknown, []
        for entry in waiting:
            self._route(entry)
        for node_id, queue in list(self._queues.items()):
            queued, queue.entries = queue.entries, []
            for entry in queued:
                if any(self._leader(partition) != node_id for partition in entry.partitions):
                    entry.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                else:
                    queue.entries.append(entry)

    def _route(self, entry: _Entry) -> None:
        """Sends a marker of one partition that waited for a leader."""
        leader = self._leader(entry.partitions[0])
        if not entry.is_current():
            entry.fail(ErrorCode.NOT_COORDINATOR)
        elif leader is None:
            self._unknown.append(entry)
        elif leader == self._brokers.node_id:
            self._local.write(entry.marker, entry.partitions).add_done_callback(entry.pending.complete)
        else:
            self._enqueue(leader, entry)

    def _enqueue(self, node_id: int, entry: _Entry) -> None:
        queue = self._queues.setdefault(node_id, _Queue())
        queue.entries.append(entry)
        if not queue.is_busy:
            self._flush(node_id, queue)

    def _flush(self, node_id: int, queue: _Queue) -> None:
        """Sends what is queued and still current, in one request."""
        queued, queue.entries = queue.entries, []
        current = [entry for entry in queued if entry.is_current()]
        outdated = [entry for entry in queued if entry not in current]
        channel = self._brokers.channel(node_id) if current else None
        if channel is not None:
            queue.is_busy = True
            answer = channel.send(_request(current), timeout_ms=self._brokers.request_timeout_ms())
            answer.add_done_callback(lambda result: self._responded(node_id, queue, current, result))
        else:
            for entry in current:
                entry.fail(ErrorCode.NETWORK_EXCEPTION)
        for entry in outdated:
            entry.fail(ErrorCode.NOT_COORDINATOR)

    def _responded(
        self, node_id: int, queue: _Queue, sent: Sequence[_Entry], result: Message | NodeClientError
    ) -> None:
        queue.is_busy = False
        if isinstance(result, WriteTxnMarkersResponse):
            codes = _codes(result)
            for entry in sent:
                entry.answer(codes.get(entry.marker.producer_id, {}))
        else:
            _rate_limit.warning(
                logger, node_id, "transaction markers could not be sent to broker %d: %s", node_id, result
            )
            for entry in sent:
                entry.fail(ErrorCode.NETWORK_EXCEPTION)
        if queue.entries and not queue.is_busy:
            self._flush(node_id, queue)


def _request(entries: Sequence[_Entry]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=entry.marker.producer_id,
                producer_epoch=entry.marker.producer_epoch,
                transaction_result=entry.marker.committed,
                topics=[
                    WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in _by_topic(entry.partitions).items()
                ],
                coordinator_epoch=entry.marker.coordinator_epoch,
                transaction_version=entry.marker.transaction_version,
            )
            for entry in entries
        ]
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, index in partitions:
        found.setdefault(name, []).append(index)
    return found


def _codes(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, ErrorCode]]:
    """The codes of the partitions, by producer id."""
    found: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in response.markers:
        codes = found.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                codes[topic.name, partition.partition_index] = error_of(partition.error_code)
    return found
