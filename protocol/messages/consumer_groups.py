"""The consumer group protocol of KIP-848."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int8, int16, int32, string, struct, uuid
from barnabas.protocol.wire import Uuid


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    """Joins, stays in and leaves a consumer group; null fields have not changed."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string(versions="1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = array(
        "TopicPartitions", nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    """The member's epoch, and its assignment where that has changed."""

    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = array("TopicPartitions")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = struct(
        "Assignment", nullable="0+", default=None
    )


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    """Asks for the state, epochs and assignments of consumer groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = bool_()


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(int32)

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = array("TopicPartitions")

    class Member(Struct):
        member_id: str = string()
        instance_id: str | None = string(nullable="0+", default=None)
        rack_id: str | None = string(nullable="0+", default=None)
        member_epoch: int = int32()
        client_id: str = string()
        client_host: str = string()
        subscribed_topic_names: list[str] = array(string)
        subscribed_topic_regex: str | None = string(nullable="0+", default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = struct("Assignment")
        target_assignment: ConsumerGroupDescribeResponse.Assignment = struct("Assignment")
        member_type: int = int8(versions="1+", default=-1, ignorable=True)

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        group_id: str = string()
        group_state: str = string()
        group_epoch: int = int32()
        assignment_epoch: int = int32()
        assignor_name: str = string()
        members: list[ConsumerGroupDescribeResponse.Member] = array("Member")
        authorized_operations: int = int32(default=-2147483648)

    throttle_time_ms: int = int32()
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = array("DescribedGroup")
