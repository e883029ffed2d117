"""`barnabas pipeline export`: write a table to a topic."""

from __future__ import annotations

from typing import Any, get_args

import click

from barnabas.pipeline.commands.common import KeyValue, failures, print_rows, spark_options, spark_session
from barnabas.pipeline.commands.ingest import print_progress
from barnabas.pipeline.commands.options import (
    bootstrap_option,
    every_option,
    table_format_option,
    trigger_option,
)
from barnabas.pipeline.export.options import MAX_FILES, Delivery, ExportOptions


@click.command(short_help="A table to a topic, incrementally.")
@bootstrap_option
@click.option("--table", required=True, help="The table: a path or a URI.")
@table_format_option("The format of the table.")
@click.option(
    "--checkpoint", required=True, help="Where the progress is kept: a directory of this export alone."
)
@click.option("--topic", default="", help="The topic. Default: the one that each row names.")
@click.option(
    "--delivery",
    type=click.Choice(get_args(Delivery)),
    default="at-least-once",
    show_default=True,
    help="Exactly once: in transactions, to one topic.",
)
@click.option("--keep-partitions", is_flag=True, help="Send each record to the partition that its row names.")
@trigger_option
@every_option
@click.option(
    "--max-files",
    type=int,
    help=f"The most files of the table in a batch. Default: {MAX_FILES}, or all of them with --trigger once.",
)
@click.option("--metrics-port", type=int, help="Progress for Prometheus, on this port.")
@click.option(
    "--kafka", type=KeyValue(), multiple=True, metavar="KEY=VALUE", help="Settings of the producers."
)
@spark_options
def export(
    master: str | None, conf: tuple[tuple[str, str], ...], kafka: tuple[tuple[str, str], ...], **given: Any
) -> None:
    """Write the rows of a table that are new since the last run to a topic, with key, value and headers.

    The table has a column value, and may have key, headers, topic, partition and offset, as `ingest` makes them.

    \b
    barnabas pipeline export --table /srv/orders --topic orders-again --checkpoint /srv/orders-again.checkpoint

    \b
    Exit codes:
      0  done, or ended by Ctrl-C
      1  a batch failed: the next run sends it again
      2  the command line is wrong, or Spark, Java or a jar is missing
    """
    with failures():
        options = ExportOptions(**given, kafka=dict(kafka))
        is_delta = options.table_format == "delta"
        with spark_session("barnabas export", master, conf, connector=True, table=is_delta) as spark:
            from barnabas.pipeline.export.job import export as run

            try:
                summary = run(spark, options, on_progress=print_progress)
            except KeyboardInterrupt:
                click.echo("stopped")
                return
    print_rows([("records", f"{summary.rows:,}"), ("batches", f"{summary.batches:,}")])
