"""Fetch: records from many partitions, with long polling, sessions (KIP-227) and, from version 13, topic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.fetch.context import FetchParams
from broker.fetch.out_of_range import tell_out_of_range
from broker.fetch.partition import FetchPartition
from broker.pending import Pending
from broker.request import RequestContext, api
from config.catalogue.server import FETCH_MAX_BYTES
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from broker.broker import Broker

READ_COMMITTED: Final = 1
_LEADERS_SINCE: Final = 16
_STORAGE_ERROR_SINCE: Final = 6
"""Older readers do not know that error, and give up on what they do not know; after the other they try again."""

_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""After these a client is told who leads, to save it a look at the metadata (KIP-951)."""

_NONE: Final = ErrorCode.NONE
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_LOG_END: Final = FetchIsolation.LOG_END


@api(ApiKey.FETCH, versions=(4, 18))
def fetch(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> FetchResponse | Pending[FetchResponse]:
    version = context.api_version
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    is_follower = replica_id >= 0
    session = broker.fetch_manager.context(
        request,
        version,
        broker.image.topic_names.get,
        is_follower=is_follower,
        connection_id=context.connection.connection_id,
    )
    if session.error is not _NONE:
        return session.response(())
    max_bytes = min(request.max_bytes, broker.config[FETCH_MAX_BYTES])
    params = FetchParams(
        replica_id=replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=_LOG_END if is_follower else _isolation(request.isolation_level),
    )

    def respond(answers: list[FetchResponse.PartitionData]) -> FetchResponse:
        response = session.response(answers)
        is_led_elsewhere = False
        for partition, data in zip(session.partitions, answers, strict=True):
            if data.error_code:
                if version < _STORAGE_ERROR_SINCE and data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                _tell_error(broker, context, partition, data)
                is_led_elsewhere |= data.error_code in _LEADER_ERRORS
                if not is_follower and data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    tell_out_of_range(broker.replica_manager, context, partition)
        if is_led_elsewhere and version >= _LEADERS_SINCE and not is_follower:
            response.node_endpoints = _this_node(broker, context)
        return response

    return broker.replica_manager.fetch(params, session, respond)


def _isolation(level: int) -> FetchIsolation:
    return _TXN_COMMITTED if level == READ_COMMITTED else _HIGH_WATERMARK


def _tell_error(
    broker: Broker, context: RequestContext, partition: FetchPartition, data: FetchResponse.PartitionData
) -> None:
    """Counts the error, and adds who leads the partition where that may help."""
    error = ErrorCode(data.error_code)
    broker.error_probe.request_failed(ApiKey.FETCH.name, error.name)
    topic = broker.image.topics.get(partition.topic or "")
    if context.api_version < _LEADERS_SINCE or error not in _LEADER_ERRORS or topic is None:
        return
    image = topic.partitions[partition.partition]
    data.current_leader = FetchResponse.LeaderIdAndEpoch(
        leader_id=image.leader, leader_epoch=image.leader_epoch
    )


def _this_node(broker: Broker, context: RequestContext) -> list[FetchResponse.NodeEndpoint]:
    endpoint = broker.endpoint(context.connection)
    return [
        FetchResponse.NodeEndpoint(
            node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
    ]
