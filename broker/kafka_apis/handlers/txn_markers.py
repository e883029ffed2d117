"""WriteTxnMarkers: appends the markers of a transaction, for its coordinator, or for an operator who ends a stray one.

Source: kafka.server.KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import denied, is_allowed
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_END_ANY, _AS_BROKER = checks_of(ApiKey.WRITE_TXN_MARKERS)

Codes = dict[TopicPartition, ErrorCode]


@api(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2))
def write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> Pending[WriteTxnMarkersResponse]:
    """The results are grouped by producer; for a partition that is named twice the last one counts.

    A marker without a producer id or epoch fails the whole request, though the markers before it are written: as in
    Kafka, which cannot build a batch of it. For offsets of groups Kafka builds none, and only the marker fails.
    """
    if not (is_allowed(broker, context, _END_ANY) or is_allowed(broker, context, _AS_BROKER)):
        return completed(_rejected(request, denied(_AS_BROKER).code))
    if context.meter is not None:
        context.meter.exempt()
    written: list[Pending[Codes]] = []
    for marker in request.markers:
        if _is_of_no_producer(marker) and _names_plain_partition(broker, marker):
            return completed(_rejected(request, ErrorCode.UNKNOWN_SERVER_ERROR))
        written.append(_write(broker, marker))

    def respond(results: list[Codes]) -> WriteTxnMarkersResponse:
        by_producer: dict[int, Codes] = {}
        for marker, codes in zip(request.markers, results, strict=True):
            by_producer.setdefault(marker.producer_id, {}).update(codes)
        return WriteTxnMarkersResponse(
            markers=[_result(id_, codes) for id_, codes in by_producer.items() if codes]
        )

    return all_of(written).then(respond)


def _write(broker: Broker, marker: WriteTxnMarkersRequest.WritableTxnMarker) -> Pending[Codes]:
    """Partitions whose log is offline count as unknown, as in Kafka."""
    known: Codes = {}
    here: list[TopicPartition] = []
    for topic in marker.topics:
        for index in topic.partition_indexes:
            if broker.replica_manager.is_offline(topic.name, index):
                known[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif _is_of_no_producer(marker):
                known[topic.name, index] = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                here.append((topic.name, index))
    written = broker.txn_markers.write(
        TransactionMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            committed=marker.transaction_result,
            transaction_version=marker.transaction_version,
        ),
        here,
    )
    return written.then(lambda codes: {**known, **codes})


def _is_of_no_producer(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> bool:
    return marker.producer_id == NO_PRODUCER_ID or marker.producer_epoch == NO_PRODUCER_EPOCH


def _names_plain_partition(broker: Broker, marker: WriteTxnMarkersRequest.WritableTxnMarker) -> bool:
    """Whether the marker is for a partition that is here and holds no offsets of groups."""
    return any(
        topic.name != CONSUMER_OFFSETS and not broker.replica_manager.is_offline(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def _rejected(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    """The same error for every partition."""
    by_producer: dict[int, Codes] = {}
    for marker in request.markers:
        known = by_producer.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            known.update({(topic.name, index): code for index in topic.partition_indexes})
    return WriteTxnMarkersResponse(markers=[_result(id_, codes) for id_, codes in by_producer.items()])


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
