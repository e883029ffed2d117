"""Records of __consumer_offsets: offsets, classic groups and consumer groups."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bytes_, int8, int32, int64, string, struct, uuid
from barnabas.protocol.wire import Uuid


class LegacyOffsetCommitKey(Message, api_key=0, versions="0", flexible="none"):
    """The key of a committed offset, as brokers before 0.9 wrote it."""

    group: str = string(versions="0")
    topic: str = string(versions="0")
    partition: int = int32(versions="0")


class LegacyOffsetCommitValue(Message, api_key=0, versions="0", flexible="none"):
    """A committed offset, as brokers before 0.9 wrote it."""

    offset: int = int64(versions="0")
    metadata: str = string(versions="0")
    commit_timestamp: int = int64(versions="0")


class OffsetCommitKey(Message, api_key=1, versions="0", flexible="none"):
    """The key of a committed offset."""

    group: str = string(versions="0")
    topic: str = string(versions="0")
    partition: int = int32(versions="0")


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1, ignorable=True)
    topic_id: Uuid = uuid(versions="4+", ignorable=True, tag=0, tagged="4+")


class GroupMetadataKey(Message, api_key=2, versions="0", flexible="none"):
    """The key of a classic group."""

    group: str = string(versions="0")


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    """A classic group with all its members."""

    class MemberMetadata(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(versions="3+", nullable="3+", default=None, ignorable=True)
        client_id: str = string()
        client_host: str = string()
        rebalance_timeout: int = int32(versions="1+", default=-1, ignorable=True)
        session_timeout: int = int32()
        subscription: bytes = bytes_()
        assignment: bytes = bytes_()

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64(versions="2+", default=-1, ignorable=True)
    members: list[GroupMetadataValue.MemberMetadata] = array("MemberMetadata")


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, tagged="0+")


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    class PartitionMetadata(Struct):
        partition: int = int32()
        racks: list[str] = array(string)

    class TopicMetadata(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        num_partitions: int = int32()
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = array(
            "PartitionMetadata"
        )

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = array("TopicMetadata")


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions="0", flexible="0+"):
    class ClassicProtocol(Struct):
        name: str = string()
        metadata: bytes = bytes_()

    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int = int32()
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = array("ClassicProtocol")

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = struct(
        "ClassicMemberMetadata", nullable="0+", tag=0, tagged="0+"
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0", flexible="none"):
    group_id: str = string(versions="0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0, tagged="0+")


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    class TopicPartition(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = array("TopicPartition")


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    member_id: str = string(versions="0")


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)
        assignment_epochs: list[int] | None = array(int32, nullable="0+", tag=0, tagged="0+")

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions"
    )
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = array(
        "TopicPartitions"
    )


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0", flexible="none"):
    group_id: str = string(versions="0")
    regular_expression: str = string(versions="0")


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
