"""Segments of the message formats v0 and v1, written by Apache Kafka's own classes, in a log directory.

Directories that old versions of Kafka created have such segments. Apache Kafka 4.3 and 3.9 and ours must build the same
indexes, read the same records, append after them, compact them and truncate them at the same damage.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest

from barnabas.protocol.records.batch import CompressionType, TimestampType
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.record import Record
from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT, OffsetCheckpointFile
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation
from tests.conformance.dump_log_comparison import assert_same_dumps
from tests.conformance.handover.kafka_side import Written, config_of, kafka_in, produce, timestamps
from tests.conformance.handover.our_side import compact, fill, log_of, open_ours
from tests.conformance.handover.tools import findings
from tests.conformance.handover.views import (
    MAX_TIMESTAMP,
    last_values,
    offsets_for_times,
    our_offsets_for_times,
    our_view,
    views,
)
from tests.conformance.java_records import JavaRecords

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

CODECS = (CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4)
TOPICS = ("legacy", "legacy-damaged", "legacy-compacted")
FORMATS = {
    "v0": (0, TimestampType.NO_TIMESTAMP_TYPE),
    "v1": (1, TimestampType.CREATE_TIME),
    "v1 appended": (1, TimestampType.LOG_APPEND_TIME),
}
KEYS = 100


@pytest.fixture(scope="module")
def segments() -> dict[int, bytes]:
    """By base offset: a segment of each format, with all its codecs, as plain messages and in wrappers."""
    java = JavaRecords()
    random = Random(4)
    now_ms = RealEnv().now_ms()
    offset = 0
    found = {}
    for magic, timestamp_type in FORMATS.values():
        base_offset, data = offset, b""
        for number in range(60):
            records = [
                Record(
                    b"key-%d" % random.randrange(KEYS),
                    None if random.random() < 0.05 else random.randbytes(random.randrange(200)),
                    now_ms - 3_600_000 + offset * 100 - random.randrange(2000) if magic else -1,
                    [],
                    offset + index,
                )
                for index in range(random.randrange(1, 12))
            ]
            appended_ms = now_ms - 3_000_000 + offset
            if timestamp_type is TimestampType.LOG_APPEND_TIME:
                for record in records:
                    record.timestamp = appended_ms
            data += java.build(
                records,
                magic=magic,
                compression=CODECS[number % 4],
                timestamp_type=timestamp_type,
                base_offset=offset,
                log_append_time=appended_ms if timestamp_type is TimestampType.LOG_APPEND_TIME else -1,
            )
            offset += len(records)
        found[base_offset] = data
    java.close()
    return found


@pytest.fixture
def directory(written: Written, segments: dict[int, bytes], tmp_path: Path) -> Path:
    """A log directory of Kafka with these segments, without their indexes, as after a crash."""
    data = Path(shutil.copytree(written.stopped.directory, tmp_path / "data"))
    for topic in TOPICS:
        partition = data / f"{topic}-0"
        for path in partition.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for base_offset, content in segments.items():
            (partition / f"{base_offset:020d}.log").write_bytes(content)
        # Kafka takes the modification time of a segment without timestamps, and skips it for earlier times.
        long_ago_s = RealEnv().now_ms() / 1000 - 7200
        os.utime(partition / f"{0:020d}.log", (long_ago_s, long_ago_s))
    damaged = max((data / "legacy-damaged-0").glob("*.log"))
    flipped = bytearray(damaged.read_bytes())
    ends = [entry.position + entry.size_in_bytes for entry in batches(bytes(flipped))]
    # In what a checksum covers: an offset, which none does, only Barnabas notices where the next one is lower.
    flipped[next(end for end in ends if end > len(flipped) * 2 // 3) - 1] ^= 0x40
    damaged.write_bytes(flipped)
    (data / CLEAN_SHUTDOWN).unlink()
    checkpoint = OffsetCheckpointFile(RealEnv(), str(data / RECOVERY_POINT_CHECKPOINT))
    checkpoint.write({key: offset for key, offset in checkpoint.read().items() if key[0] not in TOPICS})
    return data


def test_segments_cover_all_formats_and_codecs(segments: dict[int, bytes]) -> None:
    """The comparison covers wrappers and plain messages of both formats."""
    kinds = {
        (batch.magic, batch.attributes & 7, batch.timestamp_type)
        for data in segments.values()
        for batch in batches(data)
    }
    assert kinds == {(magic, codec, kind) for magic, kind in FORMATS.values() for codec in CODECS}


def test_both_recover_and_read_legacy_segments_alike(
    written: Written, segments: dict[int, bytes], directory: Path, tmp_path: Path
) -> None:
    """Records, offsets by time and indexes are equal; both truncate at the damage; raw reads return stored bytes."""
    keys = [(topic, 0) for topic in TOPICS]
    kafka = kafka_in(tmp_path / "kafka", written.version, directory)
    with kafka:
        shown = views(kafka.bootstrap, keys)
        wanted = [stamp for stamp in timestamps(shown["legacy", 0]) if stamp > 1 or stamp == MAX_TIMESTAMP]
        times = offsets_for_times(kafka.bootstrap, ("legacy", 0), wanted)
        kafka.stop()
    manager = open_ours(directory, config_of)
    for topic in ("legacy", "legacy-damaged"):
        log = log_of(manager, topic)
        assert our_view(log) == shown[topic, 0]
        assert (log.truncated_bytes > 0) == (topic == "legacy-damaged")
    log = log_of(manager, "legacy")
    assert our_offsets_for_times(log, wanted) == times
    assert raw(log) == b"".join(segments.values())
    assert last_values(our_view(log_of(manager, "legacy-compacted")).records) == last_values(
        shown["legacy-compacted", 0].records
    )
    manager.shutdown()
    for topic in ("legacy", "legacy-damaged"):
        ours, theirs = (files(data / f"{topic}-0") for data in (directory, kafka.data_dir))
        assert ours == theirs
    assert findings(directory) == []
    assert_same_dumps(directory)


def raw(log: UnifiedLog) -> bytes:
    """All bytes of a log that fetches return."""
    offset, data = log.log_start_offset, b""
    while offset < log.log_end_offset:
        part = log.read(offset, 10_000, FetchIsolation.LOG_END, min_one_message=True).records.read()
        for batch in batches(part):
            offset = batch.next_offset
            data += part[batch.position : batch.position + batch.size_in_bytes]
    return data


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.suffix in (".log", ".index", ".timeindex")
    }


def test_both_append_to_legacy_segments(written: Written, directory: Path, tmp_path: Path) -> None:
    """v2 batches follow, older ones are compacted, and the directory passes back and forth."""
    manager = open_ours(directory, config_of)
    before = last_values(our_view(log_of(manager, "legacy-compacted")).records)
    compact(manager, ["legacy-compacted"])
    assert last_values(our_view(log_of(manager, "legacy-compacted")).records) == before
    for topic in TOPICS:
        fill(log_of(manager, topic), 1, rounds=20)
    expected = {(topic, 0): our_view(log_of(manager, topic)) for topic in TOPICS}
    manager.shutdown()
    kafka = kafka_in(tmp_path / "kafka", written.version, directory)
    with kafka:
        shown = views(kafka.bootstrap, expected)
        for key, view in expected.items():
            if key[0] != "legacy-compacted":
                assert shown[key] == view
            assert last_values(shown[key].committed) == last_values(view.committed)
            produce(kafka.bootstrap, key[0], 100)
        expected = views(kafka.bootstrap, expected)
        kafka.stop()
    manager = open_ours(kafka.data_dir, config_of)
    for (topic, _), view in expected.items():
        assert our_view(log_of(manager, topic)) == view
    manager.shutdown()
