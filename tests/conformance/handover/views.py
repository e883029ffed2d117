"""Views of a partition from outside: through stock clients of Apache Kafka, or through our own engine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from barnabas.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.producers import DescribeProducersRequest, DescribeProducersResponse
from barnabas.protocol.records.batch import TimestampType
from barnabas.protocol.records.entries import batches
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation
from tests.conformance.broker_connection import BrokerConnection

Partition = tuple[str, int]
READ_LIMIT_S = 60.0
_EARLIEST, _LATEST = -2, -1
MAX_TIMESTAMP = -3
"""The special timestamp for the record with the latest timestamp."""


class Seen(NamedTuple):
    """One record as an application receives it; `timestamp` is (type, ms)."""

    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class ProducerSeen(NamedTuple):
    """One producer in DescribeProducers; -1 for absent values."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class View(NamedTuple):
    """A whole partition: records by offset for both isolation levels, its offsets, and its producers."""

    records: dict[int, Seen]
    committed: dict[int, Seen]
    start: int
    stable: int
    end: int
    producers: list[ProducerSeen]


# -- through clients --


def views(bootstrap: str, partitions: Iterable[Partition]) -> dict[Partition, View]:
    """The present views of partitions through clients."""
    partitions = list(partitions)
    records = consume(bootstrap, partitions)
    committed = consume(bootstrap, partitions, committed=True)
    host, _, port = bootstrap.rpartition(":")
    found = {}
    with BrokerConnection(host, int(port)) as connection:
        for key in partitions:
            found[key] = View(
                records[key],
                committed[key],
                _list_offset(connection, *key, _EARLIEST, 0),
                _list_offset(connection, *key, _LATEST, 1),
                _list_offset(connection, *key, _LATEST, 0),
                _describe_producers(connection, *key),
            )
    return found


def consume(
    bootstrap: str, partitions: Iterable[Partition], *, committed: bool = False
) -> dict[Partition, dict[int, Seen]]:
    """All records of partitions by offset, as a stock client receives them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "views",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "check.crcs": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found: dict[Partition, dict[int, Seen]] = {key: {} for key in partitions}
    left = set(found)
    consumer.assign([TopicPartition(*key, OFFSET_BEGINNING) for key in found])
    deadline = time.monotonic() + READ_LIMIT_S
    while left:
        assert time.monotonic() < deadline, f"no end of {left}"
        for message in consumer.consume(2000, 0.2):
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                left.discard((topic, partition))
            else:
                found[topic, partition][offset] = _seen(message)
    consumer.close()
    return found


def _seen(message: Message) -> Seen:
    headers: Any = message.headers() or ()
    return Seen(message.timestamp(), message.key(), message.value(), tuple(headers))


def _list_offset(
    connection: BrokerConnection, topic: str, partition: int, timestamp: int, isolation: int
) -> int:
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])]
    answer = connection.request(
        ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), 7
    )
    assert isinstance(answer, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0, answer
    return found.offset


def offsets_for_times(bootstrap: str, partition: Partition, timestamps: Iterable[int]) -> dict[int, int]:
    """By timestamp: the first offset whose record has this or a later one; -1 for none."""
    host, _, port = bootstrap.rpartition(":")
    with BrokerConnection(host, int(port)) as connection:
        return {timestamp: _list_offset(connection, *partition, timestamp, 0) for timestamp in timestamps}


def _describe_producers(connection: BrokerConnection, topic: str, partition: int) -> list[ProducerSeen]:
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    answer = connection.request(DescribeProducersRequest(topics=[wanted]), 0)
    assert isinstance(answer, DescribeProducersResponse)
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0, answer
    return sorted(
        ProducerSeen(
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in found.active_producers
    )


# -- through our engine --


def our_view(log: UnifiedLog) -> View:
    """The view of one of our logs, whose high watermark must be its end."""
    assert log.high_watermark == log.log_end_offset
    return View(
        our_records(log),
        our_records(log, FetchIsolation.TXN_COMMITTED),
        log.log_start_offset,
        log.last_stable_offset,
        log.log_end_offset,
        our_producers(log),
    )


def our_records(log: UnifiedLog, isolation: FetchIsolation = FetchIsolation.LOG_END) -> dict[int, Seen]:
    """All records by offset, without markers and, for TXN_COMMITTED, without aborted records."""
    found: dict[int, Seen] = {}
    offset = log.log_start_offset
    while True:
        info = log.read(offset, 300_000, isolation, min_one_message=True)
        data = info.records.read()
        pending = sorted(info.aborted_transactions or [], key=lambda aborted: aborted.first_offset)
        aborted: set[int] = set()
        next_offset = offset
        for batch in batches(data):
            batch.ensure_valid()
            while pending and pending[0].first_offset <= batch.last_offset:
                aborted.add(pending.pop(0).producer_id)
            if batch.is_control:
                aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                kind = _client_type(batch.timestamp_type)
                found |= {
                    record.offset: Seen(
                        (kind, record.timestamp if kind else 0),
                        _bytes(record.key),
                        _bytes(record.value),
                        tuple((name, _bytes(value)) for name, value in record.headers),
                    )
                    for record in batch.records()
                    if record.offset >= offset
                }
            next_offset = batch.next_offset
        if next_offset == offset:
            return found
        offset = next_offset


def _client_type(kind: TimestampType) -> int:
    """librdkafka's number for a timestamp type: 0 none, 1 create time, 2 log append time."""
    return int(kind) + 1


def _bytes(value: bytes | memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)


def our_producers(log: UnifiedLog) -> list[ProducerSeen]:
    """The producers in the log's state."""
    return sorted(
        ProducerSeen(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in log.producer_state_manager.producers.values()
    )


def our_offsets_for_times(log: UnifiedLog, timestamps: Iterable[int]) -> dict[int, int]:
    """The result of `offsets_for_times` from one of our logs."""
    found = {}
    for timestamp in timestamps:
        at = (
            log.offset_of_max_timestamp()
            if timestamp == MAX_TIMESTAMP
            else log.fetch_offset_by_timestamp(timestamp)
        )
        found[timestamp] = -1 if at is None else at.offset
    return found


def last_values(records: dict[int, Seen]) -> dict[bytes | None, Seen]:
    """The records that compaction must keep: each key's last record, unless it is a tombstone."""
    last = {records[offset].key: records[offset] for offset in sorted(records)}
    return {key: seen for key, seen in last.items() if seen.value is not None}


def since(view: View, start: int) -> View:
    """The view from another log start offset: a crash loses one that was not yet checkpointed, up to a minute."""
    return view._replace(
        start=start,
        records={offset: seen for offset, seen in view.records.items() if offset >= start},
        committed={offset: seen for offset, seen in view.committed.items() if offset >= start},
    )
