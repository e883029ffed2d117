"""Requests between the voters and observers of the KRaft quorum."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    bool_,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uint16,
    uuid,
)
from barnabas.protocol.wire import Chunk, Uuid


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    """A candidate asks for a vote, or first whether it would get one (KIP-996)."""

    class PartitionData(Struct):
        partition_index: int = int32()
        replica_epoch: int = int32()
        replica_id: int = int32()
        replica_directory_id: Uuid = uuid(versions="1+", ignorable=True)
        voter_directory_id: Uuid = uuid(versions="1+", ignorable=True)
        last_offset_epoch: int = int32()
        last_offset: int = int64()
        pre_vote: bool = bool_(versions="2+")

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[VoteRequest.PartitionData] = array("PartitionData")

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[VoteRequest.TopicData] = array("TopicData")


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()
        vote_granted: bool = bool_()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[VoteResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32(versions="1+")
        host: str = string(versions="1+")
        port: int = uint16(versions="1+")

    error_code: int = int16()
    topics: list[VoteResponse.TopicData] = array("TopicData")
    node_endpoints: list[VoteResponse.NodeEndpoint] = array("NodeEndpoint", versions="1+", tag=0, tagged="1+")


class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    """A new leader makes itself known."""

    class PartitionData(Struct):
        partition_index: int = int32()
        voter_directory_id: Uuid = uuid(versions="1+", ignorable=True)
        leader_id: int = int32()
        leader_epoch: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[BeginQuorumEpochRequest.PartitionData] = array("PartitionData")

    class LeaderEndpoint(Struct):
        name: str = string(versions="1+")
        host: str = string(versions="1+")
        port: int = uint16(versions="1+")

    cluster_id: str | None = string(nullable="0+", default=None)
    voter_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequest.TopicData] = array("TopicData")
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = array(
        "LeaderEndpoint", versions="1+", ignorable=True
    )


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[BeginQuorumEpochResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32(versions="1+")
        host: str = string(versions="1+")
        port: int = uint16(versions="1+")

    error_code: int = int16()
    topics: list[BeginQuorumEpochResponse.TopicData] = array("TopicData")
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="1+", tag=0, tagged="1+"
    )


class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    """A leader resigns, and names its preferred successors."""

    class ReplicaInfo(Struct):
        candidate_id: int = int32(versions="1+")
        candidate_directory_id: Uuid = uuid(versions="1+")

    class PartitionData(Struct):
        partition_index: int = int32()
        leader_id: int = int32()
        leader_epoch: int = int32()
        preferred_successors: list[int] = array(int32, versions="0", ignorable=True)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = array(
            "ReplicaInfo", versions="1+", ignorable=True
        )

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[EndQuorumEpochRequest.PartitionData] = array("PartitionData")

    class LeaderEndpoint(Struct):
        name: str = string(versions="1+")
        host: str = string(versions="1+")
        port: int = uint16(versions="1+")

    cluster_id: str | None = string(nullable="0+", default=None)
    topics: list[EndQuorumEpochRequest.TopicData] = array("TopicData")
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = array(
        "LeaderEndpoint", versions="1+", ignorable=True
    )


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[EndQuorumEpochResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32(versions="1+")
        host: str = string(versions="1+")
        port: int = uint16(versions="1+")

    error_code: int = int16()
    topics: list[EndQuorumEpochResponse.TopicData] = array("TopicData")
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="1+", tag=0, tagged="1+"
    )


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    """Asks the leader how far voters and observers are."""

    class PartitionData(Struct):
        partition_index: int = int32()

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[DescribeQuorumRequest.PartitionData] = array("PartitionData")

    topics: list[DescribeQuorumRequest.TopicData] = array("TopicData")


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    class ReplicaState(Struct):
        replica_id: int = int32()
        replica_directory_id: Uuid = uuid(versions="2+")
        log_end_offset: int = int64()
        last_fetch_timestamp: int = int64(versions="1+", default=-1, ignorable=True)
        last_caught_up_timestamp: int = int64(versions="1+", default=-1, ignorable=True)

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(versions="2+", nullable="2+", ignorable=True)
        leader_id: int = int32()
        leader_epoch: int = int32()
        high_watermark: int = int64()
        current_voters: list[DescribeQuorumResponse.ReplicaState] = array("ReplicaState")
        observers: list[DescribeQuorumResponse.ReplicaState] = array("ReplicaState")

    class TopicData(Struct):
        topic_name: str = string()
        partitions: list[DescribeQuorumResponse.PartitionData] = array("PartitionData")

    class Listener(Struct):
        name: str = string(versions="2+")
        host: str = string(versions="2+")
        port: int = uint16(versions="2+")

    class Node(Struct):
        node_id: int = int32(versions="2+")
        listeners: list[DescribeQuorumResponse.Listener] = array("Listener", versions="2+")

    error_code: int = int16()
    error_message: str | None = string(versions="2+", nullable="2+", ignorable=True)
    topics: list[DescribeQuorumResponse.TopicData] = array("TopicData")
    nodes: list[DescribeQuorumResponse.Node] = array("Node", versions="2+")


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    """Reads a snapshot of the metadata log piece by piece."""

    class SnapshotId(Struct):
        end_offset: int = int64()
        epoch: int = int32()

    class PartitionSnapshot(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32()
        snapshot_id: FetchSnapshotRequest.SnapshotId = struct("SnapshotId")
        position: int = int64()
        replica_directory_id: Uuid = uuid(versions="1+", ignorable=True, tag=0, tagged="1+")

    class TopicSnapshot(Struct):
        name: str = string()
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = array("PartitionSnapshot")

    cluster_id: str | None = string(nullable="0+", default=None, tag=0, tagged="0+")
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: list[FetchSnapshotRequest.TopicSnapshot] = array("TopicSnapshot")


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    class SnapshotId(Struct):
        end_offset: int = int64()
        epoch: int = int32()

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32()
        leader_epoch: int = int32()

    class PartitionSnapshot(Struct):
        index: int = int32()
        error_code: int = int16()
        snapshot_id: FetchSnapshotResponse.SnapshotId = struct("SnapshotId")
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = struct(
            "LeaderIdAndEpoch", tag=0, tagged="0+"
        )
        size: int = int64()
        position: int = int64()
        unaligned_records: Chunk | None = records()

    class TopicSnapshot(Struct):
        name: str = string()
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = array("PartitionSnapshot")

    class NodeEndpoint(Struct):
        node_id: int = int32(versions="1+")
        host: str = string(versions="1+")
        port: int = uint16(versions="1+")

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    topics: list[FetchSnapshotResponse.TopicSnapshot] = array("TopicSnapshot")
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="1+", tag=0, tagged="1+"
    )
