"""Spark over a topic: our source in the log directory, against Spark's Kafka connector through the broker.

Apache Kafka holds the topics, and writes the directory that the source reads. One Spark session with two cores reads
the same records both ways in turns, after two rounds that do not count. Both give key, value, partition, offset and
timestamp: once into a sink that drops rows, once into sums and maxima of all of them. What is shown is rows a second by
the clock, and the processor's time of all processes: Spark's JVM, its Python workers, and the broker where it takes
part. The largest records are also read from larger topics, where the fixed costs of a query weigh less.

Then an hour of a topic that covers a week: the number of segments opened to read records, and of bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.pipeline.session import SparkMissingError, session
from bench import accounting, results
from bench.brokers import Broker, cpu_s, factories
from bench.scan_week import Hour, fill_week, hour_ways
from bench.section import Section, Table, number
from bench.spark_loads import CORES, PARTITIONS, SIZES, Load, add_arguments, fill, hasten, loads_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("key", "value", "partition", "offset", "timestamp")
SOURCE, CONNECTOR = "source", "connector"


class Measured(NamedTuple):
    """One run: elapsed time, and processor time for a million rows."""

    rows_per_s: float
    spark_cpu_s: float
    broker_cpu_s: float


Samples = dict[tuple[Load, str, str], list[Measured]]
"""By what was read, what became of it, and the way."""


# -- measurement --


def by_source(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """From the log directory."""
    reader = spark.read.format("barnabas").option("path", str(broker.data_dir))
    return reader.option("subscribe", topic).option("columns", ",".join(COLUMNS)).load()


def by_connector(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """Through the broker."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).load().select(*COLUMNS)


def drop(rows: DataFrame) -> int | None:
    """Writes all rows to Spark's sink that drops them."""
    rows.write.format("noop").mode("overwrite").save()
    return None


def aggregate(rows: DataFrame) -> int | None:
    """Aggregates each column, so that no source can skip one."""
    found = rows.selectExpr(
        "count(*)",
        "sum(length(key))",
        "sum(length(value))",
        "max(partition)",
        "max(offset)",
        "max(timestamp)",
    ).first()
    assert found is not None
    return int(found[0])


WAYS: Mapping[str, Callable[[SparkSession, Broker, str], DataFrame]] = {
    SOURCE: by_source,
    CONNECTOR: by_connector,
}
ACTIONS: Mapping[str, Callable[[DataFrame], int | None]] = {"rows dropped": drop, "rows summed up": aggregate}


def timed(spark: SparkSession, broker: Broker, load: Load, action: str, way: str) -> Measured:
    """One run, planning included. This process is the parent of all: of Spark's, and of the broker."""
    everybody, brokers, start = accounting.cpu_s(os.getpid()), cpu_s(broker), time.perf_counter()
    found = ACTIONS[action](WAYS[way](spark, broker, load.topic))
    seconds = time.perf_counter() - start
    assert found in (None, load.records), (found, load)
    of_broker = cpu_s(broker) - brokers
    of_spark = accounting.cpu_s(os.getpid()) - everybody - of_broker
    millions = load.records / 1e6
    return Measured(load.records / seconds, of_spark / millions, of_broker / millions)


def measure(spark: SparkSession, broker: Broker, loads: Sequence[Load], rounds: range) -> Samples:
    """Measures all ways in turns; rounds before 1 do not count."""
    samples: Samples = {}
    for load in loads:
        fill(broker, load)
        for turn in rounds:
            for action in ACTIONS:
                for way in list(WAYS)[:: 1 if turn % 2 else -1]:
                    found = timed(spark, broker, load, action, way)
                    if turn > 0:
                        samples.setdefault((load, action, way), []).append(found)
    return samples


# -- report --


def throughput(samples: Samples, loads: Sequence[Load]) -> Table:
    """The table of rows a second and processor time."""
    rows = []
    for load in loads:
        for action in ACTIONS:
            source, connector = (_middle(samples[load, action, way]) for way in (SOURCE, CONNECTOR))
            rows.append(
                [
                    f"{load}: {action}",
                    number(source.rows_per_s),
                    number(connector.rows_per_s),
                    f"{source.rows_per_s / connector.rows_per_s:.1f} x",
                    number(source.spark_cpu_s),
                    f"{number(connector.spark_cpu_s)} + {number(connector.broker_cpu_s)}",
                ]
            )
    heads = [
        "records",
        "source, rows/s",
        "connector, rows/s",
        "",
        "source, CPU s per million rows",
        "connector, CPU s per million rows + the broker's",
    ]
    return Table(heads, rows, title="All records")


def _middle(found: Sequence[Measured]) -> Measured:
    return Measured(*(statistics.median(column) for column in zip(*found, strict=True)))


def an_hour(hours: Mapping[str, Hour]) -> Table:
    """The table of reads for an hour of a week."""
    rows = [
        [
            name,
            number(it.rows, 0),
            number(it.seconds),
            *(
                ("-", "-")
                if it.touched is None
                else (
                    f"{it.touched.segments} of {it.touched.all_segments}",
                    f"{number(it.touched.read_bytes / 2**20)} of {number(it.touched.all_bytes / 2**20)} MiB",
                )
            ),
        ]
        for name, it in hours.items()
    ]
    return Table(["", "rows", "s", "segments read", "bytes read"], rows, title="An hour of a week, counted")


def report(
    samples: Samples, hours: Mapping[str, Hour], loads: Sequence[Load], broker: str, rounds: range
) -> Section:
    """The section of the document."""
    figures = {
        f"{load}, {action}, {way} rows/s": _middle(found).rows_per_s
        for (load, action, way), found in samples.items()
    }
    return Section(
        name="scan",
        title="Spark reads a log directory",
        prose=[
            f"Records in {PARTITIONS} partitions of {broker}, on two ways into one Spark session with {CORES} cores: "
            "the source `barnabas` in the log directory, and Spark's Kafka connector through the broker. Both give "
            f"key, value, partition, offset and timestamp. Medians of {rounds[-1]} rounds, in turns, after "
            f"{1 - rounds[0]} that do not count.",
            "A task of the connector that reads to the end of a log takes half a second (`fetch.max.wait.ms`) more "
            "than its records do: it asks where the log ends, behind a fetch that waits there for more. So the more "
            "there is to read, the more rows the connector has in a second.",
            "The connector's share of the broker is the broker's own processor time; the source asks no broker. Bytes "
            "read are those of `.log` files and indexes, planning included.",
        ],
        tables=[throughput(samples, loads), an_hour(hours)],
        figures=figures,
    )


def run(options: argparse.Namespace) -> Section:
    """Measures everything, with one broker and one session."""
    broker_name, factory = list(factories(with_kafka=not options.no_kafka).items())[-1]
    loads = [*loads_of(options), *larger_loads(options)]
    rounds = range(1 - options.warm_ups, options.rounds + 1)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-scan-"))
        broker = factory(Path(place)).start()
        stack.callback(broker.kill)
        spark = session("bench", master=f"local[{CORES}]", connector=True)
        stack.callback(spark.stop)
        samples = measure(spark, broker, loads, rounds)
        fill_week(broker, options.week_records)
        for _ in range(2):  # the first time does not count
            hours = {name: ask(spark, broker) for name, ask in hour_ways().items()}
        return report(samples, hours, loads, broker_name, rounds)


def larger_loads(options: argparse.Namespace) -> list[Load]:
    """The largest records once more, in topics so many times as large."""
    loads = loads_of(options) if options.larger > 1 else []
    return [it._replace(records=it.records * options.larger) for it in loads if it.size == max(SIZES)]


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    add_arguments(parser, mib=1000, records=5_000_000)
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds that do not count, first")
    parser.add_argument("--larger", type=int, default=4, metavar="TIMES", help="the larger topics; 0: none")
    parser.add_argument("--week-records", type=int, default=1_000_000, help="of 1 KiB, in the week")
    options = parser.parse_args(argv)
    hasten(options)
    if options.quick:
        options.week_records, options.warm_ups, options.larger = 20_000, 0, 0
    try:
        section = run(options)
    except SparkMissingError as error:
        raise SystemExit(str(error)) from None
    results.publish(section, options)


if __name__ == "__main__":
    main()
