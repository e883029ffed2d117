"""FindCoordinator, the classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), and ListGroups,
DescribeGroups and DeleteGroups.

A group, a transactional id or a share group's partition is coordinated by the leader of its partition.
Source: kafka.server.KafkaApis (handleJoinGroupRequest, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed, split
from barnabas.broker.kafka_apis.authorized_operations import group_operations
from barnabas.broker.kafka_apis.auto_topic_creation import create_topics_on_demand
from barnabas.broker.metadata.internal_topics import (
    GROUP,
    SHARE,
    TOPIC_OF_KEY_TYPE,
    TRANSACTION,
    is_share_partition,
    partition_for,
)
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import CLUSTER_NAME
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_MANY_KEYS_SINCE: Final = 4
_NULL_PROTOCOL_SINCE: Final = 7
"""The version of JoinGroup from which no protocol is null, and not empty."""
_MANY_MEMBERS_SINCE: Final = 3
"""The version of LeaveGroup from which many may leave at once."""
_PROTOCOL_NEEDED_SINCE: Final = 5
"""The version of SyncGroup from which members name the protocol that they take to be chosen."""
_KEY_TYPES_SINCE: Final = {GROUP: 0, TRANSACTION: 0, SHARE: 6}

Coordinator = FindCoordinatorResponse.Coordinator

_COORDINATOR_CHECKS: Final = dict(
    zip((GROUP, TRANSACTION, SHARE), checks_of(ApiKey.FIND_COORDINATOR), strict=True)
)
(_READ_GROUP,) = checks_of(ApiKey.SYNC_GROUP)
(_DESCRIBE_GROUP,) = checks_of(ApiKey.DESCRIBE_GROUPS)
_LIST_ALL, _LIST_GROUP = checks_of(ApiKey.LIST_GROUPS)
(_DELETE_GROUP,) = checks_of(ApiKey.DELETE_GROUPS)


@api(ApiKey.FIND_COORDINATOR, versions=(0, 6))
def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Pending[FindCoordinatorResponse]:
    """Clusters answer COORDINATOR_NOT_AVAILABLE while they create the topic; a node that is alone waits for it."""
    many = context.api_version >= _MANY_KEYS_SINCE
    keys = request.coordinator_keys if many else [request.key]
    topic = TOPIC_OF_KEY_TYPE.get(request.key_type)
    if topic is None or context.api_version < _KEY_TYPES_SINCE[request.key_type]:
        return _response([_invalid(request, key) for key in keys], many=many)
    name, check = topic, _COORDINATOR_CHECKS[request.key_type]
    resources = keys if request.key_type != SHARE else [CLUSTER_NAME]
    allowed = allowed_names(broker, context, check, resources)
    may_find = {key for key in keys if (key if request.key_type != SHARE else CLUSTER_NAME) in allowed}

    def found(key: str) -> Coordinator:
        if key in may_find:
            return _coordinator(broker, context, request, name, key)
        error = denied(check)
        return _no_coordinator(key, error.code, error.message or "")

    def respond(_: object) -> FindCoordinatorResponse:
        return _response([found(key) for key in keys], many=many)

    if name in broker.image.topics or not may_find:
        return respond(None)
    return create_topics_on_demand(broker, [name], None).then(respond)


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
    """The leader of the key's partition; an error while it has none, or the topic could not be created."""
    if request.key_type == SHARE and not is_share_partition(key):
        return _invalid(request, key)
    image = broker.image.topics.get(topic)
    partition = None if image is None else image.partitions.get(partition_for(key, len(image.partitions)))
    node = None
    if image is not None and partition is not None:
        told = broker.cluster.partition(broker.image, image, partition, context.connection, None)
        node = broker.node(told.leader, context.connection)
    if node is None:
        return _no_coordinator(
            key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Nobody leads the partition of {key!r} in {topic}."
        )
    return Coordinator(
        key=key,
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        error_code=ErrorCode.NONE,
    )


def _invalid(request: FindCoordinatorRequest, key: str) -> Coordinator:
    return _no_coordinator(
        key, ErrorCode.INVALID_REQUEST, f"No coordinator of type {request.key_type} can be found for {key!r}."
    )


def _no_coordinator(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)


@api(ApiKey.JOIN_GROUP, versions=(0, 9))
def join_group(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> Pending[JoinGroupResponse]:
    """Version 0 has no rebalance timeout: it is as long as the session's."""
    if context.api_version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms

    def as_version_has_it(response: JoinGroupResponse) -> JoinGroupResponse:
        nothing = None if context.api_version >= _NULL_PROTOCOL_SINCE else ""
        response.protocol_name = response.protocol_name or nothing
        return response

    return broker.groups.classic.join(context, request).then(as_version_has_it)


@api(ApiKey.SYNC_GROUP, versions=(0, 5))
def sync_group(
    broker: Broker, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Pending[SyncGroupResponse]:
    says_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= _PROTOCOL_NEEDED_SINCE and not says_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not is_allowed(broker, context, _READ_GROUP, request.group_id):
        return SyncGroupResponse(error_code=denied(_READ_GROUP).code)
    return broker.groups.classic.sync(request)


@api(ApiKey.HEARTBEAT, versions=(0, 4))
def heartbeat(
    broker: Broker, context: RequestContext, request: HeartbeatRequest
) -> Pending[HeartbeatResponse]:
    return broker.groups.classic.heartbeat(request)


@api(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> Pending[LeaveGroupResponse]:
    """Before version 3 one member leaves, and its error is that of the response."""
    if context.api_version >= _MANY_MEMBERS_SINCE:
        return broker.groups.classic.leave(request)
    request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]

    def of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
        codes = [response.error_code, *(member.error_code for member in response.members)]
        return LeaveGroupResponse(error_code=next((code for code in codes if code), ErrorCode.NONE))

    return broker.groups.classic.leave(request).then(of_one)


@api(ApiKey.LIST_GROUPS, versions=(0, 5))
def list_groups(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> Pending[ListGroupsResponse]:
    """All groups, or those that the client may describe."""

    def visible(response: ListGroupsResponse) -> ListGroupsResponse:
        if response.groups:
            names = allowed_names(broker, context, _LIST_GROUP, [group.group_id for group in response.groups])
            response.groups = [group for group in response.groups if group.group_id in names]
        return response

    may_see_all = is_allowed(broker, context, _LIST_ALL)
    listed = broker.groups.classic.listed(request)
    return listed if may_see_all else listed.then(visible)


@api(ApiKey.DESCRIBE_GROUPS, versions=(0, 6))
def describe_groups(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> Pending[DescribeGroupsResponse]:
    """Those that the client may not describe come first, as in Kafka."""
    allowed = allowed_names(broker, context, _DESCRIBE_GROUP, request.groups)
    may_describe, refused = split(request.groups, allowed, str)

    def respond(groups: list[DescribeGroupsResponse.DescribedGroup]) -> DescribeGroupsResponse:
        for group in groups:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = group_operations(broker, context, group.group_id)
        code = denied(_DESCRIBE_GROUP).code
        unseen = [DescribeGroupsResponse.DescribedGroup(group_id=name, error_code=code) for name in refused]
        return DescribeGroupsResponse(groups=unseen + groups)

    return broker.groups.classic.describe(may_describe, context.api_version).then(respond)


@api(ApiKey.DELETE_GROUPS, versions=(0, 2))
def delete_groups(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> Pending[DeleteGroupsResponse]:
    allowed = allowed_names(broker, context, _DELETE_GROUP, request.groups_names)
    may_delete, refused = split(request.groups_names, allowed, str)
    code = denied(_DELETE_GROUP).code
    kept = [
        DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=code)
        for name in dict.fromkeys(refused)
    ]
    return broker.groups.classic.delete(may_delete).then(
        lambda results: DeleteGroupsResponse(results=[*results, *kept])
    )
