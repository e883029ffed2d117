"""Apache Kafka reads our metadata log and snapshots, and both dump tools print the same for those of both."""

from __future__ import annotations

import atexit
import json
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.records import frame, frame_as, record_types, unframe
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.snapshot_files import Control, SnapshotId, write_snapshot
from barnabas.broker.metadata.versions import record_version
from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.protocol.messages.topic_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
)
from barnabas.protocol.schema import Message, Struct
from barnabas.storage.env import RealEnv
from tests.broker.metadata.test_embedded_raft_log import DYNAMIC
from tests.conformance.dump_log_comparison import assert_same_dump, assert_same_dumps, our_dump
from tests.conformance.kafka_jars import require_classpath, require_compiled
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.protocol.strategies import messages_of
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "java" / "JavaMetadataLog.java"
SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "internal.metadata.log.segment.bytes": "6000",
    "internal.metadata.max.batch.size.in.bytes": "6000",
}
KAFKA = {"metadata.log.max.record.bytes.between.snapshots": "3000", "metadata.max.idle.interval.ms": "100"}

S = TypeVar("S", bound=Struct)


class RejectedError(Exception):
    """Kafka rejected the bytes; the message is its exception."""


@cache
def _process() -> subprocess.Popen[bytes]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", require_compiled(SOURCE), SOURCE.stem]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.kill)
    return process


def request(operation: bytes, payload: bytes) -> bytes:
    """Sends a request to the Java process and returns its answer. Raises RejectedError."""
    stdin, stdout = _process().stdin, _process().stdout
    assert stdin is not None
    assert stdout is not None
    stdin.write(struct.pack(">i", 1 + len(payload)) + operation + payload)
    stdin.flush()
    (size,) = struct.unpack(">i", stdout.read(4))
    answer = stdout.read(size)
    if answer[0]:
        raise RejectedError(answer[1:].decode())
    return answer[1:]


def kafka_snapshot(directory: Path, snapshot_id: SnapshotId) -> tuple[int, list[bytes]]:
    """The timestamp in the header of a snapshot and its framed records, as Kafka reads it."""
    answer = request(b"s", f"{directory}\n{snapshot_id.end_offset}\n{snapshot_id.epoch}".encode())
    (timestamp_ms,) = struct.unpack_from(">q", answer)
    values, position = [], 8
    while position < len(answer):
        (size,) = struct.unpack_from(">i", answer, position)
        values.append(answer[position + 4 : position + 4 + size])
        position += 4 + size
    return timestamp_ms, values


# -- records --


@st.composite
def records(draw: st.DrawFn) -> tuple[Message, int]:
    """A metadata record of any type, and one of its versions."""
    record_type = draw(st.sampled_from(sorted(record_types().values(), key=lambda one: one.__name__)))
    version = draw(st.integers(*record_type.versions))
    return without_unknown_tags(draw(messages_of(record_type, version))), version


def without_unknown_tags(struct: S) -> S:
    """The struct without unknown tags: Kafka does not write all of the tags that it reads."""
    struct.unknown_tagged_fields = None
    for field in struct.fields:
        value = getattr(struct, field.name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Struct):
                without_unknown_tags(part)
    return struct


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=100)
@given(records())
def test_framed_records_equal_kafkas(record: tuple[Message, int]) -> None:
    value = frame_as(*record)
    assert request(b"f", value) == value


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=30) | st.builds(lambda rest: b"\x01" + rest, st.binary(max_size=30)))
def test_records_that_kafka_decodes_we_decode(value: bytes) -> None:
    try:
        again = request(b"f", value)
    except RejectedError:
        return
    kind = unframe(value)
    assert frame_as(kind, again[2]) == again


@pytest.mark.parametrize("level", range(7, 31))
def test_each_metadata_version_has_the_record_versions_of_kafka(level: int) -> None:
    kinds = (RegisterBrokerRecord(), PartitionRecord(), PartitionChangeRecord())
    ours = bytes(record_version(kind, level) for kind in kinds)
    assert ours == request(b"v", struct.pack(">h", level))
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1)
    assert request(b"f", frame(change, level)) == frame(change, level)


# -- snapshots --


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=20,
)
@given(st.lists(records(), max_size=30), st.sampled_from([Control(), DYNAMIC]), st.integers(300, 5000))
def test_kafka_reads_our_snapshots(
    tmp_path: Path, found: list[tuple[Message, int]], control: Control, max_batch_bytes: int
) -> None:
    values = [frame(record, 30) for record, _ in found]
    snapshot_id = SnapshotId(len(values) + 1, 3)
    write_snapshot(
        RealEnv(),
        str(tmp_path),
        snapshot_id,
        [record for record, _ in found],
        metadata_version=30,
        timestamp_ms=1234,
        control=control,
        max_batch_bytes=max_batch_bytes,
    )
    assert kafka_snapshot(tmp_path, snapshot_id) == (1234, values)


# -- directories --


def change_topics(bootstrap: str, turns: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for turn in range(turns):
        new = NewTopic(
            f"topic-{turn}", 5, 1, config={"retention.ms": str(100_000 + turn), "cleanup.policy": "compact"}
        )
        admin.create_topics([new])[new.topic].result(30)
        if turn % 2:
            admin.delete_topics([new.topic])[new.topic].result(30)


def metadata_files(data: Path) -> list[Path]:
    return [
        path
        for path in sorted((data / "__cluster_metadata-0").iterdir())
        if path.suffix in (".log", ".checkpoint")
    ]


@pytest.fixture(scope="module")
def our_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of Barnabas with several epochs, segments and snapshots."""
    require_classpath()
    data = tmp_path_factory.mktemp("ours") / "data"
    broker = BrokerProcess(data, SMALL)
    for _ in range(2):
        with broker:
            change_topics(broker.bootstrap, 14)
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            for future in admin.delete_topics([f"topic-{turn}" for turn in range(0, 14, 2)]).values():
                future.result(30)
            assert broker.stop() == 0
    return data


def test_dumps_of_our_metadata_log_are_equal(our_data: Path) -> None:
    files = metadata_files(our_data)
    assert sum(path.suffix == ".checkpoint" for path in files) >= 3
    assert sum(path.suffix == ".log" for path in files) >= 2
    assert_same_dumps(our_data / "__cluster_metadata-0")
    assert_same_dump(files, "--cluster-metadata-decoder", "--skip-record-metadata")


def test_dumps_of_kafkas_metadata_log_are_equal(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path, require_classpath(), KAFKA) as kafka:
        change_topics(kafka.bootstrap, 14)
        assert kafka.stop() == kafka.clean_status
        data = kafka.data_dir
    files = metadata_files(data)
    assert sum(path.suffix == ".checkpoint" for path in files) >= 2
    assert_same_dumps(data / "__cluster_metadata-0")
    assert_same_dump([data / "bootstrap.checkpoint"], "--cluster-metadata-decoder")
    check_json(files)
    check_image(data)


def test_json_has_the_payloads_of_the_lines(our_data: Path) -> None:
    check_json(metadata_files(our_data))


def check_json(files: list[Path]) -> None:
    """Each record's payload in Kafka's lines is the value of a record in our JSON."""
    for path in files:
        lines = our_dump([path], "--cluster-metadata-decoder").out
        payloads = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: " in line]
        rows = [
            json.loads(line) for line in our_dump([path], "--cluster-metadata-decoder", "--json").out if line
        ]
        found = [row["value"] for row in rows if row["type"] == "record" and row.get("value") is not None]
        assert found == payloads
        batches = [line for line in lines if line.startswith("baseOffset: ")]
        assert sum(row["type"] == "batch" for row in rows) == len(batches)


def test_our_snapshots_equal_the_replayed_log(our_data: Path) -> None:
    check_image(our_data)


def check_image(data: Path) -> None:
    """Each snapshot equals the log replayed up to its offset, and Kafka reads the same records in it."""
    env = RealEnv()
    log = EmbeddedRaftLog.open(env, str(data), 1)
    whole = MetadataImage.empty()
    for batch in log.load():
        whole, _ = replayed(whole, batch.records, offset=batch.last_offset, epoch=batch.epoch)
    assert whole.features["metadata.version"] == 30
    for snapshot_id in log.raft.snapshots.ids:
        _, values = kafka_snapshot(data / "__cluster_metadata-0", snapshot_id)
        image, _ = replayed(MetadataImage.empty(), [unframe(value) for value in values])
        assert sorted(map(str, image.records())) == sorted(str(unframe(value)) for value in values)
        assert FeatureLevelRecord(name="metadata.version", feature_level=30) in list(image.records())
    log.raft.close()
