"""Lookups over the wire in a log of 100 segments, beside Apache Kafka on the same files: by timestamp, and by offset.

One connection, one request at a time. Both brokers run at once and are asked in turns, so that what else the machine
does is the same to both; before that each is asked for a while without the clock, for the sake of the one that compiles
as it goes. The log is too large for the caches of the processor and lies in the page cache.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.bench_recovery import LIMIT_S, TOPIC, create_topic
from bench.brokers import Broker, Factory, factories
from bench.logs_on_disk import MIB, START_MS, LogShape, make_unclean, write_log
from tests.support.raw import FETCH, RawConnection, header_v1, string

LIST_OFFSETS = 2
FETCH_BYTES = 16 * 1024
WARM_UP_REQUESTS = 6000
REQUESTS = 1500
Ask = Callable[[RawConnection, int], None]


def ask_timestamp(connection: RawConnection, offset: int) -> None:
    """The offset of the record that is `offset` ms younger than the first, which is its number."""
    body = struct.pack(">ii", -1, 1) + string(TOPIC) + struct.pack(">iiq", 1, 0, START_MS + offset)
    connection.send_frame(header_v1(LIST_OFFSETS, 1, 1) + body)
    error, timestamp, found = struct.unpack_from(">hqq", connection.read_frame()[-18:])
    assert (error, timestamp, found) == (0, START_MS + offset, offset), (error, timestamp, found, offset)


def fetch_at(connection: RawConnection, offset: int) -> None:
    """Some batches from an offset on."""
    head = struct.pack(">iiiibi", -1, 0, 1, FETCH_BYTES, 0, 1)
    partition = struct.pack(">iiqi", 1, 0, offset, FETCH_BYTES)
    connection.send_frame(header_v1(FETCH, 4, 1) + head + string(TOPIC) + partition)
    answer = connection.read_frame()
    at = 4 + 4 + 4 + 2 + len(TOPIC) + 4
    _, error, _, _, aborted, size = struct.unpack_from(">ihqqii", answer, at)
    assert (error, aborted) == (0, -1) or aborted == 0, error
    assert size > 0, (offset, len(answer))
    assert struct.unpack_from(">q", answer, at + 30) == (offset,)


LOOKUPS: dict[str, Ask] = {
    "by timestamp (ListOffsets)": ask_timestamp,
    "by offset (Fetch of 16 KiB)": fetch_at,
}


def prepared(factory: Factory, place: Path, log: Path) -> Broker:
    """A broker that has the log, recovered and stopped in order and started again."""
    broker = factory(place).start()
    create_topic(broker, 1)
    broker.stop()
    for path in log.iterdir():
        shutil.copy(path, broker.data_dir / f"{TOPIC}-0")
    make_unclean(broker.data_dir)
    broker.start()
    broker.stop()
    return broker.start()


def asked(connection: RawConnection, ask: Ask, offsets: Sequence[int]) -> list[float]:
    """Microseconds that each answer takes."""
    found = []
    for offset in offsets:
        start = time.perf_counter()
        ask(connection, offset)
        found.append((time.perf_counter() - start) * 1e6)
    return found


def report(brokers: dict[str, Factory], shape: LogShape, rounds: int, directory: str | None) -> None:
    rng = random.Random(1)
    with contextlib.ExitStack() as stack:

        def place(name: str) -> Path:
            return Path(
                stack.enter_context(tempfile.TemporaryDirectory(dir=directory, prefix=f"bench-{name}-"))
            )

        log = place("log")
        end = write_log(log, shape)
        print(
            f"{len(list(log.iterdir()))} segments, {shape.size / MIB:.0f} MiB, {end} batches; "
            "microseconds, median and p99"
        )
        running: dict[str, RawConnection] = {}
        for name, factory in brokers.items():
            broker = prepared(factory, place("lookup"), log)
            stack.callback(broker.kill)
            running[name] = stack.enter_context(RawConnection(broker.bootstrap, LIMIT_S))
        for what, ask in LOOKUPS.items():
            for connection in running.values():
                asked(connection, ask, [rng.randrange(end) for _ in range(WARM_UP_REQUESTS)])
            found: dict[str, list[float]] = {name: [] for name in running}
            for _ in range(rounds):
                offsets = [rng.randrange(end) for _ in range(REQUESTS)]
                for name, connection in running.items():
                    found[name] += asked(connection, ask, offsets)
            for name, samples in found.items():
                p99 = statistics.quantiles(samples, n=100)[98]
                print(f"  {what:<30}{name:<22}{statistics.median(samples):>8.0f}{p99:>8.0f}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_lookup", description=__doc__)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--segment-size", type=int, default=8, help="MiB")
    parser.add_argument("--batch-bytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")
    options = parser.parse_args(argv)
    segment_bytes = options.segment_size * MIB
    shape = LogShape(options.segments * segment_bytes, options.batch_bytes, segment_bytes=segment_bytes)
    report(factories(with_kafka=not options.no_kafka), shape, options.rounds, options.directory)


if __name__ == "__main__":
    main()
