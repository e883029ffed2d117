"""Looking at producers and transactions from outside."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    """Asks for the producers that partitions know."""

    class TopicRequest(Struct):
        name: str = string()
        partition_indexes: list[int] = array(int32)

    topics: list[DescribeProducersRequest.TopicRequest] = array("TopicRequest")


class DescribeProducersResponse(Message, api_key=61, versions="0", flexible="0+"):
    class ProducerState(Struct):
        producer_id: int = int64()
        producer_epoch: int = int32()
        last_sequence: int = int32(default=-1)
        last_timestamp: int = int64(default=-1)
        coordinator_epoch: int = int32()
        current_txn_start_offset: int = int64(default=-1)

    class PartitionResponse(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = array("ProducerState")

    class TopicResponse(Struct):
        name: str = string()
        partitions: list[DescribeProducersResponse.PartitionResponse] = array("PartitionResponse")

    throttle_time_ms: int = int32()
    topics: list[DescribeProducersResponse.TopicResponse] = array("TopicResponse")


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    """Asks for the state of transactional ids."""

    transactional_ids: list[str] = array(string)


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    class TopicData(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    class TransactionState(Struct):
        error_code: int = int16()
        transactional_id: str = string()
        transaction_state: str = string()
        transaction_timeout_ms: int = int32()
        transaction_start_time_ms: int = int64()
        producer_id: int = int64()
        producer_epoch: int = int16()
        topics: list[DescribeTransactionsResponse.TopicData] = array("TopicData")

    throttle_time_ms: int = int32()
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = array("TransactionState")


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """Asks for the transactional ids of this coordinator, by state, producer, duration or pattern."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(versions="1+", default=-1)
    transactional_id_pattern: str | None = string(versions="2+", nullable="2+", default=None)


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    class TransactionState(Struct):
        transactional_id: str = string()
        producer_id: int = int64()
        transaction_state: str = string()

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[ListTransactionsResponse.TransactionState] = array("TransactionState")
