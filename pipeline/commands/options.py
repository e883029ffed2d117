"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

import click

from barnabas.pipeline.commands.common import Command
from barnabas.pipeline.ingest.options import TableFormat, Trigger

bootstrap_option: Final = click.option(
    "--bootstrap-server",
    "bootstrap",
    default="localhost:9092",
    show_default=True,
    envvar="BARNABAS_BOOTSTRAP_SERVER",
    metavar="HOST:PORT,...",
    help="The brokers.",
)
trigger_option: Final = click.option(
    "--trigger",
    type=click.Choice(get_args(Trigger)),
    default="available-now",
    show_default=True,
    help="Once, in bounded batches up to now, or continuously.",
)
every_option: Final = click.option(
    "--every",
    "every_s",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="The interval between batches of --trigger continuous.",
)
directories_argument: Final = click.argument("directories", nargs=-1, required=True, metavar="DIR...")
tables_option: Final = click.option(
    "--tables",
    metavar="DIR",
    help="Add rows to the tables findings, segments and partitions there (Parquet).",
)
here_option: Final = click.option("--here", is_flag=True, help="Without Spark, one segment after the other.")


def table_format_option(text: str) -> Callable[[Command], Command]:
    """--table-format; of which table the text says."""
    return click.option(
        "--table-format",
        type=click.Choice(get_args(TableFormat)),
        default="parquet",
        show_default=True,
        help=text,
    )


def report_option(default: str) -> Callable[[Command], Command]:
    """--report, with the name of the file that is written where none is given."""
    return click.option(
        "--report",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path(default),
        show_default=True,
        help="The report: one HTML file.",
    )
