"""The output of a command: tables on a terminal, plain lines in a pipe, or JSON.

Results go to the standard output; warnings, errors and progress to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.admin.errors import AdminError, ServerError
from barnabas.cli.admin.shapes import ResultRow, json_object

if TYPE_CHECKING:
    from rich.console import Console

    from barnabas.cli.admin.shapes import Row


class Output:
    """The output of one command. `console` is the terminal for results; None: they go to a pipe or a file."""

    def __init__(self, *, as_json: bool, console: Console | None = None) -> None:
        self.as_json = as_json
        self.console = None if as_json else console
        self.has_failed = False

    @classmethod
    def standard(cls, *, as_json: bool) -> Output:
        """The output on the standard streams."""
        if as_json or not sys.stdout.isatty():
            return cls(as_json=as_json)
        from rich.console import Console

        return cls(as_json=False, console=Console(highlight=False))

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return self.console is not None

    def row(self, row: Row) -> None:
        """Prints one JSON object a line with --json; nothing otherwise."""
        if self.as_json:
            # A name may have bytes that are not UTF-8; JSON can write them: \udcff.
            line = json.dumps(json_object(row), ensure_ascii=False)
            click.echo(line.encode(errors="backslashreplace").decode())

    def result(
        self, what: str, name: str, action: str, error: AdminError | None = None, message: str | None = None
    ) -> None:
        """Prints the result of a change with --json; nothing otherwise."""
        code = None
        if error is not None:
            code = error.name if isinstance(error, ServerError) else "FAILED"
            message = str(error.args[0])
        self.row(ResultRow(what, name, action, code, message))

    def line(self, text: str = "") -> None:
        """Prints a line of text; nothing with --json."""
        if not self.as_json:
            click.echo(text)

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None
    ) -> None:
        """Prints a table: drawn on a terminal under its title, aligned columns in a pipe; nothing with --json."""
        cells = [[_cell(value) for value in row] for row in rows]
        if self.console is not None:
            if title is not None:
                self.console.print(title, style="bold", markup=False)
            if rows:
                self.console.print(_drawn(heads, rows, cells))
        elif not self.as_json:
            for line in aligned([heads, *cells]):
                click.echo(line)

    def note(self, text: str) -> None:
        """Prints a remark to standard error."""
        click.echo(text, err=True)

    def failed(self, text: str) -> None:
        """Prints the error of a part that failed; the command continues and its exit code will be EXIT_FAILED."""
        self.has_failed = True
        click.echo(click.style("error: ", fg="red") + text, err=True)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Shows progress on a terminal."""
        if self.as_json or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(text):
            yield


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The cells in columns, two spaces apart."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _cell(value: object) -> str:
    """The text of a value; '-' for None and empty values, so that columns can be counted."""
    if value is None or value == "":
        return "-"
    if type(value) is list:
        return ",".join(map(str, value)) or "-"
    return str(value)


def _drawn(heads: Sequence[str], rows: Sequence[Sequence[object]], cells: Sequence[Sequence[str]]) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, head in enumerate(heads):
        is_number = bool(rows) and all(isinstance(row[at], int | float) or row[at] is None for row in rows)
        table.add_column(head, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(escape, row))
    return table
