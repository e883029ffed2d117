"""`barnabas pipeline demo`: the whole pipeline at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import click

from barnabas.pipeline.commands.common import (
    EXIT_FAILED,
    fail,
    failures,
    print_rows,
    spark_options,
    spark_session,
)
from barnabas.pipeline.ingest.options import TableFormat


@click.command(short_help="Show the whole pipeline: a broker, a stream, tables, queries, a report.")
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--records",
    type=click.IntRange(min=1000),
    default=60_000,
    show_default=True,
    help="The approximate number of records to produce.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the generated data.")
@click.option(
    "--table-format",
    type=click.Choice(get_args(TableFormat)),
    default="parquet",
    show_default=True,
    help="The format of the tables.",
)
@spark_options
def demo(
    *,
    directory: Path | None,
    records: int,
    seed: int,
    table_format: TableFormat,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
) -> None:
    """Start a broker, produce a shop's week to it, ingest that into tables, query them, and draw a report.

    Everything is in DIRECTORY (default: barnabas-demo-<time>, in this one), which must be new or empty: the broker's
    log, the tables, the checkpoints, and report.html. Nothing keeps running afterwards.

    \b
    barnabas pipeline demo
    barnabas pipeline demo /tmp/demo --records 500000 --table-format delta

    \b
    Exit codes:
      0  done, and every record is in the tables exactly once
      1  it failed
      2  the command line is wrong, or Spark, Java or a jar is missing
    """
    where = directory or Path(f"barnabas-demo-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    if where.exists() and any(where.iterdir()):
        raise click.UsageError(f"{where} is not empty: name a directory that is new or empty")
    is_delta = table_format == "delta"
    with failures(), spark_session("barnabas demo", master, conf, connector=True, table=is_delta) as spark:
        from barnabas.pipeline.demo.broker import BrokerNotStartedError
        from barnabas.pipeline.demo.producing import NotDeliveredError
        from barnabas.pipeline.demo.report import page_of
        from barnabas.pipeline.demo.run import Demo
        from barnabas.pipeline.report.page import write

        where.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        try:
            found = Demo(spark, where, table_format, _say(started)).run(
                seed, records, time.time_ns() // 1_000_000
            )
        except (BrokerNotStartedError, NotDeliveredError) as error:
            fail(str(error), EXIT_FAILED)
        report = write(page_of(found), where / "report.html")
    print_rows(
        [
            ("produced", f"{found.produced:,}"),
            ("in quarantine", f"{found.quarantined:,}"),
            ("directory", str(where)),
            ("report", str(report)),
        ]
    )
    if not found.is_complete:
        fail("not every record is in the tables exactly once: see the report", EXIT_FAILED)
    sys.exit(0)


def _say(started: float) -> Callable[[str], None]:
    def say(line: str) -> None:
        click.echo(f"{time.monotonic() - started:6.1f} s  {line}", err=True)

    return say
