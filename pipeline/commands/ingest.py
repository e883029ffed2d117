"""`barnabas pipeline ingest`: topics become a table."""

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
@table_format_option("Of both tables.")
@click.option(
    "--partition-by",
    type=click.Choice(get_args(PartitionBy)),
    default="day",
    show_default=True,
    help="Of the records' timestamps, in UTC.",
)
@click.option(
    "--quarantine", default="", help="Where records go that are malformed or late. Default: TABLE-quarantine."
)
@click.option(
    "--starting",
    default="earliest",
    show_default=True,
    help="Of a new checkpoint: earliest, latest, a time (ISO 8601), or offsets as JSON.",
)
@click.option(
    "--isolation",
    type=click.Choice(get_args(Isolation)),
    default="read_committed",
    show_default=True,
    help="Of transactions.",
)
@click.option(
    "--allow-data-loss",
    "fail_on_data_loss",
    is_flag=True,
    callback=negated,
    help="Go on where offsets are gone that were not read yet, instead of failing.",
)
@click.option(
    "--max-offsets-per-batch",
    "max_offsets_per_trigger",
    type=int,
    help="Records of a batch, over all partitions, at most.",
)
@click.option("--min-partitions", type=int, help="Spark's tasks for a batch, at least.")
@click.option("--value-format", type=click.Choice(FORMATS), help="Decode values into a column data.")
@click.option(
    "--schema-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The schema: .json, .avsc, or a compiled .desc.",
)
@click.option("--registry", default="", metavar="URL", help="A schema registry: values have its wire format.")
@click.option("--subject", default="", help="Of the registry. Default: TOPIC-value.")
@click.option("--message", default="", help="The full name of the Protobuf message.")
@click.option(
    "--drop-value",
    "keep_value",
    is_flag=True,
    callback=negated,
    help="Keep only what was decoded, and not the bytes.",
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

    What is in the table and what is read next is kept in the checkpoint, so that a run that was killed at any point is
    gone on with by the same line. Records that cannot be decoded, or are late, go to the quarantine with the reason.

    \b
    barnabas pipeline ingest --topic orders --table /srv/orders --checkpoint /srv/orders.checkpoint
    barnabas pipeline ingest --topic orders --table /srv/orders --checkpoint /srv/c --table-format delta \\
        --value-format json --schema-file order.schema.json --trigger continuous --metrics-port 9108

    \b
    Exit codes:
      0  done, or ended by Ctrl-C
      1  a batch failed: what was committed stays, and the next run goes on from there
      2  the command line is wrong, or Spark, Java or a jar is missing
    """
    with failures():
        options = options_of(given)
        is_delta = options.table_format == "delta"
        with spark_session("barnabas ingest", master, conf, connector=True, table=is_delta) as spark:
            from barnabas.pipeline.ingest.job import ingest as run

            try:
                summary = run(spark, options, on_progress=tell)
            except KeyboardInterrupt:
                click.echo("stopped")
                return
    reasons = ((f"quarantined: {reason}", f"{count:,}") for reason, count in sorted(summary.reasons.items()))
    print_rows([("records", f"{summary.rows:,}"), ("batches", f"{summary.batches:,}"), *reasons])


def options_of(given: dict[str, Any]) -> IngestOptions:
    """From the command line; ValueError where they do not go together."""
    decoding = {
        name: given.pop(name) for name in ("value_format", "schema_file", "registry", "subject", "message")
    }
    decode = DecodeOptions(**decoding) if any(decoding.values()) else None
    given["kafka"] = dict(given["kafka"])
    return IngestOptions(**given, decode=decode)


def tell(batch: BatchProgress) -> None:
    """A line for each batch that had something in it."""
    if batch.rows:
        behind = sum(batch.lag.values())
        click.echo(
            f"batch {batch.batch_id}: {batch.rows:,} records in {batch.duration_s:.1f} s, {behind:,} behind",
            err=True,
        )
