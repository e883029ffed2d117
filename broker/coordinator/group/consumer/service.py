"""ConsumerGroupService: requests of the consumer protocol, checked and brought to the shard of their group.

Source: GroupCoordinatorService (consumerGroupHeartbeat, consumerGroupDescribe).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.group.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from barnabas.broker.coordinator.group.consumer.settings import assignor_names
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard

DescribedGroup = ConsumerGroupDescribeResponse.DescribedGroup

_MEMBER_MAKES_ID_SINCE: Final = 1
"""The version of ConsumerGroupHeartbeat from which on members come with an id of their own."""


class ConsumerGroupService:
    """What handlers ask about consumer groups."""

    def __init__(self, runtime: CoordinatorRuntime[GroupCoordinatorShard], config: BrokerConfig) -> None:
        self._runtime = runtime
        self._config = config

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]:
        """A member joins, goes on or leaves."""
        try:
            self._check(request, context.api_version)
        except ApiError as error:
            return heartbeat_refused(error)
        return self._runtime.write(
            request.group_id, lambda shard: shard.consumers.heartbeat(context, request), heartbeat_refused
        )

    def _check(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raises ApiError for a request that makes no sense, whatever the group."""
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

    def describe(self, group_ids: Sequence[str], done: Callable[[list[DescribedGroup]], None]) -> None:
        """Hands `done` the groups, in the order in which they were asked for."""
        answers: dict[int, DescribedGroup] = {}

        def answered(index: int, group: DescribedGroup) -> None:
            answers[index] = group
            if len(answers) == len(group_ids):
                done([answers[at] for at in range(len(group_ids))])

        if not group_ids:
            done([])
        for index, group_id in enumerate(group_ids):
            self._describe(group_id).add_done_callback(lambda group, at=index: answered(at, group))  # type: ignore[misc]

    def _describe(self, group_id: str) -> Pending[DescribedGroup]:
        if not group_id:
            refused: Pending[DescribedGroup] = Pending()
            refused.complete(described_refused(group_id, ApiError(ErrorCode.INVALID_GROUP_ID)))
            return refused
        return self._runtime.read(
            group_id,
            lambda shard: shard.consumers.describe(group_id),
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
