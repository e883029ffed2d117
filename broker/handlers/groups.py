"""FindCoordinator: who coordinates a group or a transactional id. On a single node that is the node.

The coordinators themselves are not here yet; what this broker does not serve is missing from ApiVersions, by which
a client knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.request import RequestContext, api
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from broker.services import Broker

GROUP, TRANSACTION = 0, 1
_KEY_TYPES: Final = (GROUP, TRANSACTION)
_MANY_KEYS_SINCE: Final = 4


@api(ApiKey.FIND_COORDINATOR, versions=(0, 6))
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if context.api_version >= _MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=[
                _coordinator(broker, context, key, request.key_type) for key in request.coordinator_keys
            ]
        )
    found = _coordinator(broker, context, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ErrorCode.NONE.name,  # as Kafka puts it
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(
    broker: Broker, context: RequestContext, key: str, key_type: int
) -> FindCoordinatorResponse.Coordinator:
    if key_type not in _KEY_TYPES:
        return FindCoordinatorResponse.Coordinator(
            key=key,
            node_id=-1,
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Coordinators of type {key_type} are not known here; 0 is a group's, 1 a transaction's.",
        )
    endpoint = broker.endpoint(context.connection)
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=broker.node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.NONE,
    )
