"""`barnabas pipeline ingest`: read topics into a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from barnabas.pipeline.commands.common import KeyValue, failures, print_rows, spark_options, spark_session
from barnabas.pipeline.commands.options import (
    bootstrap_option,
    every_option,
    table_format_option,
    trigger_option,
)
from barnabas.pipeline.decoding.spec import FORMATS
from barnabas.pipeline.ingest.options import (
    DecodeOptions,
    IngestOptions,
    Isolation,
    PartitionBy,
)

if TYPE_CHECKING:
    from barnabas.pipeline.ingest.progress import BatchProgress


def negated(_context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    """The value of an option that a flag turns off."""
    return not value


@click.command(short_help="Topics to a table, incrementally, each record once.")
@bootstrap_option
@click.option("--topic", "topics", multiple=True, help="A topic; may be repeated.")
@click.option(
    "--topic-pattern", default="", help="All topics that this regular expression (Java's) matches, instead."
)
@click.option("--table", required=True, help="Where the table is, or is to be: a path or a URI.")
@click.option(
    "--checkpoint", required=True, help="Where the progress is kept: a directory of this ingest alone."
)
@table_format_option("The format of both tables.")
@click.option(
    "--partition-by",
    type=click.Choice(get_args(PartitionBy)),
    default="day",
    show_default=True,
    help="Partition the tables by the records' timestamps, in UTC.",
)
@click.option(
    "--quarantine", default="", help="Where records go that are malformed or late. Default: TABLE-quarantine."
)
@click.option(
    "--starting",
    default="earliest",
    show_default=True,
    help="Where a new checkpoint starts: earliest, latest, a time (ISO 8601), or offsets as JSON.",
)
@click.option(
    "--isolation",
    type=click.Choice(get_args(Isolation)),
    default="read_committed",
    show_default=True,
    help="Which records of transactions are read.",
)
@click.option(
    "--allow-data-loss",
    "fail_on_data_loss",
    is_flag=True,
    callback=negated,
    help="Continue where offsets were deleted before they were read, instead of failing.",
)
@click.option(
    "--max-offsets-per-batch",
    "max_offsets_per_trigger",
    type=int,
    help="The most records of a batch, over all partitions.",
)
@click.option("--min-partitions", type=int, help="The least number of Spark tasks for a batch.")
@click.option("--value-format", type=click.Choice(FORMATS), help="Decode values into a column data.")
@click.option(
    "--schema-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The schema: .json, .avsc, or a compiled .desc.",
)
@click.option("--registry", default="", metavar="URL", help="A schema registry: values have its wire format.")
@click.option("--subject", default="", help="The subject in the registry. Default: TOPIC-value.")
@click.option("--message", default="", help="The full name of the Protobuf message.")
@click.option(
    "--drop-value",
    "keep_value",
    is_flag=True,
    callback=negated,
    help="Keep only the decoded columns, and not the bytes.",
)
@click.option(
    "--late-after",
    "late_after_s",
    type=float,
    metavar="SECONDS",
    help="Records that are older than the newest before this batch by more are late.",
)
@trigger_option
@every_option
@click.option("--metrics-port", type=int, help="Progress and lag for Prometheus, on this port.")
@click.option(
    "--second-ingest", is_flag=True, help="Let a new checkpoint write into a table that another has filled."
)
@click.option(
    "--kafka",
    type=KeyValue(),
    multiple=True,
    metavar="KEY=VALUE",
    help="Options of Spark's connector; kafka.KEY for Kafka's own.",
)
@spark_options
def ingest(master: str | None, conf: tuple[tuple[str, str], ...], **given: Any) -> None:
    """Read what is new in topics into a table (Parquet or Delta), each record exactly once.

    The checkpoint has what is in the table and what is read next, so that the same command line resumes a run that was
    killed at any point. Records that cannot be decoded, or are late, go to the quarantine with the reason.

    \b
    barnabas pipeline ingest --topic orders --table /srv/orders --checkpoint /srv/orders.checkpoint
    barnabas pipeline ingest --topic orders --table /srv/orders --checkpoint /srv/c --table-format delta \\
        --value-format json --schema-file order.schema.json --trigger continuous --metrics-port 9108

    \b
    Exit codes:
      0  done, or ended by Ctrl-C
      1  a batch failed: what was committed stays, and the next run continues from there
      2  the command line is wrong, or Spark, Java or a jar is missing
    """
    with failures():
        options = options_of(given)
        is_delta = options.table_format == "delta"
        with spark_session("barnabas ingest", master, conf, connector=True, table=is_delta) as spark:
            from barnabas.pipeline.ingest.job import ingest as run

            try:
                summary = run(spark, options, on_progress=print_progress)
            except KeyboardInterrupt:
                click.echo("stopped")
                return
    reasons = ((f"quarantined: {reason}", f"{count:,}") for reason, count in sorted(summary.reasons.items()))
    print_rows([("records", f"{summary.rows:,}"), ("batches", f"{summary.batches:,}"), *reasons])


def options_of(given: dict[str, Any]) -> IngestOptions:
    """The options of the command line; ValueError where they contradict each other."""
    decoding = {
        name: given.pop(name) for name in ("value_format", "schema_file", "registry", "subject", "message")
    }
    decode = DecodeOptions(**decoding) if any(decoding.values()) else None
    given["kafka"] = dict(given["kafka"])
    return IngestOptions(**given, decode=decode)


def print_progress(batch: BatchProgress) -> None:
    """Prints a line for each batch that is not empty."""
    if batch.rows:
        behind = sum(batch.lag.values())
        click.echo(
            f"batch {batch.batch_id}: {batch.rows:,} records in {batch.duration_s:.1f} s, {behind:,} behind",
            err=True,
        )
