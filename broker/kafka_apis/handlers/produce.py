"""Produce: appends batches and acknowledges them as asked for (acks 0, 1 or -1).

Versions below 3 carry message sets that no client of today sends; they are advertised all the same, because
librdkafka takes their absence as a reason not to compress (KAFKA-18659). From version 13 topics go by id.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.topic_admin import INTERNAL_TOPICS
from barnabas.broker.coordinator.transaction.appends import TransactionalProduce
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendEntry, AppendError, AppendResult
from barnabas.broker.request import CLOSE_CONNECTION, NO_RESPONSE, NoResponse, RequestContext, api
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.layout import (
    ATTRIBUTES_LOW_POSITION,
    COMPRESSION_MASK,
    LEGACY_OVERHEAD_V0,
    LENGTH_MAGIC_ATTRIBUTES,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    TRANSACTIONAL_MASK,
)
from barnabas.protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.metadata.cluster_answers import BrokerNode

Records = bytes | memoryview

_WRITE_ID, _WRITE = checks_of(ApiKey.PRODUCE)

_BY_ID_SINCE: Final = 13
_LEADERS_SINCE: Final = 10
_ZSTD_SINCE: Final = 7
_ACKS: Final = (-1, 0, 1)
_ADMIN_CLIENT_ID: Final = "__admin_client"
"""By this client id Apache Kafka's own tools may write to the broker's topics (AdminUtils)."""

_unpack_header: Final = LENGTH_MAGIC_ATTRIBUTES.unpack_from


@api(ApiKey.PRODUCE, versions=(3, 13), advertised=(0, 13))
def produce(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[ProduceResponse | NoResponse] | NoResponse:
    try:
        entries, is_transactional = entries_of(broker, context, request)
    except CorruptRecordError as error:
        return _refused(request, ErrorCode.CORRUPT_MESSAGE, str(error))
    auth = broker.auth
    try:
        if auth is None:
            results = _append(broker, context, request, entries, is_transactional=is_transactional)
        else:
            results = _append_allowed(
                broker, auth, context, request, entries, is_transactional=is_transactional
            )
    except ApiError as error:
        return _refused(request, error.code)
    if isinstance(results, Pending):
        return results.then(lambda appended: _answer(broker, context, request, appended))
    return _answer(broker, context, request, results)


def _append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    entries: list[AppendEntry],
    *,
    is_transactional: bool,
) -> list[AppendResult] | Pending[list[AppendResult]]:
    """Raises ApiError where the request as a whole cannot be what it says."""
    if not is_transactional:
        return broker.replica_manager.append_records(entries, request.acks, request.timeout_ms)
    if request.transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return broker.txn_appends.append(
        TransactionalProduce(
            request.transactional_id, context.api_version, entries, request.acks, request.timeout_ms
        )
    )


def _append_allowed(
    broker: Broker,
    auth: AuthHelper,
    context: RequestContext,
    request: ProduceRequest,
    entries: list[AppendEntry],
    *,
    is_transactional: bool,
) -> list[AppendResult] | Pending[list[AppendResult]]:
    """Appends to the topics that the client may write to. Partitions of the others fail, whether they exist or not.

    Raises ApiError where the request as a whole cannot be what it says, or its transactional id is denied.
    """
    if is_transactional and not _may_use_id(auth, context, request.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    denied = _denied_names(auth, context, entries)
    if not denied:
        return _append(broker, context, request, entries, is_transactional=is_transactional)
    allowed = [entry for entry in entries if entry[0] not in denied]
    refusal = AppendError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)

    def merged(appended: list[AppendResult]) -> list[AppendResult]:
        results = iter(appended)
        return [refusal if entry[0] in denied else next(results) for entry in entries]

    if not allowed:
        return merged([])
    results = _append(broker, context, request, allowed, is_transactional=is_transactional)
    return results.then(merged) if isinstance(results, Pending) else merged(results)


def _may_use_id(auth: AuthHelper, context: RequestContext, transactional_id: str | None) -> bool:
    return transactional_id is not None and auth.authorize(context, _WRITE_ID, transactional_id)


def _denied_names(auth: AuthHelper, context: RequestContext, entries: list[AppendEntry]) -> set[str]:
    """The topics to which the client may not write. One of an unknown id is reported as that."""
    names = [entry[0] for entry in entries if entry[0] is not None]
    allowed = auth.filter(context, _WRITE, names)
    return {name for name in names if name not in allowed}


def _answer(
    broker: Broker, context: RequestContext, request: ProduceRequest, results: list[AppendResult]
) -> ProduceResponse | NoResponse:
    if request.acks == 0:
        failed = any(isinstance(result, AppendError) for result in results)
        return CLOSE_CONNECTION if failed else NO_RESPONSE
    remaining = iter(results)
    topics = []
    is_led_elsewhere = False
    for topic in request.topic_data:
        partitions = []
        for data in topic.partition_data:
            result = next(remaining)
            if isinstance(result, AppendError):
                broker.error_probe.request_failed(ApiKey.PRODUCE.name, result.error.name)
                partition = _error(data.index, result)
                is_led_elsewhere |= result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                partition = ProduceResponse.PartitionProduceResponse.make(
                    index=data.index,
                    base_offset=result.first_offset,
                    log_append_time_ms=result.log_append_time_ms,
                    log_start_offset=result.log_start_offset,
                )
            partitions.append(partition)
        if partitions:
            topics.append(
                ProduceResponse.TopicProduceResponse.make(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
                )
            )
    response = ProduceResponse.make(responses=topics)
    if is_led_elsewhere and context.api_version >= _LEADERS_SINCE:
        _name_leaders(broker, context, response)
    return response


def _name_leaders(broker: Broker, context: RequestContext, response: ProduceResponse) -> None:
    """Adds the leaders of partitions that are led elsewhere, which saves the client a Metadata request (KIP-951)."""
    image = broker.image
    nodes: dict[int, BrokerNode] = {}
    for topic in response.responses:
        name = image.topic_names.get(topic.topic_id) if context.api_version >= _BY_ID_SINCE else topic.name
        known = image.topics.get(name or "")
        for data in topic.partition_responses:
            partition = None if known is None else known.partitions.get(data.index)
            if data.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or partition is None:
                continue
            data.current_leader = ProduceResponse.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
            node = broker.node(partition.leader, context.connection)
            if node is not None:
                nodes[node.node_id] = node
    response.node_endpoints = [
        ProduceResponse.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes.values()
    ]


def entries_of(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> tuple[list[AppendEntry], bool]:
    """One entry for each partition of the request, in its order, and whether any has records of a transaction.

    One look at the header accepts what producers nearly always send, one whole batch of format v2; `_fault_of` has the
    rules. Raises CorruptRecordError, for the request as a whole, where a batch cannot be read before any is
    transactional. Source: RequestUtils.hasTransactionalRecords.
    """
    by_id = context.api_version >= _BY_ID_SINCE
    names = broker.image.topic_names if by_id else {}
    takes_any_batch = context.api_version >= _ZSTD_SINCE and request.acks in _ACKS
    entries: list[AppendEntry] = []
    transactional = 0
    for topic in request.topic_data:
        topic_id = topic.topic_id if by_id else ZERO_UUID
        name = names.get(topic_id) if by_id else topic.name
        takes_whole_batches = takes_any_batch and name not in INTERNAL_TOPICS
        for data in topic.partition_data:
            records = data.records or b""
            fault = None
            try:
                length, magic, attributes = _unpack_header(records)
            except struct.error:  # too short for a header
                length, magic, attributes = -1, 0, 0
            if magic == MAGIC_V2 and length == len(records) - LOG_OVERHEAD and takes_whole_batches:
                transactional |= attributes & TRANSACTIONAL_MASK
            else:
                if not transactional and _is_transactional(records):
                    transactional = TRANSACTIONAL_MASK
                fault = _fault_of(name, records, context, request.acks)
            entries.append((name, data.index, topic_id, records, fault))
    return entries, transactional != 0


def _fault_of(
    topic: str | None, records: Records, context: RequestContext, acks: int
) -> CorruptRecordError | InvalidRecordError | UnsupportedCompressionError | ApiError | None:
    """Why these records are not to be appended, whatever the partition says.

    What is wrong with the batch comes first; only then acks that mean nothing.
    """
    try:
        _check_batch(records, context.api_version)
        if acks not in _ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, "acks are 0, 1 or -1 (all).")
    except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError, ApiError) as error:
        return error
    if topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
        return ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Clients do not write to '{topic}', it is the broker's."
        )
    return None


def _check_batch(records: Records, version: int) -> None:
    """What a producer sends has to be one record batch of format v2, with a codec that the version has.

    Raises CorruptRecordError, InvalidRecordError, UnsupportedCompressionError. Source: ProduceRequest.validateRecords.
    """
    end = _end_of_batch(records, 0)
    if end is None or records[MAGIC_POSITION] != MAGIC_V2:
        raise InvalidRecordError("A producer sends its records in one whole batch of format v2.")
    if version < _ZSTD_SINCE:
        _check_codec(records)
    if end != len(records) and _end_of_batch(records, end) is not None:
        raise InvalidRecordError("A producer sends one batch for each partition, not several.")


def _check_codec(records: Records) -> None:
    """For versions whose consumers need not know zstd. Raises UnsupportedCompressionError."""
    if records[ATTRIBUTES_LOW_POSITION] & COMPRESSION_MASK == CompressionType.ZSTD:
        raise UnsupportedCompressionError(f"Batches compressed with zstd come from version {_ZSTD_SINCE} on.")


def _end_of_batch(records: Records, position: int) -> int | None:
    """Where the batch at `position` ends; None when not all of it is there. Raises CorruptRecordError."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return None
    length = int.from_bytes(records[position + LENGTH_POSITION : position + LOG_OVERHEAD], "big", signed=True)
    if length < LEGACY_OVERHEAD_V0:
        raise CorruptRecordError(f"A batch of {length} bytes is smaller than any that there is.")
    if left <= MAGIC_POSITION:
        return None
    if records[position + MAGIC_POSITION] > MAGIC_V2:
        raise CorruptRecordError(f"There is no record format {records[position + MAGIC_POSITION]}.")
    return position + LOG_OVERHEAD + length if LOG_OVERHEAD + length <= left else None


def _is_transactional(records: Records) -> bool:
    """Whether the first batch says so, if it is there as a whole: one that is cut short says nothing.

    Raises CorruptRecordError.
    """
    return (
        _end_of_batch(records, 0) is not None
        and len(records) > ATTRIBUTES_LOW_POSITION
        and records[MAGIC_POSITION] == MAGIC_V2
        and records[ATTRIBUTES_LOW_POSITION] & TRANSACTIONAL_MASK != 0
    )


def _error(index: int, error: AppendError) -> ProduceResponse.PartitionProduceResponse:
    return ProduceResponse.PartitionProduceResponse(
        index=index,
        error_code=error.error,
        base_offset=-1,
        log_start_offset=error.log_start_offset,
        record_errors=[
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
        ],
        error_message=error.error_message,
    )


def _refused(
    request: ProduceRequest, code: ErrorCode, message: str | None = None
) -> ProduceResponse | NoResponse:
    """The same error for every partition."""
    if request.acks == 0:
        return CLOSE_CONNECTION
    error = AppendError(code, message)
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_error(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
