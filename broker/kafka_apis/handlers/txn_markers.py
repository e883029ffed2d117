"""WriteTxnMarkers: appends the markers of a transaction, for its coordinator, or for an operator who ends a stray one.

Source: kafka.server.KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

Codes = dict[TopicPartition, ErrorCode]


@api(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2))
def write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> Pending[WriteTxnMarkersResponse]:
    """The results are grouped by producer; for a partition that is named twice the last one counts.

    A marker without a producer id or epoch fails the whole request, though the markers before it are written: as in
    Kafka, which cannot build a batch of it. For offsets of groups Kafka builds none, and only the marker fails.
    """
    answer: Pending[WriteTxnMarkersResponse] = Pending()
    by_producer: dict[int, Codes] = {marker.producer_id: {} for marker in request.markers}
    left = len(request.markers)

    def respond() -> None:
        answer.complete(
            WriteTxnMarkersResponse(
                markers=[_result(id_, codes) for id_, codes in by_producer.items() if codes]
            )
        )

    def written(codes: Mapping[TopicPartition, ErrorCode], known: Codes) -> None:
        nonlocal left
        known.update(codes)
        left -= 1
        if not left:
            respond()

    if not left:
        respond()
    for marker in request.markers:
        if _is_of_no_producer(marker) and _names_plain_partition(broker, marker):
            return _rejected(request)
        known = by_producer[marker.producer_id]
        _write(broker, marker, known).add_done_callback(partial(written, known=known))
    return answer


def _write(
    broker: Broker, marker: WriteTxnMarkersRequest.WritableTxnMarker, known: Codes
) -> Pending[Mapping[TopicPartition, ErrorCode]]:
    """Partitions whose log is offline count as unknown, as in Kafka."""
    here: list[TopicPartition] = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            if broker.replica_manager.is_offline(topic.name, index):
                known[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif _is_of_no_producer(marker):
                known[topic.name, index] = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                here.append((topic.name, index))
    return broker.txn_markers.write(
        TransactionMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            committed=marker.transaction_result,
            transaction_version=marker.transaction_version,
        ),
        here,
    )


def _is_of_no_producer(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> bool:
    return marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH


def _names_plain_partition(broker: Broker, marker: WriteTxnMarkersRequest.WritableTxnMarker) -> bool:
    """Whether the marker is for a partition that is here and holds no offsets of groups."""
    return any(
        topic.name != CONSUMER_OFFSETS and not broker.replica_manager.is_offline(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def _rejected(request: WriteTxnMarkersRequest) -> Pending[WriteTxnMarkersResponse]:
    """UNKNOWN_SERVER_ERROR for every partition."""
    by_producer: dict[int, Codes] = {}
    for marker in request.markers:
        known = by_producer.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            known.update(
                {(topic.name, index): ErrorCode.UNKNOWN_SERVER_ERROR for index in topic.partition_indexes}
            )
    answer: Pending[WriteTxnMarkersResponse] = Pending()
    answer.complete(
        WriteTxnMarkersResponse(markers=[_result(id_, codes) for id_, codes in by_producer.items()])
    )
    return answer


def _result(producer_id: int, codes: Codes) -> WriteTxnMarkersResponse.WritableTxnMarkerResult:
    topics: dict[str, list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(
            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
    return WriteTxnMarkersResponse.WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[
            WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
