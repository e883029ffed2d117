"""Recovery of a large log and opening of many, beside Apache Kafka on the very same directories.

The directories are made once, by the broker that is measured first; then every broker starts on them in turns. The
files of a recovery (indexes, snapshots, recovery points) are removed before the next, and the logs are in the page
cache.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import results
from bench.brokers import Broker, Factory, factories, rss_mib
from bench.logs_on_disk import GIB, MIB, LogShape, loading_seconds, make_unclean, spoil_indexes, write_log
from bench.section import Section, Table, number
from bench.startup import wait_for_metadata
from tests.support.apache_kafka import ApacheKafka

TOPIC = "bench"
LIMIT_S = 120.0
SHAPES = {
    "16 KiB": (16 * 1024, 0),
    "16 KiB, three idempotent producers": (16 * 1024, 3),
    "1 KiB": (1024, 0),
    "1 KiB, three idempotent producers": (1024, 3),
}


def create_topic(broker: Broker, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for first in range(0, partitions, 1000):
        topic = NewTopic(f"{TOPIC}{first // 1000 or ''}", min(1000, partitions - first), 1)
        admin.create_topics([topic], request_timeout=LIMIT_S)[topic.topic].result(LIMIT_S)


def started(broker: Broker) -> tuple[float, float]:
    """Starts a broker; seconds from the spawn to the first response, and those that it reports for loading logs."""
    if isinstance(broker, ApacheKafka):
        broker.prepare()
    begin = time.perf_counter()
    broker.spawn()
    wait_for_metadata(broker, begin)
    return time.perf_counter() - begin, loading_seconds(broker)


def stopped(broker: Broker) -> float:
    """Stops a broker cleanly; returns the seconds."""
    begin = time.perf_counter()
    broker.stop()
    return time.perf_counter() - begin


def recovery_of(factory: Factory, directory: Path, shape: LogShape, rounds: int) -> tuple[float, float]:
    """Median seconds that loading the log takes after a crash, and the most memory in MiB."""
    with factory(directory) as broker:
        create_topic(broker, 1)
        broker.stop()
        data = broker.data_dir
        write_log(data / f"{TOPIC}-0", shape)
        seconds, memory = [], 0.0
        for _ in range(rounds):
            spoil_indexes(data, TOPIC)
            make_unclean(data)
            seconds.append(started(broker)[1])
            memory = max(memory, rss_mib(broker))
            broker.kill()
        return statistics.median(seconds), memory


class Opening(NamedTuple):
    """The seconds of opening a broker with many partitions."""

    ready: float
    loading: float
    after_crash: float
    stop: float


def opening_of(factory: Factory, directory: Path, partitions: int, rounds: int) -> Opening:
    """A directory of the broker's own making, each partition with a segment of 64 KiB."""
    with factory(directory) as broker:
        create_topic(broker, partitions)
        broker.stop()
        for partition in broker.data_dir.glob(f"{TOPIC}*-*"):
            write_log(partition, LogShape(64 * 1024, 4096))
        make_unclean(broker.data_dir)
        after_crash, _ = started(broker)
        stopped(broker)
        figures, stops = [], []
        for _ in range(rounds):
            figures.append(started(broker))
            stops.append(stopped(broker))
    ready, loading = (statistics.median(column) for column in zip(*figures, strict=True))
    return Opening(ready, loading, after_crash, statistics.median(stops))


def recovery_section(brokers: dict[str, Factory], size: int, options: argparse.Namespace) -> Section:
    """Recovery of one large log, in each shape."""
    rows, figures = [], {}
    for name, (batch_bytes, producers) in SHAPES.items():
        cells = [name]
        for broker, factory in brokers.items():
            with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-recovery-") as place:
                shape = LogShape(size, batch_bytes, producers)
                seconds, memory = recovery_of(factory, Path(place), shape, options.rounds)
            figures[f"{name}, {broker}, GB/s"] = size / seconds / 1e9
            cells += [f"{number(size / seconds / 1e9)} GB/s", f"{memory:.0f} MiB"]
        rows.append(cells)
    heads = ["batches", *(head for broker in brokers for head in (broker, "memory"))]
    return Section(
        name="recovery",
        title=f"Recovery of a {size / GIB:g} GiB log that was not stopped in order",
        prose=[
            "One log, from the page cache; the brokers take turns, one at a time. The time is the one that the "
            "broker reports for loading its logs. Memory is that of the whole broker. Each recovery thread has a "
            "piece of 512 KiB, whatever the size of log and batches, and at most two and a half times "
            "`segment.index.bytes` of index entries."
        ],
        tables=[Table(heads, rows)],
        figures=figures,
        options={"rounds": str(options.rounds)},
    )


def opening_section(brokers: dict[str, Factory], partitions: int, options: argparse.Namespace) -> Section:
    """Opening of many small logs."""
    found = {}
    for name, factory in brokers.items():
        with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-opening-") as place:
            found[name] = opening_of(factory, Path(place), partitions, options.rounds)
    lines = {
        "from the start of the process to the first answer, after a clean stop": "ready",
        "of that, loading the logs": "loading",
        "from the start to the first answer, after a crash": "after_crash",
        "the stop": "stop",
    }
    rows = [
        [line, *(f"{number(getattr(one, field))} s" for one in found.values())]
        for line, field in lines.items()
    ]
    return Section(
        name="opening",
        title=f"{partitions:,} partitions opened",
        prose=["Each partition has a segment of 64 KiB. The brokers take turns, one at a time."],
        tables=[Table(["", *found], rows)],
        figures={
            f"{field}, {name}, s": value
            for name, one in found.items()
            for field, value in one._asdict().items()
        },
        options={"rounds": str(options.rounds)},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    parser.add_argument("--size", type=int, default=4096, help="MiB to recover; 0 leaves that out")
    parser.add_argument("--partitions", type=int, default=2000, help="to open; 0 leaves that out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")
    options = parser.parse_args(argv)
    if options.quick:
        options.size, options.partitions, options.rounds = (
            min(options.size, 64),
            min(options.partitions, 50),
            1,
        )
    brokers = factories(with_kafka=not options.no_kafka)
    if options.size:
        results.publish(recovery_section(brokers, options.size * MIB, options), options)
    if options.partitions:
        results.publish(opening_section(brokers, options.partitions, options), options)


if __name__ == "__main__":
    main()
