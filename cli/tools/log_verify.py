"""`barnabas log verify`: finds damage in log directories, and what the start of a broker would do about it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.exit_codes import EXIT_FAILED, EXIT_USAGE
from barnabas.storage.env import RealEnv
from barnabas.storage.verify.directory import NotALogDirectoryError, Verification
from barnabas.storage.verify.verifier import Severity, legible

if TYPE_CHECKING:
    from barnabas.storage.verify.directory import Progress
    from barnabas.storage.verify.verifier import Finding

_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_MEBIBYTE: Final = 1 << 20


@click.group(short_help="Check log directories for damage.")
def log() -> None:
    """Read log directories of running or stopped brokers."""


@log.command(short_help="Check everything in log directories or partitions.")
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--shallow", is_flag=True, help="Check batches as a whole, by their CRC, and not their records."
)
@click.option("--quiet", is_flag=True, help="Leave out notes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: findings, then a summary.")
def verify(directories: tuple[str, ...], shallow: bool, quiet: bool, as_json: bool) -> None:
    """Check everything in DIR: an entry of log.dirs, or the directory of a partition. Changes nothing.

    Every batch and every record is read. Checked are lengths, formats, CRCs, the order of offsets within segments and
    across them, leader epochs, both indexes and aborted transactions against the batches, producer snapshots against
    a replay of the log, checkpoints against the logs, identities, names.

    \b
    error    something is lost or contradicts itself
    warning  nothing is lost: a start puts it right, or it does not belong there
    note     correct, though unexpected

    A broker may be at work in DIR, or may have been killed. Nothing from the recovery point on has to be whole then: an
    end of the log that is cut off is a note, damage before that end a warning, since a start cuts the log there.

    \b
    With --json each line has a "type": "finding" with severity, check, path, position, offset,
    problem, expected and remedy (what the broker does about it at startup), and at the end "summary" with the counts.

    \b
    Exit codes:
      0  no errors; there may be warnings and notes
      1  errors
      2  the command line is wrong, or DIR cannot be read
    """
    output = _JsonOutput() if as_json else _TextOutput()
    tally = dict.fromkeys(Severity, 0)
    try:
        with _progress(is_wanted=not as_json) as on_progress:
            verification = Verification(RealEnv(), is_deep=not shallow, on_progress=on_progress)
            for finding in verification.run([os.path.abspath(path) for path in directories]):
                tally[finding.severity] += 1
                if not (quiet and finding.severity is Severity.NOTE):
                    output.finding(_legible(finding))
    except BrokenPipeError:
        raise  # of the output; click exits without a message
    except (NotALogDirectoryError, OSError) as error:
        click.echo(f"cannot verify: {legible(str(error))}", err=True)
        sys.exit(EXIT_USAGE)
    output.summary(verification, tally)
    sys.exit(EXIT_FAILED if tally[Severity.ERROR] else 0)


def _legible(finding: Finding) -> Finding:
    """Escapes file names in all texts of a finding."""
    return finding._replace(
        path=legible(finding.path),
        problem=legible(finding.problem),
        expected=legible(finding.expected),
        remedy=legible(finding.remedy),
    )


@contextmanager
def _progress(*, is_wanted: bool) -> Iterator[Callable[[Progress], None]]:
    """A progress bar on a terminal, on standard error so that findings can be piped."""
    if not is_wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def update(progress: Progress) -> None:
            name = legible(os.path.basename(progress.path))
            total = max(progress.total_bytes, progress.done_bytes)
            bar.update(task, completed=progress.done_bytes, total=total, description=name)

        yield update


class _TextOutput:
    """Findings as text, with colours on a terminal, and a table at the end."""

    def finding(self, finding: Finding) -> None:
        place = finding.path
        if finding.position is not None:
            place += f", position {finding.position}"
        if finding.offset is not None:
            place += f", offset {finding.offset}"
        label = click.style(f"{finding.severity:<8}", fg=_COLOURS[finding.severity])
        click.echo(f"{label}{place}\n        {finding.problem}")
        if finding.expected:
            click.echo(f"        expected: {finding.expected}")
        if finding.remedy:
            click.echo(f"        {finding.remedy}")

    def summary(self, verification: Verification, tally: dict[Severity, int]) -> None:
        counts = verification.counts
        rows = [
            ("log directories", f"{counts.directories:,}"),
            ("partitions", f"{counts.partitions:,}"),
            ("segments", f"{counts.segments:,}"),
            ("batches", f"{counts.batches:,}"),
            ("records", f"{counts.records:,}"),
            ("MiB of logs", f"{counts.bytes / _MEBIBYTE:,.1f}"),
            ("other files", f"{counts.files:,}"),
            *((f"{severity}s", f"{tally[severity]:,}") for severity in Severity),
        ]
        width = max(len(value) for _, value in rows)
        for name, value in rows:
            click.echo(f"{name:<16}{value:>{width}}")


class _JsonOutput:
    """Findings and summary as JSON, one object a line."""

    def _line(self, kind: str, /, **fields: object) -> None:
        click.echo(json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":")))

    def finding(self, finding: Finding) -> None:
        self._line("finding", **finding._asdict())

    def summary(self, verification: Verification, tally: dict[Severity, int]) -> None:
        counts = verification.counts.as_dict()
        self._line("summary", **counts, **{f"{severity}s": tally[severity] for severity in Severity})
