"""The common part of the commands: Spark's options, failures, aligned output."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from barnabas.pipeline.session import EXIT_USAGE, SparkMissingError, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FAILED: Final = 1
WITH_SPARK: Final = "which pip install 'barnabas[spark]' brings"
_OURS: Final = "barnabas"

Command = Callable[..., None]

_TRACEBACK: Final = "Traceback (most recent call last)"
_RAISED: Final = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): (.+)$", re.MULTILINE)


class KeyValue(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in some of click's versions
    """KEY=VALUE."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, rest = str(value).partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, rest


def spark_options(command: Command) -> Command:
    """--master and --conf, as spark-submit has them."""
    for option in (
        click.option(
            "--conf",
            type=KeyValue(),
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark's; may be repeated.",
        ),
        click.option("--master", help="Spark's master. Default: local[*], or what spark-submit says."),
    ):
        command = option(command)
    return command


@contextmanager
def spark_session(
    name: str,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    *,
    connector: bool = False,
    table: bool = False,
) -> Iterator[SparkSession]:
    """A session for the block. A missing requirement ends the command with a message and code 2."""
    try:
        check()
        from barnabas.pipeline.session import session

        with spinner("starting Spark"):
            spark = session(name, master=master, conf=dict(conf), connector=connector, table=table)
    except SparkMissingError as error:
        fail(str(error), EXIT_USAGE)
    spark.sparkContext.setLogLevel("ERROR")  # failures are raised, and reported by `failures`
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def failures() -> Iterator[None]:
    """Ends the command with a message for errors of files, options and Spark itself."""
    try:
        yield
    except ValueError as error:
        fail(str(error), EXIT_USAGE)
    except OSError as error:
        fail(str(error), EXIT_FAILED)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == _OURS:
            raise
        fail(f"this needs {missing}, {WITH_SPARK}", EXIT_USAGE)
    except Exception as error:
        if not is_of_spark(error):
            raise
        fail(_first_lines(error), EXIT_FAILED)


def is_of_spark(error: Exception) -> bool:
    """Whether Spark raised it; judged by the module name, since Spark may not be imported here."""
    return type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}


def _first_lines(error: Exception, limit: int = 12) -> str:
    """Spark's message without the Java stack; for a Python error in a task the message of that error."""
    raised = _RAISED.findall(str(error).partition(_TRACEBACK)[2])
    if raised:
        return str(raised[-1])
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\tat ")]
    return "\n".join(lines[:limit])


def fail(message: str, code: int) -> NoReturn:
    """Prints an error and ends the command."""
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Shows a spinner on a terminal during the block."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def print_rows(rows: list[tuple[str, str]]) -> None:
    """Names to the left, values to the right."""
    names, values = (max(len(row[at]) for row in rows) for at in (0, 1))
    for name, value in rows:
        click.echo(f"{name:<{names}}  {value:>{values}}")
