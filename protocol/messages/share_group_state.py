"""Records of __consumer_offsets: share groups."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int32, int64, string, uuid
from barnabas.protocol.wire import Uuid


class ShareGroupMemberMetadataKey(Message, api_key=10, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class ShareGroupMemberMetadataValue(Message, api_key=10, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataKey(Message, api_key=11, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class ShareGroupMetadataValue(Message, api_key=11, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message, api_key=12, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class ShareGroupTargetAssignmentMetadataValue(Message, api_key=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0, tagged="0+")


class ShareGroupTargetAssignmentMemberKey(Message, api_key=13, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class ShareGroupTargetAssignmentMemberValue(Message, api_key=13, versions="0", flexible="0+"):
    class TopicPartition(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = array("TopicPartition")


class ShareGroupCurrentMemberAssignmentKey(Message, api_key=14, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class ShareGroupCurrentMemberAssignmentValue(Message, api_key=14, versions="0", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions"
    )


class ShareGroupStatePartitionMetadataKey(Message, api_key=15, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class ShareGroupStatePartitionMetadataValue(Message, api_key=15, versions="0", flexible="0+"):
    class TopicPartitionsInfo(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(int32)

    class TopicInfo(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo"
    )
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = array(
        "TopicPartitionsInfo"
    )
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = array("TopicInfo")
