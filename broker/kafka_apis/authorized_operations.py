"""The values of *_authorized_operations: the bits of what a client may do with a resource.

Without an authorizer it may do everything. Source: AuthHelper.authorizedOperations, AclEntry.supportedOperations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.security.auth_helper import SUPPORTED_OPERATIONS
from barnabas.protocol.messages.acls import CLUSTER_NAME, AclResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.request import RequestContext


def _bits(resource_type: AclResourceType) -> int:
    return sum(1 << operation for operation in SUPPORTED_OPERATIONS[resource_type])


TOPIC_OPERATIONS: Final = _bits(AclResourceType.TOPIC)
CLUSTER_OPERATIONS: Final = _bits(AclResourceType.CLUSTER)
GROUP_OPERATIONS: Final = _bits(AclResourceType.GROUP)


def topic_operations(broker: Broker, context: RequestContext, name: str) -> int:
    if broker.auth is None:
        return TOPIC_OPERATIONS
    return broker.auth.authorized_operations(context, AclResourceType.TOPIC, name)


def group_operations(broker: Broker, context: RequestContext, name: str) -> int:
    if broker.auth is None:
        return GROUP_OPERATIONS
    return broker.auth.authorized_operations(context, AclResourceType.GROUP, name)


def cluster_operations(broker: Broker, context: RequestContext) -> int:
    if broker.auth is None:
        return CLUSTER_OPERATIONS
    return broker.auth.authorized_operations(context, AclResourceType.CLUSTER, CLUSTER_NAME)
