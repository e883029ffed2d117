"""Share groups (KIP-932): queues over partitions."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    bool_,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)
from barnabas.protocol.wire import Chunk, Uuid


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="1", flexible="0+"):
    """Joins, stays in and leaves a share group."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="1", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = array("TopicPartitions")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareGroupHeartbeatResponse.Assignment | None = struct(
        "Assignment", nullable="0+", default=None
    )


class ShareGroupDescribeRequest(Message, api_key=77, versions="1", flexible="0+"):
    """Asks for the state and the members of share groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = bool_()


class ShareGroupDescribeResponse(Message, api_key=77, versions="1", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(int32)

    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = array("TopicPartitions")

    class Member(Struct):
        member_id: str = string()
        rack_id: str | None = string(nullable="0+", default=None)
        member_epoch: int = int32()
        client_id: str = string()
        client_host: str = string()
        subscribed_topic_names: list[str] = array(string)
        assignment: ShareGroupDescribeResponse.Assignment = struct("Assignment")

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        group_id: str = string()
        group_state: str = string()
        group_epoch: int = int32()
        assignment_epoch: int = int32()
        assignor_name: str = string()
        members: list[ShareGroupDescribeResponse.Member] = array("Member")
        authorized_operations: int = int32(default=-2147483648)

    throttle_time_ms: int = int32()
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = array("DescribedGroup")


class ShareFetchRequest(Message, api_key=78, versions="1-2", flexible="0+"):
    """Acquires records for a member of a share group, and acknowledges others."""

    class AcknowledgementBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        acknowledge_types: list[int] = array(int8)

    class FetchPartition(Struct):
        partition_index: int = int32()
        partition_max_bytes: int = int32(versions="0")
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = array("AcknowledgementBatch")

    class FetchTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareFetchRequest.FetchPartition] = array("FetchPartition")

    class ForgottenTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    max_records: int = int32(versions="1+")
    batch_size: int = int32(versions="1+")
    share_acquire_mode: int = int8(versions="2+", ignorable=True)
    is_renew_ack: bool = bool_(versions="2+")
    topics: list[ShareFetchRequest.FetchTopic] = array("FetchTopic")
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = array("ForgottenTopic")


class ShareFetchResponse(Message, api_key=78, versions="1-2", flexible="0+"):
    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32()
        leader_epoch: int = int32()

    class AcquiredRecords(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_count: int = int16()

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        acknowledge_error_code: int = int16()
        acknowledge_error_message: str | None = string(nullable="0+", default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = struct("LeaderIdAndEpoch")
        records: Chunk | None = records(nullable="0")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = array("AcquiredRecords")

    class ShareFetchableTopicResponse(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareFetchResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32(versions="1+")
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = array("ShareFetchableTopicResponse")
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = array("NodeEndpoint")


class ShareAcknowledgeRequest(Message, api_key=79, versions="1-2", flexible="0+"):
    """Acknowledges records that a member has acquired."""

    class AcknowledgementBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        acknowledge_types: list[int] = array(int8)

    class AcknowledgePartition(Struct):
        partition_index: int = int32()
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = array(
            "AcknowledgementBatch"
        )

    class AcknowledgeTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = array("AcknowledgePartition")

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = bool_(versions="2+")
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = array("AcknowledgeTopic")


class ShareAcknowledgeResponse(Message, api_key=79, versions="1-2", flexible="0+"):
    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32()
        leader_epoch: int = int32()

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = struct("LeaderIdAndEpoch")

    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ShareAcknowledgeResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32(versions="2+", ignorable=True)
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = array(
        "ShareAcknowledgeTopicResponse"
    )
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = array("NodeEndpoint")


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0-1", flexible="0+"):
    """Asks where share groups start in their partitions."""

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string()
        partitions: list[int] = array(int32)

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = string()
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = array(
            "DescribeShareGroupOffsetsRequestTopic", nullable="0+"
        )

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = array(
        "DescribeShareGroupOffsetsRequestGroup"
    )


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0-1", flexible="0+"):
    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = int32()
        start_offset: int = int64()
        leader_epoch: int = int32()
        lag: int = int64(versions="1+", default=-1, ignorable=True)
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string()
        topic_id: Uuid = uuid()
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = (
            array("DescribeShareGroupOffsetsResponsePartition")
        )

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = string()
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = array(
            "DescribeShareGroupOffsetsResponseTopic"
        )
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = array(
        "DescribeShareGroupOffsetsResponseGroup"
    )


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    """Sets where a share group starts in its partitions."""

    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int = int32()
        start_offset: int = int64()

    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string()
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = array(
            "AlterShareGroupOffsetsRequestPartition"
        )

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = array(
        "AlterShareGroupOffsetsRequestTopic"
    )


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string()
        topic_id: Uuid = uuid()
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = array(
            "AlterShareGroupOffsetsResponsePartition"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = array(
        "AlterShareGroupOffsetsResponseTopic"
    )


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    """Deletes the offsets of a share group by topic."""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = string()

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = array(
        "DeleteShareGroupOffsetsRequestTopic"
    )


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = string()
        topic_id: Uuid = uuid()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = array(
        "DeleteShareGroupOffsetsResponseTopic"
    )
