"""Producer ids and transactions."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int8, int16, int32, int64, string


class InitProducerIdRequest(Message, api_key=22, versions="0-6", flexible="2+", latest_unstable=True):
    """Asks for a producer id and epoch, for idempotence or for a transactional id."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable2_pc: bool = bool_(versions="6+")
    keep_prepared_txn: bool = bool_(versions="6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)


class AddPartitionsToTxnRequest(Message, api_key=24, versions="0-5", flexible="3+"):
    """Adds partitions to transactions: one from clients up to version 3, many from brokers after that."""

    class AddPartitionsToTxnTopic(Struct):
        name: str = string()
        partitions: list[int] = array(int32)

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = string(versions="4+")
        producer_id: int = int64(versions="4+")
        producer_epoch: int = int16(versions="4+")
        verify_only: bool = bool_(versions="4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array(
            "AddPartitionsToTxnTopic", versions="4+"
        )

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = array(
        "AddPartitionsToTxnTransaction", versions="4+"
    )
    v3_and_below_transactional_id: str = string(versions="0-3")
    v3_and_below_producer_id: int = int64(versions="0-3")
    v3_and_below_producer_epoch: int = int16(versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array(
        "AddPartitionsToTxnTopic", versions="0-3"
    )


class AddPartitionsToTxnResponse(Message, api_key=24, versions="0-5", flexible="3+"):
    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int = int32()
        partition_error_code: int = int16()

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = string()
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = array(
            "AddPartitionsToTxnPartitionResult"
        )

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = string(versions="4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array(
            "AddPartitionsToTxnTopicResult", versions="4+"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = array(
        "AddPartitionsToTxnResult", versions="4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array(
        "AddPartitionsToTxnTopicResult", versions="0-3"
    )


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+"):
    """Adds the offsets partition of a group to a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """Commits or aborts a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = bool_()


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(versions="5+", default=-1, ignorable=True)
    producer_epoch: int = int16(versions="5+", default=-1, ignorable=True)


class WriteTxnMarkersRequest(Message, api_key=27, versions="1-2", flexible="1+"):
    """The transaction coordinator has markers written to the partitions of a transaction."""

    class WritableTxnMarkerTopic(Struct):
        name: str = string()
        partition_indexes: list[int] = array(int32)

    class WritableTxnMarker(Struct):
        producer_id: int = int64()
        producer_epoch: int = int16()
        transaction_result: bool = bool_()
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = array("WritableTxnMarkerTopic")
        coordinator_epoch: int = int32()
        transaction_version: int = int8(versions="2+", ignorable=True)

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = array("WritableTxnMarker")


class WriteTxnMarkersResponse(Message, api_key=27, versions="1-2", flexible="1+"):
    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class WritableTxnMarkerTopicResult(Struct):
        name: str = string()
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = array(
            "WritableTxnMarkerPartitionResult"
        )

    class WritableTxnMarkerResult(Struct):
        producer_id: int = int64()
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = array(
            "WritableTxnMarkerTopicResult"
        )

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = array("WritableTxnMarkerResult")


class TxnOffsetCommitRequest(Message, api_key=28, versions="0-5", flexible="3+"):
    """Commits offsets of a group inside a transaction."""

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int = int32()
        committed_offset: int = int64()
        committed_leader_epoch: int = int32(versions="2+", default=-1, ignorable=True)
        committed_metadata: str | None = string(nullable="0+")

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = string()
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = array(
            "TxnOffsetCommitRequestPartition"
        )

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(versions="3+", default=-1)
    member_id: str = string(versions="3+")
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = array("TxnOffsetCommitRequestTopic")


class TxnOffsetCommitResponse(Message, api_key=28, versions="0-5", flexible="3+"):
    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int = int32()
        error_code: int = int16()

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = string()
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = array(
            "TxnOffsetCommitResponsePartition"
        )

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = array("TxnOffsetCommitResponseTopic")
