"""Log directories go back and forth between Apache Kafka's broker and our storage engine.

One directory is written by Apache Kafka: every codec, small segments, transactions committed and aborted, records
deleted, several leader epochs. Ours must read it, rebuild from the bare .log files what Kafka had beside them, byte for
byte, and go on in it; and Apache Kafka must go on in what ours leaves, after a clean stop and after a kill.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from config.log_config import LogConfig
from protocol.records.batch import CompressionType, RecordBatch, batches, build_batch
from protocol.records.record import Record
from storage.checkpoints import LeaderEpochCheckpointFile, OffsetCheckpointFile
from storage.env import RealEnv
from storage.log_manager import LogManager
from storage.offsets import AppendOrigin, FetchIsolation
from storage.snapshots import ProducerSnapshotFiles, SnapshotEntry
from storage.unified_log import UnifiedLog
from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_dump_log import complaints
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.support.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"segment.bytes": "1048576", "segment.index.bytes": "65536", "index.interval.bytes": "512"}
TOPICS = (*(f"codec-{codec}" for codec in CODECS), "transactions", "deleted")
OUR_CONFIG = LogConfig(segment_bytes=1_048_576, segment_index_bytes=65_536, index_interval_bytes=512)
EPOCHS = "leader-epoch-checkpoint"
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


# -- what Apache Kafka writes --


def produce(bootstrap: str, topic: str, count: int, codec: str = "none", first: int = 0) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 25,
            "log_level": 0,
        }
    )
    now_ms = int(time.time() * 1000)
    for number in range(first, first + count):
        # Timestamps that go back and forth: every 50th is younger than the next 49.
        when_ms = now_ms - 100_000 + number + (500 if number % 50 == 0 else 0)
        value = b"%08d" % number + Random(number).randbytes(400)
        producer.produce(
            topic, value, b"key-%d" % (number % 50), 0, timestamp=when_ms, headers=[("n", b"%d" % number)]
        )
    assert producer.flush(60) == 0


def transact(bootstrap: str, topic: str) -> None:
    """Commits and aborts in turn, two transactions at a time, with plain records in between."""
    producers = []
    for name in ("one", "two"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "batch.num.messages": 10,
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        producers.append(producer)
    for round_number in range(12):
        for number, producer in enumerate(producers):
            producer.begin_transaction()
            for index in range(60):
                value = b"%d/%d/%d " % (round_number, number, index) + b"t" * 400
                producer.produce(topic, value, partition=0)
            producer.flush(30)
        produce(bootstrap, topic, 30, first=round_number * 30)
        for number, producer in enumerate(producers):
            if (round_number + number) % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)


def consume(bootstrap: str, topic: str, *, committed: bool) -> dict[int, bytes | None]:
    """Offset: value, as a stock client sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "conformance",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: dict[int, bytes | None] = {}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.name() == "_PARTITION_EOF", error
            break
        offset = message.offset()
        assert offset is not None
        found[offset] = message.value()
    consumer.close()
    return found


class Written:
    """A stopped Apache Kafka, and what its clients had read from it."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self.kafka = kafka
        self.values: dict[str, dict[int, bytes | None]] = {}
        self.committed: dict[str, dict[int, bytes | None]] = {}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    directory = tmp_path_factory.mktemp("kafka")
    overrides = {"log.retention.check.interval.ms": "3600000", "log.cleaner.enable": "false"}
    kafka = ApacheKafka(directory, require_classpath(), overrides)
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.create_topics([NewTopic(name, 1, 1, config=SMALL) for name in TOPICS]).values():
            future.result(30)
        for number, codec in enumerate(CODECS):
            produce(kafka.bootstrap, f"codec-{codec}", 6000 if number == 0 else 3000, codec)
        produce(kafka.bootstrap, "deleted", 6000)
        transact(kafka.bootstrap, "transactions")
        for deletion in admin.delete_records([TopicPartition("deleted", 0, 3210)]).values():
            deletion.result(30)
        kafka.stop()
        kafka.start()  # another leader epoch
        produce(kafka.bootstrap, "codec-none", 500, first=6000)
        result = Written(kafka)
        for topic in TOPICS:
            result.values[topic] = consume(kafka.bootstrap, topic, committed=False)
            result.committed[topic] = consume(kafka.bootstrap, topic, committed=True)
        kafka.stop()
        yield result


# -- ours --


def open_ours(directory: Path) -> LogManager:
    manager = LogManager(RealEnv(), [str(directory)], lambda _topic: OUR_CONFIG)
    manager.lock_dirs()
    assert manager.load_meta_properties() is not None
    manager.load_logs()
    return manager


def log_of(manager: LogManager, topic: str) -> UnifiedLog:
    log = manager.get_log(topic, 0)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    return log


def read(log: UnifiedLog, isolation: FetchIsolation = FetchIsolation.LOG_END) -> dict[int, bytes | None]:
    """Offset: value, with what was aborted left out where the isolation asks for it, as consumers do."""
    found: dict[int, bytes | None] = {}
    offset = log.log_start_offset
    while True:
        info = log.read(offset, 300_000, isolation, min_one_message=True)
        whole = [batch for batch in batches(info.records.read()) if isinstance(batch, RecordBatch)]
        if not whole:
            return found
        pending = sorted(info.aborted_transactions or [], key=lambda aborted: aborted.first_offset)
        aborted: set[int] = set()
        for batch in whole:
            while pending and pending[0].first_offset <= batch.last_offset:
                aborted.add(pending.pop(0).producer_id)
            if batch.is_control:
                aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                found.update(
                    (record.offset, record.value) for record in batch.records() if record.offset >= offset
                )
        offset = whole[-1].next_offset


@pytest.fixture
def copy(written: Written, tmp_path: Path) -> Path:
    """Kafka's directory, to work in."""
    return Path(shutil.copytree(written.kafka.data_dir, tmp_path / "data"))


def test_what_kafka_left_is_read(written: Written, copy: Path) -> None:
    manager = open_ours(copy)
    assert len(manager) >= len(TOPICS)
    for topic in TOPICS:
        log = log_of(manager, topic)
        assert log.truncated_bytes == 0
        assert read(log) == written.values[topic]
        assert read(log, FetchIsolation.TXN_COMMITTED) == written.committed[topic]
        assert log.recovery_point == log.log_end_offset
        assert log.topic_id is not None
    assert log_of(manager, "deleted").log_start_offset == 3210
    assert len(log_of(manager, "codec-none").leader_epoch_cache.entries) == 2
    assert written.values["transactions"] != written.committed["transactions"]
    manager.abandon()


def test_kafkas_indexes_lead_to_every_record(written: Written, copy: Path) -> None:
    manager = open_ours(copy)
    log = log_of(manager, "codec-lz4")
    stamps = [
        (record.timestamp, record.offset)
        for offset in range(0, log.log_end_offset, 97)
        for batch in batches(log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True).records.read())
        if isinstance(batch, RecordBatch) and batch.base_offset <= offset <= batch.last_offset
        for record in batch.records()
    ]
    assert len(stamps) > 500
    for timestamp, _ in stamps[::40]:
        found = log.fetch_offset_by_timestamp(timestamp)
        assert found is not None
        assert found.timestamp >= timestamp
        assert all(stamp < timestamp for stamp, offset in stamps if offset < found.offset)
    manager.abandon()


def partition_files(directory: Path, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(directory.glob("*-0/*"))
        if path.suffix in suffixes and "__cluster" not in path.parent.name
    }


def last_snapshot(directory: Path) -> list[SnapshotEntry]:
    files = ProducerSnapshotFiles(RealEnv(), str(directory), [path.name for path in directory.iterdir()])
    assert files.latest_offset is not None
    return sorted(files.read(files.latest_offset))


def test_indexes_and_producers_are_rebuilt_as_kafka_had_them(copy: Path) -> None:
    """Only the .log files are left, as after the worst of crashes."""
    active = max((copy / "codec-none-0").glob("*.log"))
    for path in copy.glob(f"codec-none-0/{active.stem}.*"):
        # Kafka began counting index.interval.bytes anew when it was restarted within this segment.
        if path.suffix in INDEX_SUFFIXES:
            path.write_bytes(b"")
    kafkas = partition_files(copy, INDEX_SUFFIXES)
    snapshots = {topic: last_snapshot(copy / f"{topic}-0") for topic in TOPICS}
    assert len(kafkas) > 20
    assert any(name.endswith(".txnindex") for name in kafkas)
    for path in copy.glob("*-0/*"):
        if path.suffix in (*INDEX_SUFFIXES, ".snapshot") and "__cluster" not in path.parent.name:
            path.unlink()
    (copy / ".kafka_cleanshutdown").unlink()
    OffsetCheckpointFile(RealEnv(), str(copy / "recovery-point-offset-checkpoint")).write({})
    epochs = {
        topic: LeaderEpochCheckpointFile(RealEnv(), f"{copy}/{topic}-0/leader-epoch-checkpoint").read()
        for topic in TOPICS
    }
    manager = open_ours(copy)
    for topic in TOPICS:
        log = log_of(manager, topic)
        assert log.truncated_bytes == 0
        # An epoch in which nothing was written is forgotten, by Kafka's loading too.
        assert log.leader_epoch_cache.entries == [
            entry for entry in epochs[topic] if entry[1] < log.log_end_offset
        ]
    manager.shutdown()
    rebuilt = partition_files(copy, INDEX_SUFFIXES)
    assert set(rebuilt) == set(kafkas)
    assert [name for name in kafkas if kafkas[name] and rebuilt[name] != kafkas[name]] == []
    assert {topic: last_snapshot(copy / f"{topic}-0") for topic in TOPICS} == snapshots


def append_ours(manager: LogManager) -> None:
    """Goes on in every topic: codecs, rolls, an idempotent producer, a transaction that is aborted."""
    now_ms = int(time.time() * 1000)
    for topic in TOPICS:
        log = log_of(manager, topic)
        epoch = log.latest_epoch
        for number in range(120):
            values = [b"ours %d/%d " % (number, index) + Random(index).randbytes(400) for index in range(25)]
            records = [Record(b"k", value, now_ms + index, []) for index, value in enumerate(values)]
            codec = CompressionType(number % 5)
            log.append_as_leader(
                build_batch(
                    records, compression=codec, producer_id=4242, producer_epoch=0, base_sequence=number * 25
                ),
                epoch,
            )
            log.update_high_watermark(log.log_end_offset)
        for commit in (False, True):
            batch = build_batch(
                [(b"k", b"transaction", now_ms, [])],
                producer_id=4343,
                producer_epoch=0,
                base_sequence=int(commit),
                is_transactional=True,
            )
            log.append_as_leader(batch, epoch)
            marker = build_batch(
                [(b"\0\0\0" + bytes([commit]), bytes(6), now_ms, [])],
                producer_id=4343,
                producer_epoch=0,
                is_transactional=True,
                is_control=True,
            )
            log.append_as_leader(marker, epoch, AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        assert log.segment_count >= 2


def dump(files: list[Path], *flags: str) -> str:
    names = ",".join(map(str, files))
    command = [
        "java",
        "-Xmx512m",
        "-cp",
        require_classpath(),
        "org.apache.kafka.tools.DumpLogSegments",
        *flags,
    ]
    done = subprocess.run(
        [*command, "--files", names], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize("end", ["stopped", "killed", "killed and recovered"])
def test_kafkas_dump_tool_has_nothing_to_say(copy: Path, end: str) -> None:
    manager = open_ours(copy)
    append_ours(manager)
    if end == "stopped":
        manager.shutdown()
    else:
        manager.abandon()
    if end == "killed and recovered":
        open_ours(copy).shutdown()
    paths = [path for path in sorted(copy.glob("*-0/*")) if "__cluster" not in path.parent.name]
    files = [path for path in paths if path.suffix in (".log", ".snapshot", *INDEX_SUFFIXES)]
    deep = dump(files, "--deep-iteration")
    assert complaints(deep) == []
    assert deep.count("Dumping ") == len(files)
    indexes = [path for path in paths if path.suffix in (".index", ".timeindex")]
    if end != "killed":  # Kafka's own check takes preallocated room for entries
        sane = dump(indexes, "--index-sanity-check")
        assert sane.count("passed sanity check") + sane.count("is empty") == len(indexes)
    assert complaints(dump(indexes, "--verify-index-only")) == []


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_kafka_goes_on_where_ours_left(written: Written, copy: Path, tmp_path: Path, end: str) -> None:
    manager = open_ours(copy)
    append_ours(manager)
    expected = {topic: read(log_of(manager, topic)) for topic in TOPICS}
    committed = {topic: read(log_of(manager, topic), FetchIsolation.TXN_COMMITTED) for topic in TOPICS}
    if end == "stopped":
        manager.shutdown(broker_epoch=1)
    else:
        manager.checkpoint_all()
        manager.abandon()
    kafka = ApacheKafka(tmp_path, require_classpath(), written.kafka.overrides)
    with kafka:
        for topic in TOPICS:
            assert consume(kafka.bootstrap, topic, committed=False) == expected[topic]
            assert consume(kafka.bootstrap, topic, committed=True) == committed[topic]
        produce(kafka.bootstrap, "codec-none", 100)
        kafka.stop()
    about_logs = [
        line
        for line in (tmp_path / "server.log").read_text().splitlines()
        if "storage.internals.log" in line and "__cluster_metadata" not in line
    ]
    assert about_logs
    if end == "stopped":
        assert [
            line for line in about_logs if " INFO " not in line or "Recovering unflushed segment" in line
        ] == []
    else:
        assert [line for line in about_logs if " ERROR " in line or "truncat" in line] == []
    manager = open_ours(copy)
    found = read(log_of(manager, "codec-none"))
    assert len(found) == len(expected["codec-none"]) + 100
    manager.shutdown()
