"""The common part of `audit` and `compact-report`: examine log directories, on Spark or here, and write the results."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from barnabas.pipeline.commands.common import WITH_SPARK, fail, failures, spark_session
from barnabas.pipeline.commands.progress import bytes_read, spark_tasks
from barnabas.pipeline.session import EXIT_USAGE
from barnabas.storage.env import RealEnv
from barnabas.storage.segment.names import LOG_SUFFIX
from barnabas.storage.verify.directory import NotALogDirectoryError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from barnabas.pipeline.audit.audit import AuditResult
    from barnabas.pipeline.audit.engines import Engine
    from barnabas.pipeline.audit.plan import AuditOptions
    from barnabas.pipeline.report.page import Page

NEEDED: Final = ("pyarrow", "jinja2", "matplotlib")
"""The modules for tables and reports, also needed without Spark."""


class Where(NamedTuple):
    """Where an audit is carried out: on Spark with these settings, or `here`, in this process."""

    here: bool
    master: str | None
    conf: tuple[tuple[str, str], ...]


def check(report: Path, tables: str | None, where: Where) -> None:
    """Checks before hours of work that the results can be written. Raises OSError and UsageError."""
    if where.here and (where.master or where.conf):
        raise click.UsageError("--here is without Spark, and --master and --conf are for Spark")
    if where.here and tables is not None and "://" in tables:
        raise click.UsageError(f"--here writes tables to a directory of this machine, which {tables} is not")
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        fail(f"this needs {', '.join(missing)}, {WITH_SPARK}", EXIT_USAGE)
    report.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(report.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(report.parent))


@contextmanager
def audited(
    name: str, paths: Sequence[str], options: AuditOptions, where: Where
) -> Iterator[tuple[AuditResult, SparkSession | None]]:
    """The result of auditing the directories, and the session for writing tables.

    A path that is not a directory, or cannot be read, ends the command with code 2.
    """
    from barnabas.pipeline.audit.engines import LocalEngine

    if where.here:
        with bytes_read(log_bytes(paths)) as on_bytes:
            result = _audit(paths, options, LocalEngine(RealEnv(), on_bytes))
        yield result, None
        return
    from barnabas.pipeline.audit.spark_engine import SparkEngine

    with spark_session(name, where.master, where.conf) as spark:
        with spark_tasks(spark):
            result = _audit(paths, options, SparkEngine(spark))
        yield result, spark


def carry_out(  # noqa: PLR0917 (the arguments of the two commands)
    name: str,
    paths: Sequence[str],
    options: AuditOptions,
    where: Where,
    report: Path,
    tables: str | None,
    print_summary: Callable[[AuditResult], None],
    page_of: Callable[[AuditResult], Page],
) -> AuditResult:
    """Audits the directories, prints a summary, and writes the tables and the report."""
    from barnabas.pipeline.log_reading.directories import absolute_path
    from barnabas.pipeline.report.page import write

    with failures():
        check(report, tables, where)
        paths = list(dict.fromkeys(map(absolute_path, paths)))
    with failures(), audited(name, paths, options, where) as (result, spark):
        print_summary(result)
        if tables is not None:
            write_tables(result, tables, spark)
        write(page_of(result), report)
    return result


def _audit(paths: Sequence[str], options: AuditOptions, engine: Engine) -> AuditResult:
    from barnabas.pipeline.audit.audit import audit

    try:
        return audit(RealEnv(), paths, options, engine)
    except (NotALogDirectoryError, OSError) as error:
        fail(f"cannot read the log directory: {error}", EXIT_USAGE)


def log_bytes(paths: Sequence[str]) -> int:
    """The bytes of .log files below the paths, for the progress bar."""
    total = 0
    for path in paths:
        for directory, _, names in os.walk(path):
            for name in names:
                if name.endswith(LOG_SUFFIX):
                    try:
                        total += os.stat(f"{directory}/{name}").st_size
                    except OSError:
                        continue  # the audit reports a file that it misses
    return total


def write_tables(result: AuditResult, directory: str, spark: SparkSession | None) -> None:
    """Adds the rows to the tables findings, segments and partitions in a directory, as Parquet.

    With Spark the directory may be anything that Spark can write to. Raises OSError.
    """
    import pyarrow as pa

    from barnabas.pipeline.audit import rows

    for name, found, schema in (
        ("findings", result.findings, rows.FINDINGS),
        ("segments", result.segments, rows.SEGMENTS),
        ("partitions", result.partitions, rows.PARTITIONS),
    ):
        table = pa.Table.from_pylist(found, schema)
        path = f"{directory.rstrip('/')}/{name}"
        if spark is None:
            _write_here(table, Path(path), result.stamp.audit_id)
        else:
            spark.createDataFrame(table).coalesce(1).write.mode("append").parquet(path)


def _write_here(table: pa.Table, directory: Path, audit_id: str) -> None:
    from pyarrow import parquet

    directory.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, directory / f"audit-{audit_id}.parquet")
