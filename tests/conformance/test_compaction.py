"""The same log compacted by Apache Kafka's own cleaner and by ours: the resulting files are compared.

A small Java class calls Kafka's Cleaner with a fixed clock, so that delete horizons do not depend on the time of the
run. Without codec the .log files must be equal byte by byte, with codecs record by record and header by header; the
indexes of a cleaned segment, its modification time and the transaction index must be equal in both cases.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.records.batch import CompressionType, RecordBatch, build_batch
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.env import RealEnv
from barnabas.storage.log.cleaning_plan import CleaningPlan, CleaningResult
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import open_log
from barnabas.storage.offsets import AppendOrigin
from tests.conformance.kafka_jars import KAFKA_39, KAFKA_VERSION, require_compiled
from tests.protocol.records.message_sets import Message, message_set
from tests.storage.cleaning import aborted_transactions, plan_for, running, stored_batches, swap_in
from tests.storage.helpers import T0, end_txn, make_batch, small_config
from tests.support.loops import FORMS

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(900)]

JAVA = Path(__file__).parent / "java"
CLEANERS = {KAFKA_VERSION: JAVA / "JavaCleaner.java", KAFKA_39: JAVA / "JavaCleaner39.java"}
ENV = RealEnv()
CODECS = list(CompressionType)
SEEDS = int(os.environ.get("BARNABAS_COMPACTION_SEEDS", "1"))
DELETE_RETENTION_MS = 100_000
KAFKA_LIMIT_S = 240

Changes = dict[str, Any]
Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


class Writer:
    """Fills a log with random batches of a compacted topic, from a seed."""

    def __init__(self, directory: Path, seed: int, codecs: list[CompressionType], **settings: object) -> None:
        directory.mkdir(parents=True)
        self.random = random.Random(seed)
        self.codecs = codecs
        config = small_config(
            segment_bytes=4096, segment_index_bytes=4096, index_interval_bytes=200, **settings
        )
        self.log: UnifiedLog = open_log(
            ENV,
            str(directory),
            "t",
            0,
            config,
            is_clean=False,
            log_start_offset=0,
            recovery_point=0,
        )
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.open: set[int] = set()
        self.now = T0

    def rows(self) -> list[Row]:
        rows: list[Row] = []
        for _ in range(self.random.randint(1, 8)):
            self.now += self.random.randint(0, 20)
            key = None if self.random.random() < 0.03 else b"key-%d" % self.random.randint(0, 40)
            value = None if self.random.random() < 0.2 else self.random.randbytes(self.random.randint(0, 90))
            headers: list[tuple[str, bytes | None]] = [("h", b"v"), ("n", None)]
            jitter = self.random.randint(-50, 50)
            rows.append((key, value, self.now + jitter, headers if self.random.random() < 0.3 else []))
        return rows

    def append(self, producer_id: int = -1, *, transactional: bool = False) -> None:
        rows = self.rows()
        epoch, sequence = -1, -1
        if producer_id >= 0:
            epoch = self.epochs.setdefault(producer_id, 0)
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + len(rows)
        batch = build_batch(
            [*rows],
            compression=self.random.choice(self.codecs),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        self.log.append_as_leader(batch, 0)
        if transactional:
            self.open.add(producer_id)

    def end(self, producer_id: int) -> None:
        """Appends a marker; sometimes with the next epoch, so that it is the producer's last entry in the log."""
        if self.random.random() < 0.3:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        commit = self.random.random() < 0.5
        marker = end_txn(producer_id, self.epochs[producer_id], commit=commit, timestamp=self.now)
        self.log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
        self.open.discard(producer_id)

    def some(self, count: int, producers: Sequence[int] = (-1, -1, 10, 11, 20, 21, 22)) -> None:
        """Appends batches: without a producer id (-1), idempotent, and from 20 on transactional ones with markers."""
        for _ in range(count):
            producer = self.random.choice(producers)
            if producer in self.open and self.random.random() < 0.4:
                self.end(producer)
            else:
                self.append(producer, transactional=producer >= 20)
        for producer in sorted(self.open):
            self.end(producer)

    def close(self) -> CleaningPlan:
        """Rolls and closes the log; returns the plan of what to clean."""
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.roll()
        self.log.close()
        return self.plan()

    def plan(self) -> CleaningPlan:
        for age, path in enumerate(sorted(Path(self.log.directory).glob("*.log"))):
            set_age(path, age)
        return plan_for(
            ENV,
            self.log,
            now_ms=self.now + 1000,
            delete_retention_ms=DELETE_RETENTION_MS,
            segment_bytes=10000,
        )


def set_age(path: Path, age: int) -> None:
    ENV.set_mtime_ms(str(path), T0 + 1000 * age)


def clean_by_kafka(version: str, plan: CleaningPlan, directory: Path) -> dict[str, float]:
    """Runs Kafka's cleaner in a directory; returns the counts it prints."""
    settings = {
        "cleanup.policy": "compact",
        # Kafka 4 accepts less than a mebibyte only in the internal key.
        "segment.bytes" if version == KAFKA_39 else "internal.segment.bytes": plan.segment_bytes,
        "segment.index.bytes": plan.segment_index_bytes,
        "index.interval.bytes": plan.index_interval_bytes,
        "delete.retention.ms": plan.delete_retention_ms,
    }
    source = CLEANERS[version]
    words = [plan.first_dirty_offset, plan.first_uncleanable_offset, plan.now_ms]
    words += [plan.dedupe_buffer_bytes, plan.io_buffer_bytes]
    ran = subprocess.run(
        ["java", "-Xmx256m", "-cp", require_compiled(source, version), source.stem, str(directory)]
        + [str(word) for word in words]
        + [f"{key}={value}" for key, value in settings.items()],
        capture_output=True,
        text=True,
        timeout=KAFKA_LIMIT_S,
        check=False,
    )
    line = next((line for line in ran.stdout.splitlines() if line.startswith("next=")), None)
    assert line is not None, ran.stdout + ran.stderr
    for deleted in directory.glob("*.deleted"):
        deleted.unlink()
    return {key: float(value) for key, value in (word.split("=") for word in line.split())}


def clean_by_us(plan: CleaningPlan, directory: Path) -> CleaningResult:
    result = clean(ENV, plan._replace(directory=str(directory)))
    swap_in(ENV, str(directory), result)
    return result


def described(directory: Path) -> list[Any]:
    """All batches and records of a log, decompressed."""
    found: list[Any] = []
    for batch in stored_batches(ENV, str(directory)):
        records = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch.records()]
        if isinstance(batch, LegacyEntry):
            found.append((batch.magic, batch.attributes, batch.last_offset, batch.max_timestamp, records))
            continue
        assert isinstance(batch, RecordBatch)
        found.append(
            (
                batch.base_offset,
                batch.last_offset,
                batch.partition_leader_epoch,
                batch.attributes,
                batch.base_timestamp,
                batch.max_timestamp,
                (batch.producer_id, batch.producer_epoch, batch.base_sequence),
                records,
            )
        )
    return found


def files_in(directory: Path, *suffixes: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.suffix in suffixes}


def ages_in(directory: Path) -> dict[str, int]:
    """Modification times of the closed segments."""
    return {path.name: ENV.mtime_ms(str(path)) for path in sorted(directory.glob("*.log"))[:-1]}


def check_same(ours: Path, theirs: Path, *, is_plain: bool, version: str = KAFKA_VERSION) -> None:
    assert described(ours) == described(theirs)
    assert files_in(ours, ".txnindex") == files_in(theirs, ".txnindex")
    assert ages_in(ours) == ages_in(theirs)
    if is_plain:
        assert files_in(ours, ".log") == files_in(theirs, ".log")
        if version != KAFKA_39:  # it adds an index entry for each write, Kafka 4 for each batch that is due
            assert trimmed_indexes(ours) == trimmed_indexes(theirs)


def trimmed_indexes(directory: Path) -> dict[str, bytes]:
    """The indexes of the closed segments."""
    closed = {path.stem for path in sorted(directory.glob("*.log"))[:-1]}
    return {
        name: data
        for name, data in files_in(directory, ".index", ".timeindex").items()
        if name.partition(".")[0] in closed
    }


def check_rounds(
    tmp_path: Path, writer: Writer, rounds: list[Changes], version: str, *, is_plain: bool
) -> None:
    """Cleans the log in several rounds with both cleaners and compares after each."""
    plan = writer.close()
    ours, theirs = Path(plan.directory), tmp_path / "kafka" / "t-0"
    shutil.copytree(ours, theirs)
    assert aborted_transactions(ENV, str(ours))
    for changes in rounds:
        plan = plan_for(ENV, writer.log)._replace(
            **{**plan._asdict(), "segments": plan_for(ENV, writer.log).segments, **changes}
        )
        counts = clean_by_kafka(version, plan, theirs)
        result = clean_by_us(plan, ours)
        assert result.next_first_dirty_offset == counts["next"]
        assert result.stats.messages_read == counts["messages_read"]
        assert result.stats.messages_written == counts["messages_written"]
        assert result.stats.invalid_messages_read == counts["invalid"]
        assert result.stats.map_messages_read == counts["map_messages_read"]
        if is_plain:
            assert result.stats.bytes_read == counts["bytes_read"]
            assert result.stats.bytes_written == counts["bytes_written"]
        check_same(ours, theirs, is_plain=is_plain, version=version)


def later(plan_now: int) -> list[Changes]:
    """Rounds in which delete horizons are set, have not passed, have passed."""
    return [
        {},
        {"now_ms": plan_now + DELETE_RETENTION_MS // 2},
        {"now_ms": plan_now + 3 * DELETE_RETENTION_MS},
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_compacted_files_without_codec(tmp_path: Path, seed: int, form: str) -> None:
    writer = Writer(tmp_path / "ours" / "t-0", seed, [CompressionType.NONE])
    writer.some(120)
    with running(form):
        check_rounds(tmp_path, writer, later(writer.now + 1000), KAFKA_VERSION, is_plain=True)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_compacted_files_with_all_codecs(tmp_path: Path, seed: int) -> None:
    writer = Writer(tmp_path / "ours" / "t-0", 100 + seed, CODECS)
    writer.some(120)
    check_rounds(tmp_path, writer, later(writer.now + 1000), KAFKA_VERSION, is_plain=False)


@pytest.mark.parametrize("codecs", [[CompressionType.NONE], CODECS], ids=["none", "all"])
def test_compacted_files_beside_kafka_3_9(tmp_path: Path, codecs: list[CompressionType]) -> None:
    writer = Writer(tmp_path / "ours" / "t-0", 7, codecs)
    writer.some(120)
    check_rounds(
        tmp_path, writer, later(writer.now + 1000), KAFKA_39, is_plain=codecs == [CompressionType.NONE]
    )


def test_compacted_files_with_log_append_time(tmp_path: Path) -> None:
    codecs = [CompressionType.NONE]
    writer = Writer(tmp_path / "ours" / "t-0", 5, codecs, message_timestamp_type="LogAppendTime")
    writer.some(60)
    now = ENV.now_ms()  # the broker's clock, not the producers', sets the timestamps
    rounds: list[Changes] = [{"now_ms": now}, {"now_ms": now + 3 * DELETE_RETENTION_MS}]
    check_rounds(tmp_path, writer, rounds, KAFKA_VERSION, is_plain=True)


@pytest.mark.parametrize("magic", [0, 1])
def test_compacted_message_sets_of_older_formats(tmp_path: Path, magic: int) -> None:
    """Segments of v0 or v1 become v2; tombstones expire by the age of their segment or receive a delete horizon."""
    directory = tmp_path / "ours" / "t-0"
    end_offset = write_message_sets(directory, magic)
    (directory / f"{end_offset:020d}.log").write_bytes(make_batch(b"v", key=b"key-1", base_offset=end_offset))
    config = small_config(segment_index_bytes=4096)
    log = open_log(ENV, str(directory), "t", 0, config, is_clean=False, log_start_offset=0, recovery_point=0)
    log.roll()
    log.close()
    ages = sorted(directory.glob("*.log"))
    for age, path in enumerate(ages):
        set_age(path, age)
    clean_part = int(ages[len(ages) // 2].stem)
    plan = plan_for(ENV, log, segment_bytes=20_000)
    theirs = tmp_path / "kafka" / "t-0"
    shutil.copytree(directory, theirs)
    for first_dirty_offset, retention_ms in ((0, 1), (clean_part, 1000), (clean_part, 1)):
        plan = plan_for(ENV, log)._replace(
            segment_bytes=20_000, first_dirty_offset=first_dirty_offset, delete_retention_ms=retention_ms
        )
        counts = clean_by_kafka(KAFKA_VERSION, plan, theirs)
        result = clean_by_us(plan, directory)
        assert result.next_first_dirty_offset == counts["next"]
        assert result.stats.messages_read == counts["messages_read"]
        assert result.stats.messages_written == counts["messages_written"]
        check_same(directory, theirs, is_plain=False)
        assert all(batch.magic == 2 for batch in stored_batches(ENV, str(directory)))


def write_message_sets(directory: Path, magic: int) -> int:
    """Segments of message sets in all codecs, some with log append time; returns the log end offset."""
    directory.mkdir(parents=True)
    rng = random.Random(magic)
    codecs = [codec for codec in CODECS if codec != CompressionType.ZSTD]
    offset = 0
    for _ in range(4):
        base_offset, data = offset, b""
        while len(data) < 4000:
            rows: list[Message] = [
                (
                    b"key-%d" % rng.randint(0, 30),
                    None if rng.random() < 0.3 else rng.randbytes(40),
                    T0 + rng.randint(0, 999),
                )
                for _ in range(rng.randint(1, 6))
            ]
            data += message_set(
                rows,
                magic=magic,
                base_offset=offset,
                compression=rng.choice(codecs),
                log_append_time=T0 + 1000 if magic and rng.random() < 0.3 else None,
            )
            offset += len(rows)
        (directory / f"{base_offset:020d}.log").write_bytes(data)
    return offset


def test_partial_cleaning_with_a_small_offset_map(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ours" / "t-0", 3, [CompressionType.NONE])
    # Without transactions: Kafka, when it starts within a segment, takes transactions that were aborted before as
    # open and leaves the producer's next committed one out of the offset map. No record is lost by that.
    writer.some(100, (-1, 10, 11))
    plan = writer.close()
    ours, theirs = Path(plan.directory), tmp_path / "kafka" / "t-0"
    shutil.copytree(ours, theirs)
    first_dirty_offset = 0
    steps = 0
    while first_dirty_offset < plan.first_uncleanable_offset:
        now = plan_for(ENV, writer.log)
        plan = plan._replace(
            segments=now.segments, first_dirty_offset=first_dirty_offset, dedupe_buffer_bytes=24 * 28
        )
        counts = clean_by_kafka(KAFKA_VERSION, plan, theirs)
        result = clean_by_us(plan, ours)
        assert result.next_first_dirty_offset == counts["next"]
        assert result.stats.map_messages_read == counts["map_messages_read"]
        check_same(ours, theirs, is_plain=True)
        first_dirty_offset = result.next_first_dirty_offset
        steps += 1
    assert steps > 2
