"""Offsets of a log: by timestamp, by leader epoch, and its start."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string

# The timestamps of ListOffsets that stand for a place in the log and not for a time.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SINCE_VERSION: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version of ListOffsets in which one means something; those that are not here always did."""


class ListOffsetsRequest(Message, api_key=2, versions="1-11", flexible="6+"):
    """Asks for offsets by timestamp; negative timestamps mean the start, the end and other places."""

    class ListOffsetsPartition(Struct):
        partition_index: int = int32()
        current_leader_epoch: int = int32(versions="4+", default=-1, ignorable=True)
        timestamp: int = int64()

    class ListOffsetsTopic(Struct):
        name: str = string()
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = array("ListOffsetsPartition")

    replica_id: int = int32()
    isolation_level: int = int8(versions="2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = array("ListOffsetsTopic")
    timeout_ms: int = int32(versions="10+", ignorable=True)


class ListOffsetsResponse(Message, api_key=2, versions="1-11", flexible="6+"):
    class ListOffsetsPartitionResponse(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        timestamp: int = int64(versions="1+", default=-1)
        offset: int = int64(versions="1+", default=-1)
        leader_epoch: int = int32(versions="4+", default=-1)

    class ListOffsetsTopicResponse(Struct):
        name: str = string()
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = array(
            "ListOffsetsPartitionResponse"
        )

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = array("ListOffsetsTopicResponse")


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    """Asks where the records of a leader epoch end (KIP-101)."""

    class OffsetForLeaderPartition(Struct):
        partition: int = int32()
        current_leader_epoch: int = int32(versions="2+", default=-1, ignorable=True)
        leader_epoch: int = int32()

    class OffsetForLeaderTopic(Struct):
        topic: str = string()
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = array(
            "OffsetForLeaderPartition"
        )

    replica_id: int = int32(versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = array("OffsetForLeaderTopic")


class OffsetForLeaderEpochResponse(Message, api_key=23, versions="2-4", flexible="4+"):
    class EpochEndOffset(Struct):
        error_code: int = int16()
        partition: int = int32()
        leader_epoch: int = int32(versions="1+", default=-1, ignorable=True)
        end_offset: int = int64(default=-1)

    class OffsetForLeaderTopicResult(Struct):
        topic: str = string()
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = array("EpochEndOffset")

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = array(
        "OffsetForLeaderTopicResult"
    )


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """Moves the start of logs forward."""

    class DeleteRecordsPartition(Struct):
        partition_index: int = int32()
        offset: int = int64()

    class DeleteRecordsTopic(Struct):
        name: str = string()
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = array("DeleteRecordsPartition")

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = array("DeleteRecordsTopic")
    timeout_ms: int = int32()


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    class DeleteRecordsPartitionResult(Struct):
        partition_index: int = int32()
        low_watermark: int = int64()
        error_code: int = int16()

    class DeleteRecordsTopicResult(Struct):
        name: str = string()
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = array(
            "DeleteRecordsPartitionResult"
        )

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = array("DeleteRecordsTopicResult")
