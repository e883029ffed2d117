"""Produce: record batches from a client to the leader of their partition."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)
from barnabas.protocol.wire import Uuid


class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
    """Record batches to append, by topic and partition."""

    class PartitionProduceData(Struct):
        index: int = int32()
        records: bytes | memoryview | None = records(nullable="0+")

    class TopicProduceData(Struct):
        name: str = string(versions="0-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData] = array("PartitionProduceData")

    transactional_id: str | None = string(versions="3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[ProduceRequest.TopicProduceData] = array("TopicProduceData")


class ProduceResponse(Message, api_key=0, versions="3-13", flexible="9+"):
    """Where the batches went, or why they did not; NodeEndpoints saves a client the search for a new leader."""

    class BatchIndexAndErrorMessage(Struct):
        batch_index: int = int32(versions="8+")
        batch_index_error_message: str | None = string(versions="8+", nullable="8+", default=None)

    class LeaderIdAndEpoch(Struct):
        leader_id: int = int32(versions="10+", default=-1)
        leader_epoch: int = int32(versions="10+", default=-1)

    class PartitionProduceResponse(Struct):
        index: int = int32()
        error_code: int = int16()
        base_offset: int = int64()
        log_append_time_ms: int = int64(versions="2+", default=-1, ignorable=True)
        log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = array(
            "BatchIndexAndErrorMessage", versions="8+", ignorable=True
        )
        error_message: str | None = string(versions="8+", nullable="8+", default=None, ignorable=True)
        current_leader: ProduceResponse.LeaderIdAndEpoch = struct(
            "LeaderIdAndEpoch", versions="10+", tag=0, tagged="10+"
        )

    class TopicProduceResponse(Struct):
        name: str = string(versions="0-12", ignorable=True)
        topic_id: Uuid = uuid(versions="13+", ignorable=True)
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = array(
            "PartitionProduceResponse"
        )

    class NodeEndpoint(Struct):
        node_id: int = int32(versions="10+")
        host: str = string(versions="10+")
        port: int = int32(versions="10+")
        rack: str | None = string(versions="10+", nullable="10+", default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = array("TopicProduceResponse")
    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    node_endpoints: list[ProduceResponse.NodeEndpoint] = array(
        "NodeEndpoint", versions="10+", tag=0, tagged="10+"
    )
