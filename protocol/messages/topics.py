"""Creating, deleting, widening and moving topics."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int8, int16, int32, string, uuid
from barnabas.protocol.wire import Uuid


class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    """Creates topics, with a number of partitions or an assignment of replicas."""

    class CreatableReplicaAssignment(Struct):
        partition_index: int = int32()
        broker_ids: list[int] = array(int32)

    class CreatableTopicConfig(Struct):
        name: str = string()
        value: str | None = string(nullable="0+")

    class CreatableTopic(Struct):
        name: str = string()
        num_partitions: int = int32()
        replication_factor: int = int16()
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = array(
            "CreatableReplicaAssignment"
        )
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = array("CreatableTopicConfig")

    topics: list[CreateTopicsRequest.CreatableTopic] = array("CreatableTopic")
    timeout_ms: int = int32(default=60000)
    validate_only: bool = bool_(versions="1+")


class CreateTopicsResponse(Message, api_key=19, versions="2-7", flexible="5+"):
    class CreatableTopicConfigs(Struct):
        name: str = string(versions="5+")
        value: str | None = string(versions="5+", nullable="5+")
        read_only: bool = bool_(versions="5+")
        config_source: int = int8(versions="5+", default=-1, ignorable=True)
        is_sensitive: bool = bool_(versions="5+")

    class CreatableTopicResult(Struct):
        name: str = string()
        topic_id: Uuid = uuid(versions="7+", ignorable=True)
        error_code: int = int16()
        error_message: str | None = string(versions="1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = int16(versions="5+", ignorable=True, tag=0, tagged="5+")
        num_partitions: int = int32(versions="5+", default=-1, ignorable=True)
        replication_factor: int = int16(versions="5+", default=-1, ignorable=True)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = array(
            "CreatableTopicConfigs", versions="5+", nullable="5+", ignorable=True
        )

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    topics: list[CreateTopicsResponse.CreatableTopicResult] = array("CreatableTopicResult")


class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    """Deletes topics by name or id."""

    class DeleteTopicState(Struct):
        name: str | None = string(versions="6+", nullable="6+", default=None)
        topic_id: Uuid = uuid(versions="6+")

    topics: list[DeleteTopicsRequest.DeleteTopicState] = array("DeleteTopicState", versions="6+")
    topic_names: list[str] = array(string, versions="0-5", ignorable=True)
    timeout_ms: int = int32()


class DeleteTopicsResponse(Message, api_key=20, versions="1-6", flexible="4+"):
    class DeletableTopicResult(Struct):
        name: str | None = string(nullable="6+")
        topic_id: Uuid = uuid(versions="6+", ignorable=True)
        error_code: int = int16()
        error_message: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = array("DeletableTopicResult")


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Gives topics more partitions."""

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int] = array(int32)

    class CreatePartitionsTopic(Struct):
        name: str = string()
        count: int = int32()
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = array(
            "CreatePartitionsAssignment", nullable="0+"
        )

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = array("CreatePartitionsTopic")
    timeout_ms: int = int32()
    validate_only: bool = bool_()


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    class CreatePartitionsTopicResult(Struct):
        name: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = array("CreatePartitionsTopicResult")


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    """Elects preferred or unclean leaders (KIP-460)."""

    class TopicPartitions(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    election_type: int = int8(versions="1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = array(
        "TopicPartitions", nullable="0+"
    )
    timeout_ms: int = int32(default=60000)


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    class PartitionResult(Struct):
        partition_id: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    class ReplicaElectionResult(Struct):
        topic: str = string()
        partition_result: list[ElectLeadersResponse.PartitionResult] = array("PartitionResult")

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = array(
        "ReplicaElectionResult"
    )


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    """Begins or cancels moves of replicas (KIP-455)."""

    class ReassignablePartition(Struct):
        partition_index: int = int32()
        replicas: list[int] | None = array(int32, nullable="0+", default=None)

    class ReassignableTopic(Struct):
        name: str = string()
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = array(
            "ReassignablePartition"
        )

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = bool_(versions="1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = array("ReassignableTopic")


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    class ReassignablePartitionResponse(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    class ReassignableTopicResponse(Struct):
        name: str = string()
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = array(
            "ReassignablePartitionResponse"
        )

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = bool_(versions="1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = array(
        "ReassignableTopicResponse"
    )


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    """Asks which moves of replicas are under way."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = string()
        partition_indexes: list[int] = array(int32)

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = array(
        "ListPartitionReassignmentsTopics", nullable="0+", default=None
    )


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    class OngoingPartitionReassignment(Struct):
        partition_index: int = int32()
        replicas: list[int] = array(int32)
        adding_replicas: list[int] = array(int32)
        removing_replicas: list[int] = array(int32)

    class OngoingTopicReassignment(Struct):
        name: str = string()
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = array(
            "OngoingPartitionReassignment"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = array(
        "OngoingTopicReassignment"
    )
