"""Requests of brokers to the share coordinator (KIP-932)."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid
from barnabas.protocol.wire import Uuid


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    """Begins the state of share partitions."""

    class PartitionData(Struct):
        partition: int = int32()
        state_epoch: int = int32()
        start_offset: int = int64()

    class InitializeStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = array("InitializeStateData")


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    class InitializeStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = array("InitializeStateResult")


class ReadShareGroupStateRequest(Message, api_key=84, versions="0", flexible="0+"):
    """Asks for the state of share partitions."""

    class PartitionData(Struct):
        partition: int = int32()
        leader_epoch: int = int32()

    class ReadStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[ReadShareGroupStateRequest.ReadStateData] = array("ReadStateData")


class ReadShareGroupStateResponse(Message, api_key=84, versions="0", flexible="0+"):
    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        state_epoch: int = int32()
        start_offset: int = int64()
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = array("StateBatch")

    class ReadStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[ReadShareGroupStateResponse.ReadStateResult] = array("ReadStateResult")


class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    """Writes the delivery states of batches of share partitions."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    class PartitionData(Struct):
        partition: int = int32()
        state_epoch: int = int32()
        leader_epoch: int = int32()
        start_offset: int = int64()
        delivery_complete_count: int = int32(versions="1+", default=-1, ignorable=True)
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = array("StateBatch")

    class WriteStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[WriteShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[WriteShareGroupStateRequest.WriteStateData] = array("WriteStateData")


class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    class WriteStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[WriteShareGroupStateResponse.WriteStateResult] = array("WriteStateResult")


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    """Deletes the state of share partitions."""

    class PartitionData(Struct):
        partition: int = int32()

    class DeleteStateData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = array("DeleteStateData")


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)

    class DeleteStateResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = array("PartitionResult")

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = array("DeleteStateResult")


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    """Asks for the start offset of share partitions, without their batches."""

    class PartitionData(Struct):
        partition: int = int32()
        leader_epoch: int = int32()

    class ReadStateSummaryData(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = array("PartitionData")

    group_id: str = string()
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = array("ReadStateSummaryData")


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    class PartitionResult(Struct):
        partition: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        state_epoch: int = int32()
        leader_epoch: int = int32()
        start_offset: int = int64()
        delivery_complete_count: int = int32(versions="1+", default=-1, ignorable=True)

    class ReadStateSummaryResult(Struct):
        topic_id: Uuid = uuid()
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = array("PartitionResult")

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = array("ReadStateSummaryResult")
