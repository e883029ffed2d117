"""What a command says: tables for people at a terminal, plain lines in a pipe, JSON for machines.

Results go to the standard output, everything about them (warnings, errors, progress) to the other stream.
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
    """One command's way out. `console` is the terminal that results go to; None: they go into a pipe or a file."""

    def __init__(self, *, as_json: bool, console: Console | None = None) -> None:
        self.as_json = as_json
        self.console = None if as_json else console
        self.has_failed = False

    @classmethod
    def standard(cls, *, as_json: bool) -> Output:
        """On the standard streams, as they are."""
        if as_json or not sys.stdout.isatty():
            return cls(as_json=as_json)
        from rich.console import Console

        return cls(as_json=False, console=Console(highlight=False))

    @property
    def is_terminal(self) -> bool:
        """Whether there is somebody to draw tables for."""
        return self.console is not None

    def row(self, row: Row) -> None:
        """One object of a line, where JSON is wanted; nothing otherwise."""
        if self.as_json:
            # A name of bytes that are no text, as it may be typed, has no UTF-8; JSON can write it: \udcff.
            line = json.dumps(json_object(row), ensure_ascii=False)
            click.echo(line.encode(errors="backslashreplace").decode())

    def result(
        self, what: str, name: str, action: str, error: AdminError | None = None, message: str | None = None
    ) -> None:
        """What became of something that was to be changed, where JSON is wanted."""
        code = None
        if error is not None:
            code = error.name if isinstance(error, ServerError) else "FAILED"
            message = str(error.args[0])
        self.row(ResultRow(what, name, action, code, message))

    def line(self, text: str = "") -> None:
        """A line for people and for programs that read text; nothing where JSON is wanted."""
        if not self.as_json:
            click.echo(text)

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None
    ) -> None:
        """A table: drawn on a terminal under its title, aligned columns in a pipe; nothing where JSON is wanted."""
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
        """Something about the results, on the other stream."""
        click.echo(text, err=True)

    def failed(self, text: str) -> None:
        """Something that could not be done, while the rest goes on; the exit code will say so."""
        self.has_failed = True
        click.echo(click.style("error: ", fg="red") + text, err=True)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Shows on a terminal that something takes its time."""
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
    """What stands for a value; '-' where there is none, so that columns can be counted."""
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
