"""Cost of the log beyond the checksum and the write: microseconds an append, a read, a lookup; GB/s of recovery."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.record import COMPILED
from barnabas.storage.env import RealEnv
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import open_log
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import FetchIsolation
from bench import results
from bench.section import Section, Table, number

MIB = 1024 * 1024
BATCH_BYTES = 16 * 1024
SECONDS_PER_FIGURE = 0.5
APPENDS_PER_ROUND = 1500
TOPIC_ID = bytes(range(16))
Figures = dict[str, float]


def new_log(directory: Path, config: LogConfig | None = None) -> UnifiedLog:
    return open_log(RealEnv(), str(directory), "bench", 0, config or LogConfig())


def make_batch(records: int, *, producer: tuple[int, int] | None = None, codec: int = 0) -> bytes:
    """A batch of about 16 KiB in so many records; `producer` is (id, sequence)."""
    now_ms = int(time.time() * 1000)
    producer_id, sequence = producer or (-1, -1)
    size = BATCH_BYTES // records - 10
    values = [os.urandom(size // 2) + bytes(size - size // 2) for _ in range(records)]
    return build_batch(
        [(None, value, now_ms, []) for value in values],
        compression=CompressionType(codec),
        producer_id=producer_id,
        producer_epoch=0 if producer else -1,
        base_sequence=sequence,
    )


def microseconds(work: Callable[[], object], seconds: float = SECONDS_PER_FIGURE) -> float:
    """The best of five rounds: the time when nothing else runs."""
    best = float("inf")
    for _ in range(5):
        count = 0
        start = time.perf_counter()
        deadline = start + seconds / 5
        while (now := time.perf_counter()) < deadline:
            for _ in range(50):
                work()
            count += 50
        best = min(best, (now - start) / count)
    return best * 1e6


def best_of(rounds: int, prepare: Callable[[], object], work: Callable[[], object], count: int) -> float:
    """Microseconds that `work` takes in the best round. Rounds are short, so that the disk does not set the pace."""
    best = float("inf")
    for _ in range(rounds):
        prepare()
        start = time.perf_counter()
        for _ in range(count):
            work()
        best = min(best, (time.perf_counter() - start) / count)
    return best * 1e6


def append_us(directory: Path, data: bytes) -> float:
    """One append with all steps that a produce request waits for, the high watermark included."""
    log = new_log(directory)

    def work() -> None:
        log.append_as_leader(data, 0)
        log.update_high_watermark(log.log_end_offset)

    return best_of(7, lambda: log.truncate_fully_and_start_at(0), work, APPENDS_PER_ROUND)


def floor_us(path: Path, data: bytes) -> float:
    """The checksum and the write alone."""
    file = RealEnv().open(str(path), create=True)
    position = 0
    body = memoryview(data)

    def start() -> None:
        nonlocal position
        position = 0
        file.truncate(0)

    def work() -> None:
        nonlocal position
        crc32c(body[21:])
        position += file.pwritev((data[:16], body[16:]), position)

    return best_of(7, start, work, APPENDS_PER_ROUND)


def appends(directory: Path) -> Figures:
    """Microseconds of appends, beside those of the checksum and the write alone."""
    found = {"16 KiB: checksum and write alone, us": floor_us(directory / "floor", make_batch(1))}
    for records in (1, 16, 100):
        us = append_us(directory / f"append-{records}", make_batch(records))
        found[f"16 KiB: append of {records} record{'s' if records > 1 else ''}, us"] = us
    for codec in ("lz4", "zstd"):
        data = make_batch(100, codec=CompressionType.of_label(codec))
        found[f"16 KiB: append of 100 records in {codec}, us"] = append_us(
            directory / f"append-{codec}", data
        )
    small = build_batch([(None, b"x" * 100, int(time.time() * 1000), [])])
    found["100 bytes: append of one record, us"] = append_us(directory / "small", small)
    return found


def reads(directory: Path, segments: int) -> Figures:
    """Lookups in a log of many segments, most of which are not open."""
    config = LogConfig(segment_bytes=4 * MIB, message_timestamp_after_max_ms=1 << 60)
    log = new_log(directory / "read", config)
    data = make_batch(16)
    while log.segment_count < segments:
        log.append_as_leader(data, 0)
    log.update_high_watermark(log.log_end_offset)
    end = log.log_end_offset
    spread = [index * 7919 % end for index in range(1000)]
    offsets = iter(spread * 100_000)
    now_ms = int(time.time() * 1000)

    def read(offset: int, size: int = MIB) -> None:
        log.read(offset, size, FetchIsolation.HIGH_WATERMARK, min_one_message=True)

    def read_bytes(offset: int) -> None:
        log.read(offset, BATCH_BYTES, FetchIsolation.HIGH_WATERMARK, min_one_message=True).records.read()

    return {
        "read: slice at the log's end, us": microseconds(lambda: read(end - 16)),
        f"read: slice anywhere in {segments} segments, us": microseconds(lambda: read(next(offsets))),
        "read: 16 KiB anywhere, with the bytes, us": microseconds(lambda: read_bytes(next(offsets))),
        f"lookup by timestamp in {segments} segments, us": microseconds(
            lambda: log.fetch_offset_by_timestamp(now_ms - 60_000)
        ),
    }


def recovery(directory: Path, size: int) -> Figures:
    """Recovery from the page cache, in GB/s."""
    log = new_log(directory / "recovery")
    data = make_batch(16)
    while log.size < size:
        log.append_as_leader(data, 0)
    total = log.size
    log.release()
    start = time.perf_counter()
    again = new_log(directory / "recovery")
    took = time.perf_counter() - start
    assert again.log_end_offset == log.log_end_offset
    return {f"recovery of {total / MIB:.0f} MiB, GB/s": total / took / 1e9}


def opening(directory: Path, partitions: int) -> Figures:
    """Opening after a clean stop: seconds, and open file descriptors."""
    env = RealEnv()
    path = str(directory / "many")
    manager = LogManager(env, [path], lambda _topic: LogConfig())
    manager.dirs.lock()
    manager.load_logs()
    manager.prepare_logs([("bench", index, TOPIC_ID) for index in range(partitions)]).run()
    data = make_batch(16)
    for index in range(partitions):
        manager.get_or_create_log("bench", index, TOPIC_ID).append_as_leader(data, 0)
    manager.shutdown()
    manager = LogManager(env, [path], lambda _topic: LogConfig())
    manager.dirs.lock()
    start = time.perf_counter()
    manager.load_logs()
    took = time.perf_counter() - start
    found = {f"open of {partitions} partitions after a clean stop, s": took}
    if os.path.isdir("/proc/self/fd"):
        found["descriptors open then"] = float(len(os.listdir("/proc/self/fd")))
    manager.abandon()
    return found


def report(found: Figures) -> Section:
    """The section of the document."""
    return Section(
        name="storage",
        title="The log alone: append, read, recover",
        prose=[
            "Without a broker around it, best of some short rounds, in the page cache; records are checked by the "
            f"{'compiled' if COMPILED else 'plain'} loop."
        ],
        tables=[Table(["", "Barnabas"], [[name, number(value)] for name, value in found.items()])],
        figures=found,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures; `--size` and `--partitions` set the large ones."""
    parser = results.arguments(__doc__)
    parser.add_argument("--size", type=int, default=512, help="MiB to recover")
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")
    options = parser.parse_args(argv)
    size, partitions, segments = (16, 20, 5) if options.quick else (options.size, options.partitions, 100)
    with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-storage-") as directory:
        place = Path(directory)
        found = (
            appends(place) | reads(place, segments) | recovery(place, size * MIB) | opening(place, partitions)
        )
    results.publish(report(found), options)


if __name__ == "__main__":
    main()
