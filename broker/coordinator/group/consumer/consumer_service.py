"""ConsumerGroupService: checks requests of the consumer protocol and passes them to the shard of their group.

Source: GroupCoordinatorService (consumerGroupHeartbeat, consumerGroupDescribe).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.group.consumer.assignors.preference import preferred
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    Partitions,
)
from barnabas.broker.coordinator.group.consumer.member_lookup import find_group
from barnabas.broker.coordinator.group.consumer.settings import assignor_names
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.request import RequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.wire import Uuid

if TYPE_CHECKING:
    from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard

DescribeResponse = ConsumerGroupDescribeResponse
DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
"""The protocol of a member (member_type)."""

_MEMBER_MAKES_ID_SINCE: Final = 1
"""From this version of ConsumerGroupHeartbeat on members choose their id."""


class ConsumerGroupService:
    """Requests about consumer groups."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self._runtime = runtime
        self._config = config

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat: a member joins, continues or leaves."""
        try:
            self._check(request, context.api_version)
        except ApiError as error:
            return heartbeat_refused(error)
        return self._runtime.write(
            request.group_id, lambda shard: shard.heartbeats.heartbeat(context, request), heartbeat_refused
        )

    def _check(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raises ApiError for a request that is invalid for any group."""
        epoch = request.member_epoch
        if version >= _MEMBER_MAKES_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
            _check_not_blank("MemberId", request.member_id)
        _check_not_blank("GroupId", request.group_id)
        _check_not_blank("InstanceId", request.instance_id)
        _check_not_blank("RackId", request.rack_id)
        if epoch == JOIN_EPOCH:
            _check_joining(request)
        elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")
        self._check_assignor(request.server_assignor)

    def _check_assignor(self, name: str | None) -> None:
        known = assignor_names(self._config)
        if name is not None and name not in known:
            raise ApiError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(known)}.",
            )

    def describe(self, group_ids: Sequence[str]) -> Pending[list[DescribedGroup]]:
        """ConsumerGroupDescribe: each group by itself, in the order of the request."""
        return all_of([self._describe(group_id) for group_id in group_ids])

    def _describe(self, group_id: str) -> Pending[DescribedGroup]:
        if not group_id:
            return completed(described_refused(group_id, ApiError(ErrorCode.INVALID_GROUP_ID)))
        return self._runtime.read(
            group_id,
            lambda shard: describe_group(
                find_group(shard.groups, group_id), assignor_names(self._config)[0], shard.context.image()
            ),
            lambda error: described_refused(group_id, error),
        )


def heartbeat_refused(error: ApiError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error.code, error_message=error.message or error.code.text
    )


def described_refused(group_id: str, error: ApiError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_not_blank(field: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{field} can't be empty.")


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def describe_group(group: ConsumerGroup, default_assignor: str, image: MetadataImage) -> DescribedGroup:
    """The group with its members and their current and target assignments, without deleted topics."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred(group.assignor_counts) or default_assignor,
        members=[
            _member(member, group.target.get(member_id, NOTHING), image)
            for member_id, member in group.members.items()
        ],
    )


def _member(member: ConsumerGroupMember, target: Partitions, image: MetadataImage) -> DescribeResponse.Member:
    owned: dict[Uuid, list[int]] = {}
    for epochs_of in (member.assigned, member.pending_revocation):
        for topic_id, epochs in epochs_of.items():
            owned.setdefault(topic_id, []).extend(epochs)
    return DescribeResponse.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(owned.items(), image),
        target_assignment=_assignment(target.items(), image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(
    topics: Iterable[tuple[Uuid, Iterable[int]]], image: MetadataImage
) -> DescribeResponse.Assignment:
    return DescribeResponse.Assignment(
        topic_partitions=[
            DescribeResponse.TopicPartitions(
                topic_id=topic_id, topic_name=image.topic_names[topic_id], partitions=sorted(partitions)
            )
            for topic_id, partitions in topics
            if topic_id in image.topic_names
        ]
    )
