"""Produce: appends batches and acknowledges them as asked for (acks 0, 1 or -1).

Versions below 3 carry message sets that no client of today sends; they are advertised all the same, because
librdkafka takes their absence as a reason not to compress (KAFKA-18659). From version 13 topics go by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.controller.topic_admin import is_internal
from broker.partition_io import AppendResult
from broker.request import CLOSE_CONNECTION, NO_RESPONSE, NoResponse, Pending, RequestContext, api
from broker.transactional_appends import TransactionalProduce
from protocol.api_keys import ApiKey
from protocol.errors import ApiError, ErrorCode
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.records.compression import CompressionType
from protocol.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.records.layout import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    LEGACY_OVERHEAD_V0,
    LOG_OVERHEAD,
    MAGIC_V2,
    TRANSACTIONAL_MASK,
)
from protocol.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from broker.services import Broker

Records = bytes | memoryview
PartitionData = tuple[str | None, int, Uuid, Records]

_ZSTD_SINCE: Final = 7
_ADMIN_CLIENT_ID: Final = "__admin_client"
"""By this client id Apache Kafka's own tools may write to the broker's topics (AdminUtils)."""

_LENGTH, _MAGIC, _ATTRIBUTES_LOW = 8, 16, ATTRIBUTES_POSITION + 1
"""Where a batch has its length, its format, and the bits of its attributes (the low byte of two)."""


@api(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13))
def produce(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[ProduceResponse | NoResponse] | NoResponse:
    version = context.api_version
    entries = _entries(broker, request, by_id=version >= 13)
    is_transactional = any(_is_transactional(records) for _, _, _, records in entries)
    if is_transactional and request.transactional_id is None:
        return _refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    check = _check_batch if version >= _ZSTD_SINCE else _check_batch_without_zstd
    if request.acks not in (-1, 0, 1):
        check = _check_acks

    def check_all(topic: str, records: Records) -> None:
        check(records)
        if is_internal(topic) and context.client_id != _ADMIN_CLIENT_ID:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to '{topic}', it is the broker's."
            )

    if is_transactional:
        assert request.transactional_id is not None
        produced = TransactionalProduce(
            request.transactional_id, version, entries, request.acks, request.timeout_ms, check_all
        )
        try:
            results = broker.txn_appends.append(produced)
        except ApiError as error:
            return _refused(request, error.code)
    else:
        results = broker.replica_manager.append_records(entries, request.acks, request.timeout_ms, check_all)
    if isinstance(results, Pending):
        return results.then(lambda appended: _answer(broker, request, appended))
    return _answer(broker, request, results)


def _answer(
    broker: Broker, request: ProduceRequest, results: list[AppendResult]
) -> ProduceResponse | NoResponse:
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


def _check_batch(records: Records) -> None:
    """What a producer sends has to be one record batch of format v2.

    Raises CorruptRecordError, InvalidRecordError. Source: ProduceRequest.validateRecords.
    """
    end = _end_of_batch(records, 0)
    if end is None or records[_MAGIC] != MAGIC_V2:
        raise InvalidRecordError("A producer sends its records in one whole batch of format v2.")
    if end != len(records) and _end_of_batch(records, end) is not None:
        raise InvalidRecordError("A producer sends one batch for each partition, not several.")


def _check_batch_without_zstd(records: Records) -> None:
    """The same for versions whose consumers need not know zstd. Raises UnsupportedCompressionError as well."""
    _check_batch(records)
    if records[_ATTRIBUTES_LOW] & COMPRESSION_MASK == CompressionType.ZSTD:
        raise UnsupportedCompressionError(f"Batches compressed with zstd come from version {_ZSTD_SINCE} on.")


def _check_acks(records: Records) -> None:
    """For a request whose acks mean nothing: what is wrong with a partition's batch comes first, and then this."""
    _check_batch(records)
    raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, "acks are 0, 1 or -1 (all).")


def _end_of_batch(records: Records, position: int) -> int | None:
    """Where the batch at `position` ends; None when not all of it is there. Raises CorruptRecordError."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return None
    length = int.from_bytes(records[position + _LENGTH : position + LOG_OVERHEAD], "big", signed=True)
    if length < LEGACY_OVERHEAD_V0:
        raise CorruptRecordError(f"A batch of {length} bytes is smaller than any that there is.")
    if left <= _MAGIC:
        return None
    if records[position + _MAGIC] > MAGIC_V2:
        raise CorruptRecordError(f"There is no record format {records[position + _MAGIC]}.")
    return position + LOG_OVERHEAD + length if LOG_OVERHEAD + length <= left else None


def _is_transactional(records: Records) -> bool:
    return (
        len(records) > _ATTRIBUTES_LOW
        and records[_MAGIC] == MAGIC_V2
        and records[_ATTRIBUTES_LOW] & TRANSACTIONAL_MASK != 0
    )


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
            if topic.partition_data
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
        log_start_offset=result.log_start_offset if result is not None else -1,
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
