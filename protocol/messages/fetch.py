"""Fetch: record batches from the leader of their partition, to consumers and followers."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
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


class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    """Which partitions to read from which offsets, and how long to wait for how much."""

    class ReplicaState(Struct):
        replica_id: int = int32(versions="15+", default=-1)
        replica_epoch: int = int64(versions="15+", default=-1)

    class FetchPartition(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32(versions="9+", default=-1, ignorable=True)
        fetch_offset: int = int64()
        last_fetched_epoch: int = int32(versions="12+", default=-1)
        log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
        partition_max_bytes: int = int32()
        replica_directory_id: Uuid = uuid(versions="17+", ignorable=True, tag=0, tagged="17+")
        high_watermark: int = int64(
            versions="18+", default=9223372036854775807, ignorable=True, tag=1, tagged="18+"
        )

    class FetchTopic(Struct):
        topic: str = string(versions="0-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partitions: list[FetchRequest.FetchPartition] = array("FetchPartition")

    class ForgottenTopic(Struct):
        topic: str = string(versions="7-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partitions: list[int] = array(int32, versions="7+")

    cluster_id: str | None = string(
        versions="12+", nullable="12+", default=None, ignorable=True, tag=0, tagged="12+"
    )
    replica_id: int = int32(versions="0-14", default=-1)
    replica_state: FetchRequest.ReplicaState = struct("ReplicaState", versions="15+", tag=1, tagged="15+")
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(versions="3+", default=2147483647, ignorable=True)
    isolation_level: int = int8(versions="4+", ignorable=True)
    session_id: int = int32(versions="7+", ignorable=True)
    session_epoch: int = int32(versions="7+", default=-1, ignorable=True)
    topics: list[FetchRequest.FetchTopic] = array("FetchTopic")
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = array("ForgottenTopic", versions="7+")
    rack_id: str = string(versions="11+", ignorable=True)


class FetchResponse(Message, api_key=1, versions="4-18", flexible="12+"):
    """Batches and offsets of each partition that has something to say."""

    class EpochEndOffset(Struct):
        epoch: int = int32(versions="12+", default=-1)
        end_offset: int = int64(versions="12+", default=-1)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32(versions="12+", default=-1)
        leader_epoch: int = int32(versions="12+", default=-1)

    class SnapshotId(Struct):
        end_offset: int = int64(default=-1)
        epoch: int = int32(default=-1)

    class AbortedTransaction(Struct):
        producer_id: int = int64(versions="4+")
        first_offset: int = int64(versions="4+")

    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        high_watermark: int = int64()
        last_stable_offset: int = int64(versions="4+", default=-1, ignorable=True)
        log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
        diverging_epoch: FetchResponse.EpochEndOffset = struct(
            "EpochEndOffset", versions="12+", tag=0, tagged="12+"
        )
        current_leader: FetchResponse.LeaderIdAndEpoch = struct(
            "LeaderIdAndEpoch", versions="12+", tag=1, tagged="12+"
        )
        snapshot_id: FetchResponse.SnapshotId = struct("SnapshotId", versions="12+", tag=2, tagged="12+")
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = array(
            "AbortedTransaction", versions="4+", nullable="4+", ignorable=True
        )
        preferred_read_replica: int = int32(versions="11+", default=-1)
        records: Chunk | None = records(nullable="0+")

    class FetchableTopicResponse(Struct):
        topic: str = string(versions="0-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partitions: list[FetchResponse.PartitionData] = array("PartitionData")

    class NodeEndpoint(Struct):
        node_id: int = int32(versions="16+")
        host: str = string(versions="16+")
        port: int = int32(versions="16+")
        rack: str | None = string(versions="16+", nullable="16+", default=None)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16(versions="7+", ignorable=True)
    session_id: int = int32(versions="7+")
    responses: list[FetchResponse.FetchableTopicResponse] = array("FetchableTopicResponse")
    node_endpoints: list[FetchResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="16+", tag=0, tagged="16+"
    )
