"""`barnabas pipeline`: Spark jobs over topics and over log directories.

The broker's command line finds this group by its entry point (barnabas.commands), and imports nothing but click with
it. A command is imported when it is called, and Spark after its arguments are parsed.
"""

from __future__ import annotations

from typing import Final

import click

from barnabas.lazy_group import LazyGroup

COMMANDS: Final = {
    "ingest": "barnabas.pipeline.commands.ingest:ingest",
    "export": "barnabas.pipeline.commands.export:export",
    "scan": "barnabas.pipeline.commands.scan:scan",
    "audit": "barnabas.pipeline.commands.audit:audit",
    "compact-report": "barnabas.pipeline.commands.compact_report:compact_report",
    "demo": "barnabas.pipeline.commands.demo:demo",
}


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    short_help="Spark jobs: topics to tables and back, log directories read and checked.",
)
def pipeline() -> None:
    """Spark over the broker, and over its log directories without it.

    They need `pip install 'barnabas[spark]'` and Java 17. On a laptop they run in this process; --master, or
    spark-submit with pipeline/jobs/job.py and the same arguments, has them run on a cluster.

    \b
    Exit codes:
      0  done
      1  it failed, or audit found errors
      2  the command line is wrong, or Spark, Java or a jar is missing
    """
