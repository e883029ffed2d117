"""Ingest through Spark's Kafka connector, from Barnabas and from Apache Kafka: the same records, session and tables.

Both brokers run at once, hold the same records, and are read in turns by one Spark session with two cores, after a
round that does not count. It measures a whole `barnabas pipeline ingest` without the start of Spark (the query, its
checkpoint and its commits), and the connector alone, whose rows are discarded.
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

from barnabas.pipeline.ingest.job import ingest
from barnabas.pipeline.ingest.options import IngestOptions
from barnabas.pipeline.session import SparkMissingError, session
from bench import results
from bench.brokers import Broker, Factory, cpu_s, factories
from bench.section import Section, Table, number
from bench.spark_loads import CORES, PARTITIONS, Load, add_arguments, fill, hasten, loads_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Measured(NamedTuple):
    """One run."""

    rows_per_s: float
    broker_cpu_s: float


Samples = dict[tuple[str, str, str], list[Measured]]
"""By what is read with what, and of whom."""


def by_connector(spark: SparkSession, broker: Broker, load: Load, _: Path) -> int:
    """Runs the connector alone, and counts the rows."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    counted = Observation()
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    rows = reader.option("subscribe", load.topic).option("includeHeaders", "true").load()
    rows.observe(counted, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(counted.get["rows"])


def ingested(spark: SparkSession, broker: Broker, load: Load, directory: Path) -> int:
    """Ingests into a new Parquet table."""
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
    """Measures all ways in turns."""
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
    """The section of the document."""
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
    add_arguments(parser, mib=400, records=1_000_000)
    options = parser.parse_args(argv)
    hasten(options)
    loads = loads_of(options)
    try:
        samples = measure(factories(with_kafka=not options.no_kafka), loads, options)
    except SparkMissingError as error:
        raise SystemExit(str(error)) from None
    results.publish(report(samples, loads, options), options)


if __name__ == "__main__":
    main()
