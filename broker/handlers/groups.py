"""FindCoordinator: who coordinates a group, a transactional id or a share group's partition: its partition's leader.

The coordinators themselves are not here yet; what this broker does not serve is missing from ApiVersions, by which
a client knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.auto_topic_creation import create_topics_on_demand
from broker.controller.internal_topics import (
    GROUP,
    SHARE,
    TOPIC_OF_KEY_TYPE,
    TRANSACTION,
    is_share_partition,
    partition_for,
)
from broker.request import Pending, RequestContext, api
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from broker.services import Broker

_MANY_KEYS_SINCE: Final = 4
_KEY_TYPES_SINCE: Final = {GROUP: 0, TRANSACTION: 0, SHARE: 6}

Coordinator = FindCoordinatorResponse.Coordinator


@api(ApiKey.FIND_COORDINATOR, versions=(0, 6))
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Pending[FindCoordinatorResponse]:
    """Kafka says COORDINATOR_NOT_AVAILABLE while it makes the topic; here the first one waits for it."""
    many = context.api_version >= _MANY_KEYS_SINCE
    keys = request.coordinator_keys if many else [request.key]
    topic = TOPIC_OF_KEY_TYPE.get(request.key_type)
    if topic is None or context.api_version < _KEY_TYPES_SINCE[request.key_type]:
        return _response([_invalid(request, key) for key in keys], many=many)
    name = topic

    def respond(_: object) -> FindCoordinatorResponse:
        return _response([_coordinator(broker, context, request, name, key) for key in keys], many=many)

    if name in broker.image.topics or not keys:
        return respond(None)
    return create_topics_on_demand(broker, [name]).then(respond)


def _response(found: Sequence[Coordinator], *, many: bool) -> FindCoordinatorResponse:
    if many:
        return FindCoordinatorResponse(coordinators=list(found))
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or ErrorCode(only.error_code).name,  # as Kafka puts it
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest, topic: str, key: str
) -> Coordinator:
    """The leader of the key's partition; nobody while that has none, or there is no room for the topic."""
    if request.key_type == SHARE and not is_share_partition(key):
        return _invalid(request, key)
    image = broker.image.topics.get(topic)
    partition = None if image is None else image.partitions.get(partition_for(key, len(image.partitions)))
    is_ours = partition is not None and partition.leader == broker.node_id
    if partition is None or not is_ours or broker.replica_manager.is_offline(topic, partition.partition):
        return _nobody(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Nobody leads the partition of {key!r} in {topic}."
        )
    endpoint = broker.endpoint(context.connection)
    return Coordinator(
        key=key,
        node_id=broker.node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
    )


def _invalid(request: FindCoordinatorRequest, key: str) -> Coordinator:
    return _nobody(
        key, ErrorCode.INVALID_REQUEST, f"No coordinator of type {request.key_type} can be found for {key!r}."
    )


def _nobody(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)
