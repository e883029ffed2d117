"""Lookups over the wire in a log of 100 segments, beside Apache Kafka on the same files: by timestamp, and by offset.

One connection, one request at a time. Both brokers run at once and are queried in turns, so that other load affects
both alike; unmeasured requests come first, for the broker with a just-in-time compiler. The log is too large for the
caches of the processor and lies in the page cache.
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
from typing import NamedTuple

from bench import results
from bench.bench_recovery import LIMIT_S, TOPIC, create_topic
from bench.brokers import Broker, Factory, factories
from bench.logs_on_disk import MIB, START_MS, LogShape, make_unclean, write_log
from bench.section import Section, Table, number
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
    """Fetches some batches from an offset on."""
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
    "ListOffsets by timestamp": ask_timestamp,
    "Fetch of 16 KiB at a random offset": fetch_at,
}


def prepared(factory: Factory, place: Path, log: Path) -> Broker:
    """A broker that has the log, recovered, stopped cleanly and started again."""
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
    """Microseconds of each request."""
    found = []
    for offset in offsets:
        start = time.perf_counter()
        ask(connection, offset)
        found.append((time.perf_counter() - start) * 1e6)
    return found


class Found(NamedTuple):
    """The log, and the microseconds of each lookup and broker."""

    segments: int
    batches: int
    samples: dict[str, dict[str, list[float]]]


def measure(brokers: dict[str, Factory], shape: LogShape, options: argparse.Namespace) -> Found:
    """Measures both brokers at once, in turns."""
    rng = random.Random(1)
    with contextlib.ExitStack() as stack:

        def place(name: str) -> Path:
            return Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(dir=options.directory, prefix=f"bench-{name}-")
                )
            )

        log = place("log")
        end = write_log(log, shape)
        running: dict[str, RawConnection] = {}
        for name, factory in brokers.items():
            broker = prepared(factory, place("lookup"), log)
            stack.callback(broker.kill)
            running[name] = stack.enter_context(RawConnection(broker.bootstrap, LIMIT_S))
        found: dict[str, dict[str, list[float]]] = {}
        for what, ask in LOOKUPS.items():
            for connection in running.values():
                asked(connection, ask, [rng.randrange(end) for _ in range(options.warm_up)])
            found[what] = {name: [] for name in running}
            for _ in range(options.rounds):
                offsets = [rng.randrange(end) for _ in range(options.requests)]
                for name, connection in running.items():
                    found[what][name] += asked(connection, ask, offsets)
        return Found(len(list(log.iterdir())), end, found)


def report(found: Found) -> Section:
    """The section of the document."""
    figures = {
        f"{what}, {who}": (statistics.median(samples), statistics.quantiles(samples, n=100)[98])
        for what, by_broker in found.samples.items()
        for who, samples in by_broker.items()
    }
    brokers = list(next(iter(found.samples.values())))
    rows = [
        [what, *(", ".join(number(us, 0) for us in figures[f"{what}, {who}"]) for who in brokers)]
        for what in found.samples
    ]
    return Section(
        name="lookup",
        title=f"Lookups in a log of {found.segments} segments, {found.batches:,} batches",
        prose=[
            "One connection, one request at a time, to brokers that run at once and are asked in turns; the "
            "log lies in the "
            "page cache. Median and 99th percentile."
        ],
        tables=[Table(["microseconds", *brokers], rows)],
        figures={what: median for what, (median, _) in figures.items()},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--segment-size", type=int, default=8, help="MiB")
    parser.add_argument("--batch-bytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="in a round")
    parser.add_argument(
        "--warm-up", type=int, default=WARM_UP_REQUESTS, help="requests before the first round"
    )
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")
    options = parser.parse_args(argv)
    if options.quick:
        options.segments, options.rounds, options.requests, options.warm_up = 5, 1, 100, 50
    segment_bytes = options.segment_size * MIB
    shape = LogShape(options.segments * segment_bytes, options.batch_bytes, segment_bytes=segment_bytes)
    results.publish(report(measure(factories(with_kafka=not options.no_kafka), shape, options)), options)


if __name__ == "__main__":
    main()
