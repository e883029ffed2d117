"""The records of transactional ids in __transaction_state.

The value has version 0 until transaction.version 1 is in force, and knows neither the producer ids before and after
nor the client's version then. Source: org.apache.kafka.coordinator.transaction.TransactionLog.
"""

from __future__ import annotations

from barnabas.broker.coordinator.java_order import grouped_by_topic, table_for_copy
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.transaction.state import BY_NUMBER, EMPTY
from barnabas.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue
from barnabas.storage.offsets import TopicPartition


class TransactionRecord(CoordinatorRecord):
    """A record that this coordinator writes; `metadata` is its source, with the fields that no record has."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: TransactionMetadata, transaction_version: int) -> None:
        version = value_version(transaction_version)
        super().__init__(
            TransactionLogKey(transactional_id=metadata.transactional_id),
            _value_of(metadata, version),
            version,
        )
        self.metadata = metadata


def value_version(transaction_version: int) -> int:
    """The version of values under a transaction.version."""
    return 1 if transaction_version >= 1 else 0


def forgotten(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes a transactional id."""
    return tombstone(TransactionLogKey(transactional_id=transactional_id))


def metadata_of(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Decodes a record. Raises KeyError for an unknown state."""
    state = BY_NUMBER[value.transaction_status]
    partitions = () if state is EMPTY else tuple(_partitions_of(value))
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        table=table_for_copy(len(partitions)),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _partitions_of(value: TransactionLogValue) -> list[TopicPartition]:
    return [
        (topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    ]


def _value_of(metadata: TransactionMetadata, version: int) -> TransactionLogValue:
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=_schemas(metadata),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
    )
    if version >= 1:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_version
    return value


def _schemas(metadata: TransactionMetadata) -> list[TransactionLogValue.PartitionsSchema] | None:
    if metadata.state is EMPTY:
        assert not metadata.partitions, metadata
        return None
    return [
        TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=partitions)
        for topic, partitions in grouped_by_topic(metadata.partitions, metadata.table).items()
    ]
