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
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed, split
from barnabas.broker.kafka_apis.authorized_operations import group_operations
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

_READ_GROUP, _DESCRIBE_TOPIC, _ = checks_of(ApiKey.CONSUMER_GROUP_HEARTBEAT)
_DESCRIBE_GROUP, _DESCRIBE_TOPIC_OF_GROUP = checks_of(ApiKey.CONSUMER_GROUP_DESCRIBE)

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
    if not is_allowed(broker, context, _READ_GROUP, request.group_id):
        return heartbeat_refused(denied(_READ_GROUP))
    names = dict.fromkeys(request.subscribed_topic_names or ())
    if broker.auth is not None and names:
        allowed = broker.auth.filter(context, _DESCRIBE_TOPIC, names)
        if any(name not in allowed for name in names):
            return heartbeat_refused(denied(_DESCRIBE_TOPIC))
    return broker.groups.consumers.heartbeat(context, request)


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1))
def consumer_group_describe(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Pending[ConsumerGroupDescribeResponse]:
    """Those that the client may not describe come first, as in Kafka."""
    if not _is_enabled(broker):
        error = ApiError(ErrorCode.UNSUPPORTED_VERSION)
        return ConsumerGroupDescribeResponse(
            groups=[described_refused(group_id, error) for group_id in request.group_ids]
        )
    allowed = allowed_names(broker, context, _DESCRIBE_GROUP, request.group_ids)
    may_describe, refused = split(request.group_ids, allowed, str)

    def described(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = group_operations(broker, context, group.group_id)
        if broker.auth is not None:
            groups = _without_hidden_topics(broker, context, groups)
        unseen = [described_refused(name, denied(_DESCRIBE_GROUP)) for name in refused]
        return ConsumerGroupDescribeResponse(groups=unseen + groups)

    return broker.groups.consumers.describe(may_describe).then(described)


def _without_hidden_topics(
    broker: Broker, context: RequestContext, groups: list[DescribedGroup]
) -> list[DescribedGroup]:
    """The groups, of which one fails as a whole that has a topic assigned which the client may not describe."""
    topics = [_assigned_topics(group) for group in groups]
    allowed = allowed_names(
        broker, context, _DESCRIBE_TOPIC_OF_GROUP, dict.fromkeys(name for names in topics for name in names)
    )
    error = denied(_DESCRIBE_TOPIC_OF_GROUP)
    return [
        group if all(name in allowed for name in names) else described_refused(group.group_id, error)
        for group, names in zip(groups, topics, strict=True)
    ]


def _assigned_topics(group: DescribedGroup) -> set[str]:
    return {
        part.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for part in assignment.topic_partitions
    }
