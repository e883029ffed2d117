"""Compaction of a log with 10 % live keys, beside Apache Kafka's own cleaner on the same files, one worker each.

    python -m bench.bench_compaction [--gib 1] [--directory DIR]

Kafka's Cleaner is called by a small Java class, without the broker around it; the start of neither process counts.
Memory is the peak of the whole process: Kafka's heap is limited to what its offset map and buffers need.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from barnabas.config.log_config import LogConfig
from barnabas.interpreted import PLAIN
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.storage.cleaner.cleaned_segment import CleanedSegmentWriter
from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.env import RealEnv
from barnabas.storage.log.cleaning_plan import CleaningPlan, SegmentToClean
from bench import results
from bench.section import Section, Table, number
from tests.conformance.kafka_jars import KafkaMissingError, classpath, require_compiled

GIB = 1 << 30
SEGMENT_BYTES = 128 << 20
BATCH_BYTES = 16 << 10
NOW_MS = 1_700_000_000_000
DEDUPE_BUFFER_BYTES = 128 << 20
IO_BUFFER_BYTES = 256 << 10
LIVE_PART = 0.1
CONFIG = LogConfig()
ENV = RealEnv()
JAVA = Path(__file__).parents[1] / "tests" / "conformance" / "java" / "JavaCleaner.java"
KAFKA_HEAP = "512m"


class Shape(NamedTuple):
    """The contents of a log; values are half noise, half digits."""

    value_bytes: int
    codec: CompressionType

    @property
    def name(self) -> str:
        return f"{self.value_bytes} B, {self.codec.label}"


SHAPES = [Shape(size, codec) for codec in (CompressionType.NONE, CompressionType.LZ4) for size in (100, 1024)]


class Figures(NamedTuple):
    """The figures of one cleaning."""

    seconds: float
    cpu_seconds: float
    index_seconds: float
    messages_read: int
    messages_written: int
    peak_mib: float


def write_log(directory: Path, shape: Shape, total_bytes: int) -> None:
    """Closed segments of `total_bytes` in all and an empty active one, as a broker leaves them."""
    directory.mkdir(parents=True)
    rng = random.Random(shape.value_bytes)
    values = [
        (rng.randbytes(shape.value_bytes // 2) + b"%d " % number * shape.value_bytes)[: shape.value_bytes]
        for number in range(512)
    ]
    per_batch = max(BATCH_BYTES // (shape.value_bytes + 30), 1)
    packed = len(_batch(shape, rng.random, values, range(per_batch), 1 << 40)) / per_batch
    keys = max(int(total_bytes / packed * LIVE_PART), 1)
    offset = written = 0
    while written < total_bytes:
        writer = CleanedSegmentWriter(
            ENV,
            str(directory),
            offset,
            index_interval_bytes=CONFIG.index_interval_bytes,
            index_bytes=CONFIG.segment_index_bytes,
        )
        while writer.size < min(SEGMENT_BYTES - 2 * BATCH_BYTES, total_bytes - written):
            batch = _batch(shape, rng.random, values, range(offset, offset + per_batch), keys)
            offset += per_batch
            writer.append(batch, [(offset - 1, len(batch), NOW_MS + offset - 1)])
        written += writer.size
        writer.finish((), NOW_MS)
    CleanedSegmentWriter(ENV, str(directory), offset, index_interval_bytes=0, index_bytes=64).finish(
        (), NOW_MS
    )
    for path in directory.glob("*.cleaned"):
        path.rename(path.with_suffix(""))


def _batch(shape: Shape, pick: Callable[[], float], values: list[bytes], offsets: range, keys: int) -> bytes:
    records = [
        (b"user-%012d" % int(pick() * keys), values[int(pick() * 512)], NOW_MS + offset, ())
        for offset in offsets
    ]
    return build_batch(records, base_offset=offsets.start, compression=shape.codec, partition_leader_epoch=0)


def plan_for(directory: Path) -> CleaningPlan:
    """All but the active segment, in one go."""
    logs = sorted(directory.glob("*.log"))
    segments = tuple(
        SegmentToClean(
            int(log.stem),
            log.stat().st_size,
            log.with_suffix(".index").stat().st_size,
            log.with_suffix(".timeindex").stat().st_size,
            NOW_MS,
        )
        for log in logs[:-1]
    )
    return CleaningPlan(
        directory=str(directory),
        topic="t",
        partition=0,
        segments=segments,
        first_dirty_offset=0,
        first_uncleanable_offset=int(logs[-1].stem),
        log_start_offset=0,
        now_ms=NOW_MS,
        last_records_of_producers={},
        segment_bytes=SEGMENT_BYTES,
        segment_index_bytes=CONFIG.segment_index_bytes,
        index_interval_bytes=CONFIG.index_interval_bytes,
        delete_retention_ms=86_400_000,
        dedupe_buffer_bytes=DEDUPE_BUFFER_BYTES,
        load_factor=0.9,
        io_buffer_bytes=IO_BUFFER_BYTES,
        max_io_bytes_per_second=float("inf"),
    )


def clean_here(directory: Path) -> Figures:
    """Cleans by Barnabas's cleaner, in this process."""
    cpu_seconds = -time.process_time()
    stats = clean(ENV, plan_for(directory)).stats
    cpu_seconds += time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Figures(
        stats.elapsed_seconds,
        cpu_seconds,
        stats.index_seconds,
        stats.messages_read,
        stats.messages_written,
        peak / (1 << 20 if sys.platform == "darwin" else 1 << 10),
    )


def clean_by_ours(directory: Path, *, is_interpreted: bool = False) -> Figures:
    """The same in a separate process, like a worker; as plain Python on request."""
    command = [sys.executable, "-m", "bench.bench_compaction", "--clean", str(directory)]
    environment = {**os.environ, **PLAIN} if is_interpreted else None
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    for path in directory.glob("*.cleaned"):
        path.unlink()
    return Figures(*json.loads(ran.stdout))


def clean_by_kafka(directory: Path) -> Figures:
    """Cleans a copy by Kafka's cleaner."""
    copy = directory.with_name("kafka-0")
    shutil.copytree(directory, copy)
    plan = plan_for(directory)
    command = ["java", f"-Xmx{KAFKA_HEAP}", "-cp", require_compiled(JAVA), JAVA.stem, str(copy), "0", "-1"]
    command += [str(NOW_MS), str(DEDUPE_BUFFER_BYTES), str(IO_BUFFER_BYTES)]
    command += ["cleanup.policy=compact", f"segment.bytes={plan.segment_bytes}"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(copy)
    line = next(line for line in ran.stdout.splitlines() if line.startswith("next="))
    said = dict(word.split("=") for word in line.split())
    return Figures(
        float(said["seconds"]),
        float(said["cpu_seconds"]),
        float(said["index_seconds"]),
        int(said["messages_read"]),
        int(said["messages_written"]),
        int(said["peak_kib"]) / 1024,
    )


def with_kafka() -> bool:
    """Whether Apache Kafka is available."""
    try:
        classpath()
    except KafkaMissingError as error:
        print(f"without Apache Kafka: {error}")
        return False
    return True


class Pair(NamedTuple):
    """The figures of both for one shape; None without Apache Kafka."""

    size: int
    ours: Figures
    kafka: Figures | None

    @property
    def is_kept(self) -> bool:
        """Whether Barnabas is as fast."""
        return self.kafka is None or self.ours.seconds <= self.kafka.seconds


def measure(base: Path, gib: float, rounds: int, *, beside_kafka: bool) -> dict[Shape, Pair]:
    """The best of some rounds for each shape."""
    found = {}
    for shape in SHAPES:
        directory = base / shape.name.replace(", ", "-").replace(" ", "") / "t-0"
        if not directory.exists():
            write_log(directory, shape, int(gib * GIB))
        size = sum(segment.size for segment in plan_for(directory).segments)
        ours, kafka = [], []
        for _ in range(rounds):
            ours.append(clean_by_ours(directory))
            kafka += [clean_by_kafka(directory)] if beside_kafka else []
        if kafka:
            assert min(ours).messages_written == min(kafka).messages_written
        found[shape] = Pair(size, min(ours), min(kafka) if kafka else None)
    return found


def report(found: dict[Shape, Pair], gib: float, rounds: int) -> Section:
    """The section of the document."""
    heads = [
        "records",
        *(head for who in ("Barnabas", "Apache Kafka") for head in (who, "CPU", "MiB/s", "memory")),
    ]
    rows = [
        [shape.name, *_cells(pair.ours, pair.size), *_cells(pair.kafka, pair.size)]
        for shape, pair in found.items()
    ]
    return Section(
        name="compaction",
        title=f"Compaction of {gib:g} GiB with {LIVE_PART:.0%} live keys",
        prose=[
            "One cleaner each, the process that cleans alone, on the same files; Kafka's has had no time to "
            "warm up. Best of "
            f"{rounds}. Memory is the peak of the process; Kafka's heap is limited to {KAFKA_HEAP}.",
            "The memory of a cleaning is bounded by `log.cleaner.dedupe.buffer.size` (128 MiB, of which a table of "
            "few keys takes less), six times the larger of "
            "`log.cleaner.io.buffer.size` and the largest batch, six times the largest batch unpacked, and "
            "the indexes of "
            "one segment; `storage/cleaner/cleaner.py` states it exactly, and a test checks it.",
        ],
        tables=[Table(heads, rows)],
        figures={f"{shape.name}, MiB/s": _mib_s(pair.ours, pair.size) for shape, pair in found.items()},
        options={"rounds": str(rounds)},
    )


def _cells(figures: Figures | None, size: int) -> list[str]:
    if figures is None:
        return ["-"] * 4
    seconds = (figures.seconds, figures.cpu_seconds)
    return [
        *(f"{number(value)} s" for value in seconds),
        number(_mib_s(figures, size), 0),
        f"{figures.peak_mib:.0f} MiB",
    ]


def _mib_s(figures: Figures, size: int) -> float:
    return size / figures.seconds / (1 << 20)


def main(argv: Sequence[str] | None = None) -> None:
    """Exits with a status when Barnabas is slower than Kafka."""
    parser = results.arguments(__doc__)
    parser.add_argument("--gib", type=float, help="how large each log is: 1, or 0.02 when --quick")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the logs are kept for the next time")
    parser.add_argument("--clean", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.clean:
        print(json.dumps(clean_here(options.clean)))
        return
    gib = options.gib or (0.02 if options.quick else 1.0)
    beside_kafka = not options.no_kafka and with_kafka()
    with tempfile.TemporaryDirectory() as temporary:
        base = options.directory or Path(temporary)
        found = measure(base, gib, options.rounds, beside_kafka=beside_kafka)
    results.publish(report(found, gib, options.rounds), options)
    if not options.quick and not all(pair.is_kept for pair in found.values()):
        sys.exit("compaction is slower than Apache Kafka's")


if __name__ == "__main__":
    main()
