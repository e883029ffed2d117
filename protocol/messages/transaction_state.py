"""Records of __transaction_state."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, api_key=0, versions="0", flexible="none"):
    """The key of a transactional id."""

    transactional_id: str = string(versions="0")


class TransactionLogValue(Message, api_key=0, versions="0-1", flexible="1+"):
    """The state of a transactional id and its transaction."""

    class PartitionsSchema(Struct):
        topic: str = string()
        partition_ids: list[int] = array(int32)

    producer_id: int = int64()
    previous_producer_id: int = int64(versions="1+", default=-1, tag=0, tagged="1+")
    next_producer_id: int = int64(versions="1+", default=-1, tag=1, tagged="1+")
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(versions="1+", default=-1, tag=3, tagged="1+")
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = array(
        "PartitionsSchema", nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(versions="1+", tag=2, tagged="1+")
