"""`barnabas pipeline scan`: read log directories without a broker: count records, show them, or write a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.pipeline.commands.common import KeyValue, failures, print_rows, spark_options, spark_session
from barnabas.pipeline.commands.options import directories_argument
from barnabas.pipeline.commands.progress import spark_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTED: Final = "topic,partition,offset,timestamp"
"""The columns that counts are made of."""


@click.command(short_help="Read log directories without a broker: count, show, or write a table.")
@directories_argument
@click.option(
    "--topic", "topics", multiple=True, help="A topic; may be repeated. Default: all but internal ones."
)
@click.option("--topic-pattern", help="All topics that this regular expression matches, instead.")
@click.option("--starting-offsets", help='earliest, or JSON: {"orders": {"0": 23}}.')
@click.option("--ending-offsets", help="latest, or JSON: exclusive.")
@click.option(
    "--since",
    metavar="TIME",
    help="From the first record on that is at least as young (ISO 8601; UTC where it does not say).",
)
@click.option("--until", metavar="TIME", help="Up to the first record that is as young as this.")
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_committed",
    show_default=True,
    help="Which records of transactions are read.",
)
@click.option(
    "--where",
    metavar="SQL",
    help='Only rows that match this condition: "offset % 2 = 0 and key is not null".',
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Show at most this many records, as lines of JSON, and no counts.",
)
@click.option(
    "--table", metavar="DIR", help="Write the records to this table (Parquet), which must not exist yet."
)
@click.option("--no-headers", is_flag=True, help="Leave headers out, which makes it faster.")
@click.option("--allow-data-loss", is_flag=True, help="Continue where offsets are gone, instead of failing.")
@click.option(
    "--option",
    "others",
    type=KeyValue(),
    multiple=True,
    metavar="KEY=VALUE",
    help="Another option of the source: rangeBytes, minPartitions, checkCrcs, timestampDisorder.",
)
@spark_options
def scan(
    *,
    directories: tuple[str, ...],
    where: str | None,
    limit: int | None,
    table: str | None,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    **given: Any,
) -> None:
    """Read the records in DIR (entries of log.dirs, or directories of partitions), of a broker at work or copied.

    Without --limit and --table it says for each partition how many records there are, from which to which offset, and
    from when to when. Segments are read by many tasks, and only those that offsets and times ask for.

    \b
    barnabas pipeline scan /var/lib/kafka --topic orders --since 2026-01-31T12:00 --until 2026-01-31T13:00
    barnabas pipeline scan /var/lib/kafka --topic orders --limit 10 --where "cast(key as string) = 'k7'"
    barnabas pipeline scan /var/lib/kafka --topic orders --table /srv/orders

    \b
    Exit codes:
      0  done
      1  it failed
      2  the command line is wrong, or Spark or Java is missing
    """
    if limit is not None and table is not None:
        raise click.UsageError("--limit shows records and --table writes them: one of the two")
    for time, offsets in (("since", "starting_offsets"), ("until", "ending_offsets")):
        if given[time] is not None and given[offsets] is not None:
            option = f"--{offsets.replace('_', '-')}"
            raise click.UsageError(f"--{time} and {option} exclude each other")
    with failures():
        is_counted = limit is None and table is None and where is None
        options = source_options(existing(directories), is_counted=is_counted, **given)
        with spark_session("barnabas scan", master, conf) as spark:
            rows = records(spark, options, where)
            if limit is not None:
                show(rows.limit(limit))
                return
            with spark_tasks(spark):
                if table is not None:
                    rows.write.parquet(table)
                    click.echo(f"table  {table}")
                    return
                counts = _counts(rows)
    _print_counts(counts)


def existing(directories: Iterable[str]) -> list[str]:
    """Their absolute paths, each once. ValueError where one is not a directory."""
    from barnabas.pipeline.log_reading.directories import absolute_path

    paths = list(dict.fromkeys(map(absolute_path, directories)))
    for path in paths:
        if not os.path.isdir(path):
            raise ValueError(f"{path} is not a directory")
    return paths


def source_options(
    directories: Sequence[str],
    *,
    topics: tuple[str, ...],
    topic_pattern: str | None,
    starting_offsets: str | None,
    ending_offsets: str | None,
    since: str | None,
    until: str | None,
    isolation: str,
    no_headers: bool,
    allow_data_loss: bool,
    others: tuple[tuple[str, str], ...],
    is_counted: bool,
) -> dict[str, str]:
    """The options of the source (`pipeline.spark.options`), which are checked at once. Raises ValueError.

    `is_counted`: neither keys nor values nor headers are read.
    """
    from barnabas.pipeline.spark.options import parse_options

    wanted = {
        "paths": json.dumps(list(directories)),
        "subscribe": ",".join(topics),
        "subscribePattern": topic_pattern,
        "startingOffsets": starting_offsets,
        "endingOffsets": ending_offsets,
        "startingTimestamp": None if since is None else str(milliseconds(since)),
        "endingTimestamp": None if until is None else str(milliseconds(until)),
        "startingOffsetsByTimestampStrategy": None if since is None else "latest",
        "isolationLevel": isolation,
        "columns": COUNTED if is_counted else None,
        "includeHeaders": None if is_counted else str(not no_headers).lower(),
        "failOnDataLoss": str(not allow_data_loss).lower(),
    }
    options = {name: value for name, value in wanted.items() if value} | dict(others)
    parse_options(options)
    return options


def milliseconds(time: str) -> int:
    """Since 1970, of a time in ISO 8601. Raises ValueError."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        raise ValueError(f"{time!r} is not a time such as 2026-01-31T12:00:00Z") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def records(spark: SparkSession, options: dict[str, str], where: str | None) -> DataFrame:
    """The rows that are asked for."""
    reader = spark.read.format("barnabas")
    for name, value in options.items():
        reader = reader.option(name, value)
    rows = reader.load()
    return rows if where is None else rows.where(where)


def show(rows: DataFrame) -> None:
    """Lines of JSON; bytes that are not text are shown in hexadecimal."""
    times = {name: rows[name].cast("string") for name, kind in rows.dtypes if kind == "timestamp"}
    for row in rows.withColumns(times).toLocalIterator():
        found = {name: _plain(value) for name, value in row.asDict(recursive=True).items()}
        click.echo(json.dumps(found, ensure_ascii=False))


def _plain(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return f"0x{bytes(value).hex()}"
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
    return value


def _counts(rows: DataFrame) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    found = rows.groupBy("topic", "partition").agg(
        F.count("*").alias("records"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.min("timestamp").cast("string").alias("since"),
        F.max("timestamp").cast("string").alias("until"),
    )
    return sorted(found.collect(), key=lambda row: (row.topic, row.partition))


def _print_counts(counts: list[Any]) -> None:
    click.echo(f"{'TOPIC':<30} {'PARTITION':>9} {'RECORDS':>14}  {'OFFSETS':<27} TIMES")
    for row in counts:
        offsets = f"{row['first']} to {row['last']}"
        click.echo(
            f"{row.topic:<30} {row.partition:>9} {row.records:>14,}  {offsets:<27} {row.since} to {row.until}"
        )
    print_rows([("records", f"{sum(row.records for row in counts):,}")])
