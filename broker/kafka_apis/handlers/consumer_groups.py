"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

Both are always advertised, and rejected with UNSUPPORTED_VERSION where group.version is not 1, or
group.coordinator.rebalance.protocols does not have `consumer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.group.consumer.consumer_service import (
    DescribedGroup,
    described_refused,
    heartbeat_refused,
)
from barnabas.broker.kafka_apis.authorized_operations import GROUP_OPERATIONS
from barnabas.broker.metadata.versions import GROUP_VERSION
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.config.catalogue.groups import GROUP_COORDINATOR_REBALANCE_PROTOCOLS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_PROTOCOL: Final = "consumer"


def _is_enabled(broker: Broker) -> bool:
    protocols = broker.config[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    return _PROTOCOL in protocols and broker.image.features.get(GROUP_VERSION, 0) > 0


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1))
def consumer_group_heartbeat(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
    if not _is_enabled(broker):
        return heartbeat_refused(ApiError(ErrorCode.UNSUPPORTED_VERSION))
    return broker.groups.consumers.heartbeat(context, request)


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1))
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Pending[ConsumerGroupDescribeResponse]:
    if not _is_enabled(broker):
        error = ApiError(ErrorCode.UNSUPPORTED_VERSION)
        return ConsumerGroupDescribeResponse(
            groups=[described_refused(group_id, error) for group_id in request.group_ids]
        )

    def described(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    return broker.groups.consumers.describe(request.group_ids).then(described)
