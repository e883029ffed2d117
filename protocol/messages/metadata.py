"""Brokers, topics, partitions and their leaders."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int8, int16, int32, string, struct, uuid
from barnabas.protocol.wire import Uuid


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+"):
    """Asks for topics by name or id; null topics means all, none means only the brokers."""

    class MetadataRequestTopic(Struct):
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        name: str | None = string(nullable="10+")

    topics: list[MetadataRequest.MetadataRequestTopic] | None = array("MetadataRequestTopic", nullable="1+")
    allow_auto_topic_creation: bool = bool_(versions="4+", default=True)
    include_cluster_authorized_operations: bool = bool_(versions="8-10")
    include_topic_authorized_operations: bool = bool_(versions="8+")


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    """The brokers, and for each topic its partitions with leader, replicas and ISR."""

    class MetadataResponseBroker(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(versions="1+", nullable="1+", default=None, ignorable=True)

    class MetadataResponsePartition(Struct):
        error_code: int = int16()
        partition_index: int = int32()
        leader_id: int = int32()
        leader_epoch: int = int32(versions="7+", default=-1, ignorable=True)
        replica_nodes: list[int] = array(int32)
        isr_nodes: list[int] = array(int32)
        offline_replicas: list[int] = array(int32, versions="5+", ignorable=True)

    class MetadataResponseTopic(Struct):
        error_code: int = int16()
        name: str | None = string(nullable="12+")
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        is_internal: bool = bool_(versions="1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = array("MetadataResponsePartition")
        topic_authorized_operations: int = int32(versions="8+", default=-2147483648)

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    brokers: list[MetadataResponse.MetadataResponseBroker] = array("MetadataResponseBroker")
    cluster_id: str | None = string(versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32(versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponse.MetadataResponseTopic] = array("MetadataResponseTopic")
    cluster_authorized_operations: int = int32(versions="8-10", default=-2147483648)
    error_code: int = int16(versions="13+", ignorable=True)


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    """Asks for the brokers or the controllers of the cluster."""

    include_cluster_authorized_operations: bool = bool_()
    endpoint_type: int = int8(versions="1+", default=1)
    include_fenced_brokers: bool = bool_(versions="2+")


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    class DescribeClusterBroker(Struct):
        broker_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable="0+", default=None)
        is_fenced: bool = bool_(versions="2+")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8(versions="1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = array("DescribeClusterBroker")
    cluster_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    """Asks for partitions page by page, eligible leader replicas included (KIP-966)."""

    class TopicRequest(Struct):
        name: str = string()

    class Cursor(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = array("TopicRequest")
    response_partition_limit: int = int32(default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = struct("Cursor", nullable="0+", default=None)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int = int16()
        partition_index: int = int32()
        leader_id: int = int32()
        leader_epoch: int = int32(default=-1, ignorable=True)
        replica_nodes: list[int] = array(int32)
        isr_nodes: list[int] = array(int32)
        eligible_leader_replicas: list[int] | None = array(int32, nullable="0+", default=None)
        last_known_elr: list[int] | None = array(int32, nullable="0+", default=None)
        offline_replicas: list[int] = array(int32, ignorable=True)

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int = int16()
        name: str | None = string(nullable="0+")
        topic_id: Uuid = uuid(ignorable=True)
        is_internal: bool = bool_(ignorable=True)
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = array(
            "DescribeTopicPartitionsResponsePartition"
        )
        topic_authorized_operations: int = int32(default=-2147483648)

    class Cursor(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = array(
        "DescribeTopicPartitionsResponseTopic"
    )
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = struct("Cursor", nullable="0+", default=None)
