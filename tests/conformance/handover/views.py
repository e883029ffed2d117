"""What there is to see of a partition, from outside: by a stock client of Apache Kafka, or through our own engine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from config.log_config import LogConfig
from protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.producers import DescribeProducersRequest, DescribeProducersResponse
from protocol.records.batch import RecordBatch, TimestampType, batches
from storage.env import RealEnv
from storage.log_manager import LogManager
from storage.offsets import FetchIsolation
from storage.unified_log import UnifiedLog
from tests.conformance.peer import Peer

Partition = tuple[str, int]
READ_LIMIT_S = 60.0
_EARLIEST, _LATEST = -2, -1


class Seen(NamedTuple):
    """One record, as an application gets it; `timestamp` is (type, ms)."""

    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class ProducerSeen(NamedTuple):
    """What DescribeProducers tells of one producer; -1 where there is nothing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class View(NamedTuple):
    """All of a partition: records by offset for both isolation levels, its offsets, and its producers."""

    records: dict[int, Seen]
    committed: dict[int, Seen]
    start: int
    stable: int
    end: int
    producers: list[ProducerSeen]


# -- through clients --


def views(bootstrap: str, partitions: Iterable[Partition]) -> dict[Partition, View]:
    """What clients are told of partitions now."""
    partitions = list(partitions)
    records = consume(bootstrap, partitions)
    committed = consume(bootstrap, partitions, committed=True)
    host, _, port = bootstrap.rpartition(":")
    found = {}
    with Peer(host, int(port)) as peer:
        for key in partitions:
            found[key] = View(
                records[key],
                committed[key],
                _list_offset(peer, *key, _EARLIEST, 0),
                _list_offset(peer, *key, _LATEST, 1),
                _list_offset(peer, *key, _LATEST, 0),
                _describe_producers(peer, *key),
            )
    return found


def consume(
    bootstrap: str, partitions: Iterable[Partition], *, committed: bool = False
) -> dict[Partition, dict[int, Seen]]:
    """Every record of partitions by its offset, as a stock client gets them."""
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


def _list_offset(peer: Peer, topic: str, partition: int, timestamp: int, isolation: int) -> int:
    ask = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[ask])]
    answer = peer.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), 7)
    assert isinstance(answer, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0, answer
    return found.offset


def offset_for_time(bootstrap: str, topic: str, timestamp: int, partition: int = 0) -> int:
    """The first offset whose record is at least as young; -1 when there is none."""
    host, _, port = bootstrap.rpartition(":")
    with Peer(host, int(port)) as peer:
        return _list_offset(peer, topic, partition, timestamp, 0)


def _describe_producers(peer: Peer, topic: str, partition: int) -> list[ProducerSeen]:
    ask = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
    answer = peer.ask(DescribeProducersRequest(topics=[ask]), 0)
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


def open_ours(directory: Path, config: LogConfig) -> LogManager:
    """Every log of a directory that Apache Kafka, or ours before, has left."""
    manager = LogManager(RealEnv(), [str(directory)], lambda _topic: config)
    manager.lock_dirs()
    assert manager.load_meta_properties() is not None
    manager.load_logs()
    for log in manager.all_logs():
        log.update_high_watermark(log.log_end_offset)
    return manager


def log_of(manager: LogManager, topic: str, partition: int = 0) -> UnifiedLog:
    """One of its logs."""
    log = manager.get_log(topic, partition)
    assert log is not None
    return log


def our_view(log: UnifiedLog) -> View:
    """The same as `view`, of one of our logs whose high watermark is its end."""
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
    """Every record by its offset, with markers and, where the isolation asks for it, what was aborted left out."""
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
    """librdkafka's number for it: 0 none, 1 create time, 2 log append time."""
    return int(kind) + 1


def _bytes(value: bytes | memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)


def our_producers(log: UnifiedLog) -> list[ProducerSeen]:
    """The producers that the log knows."""
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


def whole_batches(log: UnifiedLog) -> list[RecordBatch]:
    """Every v2 batch of a log, from its start."""
    found: list[RecordBatch] = []
    offset = log.log_start_offset
    while True:
        data = log.read(offset, 1 << 20, FetchIsolation.LOG_END, min_one_message=True).records.read()
        new = [batch for batch in batches(data) if isinstance(batch, RecordBatch)]
        if not new:
            return found
        found += new
        offset = new[-1].next_offset
