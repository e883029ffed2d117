"""Fetch: records from many partitions, with long polling, sessions (KIP-227) and, from version 13, topic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.fetch_session import FetchContext, FetchPartition
from broker.out_of_range import tell_out_of_range
from broker.partition_io import FetchParams, FetchResult
from broker.replica_reader import UNKNOWN_PARTITION
from broker.request import Pending, RequestContext, api
from config.catalogue.server import FETCH_MAX_BYTES
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from broker.services import Broker

READ_COMMITTED: Final = 1
_LEADERS_SINCE: Final = 16
_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""After these a client is told who leads, to save it a look at the metadata (KIP-951)."""


@api(ApiKey.FETCH, versions=(4, 18))
def fetch(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> FetchResponse | Pending[FetchResponse]:
    version = context.api_version
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    names = broker.image.topic_names
    is_follower = replica_id >= 0
    session = broker.fetch_manager.context(request, version, names.get, is_follower=is_follower)
    if session.error is not ErrorCode.NONE:
        return session.response(())
    max_bytes = min(request.max_bytes, broker.config[FETCH_MAX_BYTES])
    params = FetchParams(
        replica_id=replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=FetchIsolation.LOG_END if is_follower else _isolation(request.isolation_level),
    )

    def respond(results: list[FetchResult]) -> FetchResponse:
        response = _response(broker, context, session, results)
        if not is_follower:
            tell_out_of_range(broker.replica_manager, context, session.partitions, results)
        if not is_follower and version >= _LEADERS_SINCE and any(r.error in _LEADER_ERRORS for r in results):
            response.node_endpoints = _this_node(broker, context)
        return response

    results = broker.replica_manager.fetch(params, session.partitions)
    return results.then(respond) if isinstance(results, Pending) else respond(results)


def _isolation(level: int) -> FetchIsolation:
    return FetchIsolation.TXN_COMMITTED if level == READ_COMMITTED else FetchIsolation.HIGH_WATERMARK


def _response(
    broker: Broker, context: RequestContext, session: FetchContext, results: list[FetchResult]
) -> FetchResponse:
    return session.response(
        [
            _partition_data(broker, context, *answer)
            for answer in zip(session.partitions, results, strict=True)
        ]
    )


def _this_node(broker: Broker, context: RequestContext) -> list[FetchResponse.NodeEndpoint]:
    endpoint = broker.endpoint(context.connection)
    return [
        FetchResponse.NodeEndpoint(
            node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
    ]


def _partition_data(
    broker: Broker, context: RequestContext, partition: FetchPartition, result: FetchResult
) -> FetchResponse.PartitionData:
    if result.error is not ErrorCode.NONE:
        return _error(broker, context, partition, result)
    data = FetchResponse.PartitionData(
        partition_index=partition.partition,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )
    diverging = result.diverging_epoch
    if diverging is not None:
        data.diverging_epoch = FetchResponse.EpochEndOffset(
            epoch=diverging.epoch, end_offset=diverging.end_offset
        )
    elif result.data is not None:
        data.records = result.data.records
        if result.data.aborted_transactions is not None:
            data.aborted_transactions = [
                FetchResponse.AbortedTransaction(
                    producer_id=aborted.producer_id, first_offset=aborted.first_offset
                )
                for aborted in result.data.aborted_transactions
            ]
    return data


def _error(
    broker: Broker, context: RequestContext, partition: FetchPartition, result: FetchResult
) -> FetchResponse.PartitionData:
    broker.error_probe.request_failed(ApiKey.FETCH.name, result.error.name)
    data = FetchResponse.PartitionData(
        partition_index=partition.partition,
        error_code=result.error,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if result.error in UNKNOWN_PARTITION else None,  # as Kafka has it
        records=b"",
    )
    topic = broker.image.topics.get(partition.topic or "")
    if context.api_version < _LEADERS_SINCE or result.error not in _LEADER_ERRORS or topic is None:
        return data
    image = topic.partitions[partition.partition]
    data.current_leader = FetchResponse.LeaderIdAndEpoch(
        leader_id=image.leader, leader_epoch=image.leader_epoch
    )
    return data
