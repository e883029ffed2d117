"""Produce: appends batches and acknowledges them as asked for (acks 0, 1 or -1).

Versions below 3 carry message sets that no client of today sends; they are advertised all the same, because
librdkafka takes their absence as a reason not to compress (KAFKA-18659). From version 13 topics go by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replica_manager import AppendResult
from broker.request import CLOSE_CONNECTION, NO_RESPONSE, NoResponse, Pending, RequestContext, api
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from broker.services import Broker

PartitionData = tuple[str | None, int, Uuid, bytes | memoryview]


@api(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13))
def produce(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[ProduceResponse] | NoResponse:
    if request.acks not in (-1, 0, 1):
        return _refused(request, ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        return _refused(request, ErrorCode.INVALID_TXN_STATE)
    entries = _entries(broker, request, by_id=context.api_version >= 13)
    results = broker.replica_manager.append_records(entries, request.acks, request.timeout_ms)
    if isinstance(results, Pending):
        return results.then(lambda appended: _response(broker, request, appended))
    if request.acks == 0:
        failed = any(result.error is not ErrorCode.NONE for result in results)
        return CLOSE_CONNECTION if failed else NO_RESPONSE
    return _response(broker, request, results)


def _entries(broker: Broker, request: ProduceRequest, *, by_id: bool) -> list[PartitionData]:
    """One entry for each partition of the request, in its order; a topic id that is unknown has no name."""
    entries: list[PartitionData] = []
    names = broker.image.topic_names
    for topic in request.topic_data:
        name = names.get(topic.topic_id) if by_id else topic.name
        topic_id = topic.topic_id if by_id else ZERO_UUID
        entries.extend((name, data.index, topic_id, data.records or b"") for data in topic.partition_data)
    return entries


def _response(broker: Broker, request: ProduceRequest, results: list[AppendResult]) -> ProduceResponse:
    for result in results:
        if result.error is not ErrorCode.NONE:
            broker.error_probe.request_failed(ApiKey.PRODUCE.name, result.error.name)
    remaining = iter(results)
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _partition_response(data.index, next(remaining)) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _partition_response(index: int, result: AppendResult) -> ProduceResponse.PartitionProduceResponse:
    info = result.info
    if result.error is not ErrorCode.NONE or info is None:
        return _error(index, result.error, result)
    return ProduceResponse.PartitionProduceResponse(
        index=index,
        error_code=ErrorCode.NONE,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def _error(
    index: int, code: ErrorCode, result: AppendResult | None = None
) -> ProduceResponse.PartitionProduceResponse:
    errors = result.record_errors if result is not None else ()
    return ProduceResponse.PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        record_errors=[
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in errors
        ],
        error_message=result.error_message if result is not None else None,
    )


def _refused(request: ProduceRequest, code: ErrorCode) -> ProduceResponse | NoResponse:
    """The same error for every partition."""
    if request.acks == 0:
        return CLOSE_CONNECTION
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_error(data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
