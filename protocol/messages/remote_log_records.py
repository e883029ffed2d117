"""Records of __remote_log_metadata."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    bool_,
    bytes_,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from barnabas.protocol.wire import Uuid


class RemoteLogSegmentMetadataRecord(Message, api_key=0, versions="0", flexible="0+"):
    class TopicIdPartitionEntry(Struct):
        name: str = string()
        id: Uuid = uuid()
        partition: int = int32()

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry = struct(
            "TopicIdPartitionEntry"
        )
        id: Uuid = uuid()

    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = int32()
        offset: int = int64()

    remote_log_segment_id: RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry = struct(
        "RemoteLogSegmentIdEntry"
    )
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry] = array(
        "SegmentLeaderEpochEntry"
    )
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = bytes_(nullable="0+", default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = bool_(tag=0, tagged="0+")


class RemoteLogSegmentMetadataUpdateRecord(Message, api_key=1, versions="0", flexible="0+"):
    class TopicIdPartitionEntry(Struct):
        name: str = string()
        id: Uuid = uuid()
        partition: int = int32()

    class RemoteLogSegmentIdEntry(Struct):
        topic_id_partition: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry = struct(
            "TopicIdPartitionEntry"
        )
        id: Uuid = uuid()

    remote_log_segment_id: RemoteLogSegmentMetadataUpdateRecord.RemoteLogSegmentIdEntry = struct(
        "RemoteLogSegmentIdEntry"
    )
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: bytes | None = bytes_(nullable="0+", default=None)
    remote_log_segment_state: int = int8()


class RemotePartitionDeleteMetadataRecord(Message, api_key=2, versions="0", flexible="0+"):
    class TopicIdPartitionEntry(Struct):
        name: str = string()
        id: Uuid = uuid()
        partition: int = int32()

    topic_id_partition: RemotePartitionDeleteMetadataRecord.TopicIdPartitionEntry = struct(
        "TopicIdPartitionEntry"
    )
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()


class RemoteLogSegmentMetadataSnapshotRecord(Message, api_key=3, versions="0", flexible="0+"):
    class SegmentLeaderEpochEntry(Struct):
        leader_epoch: int = int32()
        offset: int = int64()

    segment_id: Uuid = uuid()
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[RemoteLogSegmentMetadataSnapshotRecord.SegmentLeaderEpochEntry] = array(
        "SegmentLeaderEpochEntry"
    )
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = bytes_(nullable="0+", default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = bool_(tag=0, tagged="0+")
