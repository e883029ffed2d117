"""Fetch: records from many partitions, with long polling, sessions (KIP-227) and, from version 13, topic ids."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.broker.fetch.context import FetchContext, FetchParams
from barnabas.broker.fetch.out_of_range import report_out_of_range
from barnabas.broker.fetch.partition import FetchPartition
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.pending import Pending
from barnabas.broker.probes import FETCH_FOLLOWER
from barnabas.broker.request import RequestContext, api
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.config.catalogue.server import FETCH_MAX_BYTES
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_READ, _FOLLOW = checks_of(ApiKey.FETCH)

READ_COMMITTED: Final = 1
_LEADERS_SINCE: Final = 16
_FOLLOWERS_READ_SINCE: Final = 11
"""Older consumers can read from leaders only; newer ones name their rack (KIP-392)."""

_REPLICA_EPOCH_SINCE: Final = 15
_STORAGE_ERROR_SINCE: Final = 6
"""Older readers fail on KAFKA_STORAGE_ERROR, which they do not know; after NOT_LEADER_OR_FOLLOWER they retry."""

_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these the response names the leader, which saves the client a Metadata request (KIP-951)."""

_NONE: Final = ErrorCode.NONE
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_LOG_END: Final = FetchIsolation.LOG_END


@api(ApiKey.FETCH, versions=(4, 18))
def fetch(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> FetchResponse | Pending[FetchResponse]:
    version = context.api_version
    knows_epoch = version >= _REPLICA_EPOCH_SINCE
    replica_id = request.replica_state.replica_id if knows_epoch else request.replica_id
    is_follower = replica_id >= 0
    fetch_context = broker.fetch_manager.context(
        request,
        version,
        broker.image.topic_names.get,
        is_follower=is_follower,
        connection_id=context.connection.connection_id,
    )
    if fetch_context.error is not _NONE:
        return _response(broker, context, fetch_context, is_follower, [])
    if broker.auth is not None:
        _authorize(broker.auth, context, fetch_context, is_follower=is_follower)
    max_bytes = min(request.max_bytes, broker.config[FETCH_MAX_BYTES])
    if context.meter is not None and not is_follower:
        max_bytes = min(max_bytes, context.meter.fetch_limit_bytes())
    params = FetchParams(
        replica_id=replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=_LOG_END if is_follower else _isolation(request.isolation_level),
        replica_epoch=request.replica_state.replica_epoch if knows_epoch else -1,
        only_leader=is_follower or version < _FOLLOWERS_READ_SINCE,
        rack=request.rack_id,
        listener=context.connection.listener_name,
    )
    answers = broker.replica_reader.read(params, fetch_context)
    if isinstance(answers, Pending):
        return answers.then(partial(_response, broker, context, fetch_context, is_follower))
    return _response(broker, context, fetch_context, is_follower, answers)


def _authorize(
    auth: AuthHelper, context: RequestContext, fetch_context: FetchContext, *, is_follower: bool
) -> None:
    """Marks the partitions that the client may not read.

    Those that rest in a session were checked when they came to rest. Where that was for another client, or before a
    change of ACLs, they are all checked, whoever began the session. A fetch that waits was checked when it came.
    """
    fetch_context.authorize_as(auth.scope(context.connection))
    if is_follower:
        denies_all = not auth.authorize(context, _FOLLOW)
        for entry in fetch_context.partitions:
            entry.is_denied = denies_all
        return
    allowed = auth.filter(
        context, _READ, [entry.topic for entry in fetch_context.partitions if entry.topic is not None]
    )
    for entry in fetch_context.partitions:
        entry.is_denied = entry.topic is not None and entry.topic not in allowed


def _response(
    broker: Broker,
    context: RequestContext,
    fetch_context: FetchContext,
    is_follower: bool,
    answers: list[FetchResponse.PartitionData],
) -> FetchResponse:
    """The response from the data of each of the context's partitions."""
    meter = context.meter
    if meter is not None:
        throttle_ms = 0
        if is_follower:
            meter.exempt()
        else:
            throttle_ms = meter.fetched(fetch_context.response_bytes(answers, context.api_version))
        if throttle_ms:
            return fetch_context.throttled_response(throttle_ms)
    response = fetch_context.response(answers)
    is_led_elsewhere = False
    for entry, data in zip(fetch_context.partitions, answers, strict=True):
        if data.error_code:
            if (
                context.api_version < _STORAGE_ERROR_SINCE
                and data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            ):
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            _report_error(broker, context, entry, data, is_follower=is_follower)
            is_led_elsewhere |= data.error_code in _LEADER_ERRORS
            if not is_follower and data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                report_out_of_range(broker.replica_manager, context, entry)
    if is_led_elsewhere and context.api_version >= _LEADERS_SINCE and not is_follower:
        response.node_endpoints = _leaders(broker, context, answers)
    return response


def _isolation(level: int) -> FetchIsolation:
    return _TXN_COMMITTED if level == READ_COMMITTED else _HIGH_WATERMARK


def _report_error(
    broker: Broker,
    context: RequestContext,
    entry: FetchPartition,
    data: FetchResponse.PartitionData,
    *,
    is_follower: bool,
) -> None:
    """Counts the error, and adds the partition's leader where that may help."""
    error = ErrorCode(data.error_code)
    is_counted_apart = is_follower and broker.forwarder is not None
    broker.error_probe.request_failed(FETCH_FOLLOWER if is_counted_apart else ApiKey.FETCH.name, error.name)
    topic = broker.image.topics.get(entry.topic or "")
    if context.api_version < _LEADERS_SINCE or error not in _LEADER_ERRORS or topic is None:
        return
    image = topic.partitions.get(entry.index)
    if image is not None:
        data.current_leader = FetchResponse.LeaderIdAndEpoch(
            leader_id=image.leader, leader_epoch=image.leader_epoch
        )


def _leaders(
    broker: Broker, context: RequestContext, answers: list[FetchResponse.PartitionData]
) -> list[FetchResponse.NodeEndpoint]:
    """The endpoints of the leaders that the partitions name, as far as the client can reach them."""
    leaders = {data.current_leader.leader_id for data in answers if data.error_code in _LEADER_ERRORS}
    nodes = [broker.node(leader, context.connection) for leader in sorted(leaders)]
    return [
        FetchResponse.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in nodes
        if node is not None
    ]
