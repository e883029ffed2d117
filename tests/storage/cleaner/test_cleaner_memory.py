"""The memory of a cleaning stays within what `storage.cleaner.cleaner` promises, however large the log is."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.records import cleaning
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.storage.cleaner.cleaned_segment import CLEANED_SUFFIX, CleanedSegmentWriter
from barnabas.storage.env import RealEnv
from barnabas.storage.log.cleaning_plan import CleaningPlan, SegmentToClean

MIB = 1 << 20
SEGMENTS, SEGMENT_BYTES = 5, 10 * MIB
INDEX_BYTES = 64 << 10
DEDUPE_BYTES = 4 * MIB
IO_BYTES = 128 << 10
BATCH_BYTES = 512 << 10  # unpacked
SLACK_BYTES = 6 * MIB  # of the interpreter, its allocator and the codecs

# What a worker does, with the peak of its memory before and after.
WORKER = """
import json, os, pickle, resource, sys
from barnabas.storage.env import RealEnv
from barnabas.storage.cleaner.cleaner import clean
plan = pickle.load(sys.stdin.buffer)
def peak():
    if os.path.exists("/proc/self/status"):  # what getrusage says has the peak of the parent in it
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
before = peak()
for _ in range(5):  # a worker cleans one log after the other, without garbage collections in between
    stats = clean(RealEnv(), plan).stats
print(json.dumps([before, peak(), stats.bytes_read, stats.messages_written]))
"""


def write_segments(directory: Path, codec: CompressionType) -> list[SegmentToClean]:
    """Segments with batches of half a mebibyte, whose keys return in every segment."""
    env = RealEnv()
    segments = []
    value = bytes(range(256))  # so small that the table of keys comes to its full size
    offset = 0
    for _ in range(SEGMENTS):
        base_offset = offset
        writer = CleanedSegmentWriter(
            env, str(directory), base_offset, index_interval_bytes=4096, index_bytes=INDEX_BYTES
        )
        # Such a batch is compressed to a small part of its size; a segment gets as many as without compression.
        for number in range(SEGMENT_BYTES // BATCH_BYTES):
            count = BATCH_BYTES // (len(value) + 20)
            rows = [(b"%d-%d" % (number, at), value, offset, ()) for at in range(count)]
            batch = build_batch(rows, base_offset=offset, compression=codec)
            offset += count
            writer.append(batch, [(offset - 1, len(batch), offset)])
        writer.finish((), 0)
        segments.append(SegmentToClean(base_offset, writer.size, 0, 0, 0))
    for path in directory.glob("*" + CLEANED_SUFFIX):
        path.rename(path.with_suffix(""))
    return [*segments, SegmentToClean(offset, 0, 0, 0, 0)]


@pytest.mark.skipif(not cleaning.COMPILED, reason="plain Python has no time for a log that is large enough")
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
def test_memory_is_bounded(tmp_path: Path, codec: CompressionType) -> None:
    *segments, active = write_segments(tmp_path, codec)
    plan = CleaningPlan(
        directory=str(tmp_path),
        topic="t",
        partition=0,
        segments=tuple(segments),
        first_dirty_offset=0,
        first_uncleanable_offset=active.base_offset,
        log_start_offset=0,
        now_ms=0,
        last_records_of_producers={},
        segment_bytes=SEGMENT_BYTES,
        segment_index_bytes=INDEX_BYTES,
        index_interval_bytes=4096,
        delete_retention_ms=0,
        dedupe_buffer_bytes=DEDUPE_BYTES,
        load_factor=0.9,
        io_buffer_bytes=IO_BYTES,
        max_io_bytes_per_second=float("inf"),
    )
    ran = subprocess.run(
        [sys.executable, "-c", WORKER],
        input=pickle.dumps(plan),
        capture_output=True,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    before, after, bytes_read, kept = json.loads(ran.stdout)
    assert kept == active.base_offset / SEGMENTS
    promised = DEDUPE_BYTES * 9 // 8 + 12 * (BATCH_BYTES + 1024) + 2 * INDEX_BYTES
    assert DEDUPE_BYTES / 2 < after - before < promised + SLACK_BYTES
    unpacked = SEGMENTS * SEGMENT_BYTES
    assert promised + SLACK_BYTES < unpacked / 2  # otherwise the test would prove nothing
    assert codec or bytes_read > 0.9 * unpacked
