"""Log directories that an Apache Kafka broker and stock clients write, with everything that one may contain."""

from __future__ import annotations

import fcntl
import pickle
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.log_config import LogConfig
from barnabas.protocol.messages.offsets import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.schema import Message
from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import CLEANER_OFFSET_CHECKPOINT, OffsetCheckpointFile
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.handover.views import MAX_TIMESTAMP, View, offsets_for_times, views
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"segment.bytes": "1048576", "segment.index.bytes": "65536", "index.interval.bytes": "512"}
COMPACTED = {"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100", **SMALL}
BIG_MESSAGE_BYTES = 1_900_000
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": SMALL for codec in CODECS},
    "transactions": SMALL,
    "left-open": SMALL,
    "deleted": SMALL,
    "broker-time": {"message.timestamp.type": "LogAppendTime", **SMALL},
    "shapes": {**SMALL, "segment.bytes": "4194304", "max.message.bytes": "2000000"},
    "compacted": {"cleanup.policy": "compact", **COMPACTED},
    "compacted-and-deleted": {"cleanup.policy": "compact,delete", **COMPACTED},
    "ours": SMALL,
    "ours-compacted": {"cleanup.policy": "compact", **COMPACTED},
    "legacy": SMALL,
    "legacy-damaged": SMALL,
    "legacy-compacted": {"cleanup.policy": "compact", **COMPACTED},
}
OVERRIDES = {
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.max.timeout.ms": "86400000",
    "group.initial.rebalance.delay.ms": "0",
}
INTERNAL = tuple(
    (topic, number) for topic in ("__consumer_offsets", "__transaction_state") for number in (0, 1)
)
PARTITIONS = (*((topic, 0) for topic in TOPICS), *INTERNAL)
Headers = list[tuple[str, str | bytes | None]]
LEFT_OPEN = "left-open"
TIMES = ("codec-none", "codec-lz4", "broker-time", "transactions", "shapes", "compacted", "deleted")
CLEANING_LIMIT_S = 60.0


class LeftDirectory:
    """A log directory as a broker left it, and the clients' views of its partitions just before.

    `times`: by partition, the offsets that the broker found for timestamps.
    """

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory = directory
        self.views = views(bootstrap, PARTITIONS)
        self.times = {
            (topic, 0): offsets_for_times(bootstrap, (topic, 0), timestamps(self.views[topic, 0]))
            for topic in TIMES
        }


def timestamps(view: View) -> list[int]:
    """Timestamps to search for: of every 23rd record, just before and after it, and some of no record."""
    some = [seen.timestamp[1] for seen in list(view.records.values())[::23]]
    around = {stamp + distance for stamp in some for distance in (-1, 0, 1)}
    return sorted(around | {0, 1, max(some, default=0) + 86_400_000, MAX_TIMESTAMP})


class Written:
    """The directories of one version of Apache Kafka: `killed` by SIGKILL, and `stopped` cleanly after more work."""

    def __init__(self, version: str, killed: LeftDirectory, stopped: LeftDirectory) -> None:
        self.version = version
        self.killed = killed
        self.stopped = stopped


def config_of(topic: str) -> LogConfig:
    """Our configuration of a topic."""
    return LogConfig.of(BrokerConfig(), TOPICS.get(topic, {}))


def kafka_in(directory: Path, version: str, data: Path | None = None) -> ApacheKafka:
    """An Apache Kafka that works in `directory`, on a copy of the log directory `data`."""
    kafka = ApacheKafka(directory, require_classpath(version), OVERRIDES)
    if data is not None:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(data, kafka.data_dir)
    return kafka


def write_once(directory: Path, version: str) -> Written:
    """Writes the directories below `directory` in the first process that calls; others wait for it."""
    directory.mkdir(parents=True, exist_ok=True)
    found = directory / "written.pickle"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            shutil.rmtree(directory / "work", ignore_errors=True)  # of a process that failed
            made = write(directory / "work", version)
            found.write_bytes(pickle.dumps(made))
        # Each caller gets its own copy, the first one included.
        written: Written = pickle.loads(found.read_bytes())
        return written


def write(directory: Path, version: str) -> Written:
    """Has Apache Kafka write everything. Takes most of a minute."""
    kafka = kafka_in(directory / "kafka", version)
    with kafka:
        create(kafka.bootstrap, TOPICS)
        open_transaction(kafka.bootstrap)
        work(kafka.bootstrap)
        if not version.startswith("3."):
            transact_with_epoch_bumps(kafka.bootstrap, "transactions")
        compact(kafka)
        killed = LeftDirectory(directory / "killed", kafka.bootstrap)
        kafka.kill()
        shutil.copytree(kafka.data_dir, killed.directory)
        kafka.start()
        work_again(kafka.bootstrap)
        await_cleaning(kafka.data_dir, ("compacted", "compacted-and-deleted"))
        stopped = LeftDirectory(kafka.data_dir, kafka.bootstrap)
        kafka.stop()
    return Written(version, killed, stopped)


def create(bootstrap: str, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Creates topics of one partition."""
    wanted = [
        CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in config.items()
            ],
        )
        for name, config in topics.items()
    ]
    answer = request_once(bootstrap, CreateTopicsRequest(topics=wanted, timeout_ms=30_000), 7)
    assert isinstance(answer, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [0] * len(wanted), answer


def request_once(bootstrap: str, request: Message, version: int) -> Message:
    """Sends one request on a new connection."""
    host, _, port = bootstrap.rpartition(":")
    with BrokerConnection(host, int(port)) as connection:
        return connection.request(request, version)


# -- work --


def work(bootstrap: str) -> None:
    """The work before the kill."""
    for number, codec in enumerate(CODECS):
        produce(bootstrap, f"codec-{codec}", 4000 if number == 0 else 2500, codec)
    produce(bootstrap, "deleted", 6000)
    produce(bootstrap, "broker-time", 2500, "lz4")
    produce_shapes(bootstrap)
    transact(bootstrap, "transactions", rounds=6)
    delete_records(bootstrap, "deleted", 3210)
    for group in ("readers", "others"):
        commit_offsets(bootstrap, group)


def work_again(bootstrap: str) -> None:
    """The work after the kill, in a new leader epoch: the same transactional ids return and fence their old epochs."""
    produce(bootstrap, "codec-none", 500, first=6000)
    transact(bootstrap, "transactions", rounds=3)
    commit_offsets(bootstrap, "readers")
    write_keys(bootstrap, "compacted", 500)
    delete_records(bootstrap, "deleted", 4321)
    delete_records(bootstrap, "compacted-and-deleted", 1001)


def quiet_producer(bootstrap: str, **more: str | int | bool) -> Producer:
    """An idempotent producer that writes nothing to stderr."""
    return Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        | {key.replace("_", "."): value for key, value in more.items()}
    )


def produce(bootstrap: str, topic: str, count: int, codec: str = "none", first: int = 0) -> None:
    """Writes incompressible records of 400 bytes with one idempotent producer, in small batches."""
    producer = quiet_producer(bootstrap, compression_type=codec, batch_num_messages=25)
    now_ms = int(time.time() * 1000)
    for number in range(first, first + count):
        # Timestamps are not in order: every 50th is later than the next 49.
        when_ms = now_ms - 100_000 + number + (500 if number % 50 == 0 else 0)
        value = b"%08d" % number + Random(number).randbytes(400)
        headers: Headers = [("n", b"%d" % number)]
        producer.produce(topic, value, b"key-%d" % (number % 50), 0, timestamp=when_ms, headers=headers)
    assert producer.flush(60) == 0


def produce_shapes(bootstrap: str) -> None:
    """Writes null and empty keys and values, many headers, headers without values, and records of the largest size."""
    for codec in CODECS:
        producer = quiet_producer(
            bootstrap, compression_type=codec, message_max_bytes=BIG_MESSAGE_BYTES + 5000
        )
        for key in (None, b"", b"k"):
            for value in (None, b"", b"v" * 300):
                producer.produce("shapes", value, key, 0)
        headers: Headers = [("größe-✓", b"%d" % number) for number in range(300)]
        headers += [("none", None), ("", b"")]
        producer.produce("shapes", b"many headers", None, 0, headers=headers)
        producer.produce("shapes", Random(codec).randbytes(BIG_MESSAGE_BYTES // 2) * 2, b"big", 0)
        producer.produce("shapes", None, b"old", 0, timestamp=1)
        assert producer.flush(60) == 0


def transact(bootstrap: str, topic: str, rounds: int) -> None:
    """Commits and aborts in turn, two concurrent transactions, with plain records in between."""
    producers = [
        quiet_producer(bootstrap, transactional_id=name, batch_num_messages=10) for name in ("one", "two")
    ]
    plain = quiet_producer(bootstrap, batch_num_messages=20)
    for producer in producers:
        producer.init_transactions(30)
    for round_number in range(rounds):
        for number, producer in enumerate(producers):
            producer.begin_transaction()
            for index in range(120):
                value = b"%d/%d/%d " % (round_number, number, index) + b"t" * 700
                producer.produce(topic, value, partition=0)
            producer.flush(30)
        for index in range(60):
            plain.produce(topic, b"%d plain %d" % (round_number, index), b"plain", 0)
        assert plain.flush(30) == 0
        for number, producer in enumerate(producers):
            if (round_number + number) % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)


def open_transaction(bootstrap: str) -> None:
    """Leaves a transaction open whose producer disappears, with records of others around it."""
    producer = quiet_producer(bootstrap, transactional_id=LEFT_OPEN, transaction_timeout_ms=86_400_000)
    producer.init_transactions(30)
    produce(bootstrap, LEFT_OPEN, 50)
    producer.begin_transaction()
    for number in range(30):
        producer.produce(LEFT_OPEN, b"undecided %d" % number, partition=0)
    assert producer.flush(30) == 0
    produce(bootstrap, LEFT_OPEN, 50, first=50)


def delete_records(bootstrap: str, topic: str, offset: int) -> None:
    """Deletes records as kafka-delete-records does."""
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[partition])]
    answer = request_once(bootstrap, DeleteRecordsRequest(topics=topics, timeout_ms=30_000), 2)
    assert isinstance(answer, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].low_watermark == offset, answer


def commit_offsets(bootstrap: str, group: str) -> None:
    """Joins a group, commits offsets, and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["codec-none"])
    deadline = time.monotonic() + 30
    while not consumer.consume(100, 0.2):
        assert time.monotonic() < deadline, "the group receives no records"
    for offset in range(1, 20):
        consumer.commit(offsets=[TopicPartition("codec-none", 0, offset)], asynchronous=False)
    consumer.close()


# -- compaction --


def write_keys(bootstrap: str, topic: str, count: int, *, keys: int = 200) -> None:
    """Writes values of a kilobyte for a few keys, every 7th a tombstone, with transactions in between."""
    plain = quiet_producer(bootstrap, batch_num_messages=20)
    transactional = quiet_producer(bootstrap, transactional_id=f"keys-{topic}", batch_num_messages=5)
    transactional.init_transactions(30)
    for number in range(count):
        key = b"key-%d" % (number * 37 % keys)
        value = None if number % 7 == 0 else b"%d " % number + Random(number).randbytes(1000)
        plain.produce(topic, value, key, 0)
        if number % 100 == 0:
            plain.flush(30)
            transactional.begin_transaction()
            for index in range(8):
                transactional.produce(
                    topic, b"%d in a transaction" % number, b"key-%d" % (number // 100 * 8 + index), 0
                )
            (transactional.abort_transaction if number % 300 == 0 else transactional.commit_transaction)(30)
    assert plain.flush(30) == 0


def compact(kafka: ApacheKafka) -> None:
    """Writes and cleans twice: the second run removes tombstones and markers whose delete horizon the first has set."""
    for _ in range(2):
        for topic in ("compacted", "compacted-and-deleted"):
            write_keys(kafka.bootstrap, topic, 1500)
        await_cleaning(kafka.data_dir, ("compacted", "compacted-and-deleted"))
    delete_records(kafka.bootstrap, "compacted-and-deleted", 1000)


def await_cleaning(data: Path, topics: Iterable[str]) -> None:
    """Waits until the log cleaner has compacted all inactive segments."""
    deadline = time.monotonic() + CLEANING_LIMIT_S
    checkpoint = OffsetCheckpointFile(RealEnv(), str(data / CLEANER_OFFSET_CHECKPOINT))
    for topic in topics:
        while checkpoint.read().get((topic, 0), -1) < active_segment(data / f"{topic}-0"):
            assert time.monotonic() < deadline, f"{topic} is not compacted"
            time.sleep(0.05)


def active_segment(directory: Path) -> int:
    """The base offset of the last segment of a partition."""
    return max(int(path.stem) for path in directory.glob("*.log"))


def send(
    bootstrap: str, topic: str, batch: bytes, *, transactional_id: str | None = None, version: int = 11
) -> tuple[int, int]:
    """Produces a batch unchanged; returns error code and base offset."""
    data = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics)
    answer = request_once(bootstrap, request, version)
    assert isinstance(answer, ProduceResponse)
    result = answer.responses[0].partition_responses[0]
    return result.error_code, result.base_offset


def transact_with_epoch_bumps(bootstrap: str, topic: str, rounds: int = 6) -> None:
    """Transactions of Kafka 4 (KIP-890): a marker has the next epoch, in which the next transaction begins."""
    name = "by epochs"
    begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    init = eventually(bootstrap, begin, 5)
    producer_id, epoch = init.producer_id, init.producer_epoch
    for number in range(rounds):
        batch = build_batch(
            [(b"k", b"%d of epoch %d" % (index, epoch), int(time.time() * 1000), ()) for index in range(10)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        deadline = time.monotonic() + 30
        while send(bootstrap, topic, batch, transactional_id=name, version=12)[0]:
            assert time.monotonic() < deadline, "the transaction does not begin"
            time.sleep(0.02)
        end = EndTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=number % 2 == 0
        )
        ended = eventually(bootstrap, end, 5)
        assert ended.producer_epoch == epoch + 1
        producer_id, epoch = ended.producer_id, ended.producer_epoch


def eventually(bootstrap: str, request: Message, version: int) -> Any:
    """Repeats a request until it succeeds: coordinators load, or complete an earlier request first."""
    deadline = time.monotonic() + 30
    while (answer := cast("Any", request_once(bootstrap, request, version))).error_code:
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer
