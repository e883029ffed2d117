"""The log directories of a broker and which replicas lie in them."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int16, int32, int64, string, uuid
from barnabas.protocol.wire import Uuid


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="1-2", flexible="2+"):
    """Moves replicas between the log directories of a broker."""

    class AlterReplicaLogDirTopic(Struct):
        name: str = string()
        partitions: list[int] = array(int32)

    class AlterReplicaLogDir(Struct):
        path: str = string()
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = array("AlterReplicaLogDirTopic")

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = array("AlterReplicaLogDir")


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="1-2", flexible="2+"):
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = string()
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = array(
            "AlterReplicaLogDirPartitionResult"
        )

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = array(
        "AlterReplicaLogDirTopicResult"
    )


class DescribeLogDirsRequest(Message, api_key=35, versions="1-5", flexible="2+"):
    """Asks for the log directories of a broker and the sizes of replicas."""

    class DescribableLogDirTopic(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = array(
        "DescribableLogDirTopic", nullable="0+"
    )


class DescribeLogDirsResponse(Message, api_key=35, versions="1-5", flexible="2+"):
    class DescribeLogDirsPartition(Struct):
        partition_index: int = int32()
        partition_size: int = int64()
        offset_lag: int = int64()
        is_future_key: bool = bool_()

    class DescribeLogDirsTopic(Struct):
        name: str = string()
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = array("DescribeLogDirsPartition")

    class DescribeLogDirsResult(Struct):
        error_code: int = int16()
        log_dir: str = string()
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = array("DescribeLogDirsTopic")
        total_bytes: int = int64(versions="4+", default=-1, ignorable=True)
        usable_bytes: int = int64(versions="4+", default=-1, ignorable=True)
        is_cordoned: bool = bool_(versions="5+", ignorable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="3+", ignorable=True)
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = array("DescribeLogDirsResult")


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    """A broker reports the log directories of replicas to the controller (KIP-858)."""

    class PartitionData(Struct):
        partition_index: int = int32()

    class TopicData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = array("PartitionData")

    class DirectoryData(Struct):
        id: Uuid = uuid()
        topics: list[AssignReplicasToDirsRequest.TopicData] = array("TopicData")

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = array("DirectoryData")


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class TopicData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = array("PartitionData")

    class DirectoryData(Struct):
        id: Uuid = uuid()
        topics: list[AssignReplicasToDirsResponse.TopicData] = array("TopicData")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = array("DirectoryData")
