"""`barnabas pipeline compact-report`: what compaction would save."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.pipeline.commands.common import spark_options
from barnabas.pipeline.commands.options import directories_argument, here_option, report_option, tables_option
from barnabas.storage.verify.verifier import Severity

if TYPE_CHECKING:
    from barnabas.pipeline.audit.audit import AuditResult


@click.command(short_help="Say what compaction would save, by topic, partition and segment.")
@directories_argument
@report_option("barnabas-compaction.html")
@tables_option
@here_option
@spark_options
def compact_report(
    *,
    directories: tuple[str, ...],
    report: Path,
    tables: str | None,
    here: bool,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
) -> None:
    """Count keys in DIR (entries of log.dirs, or directories of partitions) and say what compaction would leave.

    Records are decided on as the log cleaner does it, as if all segments that it may compact were compacted now: those
    before the active one, and before the segment in which the oldest open transaction begins. That is whatever
    cleanup.policy says, and changes nothing. Sizes are those on disk, estimated within batches.

    \b
    barnabas pipeline compact-report /var/lib/kafka

    \b
    Exit codes:
      0  done
      1  it failed
      2  the command line is wrong, DIR cannot be read, or Spark or Java is missing
    """
    from barnabas.pipeline.audit.plan import AuditOptions
    from barnabas.pipeline.commands.auditing import Where, carry_out
    from barnabas.pipeline.report.compact_report import page_of

    options = AuditOptions(is_deep=False, counts_keys=True, now_ms=time.time_ns() // 1_000_000)
    where = Where(here, master, conf)
    carry_out("barnabas compact-report", directories, options, where, report, tables, print_summary, page_of)
    click.echo(f"report  {report}")


def print_summary(result: AuditResult) -> None:
    """Prints a line for each topic, those with most to save first."""
    from barnabas.pipeline.report.compact_report import damage, share
    from barnabas.pipeline.report.figures import in_bytes
    from barnabas.pipeline.report.tables import by_topic, total

    lines = [("topic", "bytes", "would go", "share", "records", "keys")]
    for topic, rows in sorted(
        by_topic(result.partitions).items(), key=lambda item: -total(item[1], "saved_bytes")
    ):
        saved, size = total(rows, "saved_bytes"), total(rows, "bytes")
        numbers = (f"{total(rows, 'records'):,}", f"{total(rows, 'distinct_keys'):,}")
        lines.append((topic, in_bytes(size), in_bytes(saved), share(saved, size), *numbers))
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    for line in lines:
        first, *rest = (
            text.ljust(width) if not at else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        click.echo("  ".join((first, *rest)))
    if errors := result.tally()[Severity.ERROR]:
        click.echo(damage(errors), err=True)
