"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: reading and moving the start and end offsets of logs."""

from __future__ import annotations

from collections.abc import Callable, Container
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.controller.topic_admin import is_internal
from barnabas.broker.error_map import MAPPED_ERRORS, error_code_of
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed, split
from barnabas.broker.pending import Pending
from barnabas.broker.replica.delayed_delete_records import DeletionResult
from barnabas.broker.replica.partition import Partition
from barnabas.broker.request import RequestContext, api
from barnabas.broker.security.auth_helper import EVERYTHING
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    SINCE_VERSION,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.storage.errors import KafkaStorageError

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


_LEADER_EPOCHS_SINCE: Final = 4
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
"""Older clients retry on LEADER_NOT_AVAILABLE instead."""

(_DESCRIBE,) = checks_of(ApiKey.LIST_OFFSETS)
_EPOCHS_OF_ALL, _EPOCHS_OF_TOPIC = checks_of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
(_DELETE,) = checks_of(ApiKey.DELETE_RECORDS)

CONSUMER: Final = -1
DEBUGGER: Final = -2
"""The replica id of a tool that may also read from followers."""

READ_COMMITTED: Final = 1
UNKNOWN: Final = -1


class FoundOffset(NamedTuple):
    """The result for a partition; `timestamp`, `offset` and `leader_epoch` are -1 where unknown."""

    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN


@api(ApiKey.LIST_OFFSETS, versions=(1, 11))
def list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    asked: dict[str, dict[int, ListOffsetsRequest.ListOffsetsPartition]] = {}
    doubled: set[tuple[str, int]] = set()
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for wanted in topic.partitions:
            if wanted.partition_index in partitions:
                doubled.add((topic.name, wanted.partition_index))
            partitions[wanted.partition_index] = wanted

    def answer(
        name: str, wanted: ListOffsetsRequest.ListOffsetsPartition
    ) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
        if (name, wanted.partition_index) in doubled:
            return _offset_response(wanted, ErrorCode.INVALID_REQUEST, FoundOffset())
        if not _is_known_in(context.api_version, wanted.timestamp):
            return _offset_response(wanted, ErrorCode.UNSUPPORTED_VERSION, FoundOffset())
        try:
            partition = broker.replica_manager.partition(name, wanted.partition_index)
            found = _list_offset(partition, request, wanted)
        except KafkaStorageError as error:
            broker.replica_manager.read_failed(partition, error)
            return _offset_response(wanted, error_code_of(error), FoundOffset())
        except MAPPED_ERRORS as error:
            code = error_code_of(error)
            if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < _OFFSET_NOT_AVAILABLE_SINCE:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            return _offset_response(wanted, code, FoundOffset())
        if context.api_version < _LEADER_EPOCHS_SINCE:
            found = found._replace(leader_epoch=UNKNOWN)
        return _offset_response(wanted, ErrorCode.NONE, found)

    allowed = allowed_names(broker, context, _DESCRIBE, [topic.name for topic in request.topics])
    may_list, refused = split(asked.items(), allowed, itemgetter(0))
    code = denied(_DESCRIBE).code
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=name, partitions=[answer(name, wanted) for wanted in partitions.values()]
            )
            for name, partitions in may_list
        ]
        + [
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=name,
                partitions=[_offset_response(wanted, code, FoundOffset()) for wanted in partitions.values()],
            )
            for name, partitions in refused
        ]
    )


def _offset_response(
    wanted: ListOffsetsRequest.ListOffsetsPartition, code: ErrorCode, found: FoundOffset
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    return ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=code,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _is_known_in(version: int, timestamp: int) -> bool:
    """Whether a timestamp is a time, or the name of an offset that the version has."""
    return timestamp >= EARLIEST_PENDING_UPLOAD and version >= SINCE_VERSION.get(timestamp, 1)


def _list_offset(
    partition: Partition, request: ListOffsetsRequest, wanted: ListOffsetsRequest.ListOffsetsPartition
) -> FoundOffset:
    """The offset that `wanted.timestamp` names. Raises ApiError.

    A consumer that asks a new leader, whose high watermark is still below the start of its epoch, for the end or for a
    record beyond the high watermark has to ask again: another consumer may have read further already.
    """
    if request.replica_id == DEBUGGER:
        partition.check_readable(wanted.current_leader_epoch)
    else:
        partition.check_leader(wanted.current_leader_epoch)
    found = _found(partition, wanted.timestamp, _last_readable(partition, request))
    if (
        request.replica_id == CONSUMER
        and partition.epoch_start > partition.log.high_watermark
        and (wanted.timestamp == LATEST or (found.offset == UNKNOWN and _is_looked_up(wanted.timestamp)))
    ):
        raise ApiError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition} has a new leader, whose high watermark is not that of the one before yet.",
        )
    return found


def _is_looked_up(timestamp: int) -> bool:
    """Whether the answer is a record's offset."""
    return timestamp == MAX_TIMESTAMP or timestamp not in _NAMED


def _found(partition: Partition, timestamp: int, end: int) -> FoundOffset:
    if timestamp in _NAMED:
        return _NAMED[timestamp](partition, end)
    found = partition.log.fetch_offset_by_timestamp(timestamp)
    if found is None or found.offset >= end:
        return FoundOffset()
    return FoundOffset(found.timestamp, found.offset, found.leader_epoch)


def _last_readable(partition: Partition, request: ListOffsetsRequest) -> int:
    """The end (exclusive) of the records that the requester may read."""
    if request.replica_id != CONSUMER:
        return partition.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.log.last_stable_offset
    return partition.log.high_watermark


def _earliest(partition: Partition, end: int) -> FoundOffset:
    start = partition.log.log_start_offset
    epoch = partition.log.leader_epoch_cache.epoch_for_offset(start)
    return FoundOffset(UNKNOWN, start, UNKNOWN if epoch is None else epoch)


def _latest(partition: Partition, end: int) -> FoundOffset:
    return FoundOffset(UNKNOWN, end, partition.leader_epoch)


def _of_max_timestamp(partition: Partition, end: int) -> FoundOffset:
    found = partition.log.offset_of_max_timestamp()
    if found is None or found.offset >= end:
        return FoundOffset()
    return FoundOffset(found.timestamp, found.offset, found.leader_epoch)


def _nothing_tiered(partition: Partition, end: int) -> FoundOffset:
    """Without tiered storage nothing is kept elsewhere and nothing waits to be (KIP-1005, KIP-1023)."""
    return FoundOffset()


_NAMED: Final[dict[int, Callable[[Partition, int], FoundOffset]]] = {
    LATEST: _latest,
    EARLIEST: _earliest,
    EARLIEST_LOCAL: _earliest,
    MAX_TIMESTAMP: _of_max_timestamp,
    LATEST_TIERED: _nothing_tiered,
    EARLIEST_PENDING_UPLOAD: _nothing_tiered,
}


@api(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4))
def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    def answer(
        topic: str, wanted: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
    ) -> OffsetForLeaderEpochResponse.EpochEndOffset:
        response = OffsetForLeaderEpochResponse.EpochEndOffset(partition=wanted.partition)
        try:
            partition = broker.replica_manager.partition(topic, wanted.partition)
            partition.check_leader(wanted.current_leader_epoch)
        except MAPPED_ERRORS as error:
            response.error_code = error_code_of(error)
            return response
        end = partition.end_offset_for_epoch(wanted.leader_epoch)
        if end is not None:
            response.leader_epoch = end.epoch
            response.end_offset = end.end_offset
        return response

    allowed: Container[str] = EVERYTHING
    if not is_allowed(broker, context, _EPOCHS_OF_ALL):
        allowed = allowed_names(broker, context, _EPOCHS_OF_TOPIC, [topic.topic for topic in request.topics])
    may_ask, refused = split(request.topics, allowed, attrgetter("topic"))
    code = denied(_EPOCHS_OF_TOPIC).code
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[answer(topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in may_ask
        ]
        + [
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochResponse.EpochEndOffset(partition=wanted.partition, error_code=code)
                    for wanted in topic.partitions
                ],
            )
            for topic in refused
        ]
    )


@api(ApiKey.DELETE_RECORDS, versions=(0, 2))
def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Pending[DeleteRecordsResponse]:
    """A partition that is named twice gets the last of its offsets.

    Source: kafka.server.KafkaApis.handleDeleteRecordsRequest.
    """
    known: dict[tuple[str, int], int] = {}
    rejected: dict[tuple[str, int], DeletionResult] = {}
    allowed = allowed_names(broker, context, _DELETE, [topic.name for topic in request.topics])
    for topic in request.topics:
        for wanted in topic.partitions:
            code = denied(_DELETE).code
            if topic.name in allowed:
                code = _why_not_deletable(broker, topic.name, wanted.partition_index)
            if code is ErrorCode.NONE:
                known[topic.name, wanted.partition_index] = wanted.offset
                continue
            result = rejected[topic.name, wanted.partition_index] = DeletionResult(
                topic.name, wanted.partition_index
            )
            result.fail(code)
    results = broker.replica_manager.delete_records(known, request.timeout_ms)
    if isinstance(results, Pending):
        return results.then(lambda deleted: _deletion_response([*deleted, *rejected.values()]))
    return _deletion_response([*results, *rejected.values()])


def _why_not_deletable(broker: Broker, name: str, index: int) -> ErrorCode:
    topic = broker.image.topics.get(name)
    if topic is None or index not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION if is_internal(name) else ErrorCode.NONE


def _deletion_response(results: list[DeletionResult]) -> DeleteRecordsResponse:
    by_topic: dict[str, list[DeletionResult]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(result)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    DeleteRecordsResponse.DeleteRecordsPartitionResult(
                        partition_index=result.partition,
                        low_watermark=result.low_watermark,
                        error_code=result.error,
                    )
                    for result in sorted(of_topic, key=lambda it: it.partition)
                ],
            )
            for name, of_topic in by_topic.items()
        ]
    )
