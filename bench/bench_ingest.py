"""Ingest through Spark's Kafka connector, from Barnabas and from Apache Kafka: the same records, session and tables.

Both brokers run at once, hold the same records, and are read in turns by one Spark session with two cores, after a
round that does not count. What is measured is a whole `barnabas pipeline ingest` without the start of Spark: the query,
its checkpoint and its commits included; and beside it the connector alone, whose rows go nowhere.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import results
from bench.brokers import Broker, Factory, cpu_s, factories
from bench.results import Section, Table, number
from pipeline.ingest.job import ingest
from pipeline.ingest.options import IngestOptions
from pipeline.session import SparkMissingError, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
PARTITIONS = 4
CODECS = ("none", "lz4", "zstd")
SIZES = (100, 1024)


class Load(NamedTuple):
    """A topic's content."""

    size: int
    codec: str
    records: int

    @property
    def topic(self) -> str:
        """Its name."""
        return f"load-{self.size}-{self.codec}"

    def __str__(self) -> str:
        return f"{self.size} B, {'uncompressed' if self.codec == 'none' else self.codec}"


class Measured(NamedTuple):
    """One run."""

    rows_per_s: float
    broker_cpu_s: float


Samples = dict[tuple[str, str, str], list[Measured]]
"""By what is read with what, and of whom."""


def fill(broker: Broker, load: Load) -> None:
    """Values that compress about as well as JSON does."""
    from tests.pipeline.plain import TopicMaker, produce

    TopicMaker(broker.bootstrap).create(PARTITIONS, name=load.topic)
    for partition in range(PARTITIONS):
        values = (
            (
                f'{{"id": {one}, "user": "user-{one * 7919 % 10007}", "amount": {one % 997}.25, "note": "'.encode()
                * 16
            )[: load.size]
            for one in range(partition, load.records, PARTITIONS)
        )
        produce(
            broker.bootstrap,
            load.topic,
            values,
            partition=partition,
            compression_type=load.codec,
            linger_ms=50,
        )


def by_connector(spark: SparkSession, broker: Broker, load: Load, _: Path) -> int:
    """The connector alone."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    rows = reader.option("subscribe", load.topic).option("includeHeaders", "true").load()
    rows.write.format("noop").mode("overwrite").save()
    return load.records


def ingested(spark: SparkSession, broker: Broker, load: Load, directory: Path) -> int:
    """Into a new Parquet table."""
    options = IngestOptions(
        bootstrap=broker.bootstrap,
        table=str(directory / "table"),
        checkpoint=str(directory / "checkpoint"),
        topics=(load.topic,),
    )
    return ingest(spark, options).rows


Way = Callable[["SparkSession", Broker, Load, Path], int]
WAYS: dict[str, Way] = {"connector alone": by_connector, "ingest to Parquet": ingested}


def timed(spark: SparkSession, way: Way, broker: Broker, load: Load, place: Path | None) -> Measured:
    """One run in a directory of its own."""
    with tempfile.TemporaryDirectory(dir=place, prefix="ingest-") as directory:
        cpu, start = cpu_s(broker), time.perf_counter()
        rows = way(spark, broker, load, Path(directory))
        seconds = time.perf_counter() - start
        assert rows == load.records, (rows, load)
        return Measured(rows / seconds, cpu_s(broker) - cpu)


def measure(brokers: dict[str, Factory], loads: Sequence[Load], options: argparse.Namespace) -> Samples:
    """All ways in turns."""
    samples: Samples = {}
    with contextlib.ExitStack() as stack:
        running: dict[str, Broker] = {}
        for name, factory in brokers.items():
            place = stack.enter_context(
                tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-ingest-")
            )
            running[name] = factory(Path(place)).start()
            stack.callback(running[name].kill)
        spark = session("bench", master=f"local[{CORES}]", connector=True)
        stack.callback(spark.stop)
        for load in loads:
            for broker in running.values():
                fill(broker, load)
            for turn in range(options.rounds + 1):
                for what, way in WAYS.items():
                    names = list(running) if turn % 2 else list(reversed(running))
                    for name in names:
                        found = timed(spark, way, running[name], load, options.directory)
                        if turn:
                            samples.setdefault((str(load), what, name), []).append(found)
    return samples


def report(samples: Samples, loads: Sequence[Load], options: argparse.Namespace) -> Section:
    """As it stands in the document."""
    brokers = list(dict.fromkeys(name for _, _, name in samples))
    middle = {key: statistics.median(one.rows_per_s for one in found) for key, found in samples.items()}
    rows = [
        [
            f"{load}: {what}",
            *(number(middle[str(load), what, name]) for name in brokers),
            *(
                number(statistics.median(one.broker_cpu_s for one in samples[str(load), what, name]))
                for name in brokers
            ),
        ]
        for load in loads
        for what in WAYS
    ]
    return Section(
        name="ingest",
        title="Ingest through Spark's Kafka connector",
        prose=[
            f"{loads[0].records:,} to {loads[-1].records:,} records in {PARTITIONS} partitions, one Spark session with "
            f"{CORES} cores. Both brokers hold the same records and are read in turns; medians of {options.rounds} "
            "rounds after one that does not count. An ingest begins with a new checkpoint and a new table."
        ],
        tables=[
            Table(
                [
                    "records",
                    *(f"{name}, rows/s" for name in brokers),
                    *(f"{name}, broker CPU s" for name in brokers),
                ],
                rows,
            )
        ],
        figures={f"{load}, {what}, {name} rows/s": value for (load, what, name), value in middle.items()},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    parser.add_argument(
        "--mib", type=int, default=400, help="of values in a topic, 1,000,000 records at most"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")
    options = parser.parse_args(argv)
    if options.quick:
        options.mib, options.rounds = 4, 1
    loads = [
        Load(size, codec, min(options.mib * 2**20 // size, 1_000_000)) for size in SIZES for codec in CODECS
    ]
    try:
        samples = measure(factories(with_kafka=not options.no_kafka), loads, options)
    except SparkMissingError as error:
        raise SystemExit(str(error)) from None
    results.publish(report(samples, loads, options), options)


if __name__ == "__main__":
    main()
