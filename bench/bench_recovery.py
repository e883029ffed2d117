"""Recovery of a large log and opening of many, beside Apache Kafka on the very same directories.

The directories are made once, by the broker that is measured first; then every broker starts on them in turns. What a
recovery leaves (indexes, snapshots, recovery points) is removed before the next, and the logs are in the page cache.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import Broker, Factory, factories, rss_mib
from bench.logs_on_disk import GIB, MIB, LogShape, loading_seconds, make_unclean, spoil_indexes, write_log
from bench.startup import wait_for_metadata
from tests.support.apache_kafka import ApacheKafka

TOPIC = "bench"
LIMIT_S = 120.0
SHAPES = {
    "16 KiB batches": (16 * 1024, 0),
    "16 KiB batches, 3 idempotent producers": (16 * 1024, 3),
    "1 KiB batches": (1024, 0),
    "1 KiB batches, 3 idempotent producers": (1024, 3),
}


def create_topic(broker: Broker, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for first in range(0, partitions, 1000):
        topic = NewTopic(f"{TOPIC}{first // 1000 or ''}", min(1000, partitions - first), 1)
        admin.create_topics([topic], request_timeout=LIMIT_S)[topic.topic].result(LIMIT_S)


def started(broker: Broker) -> tuple[float, float]:
    """Starts it; seconds from the spawn to the first answer, and those that it says it loaded logs for."""
    if isinstance(broker, ApacheKafka):
        broker.prepare()
    begin = time.perf_counter()
    broker.spawn()
    wait_for_metadata(broker, begin)
    return time.perf_counter() - begin, loading_seconds(broker)


def stopped(broker: Broker) -> float:
    """Stops it in order; how long that took."""
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


def report_recovery(brokers: dict[str, Factory], size: int, rounds: int, directory: str | None) -> None:
    print(f"recovery of {size / GIB:.1f} GiB in one log, from the page cache, median of {rounds}")
    for name, (batch_bytes, producers) in SHAPES.items():
        for broker, factory in brokers.items():
            with tempfile.TemporaryDirectory(dir=directory, prefix="bench-recovery-") as place:
                shape = LogShape(size, batch_bytes, producers)
                seconds, memory = recovery_of(factory, Path(place), shape, rounds)
            print(
                f"  {name:<42}{broker:<22}{size / seconds / 1e9:>6.2f} GB/s  {seconds:>7.2f} s  {memory:>6.0f} MiB",
                flush=True,
            )


def report_opening(brokers: dict[str, Factory], partitions: int, rounds: int, directory: str | None) -> None:
    """Both brokers open directories of their own making, each partition with a segment of 64 KiB."""
    print(
        f"{partitions} partitions after a clean stop: from the spawn to the first answer, loading alone, and the stop"
    )
    for name, factory in brokers.items():
        with (
            tempfile.TemporaryDirectory(dir=directory, prefix="bench-opening-") as place,
            factory(Path(place)) as broker,
        ):
            create_topic(broker, partitions)
            broker.stop()
            for partition in broker.data_dir.glob(f"{TOPIC}*-*"):
                write_log(partition, LogShape(64 * 1024, 4096))
            make_unclean(broker.data_dir)
            crash, crash_loading = started(broker)
            stops, figures = [stopped(broker)], []
            for _ in range(rounds):
                figures.append(started(broker))
                stops.append(stopped(broker))
        ready, loading = (statistics.median(column) for column in zip(*figures, strict=True))
        print(
            f"  {name:<22}{ready:>7.2f} s  {loading:>7.3f} s  {statistics.median(stops[1:]):>7.2f} s"
            f"   (after a crash {crash:.2f} s and {crash_loading:.3f} s, first stop {stops[0]:.2f} s)",
            flush=True,
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_recovery", description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="MiB to recover")
    parser.add_argument("--partitions", type=int, nargs="*", default=[2000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")
    options = parser.parse_args(argv)
    brokers = factories(with_kafka=not options.no_kafka)
    if options.size:
        report_recovery(brokers, options.size * MIB, options.rounds, options.directory)
    for partitions in options.partitions:
        report_opening(brokers, partitions, options.rounds, options.directory)


if __name__ == "__main__":
    main()
