"""`barnabas pipeline audit`: verify log directories by many tasks at once."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.pipeline.commands.common import EXIT_FAILED, print_rows, spark_options
from barnabas.pipeline.commands.options import directories_argument, here_option, report_option, tables_option
from barnabas.storage.verify.verifier import Severity

if TYPE_CHECKING:
    from barnabas.pipeline.audit.audit import AuditResult

SHOWN: Final = 20


@click.command(short_help="Verify log directories, and report their contents.")
@directories_argument
@report_option("barnabas-audit.html")
@tables_option
@click.option(
    "--shallow", is_flag=True, help="Check batches as a whole, by their CRC, and not their records."
)
@click.option(
    "--no-keys",
    is_flag=True,
    help="Do not count keys and what compaction would save, which is much of the work.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@here_option
@spark_options
def audit(
    *,
    directories: tuple[str, ...],
    report: Path,
    tables: str | None,
    shallow: bool,
    no_keys: bool,
    strict: bool,
    here: bool,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
) -> None:
    """Check everything in DIR: entries of log.dirs, or directories of partitions. Changes nothing in them.

    They may be Barnabas's or Apache Kafka's, of a broker at work, or copied from one; on a cluster all machines have
    to see them under the same paths. Each segment is a task. Checked is what `barnabas log verify` checks (lengths,
    CRCs, records, the order of offsets, leader epochs, all indexes, snapshots, checkpoints, identities), and the
    sequence numbers of producers and implausible timestamps; counted are keys, and what compaction would save.

    \b
    barnabas pipeline audit /var/lib/kafka
    barnabas pipeline audit --tables /srv/audits --report audit.html /mnt/broker-*/data

    \b
    Exit codes:
      0  no errors; there may be warnings and notes
      1  errors, or warnings with --strict; or it failed
      2  the command line is wrong, DIR cannot be read, or Spark or Java is missing
    """
    from barnabas.pipeline.audit.plan import AuditOptions
    from barnabas.pipeline.commands.auditing import Where, carry_out
    from barnabas.pipeline.report.audit_report import page_of

    options = AuditOptions(not shallow, not no_keys, time.time_ns() // 1_000_000)
    where, page = Where(here, master, conf), partial(page_of, tables=tables or "")
    result = carry_out("barnabas audit", directories, options, where, report, tables, print_summary, page)
    print_rows([("report", str(report)), *([("tables", tables)] if tables else [])])
    tally = result.tally()
    sys.exit(EXIT_FAILED if tally[Severity.ERROR] or (strict and tally[Severity.WARNING]) else 0)


def print_summary(result: AuditResult) -> None:
    """Prints the gravest findings, and the counts."""
    order = [severity.value for severity in Severity]
    grave = [row for row in result.findings if row["severity"] != Severity.NOTE]
    for row in sorted(grave, key=lambda row: order.index(row["severity"]))[:SHOWN]:
        offset = "" if row["offset"] is None else f", offset {row['offset']}"
        click.echo(f"{row['severity']:<8}{row['path']}{offset}\n        {row['problem']}")
        if row["expected"]:
            click.echo(f"        expected: {row['expected']}")
    if len(grave) > SHOWN:
        click.echo(f"        ... and {len(grave) - SHOWN} more: see the report")
    counts = {name: f"{number:,}" for name, number in result.counts.items() if name != "directories"}
    print_rows(
        [*counts.items(), *((f"{severity}s", f"{number:,}") for severity, number in result.tally().items())]
    )
