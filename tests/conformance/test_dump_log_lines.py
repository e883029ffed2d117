"""`barnabas dump-log` prints what Apache Kafka's DumpLogSegments prints, line by line, of the whole files of both."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.cli.tools.java_text import format_double
from barnabas.protocol.codec import encode
from barnabas.protocol.messages import (
    cluster_records,
    group_state,
    share_coordinator_state,
    share_group_state,
    streams_group_state,
    topic_records,
    transaction_state,
)
from barnabas.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.protocol.records.control import ControlRecordType, control_record_key
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import unsigned_varint
from barnabas.storage.env import RealEnv
from barnabas.storage.verify.directory import Verification
from barnabas.storage.verify.verifier import Severity
from tests.conformance.dump_log_comparison import assert_same_dump, assert_same_dumps
from tests.conformance.kafka_jars import require_classpath
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.protocol.records.message_sets import message, message_set
from tests.protocol.samples import random_message
from tests.storage.verify.verified import written
from tests.support.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]

T = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "512"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000", **SMALL}
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "3600000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "metadata.log.max.snapshot.interval.ms": "2000",
}


# -- files of Apache Kafka --


def produce(bootstrap: str, topic: str, count: int, codec: str = "none") -> None:
    """Small batches of an idempotent producer, with headers and timestamps that are not in order."""
    settings = {
        "compression.type": codec,
        "enable.idempotence": True,
        "batch.num.messages": 25,
        "log_level": 0,
    }
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for number in range(count):
        value = b"%08d" % number + Random(number).randbytes(400)
        when_ms = T + number + (500 if number % 50 == 0 else 0)
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("\u20ac", None)]
        producer.produce(topic, value, b"key-%d" % (number % 50), timestamp=when_ms, headers=headers)
    assert producer.flush(60) == 0


def transact(bootstrap: str, topic: str) -> None:
    """Two concurrent transactions, committed and aborted in turn."""
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "batch.num.messages": 10,
                "log_level": 0,
            }
        )
        for name in ("one", "two")
    ]
    for producer in producers:
        producer.init_transactions(30)
    for round_number in range(8):
        for producer in producers:
            producer.begin_transaction()
            for number in range(50):
                producer.produce(topic, b"%d " % number + b"t" * 400)
            producer.flush(30)
        for number, producer in enumerate(producers):
            if (round_number + number) % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)


def write_compacted(bootstrap: str) -> None:
    """Input for the cleaner and its delete horizons: repeated keys, tombstones, transactions, invalid UTF-8."""
    plain = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10, "log_level": 0})
    transactional = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "compacted", "log_level": 0}
    )
    transactional.init_transactions(30)
    for round_number in range(4):
        for number in range(200):
            value = (b"value" * 50, None, b"v\xff\xed\xa0\x80\n\xe4\xb8", "\u20ac".encode())[number % 4]
            plain.produce("compacted", value, b"k%d" % (number % 41))
        assert plain.flush(30) == 0
        transactional.begin_transaction()
        for number in range(20):
            transactional.produce("compacted", b"t", b"t%d" % number)
        if round_number % 2:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)
        time.sleep(1.1)  # segment.ms: the next record rolls, and the segments before it can be compacted


def consume_in_groups(bootstrap: str) -> None:
    """A classic group and a consumer group that commit offsets."""
    for protocol in ("classic", "consumer"):
        settings = {
            "group.id": protocol,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        consumer.subscribe(["codec-none", "codec-lz4"])
        deadline = time.monotonic() + 30
        while consumer.poll(1.0) is None:
            assert time.monotonic() < deadline, "the group receives no records"
        consumer.commit(asynchronous=False)
        consumer.close()


def wait_for_compaction(directory: Path) -> None:
    """Waits until the cleaner's checkpoint contains the topic."""
    deadline = time.monotonic() + 30
    while "compacted 0" not in (directory / "cleaner-offset-checkpoint").read_text():
        assert time.monotonic() < deadline, "the cleaner has not compacted the topic"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def kafka_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of an Apache Kafka after work and a clean shutdown."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), SETTINGS)
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        topics = {
            **{f"codec-{codec}": SMALL for codec in CODECS},
            "transactions": SMALL,
            "broker-time": {"message.timestamp.type": "LogAppendTime", **SMALL},
            "compacted": COMPACTED,
        }
        new = [NewTopic(name, 1, 1, config=config) for name, config in topics.items()]
        for future in admin.create_topics(new).values():
            future.result(30)
        write_compacted(kafka.bootstrap)
        for codec in CODECS:
            produce(kafka.bootstrap, f"codec-{codec}", 3000 if codec == "none" else 400, codec)
        produce(kafka.bootstrap, "broker-time", 400, "lz4")
        transact(kafka.bootstrap, "transactions")
        consume_in_groups(kafka.bootstrap)
        wait_for_compaction(kafka.data_dir)
        kafka.stop()
    return kafka.data_dir


def test_dumps_of_kafkas_files_are_equal(kafka_data: Path) -> None:
    assert_same_dumps(kafka_data)
    names = {path.suffix for path in kafka_data.rglob("*")}
    assert {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"} <= names


def test_log_verify_accepts_kafkas_files(kafka_data: Path) -> None:
    verification = Verification(RealEnv())
    found = [
        finding for finding in verification.run([str(kafka_data)]) if finding.severity is not Severity.NOTE
    ]
    assert found == []
    assert verification.counts.segments > 10
    assert verification.counts.records > 5000


@pytest.mark.parametrize(
    "flags",
    [
        ("--print-data-log", "--skip-record-metadata"),
        ("--deep-iteration", "--skip-record-metadata"),
        ("--max-bytes", "20000"),
        ("--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder"),
        ("--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"),
        ("--value-decoder-class",),
        ("--offsets-decoder",),
        ("--transaction-log-decoder",),
        ("--cluster-metadata-decoder", "--skip-record-metadata"),
        ("--remote-log-metadata-decoder",),
    ],
    ids=" ".join,
)
def test_flags_on_records_of_producers(kafka_data: Path, flags: tuple[str, ...]) -> None:
    assert_same_dump(sorted(kafka_data.glob("codec-*/*.log")), *flags)


def test_max_message_size_and_files_of_other_types(kafka_data: Path) -> None:
    indexes = sorted(kafka_data.glob("codec-*/*.index"))
    assert_same_dump(indexes, "--max-message-size", "40000")
    assert_same_dump(indexes, "--max-message-size", "100")
    assert_same_dump(sorted(kafka_data.glob("*-0/*.*")))


# -- files of Barnabas --


def test_dumps_of_our_files_are_equal(tmp_path: Path) -> None:
    written(RealEnv(), str(tmp_path / "stopped"))
    assert_same_dumps(tmp_path / "stopped")
    manager = written(RealEnv(), str(tmp_path / "at-work"), stop=False)
    assert_same_dumps(tmp_path / "at-work")
    manager.abandon()


def test_dumps_of_message_sets_are_equal(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    parts = [message(b"k", None, magic=0), message(None, b"", magic=1, offset=1, timestamp=T)]
    offset = 2
    for magic in (0, 1):
        for codec in (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4):
            packed = [(b"k%d" % number, b"v" * 50, T + number) for number in range(3)]
            for log_append_time in (None, T + 99) if magic else (None,):
                parts.append(
                    message_set(
                        packed,
                        magic=magic,
                        base_offset=offset,
                        compression=codec,
                        log_append_time=log_append_time,
                    )
                )
                offset += 3
    parts.append(build_batch([(b"k", b"v", T, [])], base_offset=offset))
    path.write_bytes(b"".join(parts))
    assert_same_dumps(tmp_path)


# -- every type of record --


def frame(record: Message, version: int) -> bytes:
    """A record framed as KRaft and the remote log metadata manager write it."""
    assert record.api_key is not None
    return b"\1" + unsigned_varint(record.api_key) + unsigned_varint(version) + encode(record, version)


def messages_in(*modules: object) -> list[type[Message]]:
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    ]


def write_log(path: Path, records: list[tuple[bytes | None, bytes | None]]) -> list[Path]:
    path.mkdir()
    log = path / f"{0:020d}.log"
    log.write_bytes(build_batch([(key, value, T, []) for key, value in records], base_offset=0))
    return [log]


def every_version(message_type: type[Message]) -> range:
    return range(message_type.versions.low, message_type.versions.high + 1)


@pytest.mark.parametrize(
    ("flag", "modules"),
    [
        ("--offsets-decoder", (group_state, share_group_state, streams_group_state)),
        ("--transaction-log-decoder", (transaction_state,)),
        ("--share-group-state-decoder", (share_coordinator_state,)),
    ],
)
def test_every_record_of_a_coordinator(tmp_path: Path, flag: str, modules: tuple[object, ...]) -> None:
    rng = Random(4)
    found = {message.__name__: message for message in messages_in(*modules)}
    records: list[tuple[bytes | None, bytes | None]] = []
    for name, key_type in found.items():
        value_type = found.get(name.removesuffix("Key") + "Value")
        if not name.endswith("Key") or value_type is None:
            continue
        for version in every_version(value_type):
            for _ in range(20):
                key = struct.pack(">h", key_type.api_key) + encode(random_message(rng, key_type, 0), 0)
                value = struct.pack(">h", version) + encode(random_message(rng, value_type, version), version)
                records += [(key, value), (key, None)]
    assert len(records) > 30
    assert_same_dump(write_log(tmp_path / "x-0", records), flag)


def test_members_of_a_classic_group(tmp_path: Path) -> None:
    """Subscriptions and assignments are parsed; invalid ones are printed as bytes."""
    rng = Random(5)
    from barnabas.protocol.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

    records: list[tuple[bytes | None, bytes | None]] = []
    key = b"\0\2" + encode(group_state.GroupMetadataKey(group="g"), 0)
    for number in range(60):
        version = number % 4
        subscription = struct.pack(">h", version) + encode(
            random_message(rng, ConsumerProtocolSubscription, version), version
        )
        assignment = struct.pack(">h", version) + encode(
            random_message(rng, ConsumerProtocolAssignment, version), version
        )
        member = group_state.GroupMetadataValue.MemberMetadata(
            subscription=(subscription, b"", b"\0", subscription[:-1])[number % 4], assignment=assignment
        )
        group = group_state.GroupMetadataValue(protocol_type="consumer", members=[member])
        records.append((key, b"\0\3" + encode(group, 3)))
    assert_same_dump(write_log(tmp_path / "x-0", records), "--offsets-decoder")


def test_every_record_of_the_cluster(tmp_path: Path) -> None:
    rng = Random(6)
    values = [
        frame(random_message(rng, message_type, version), version)
        for message_type in messages_in(cluster_records, topic_records)
        for version in every_version(message_type)
        for _ in range(20)
    ]
    values += [b"\0\1\0", b"\2\1\0", b"\1\x7f\0", values[0] + b"x"]
    records: list[tuple[bytes | None, bytes | None]] = [(None, value) for value in values]
    assert_same_dump(write_log(tmp_path / "x-0", records), "--cluster-metadata-decoder")


def test_every_control_record(tmp_path: Path) -> None:
    rng = Random(8)
    path = tmp_path / f"{0:020d}.log"
    kinds: dict[ControlRecordType, type[Message]] = {
        ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
        ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
        ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
        ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
        ControlRecordType.KRAFT_VOTERS: VotersRecord,
    }
    batches: list[bytes] = []
    for kind, message_type in kinds.items():
        for _ in range(5):
            record = random_message(rng, message_type, 0)
            record.version = 0  # type: ignore[attr-defined]
            key, value = control_record_key(kind), encode(record, 0)
            batches.append(build_batch([(key, value, T, [])], base_offset=len(batches), is_control=True))
    batches.append(build_batch([(b"\0\0\0\x63", b"", T, [])], base_offset=len(batches), is_control=True))
    path.write_bytes(b"".join(batches))
    assert_same_dumps(tmp_path)


def test_invalid_utf8(tmp_path: Path) -> None:
    """The dump has as many U+FFFD as Java's."""
    rng = Random(9)
    special = bytes(
        [0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xA0, 0xED, 0x9F, 0xEF, 0xF0, 0x90, 0xF4, 0x8F, 0xF5, 0xFF, 0x41]
    )
    values = [bytes(rng.choices(special, k=rng.randrange(1, 12))) for _ in range(5000)]
    assert_same_dump(write_log(tmp_path / "x-0", [(value, value) for value in values]), "--print-data-log")


def test_numbers_with_a_fraction(tmp_path: Path) -> None:
    """Values that Java prints correctly: Java 17 and before may print a digit too many (JDK-4511638)."""
    rng = Random(10)
    quota = topic_records.ClientQuotaRecord
    numbers = [float(f"{rng.randrange(1, 10_000)}e{rng.randrange(-12, 12)}") for _ in range(300)]
    assert len({format_double(number) for number in numbers}) > 200
    values = [frame(quota(entity=[], key="k", value=number), 0) for number in numbers]
    records: list[tuple[bytes | None, bytes | None]] = [(None, value) for value in values]
    assert_same_dump(write_log(tmp_path / "x-0", records), "--cluster-metadata-decoder")
