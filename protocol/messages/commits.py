"""The offsets that groups commit."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int16, int32, int64, string, uuid
from barnabas.protocol.wire import Uuid


class OffsetCommitRequest(Message, api_key=8, versions="2-10", flexible="8+"):
    """Commits offsets of a group."""

    class OffsetCommitRequestPartition(Struct):
        partition_index: int = int32()
        committed_offset: int = int64()
        committed_leader_epoch: int = int32(versions="6+", default=-1, ignorable=True)
        committed_metadata: str | None = string(nullable="0+")

    class OffsetCommitRequestTopic(Struct):
        name: str = string(versions="0-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = array(
            "OffsetCommitRequestPartition"
        )

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(versions="1+", default=-1, ignorable=True)
    member_id: str = string(versions="1+", ignorable=True)
    group_instance_id: str | None = string(versions="7+", nullable="7+", default=None)
    retention_time_ms: int = int64(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = array("OffsetCommitRequestTopic")


class OffsetCommitResponse(Message, api_key=8, versions="2-10", flexible="8+"):
    class OffsetCommitResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class OffsetCommitResponseTopic(Struct):
        name: str = string(versions="0-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = array(
            "OffsetCommitResponsePartition"
        )

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = array("OffsetCommitResponseTopic")


class OffsetFetchRequest(Message, api_key=9, versions="1-10", flexible="6+"):
    """Asks for committed offsets of one group, or of several from version 8."""

    class OffsetFetchRequestTopic(Struct):
        name: str = string(versions="0-7")
        partition_indexes: list[int] = array(int32, versions="0-7")

    class OffsetFetchRequestTopics(Struct):
        name: str = string(versions="8-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partition_indexes: list[int] = array(int32, versions="8+")

    class OffsetFetchRequestGroup(Struct):
        group_id: str = string(versions="8+")
        member_id: str | None = string(versions="9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = int32(versions="9+", default=-1, ignorable=True)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = array(
            "OffsetFetchRequestTopics", versions="8+", nullable="8+"
        )

    group_id: str = string(versions="0-7")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = array(
        "OffsetFetchRequestTopic", versions="0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = array("OffsetFetchRequestGroup", versions="8+")
    require_stable: bool = bool_(versions="7+")


class OffsetFetchResponse(Message, api_key=9, versions="1-10", flexible="6+"):
    class OffsetFetchResponsePartition(Struct):
        partition_index: int = int32(versions="0-7")
        committed_offset: int = int64(versions="0-7")
        committed_leader_epoch: int = int32(versions="5-7", default=-1, ignorable=True)
        metadata: str | None = string(versions="0-7", nullable="0-7")
        error_code: int = int16(versions="0-7")

    class OffsetFetchResponseTopic(Struct):
        name: str = string(versions="0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = array(
            "OffsetFetchResponsePartition", versions="0-7"
        )

    class OffsetFetchResponsePartitions(Struct):
        partition_index: int = int32(versions="8+")
        committed_offset: int = int64(versions="8+")
        committed_leader_epoch: int = int32(versions="8+", default=-1, ignorable=True)
        metadata: str | None = string(versions="8+", nullable="8+")
        error_code: int = int16(versions="8+")

    class OffsetFetchResponseTopics(Struct):
        name: str = string(versions="8-9", ignorable=True)
        topic_id: Uuid = uuid(versions="10+", ignorable=True)
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = array(
            "OffsetFetchResponsePartitions", versions="8+"
        )

    class OffsetFetchResponseGroup(Struct):
        group_id: str = string(versions="8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = array(
            "OffsetFetchResponseTopics", versions="8+"
        )
        error_code: int = int16(versions="8+")

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = array(
        "OffsetFetchResponseTopic", versions="0-7"
    )
    error_code: int = int16(versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = array(
        "OffsetFetchResponseGroup", versions="8+"
    )


class OffsetDeleteRequest(Message, api_key=47, versions="0", flexible="none"):
    """Deletes committed offsets of a group (KIP-496)."""

    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = int32()

    class OffsetDeleteRequestTopic(Struct):
        name: str = string()
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = array(
            "OffsetDeleteRequestPartition"
        )

    group_id: str = string()
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = array("OffsetDeleteRequestTopic")


class OffsetDeleteResponse(Message, api_key=47, versions="0", flexible="none"):
    class OffsetDeleteResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class OffsetDeleteResponseTopic(Struct):
        name: str = string()
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = array(
            "OffsetDeleteResponsePartition"
        )

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = array("OffsetDeleteResponseTopic")
