from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from barnabas.cli.admin.output import Output, aligned
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.cli.admin.shapes import OffsetRow


def test_columns_are_aligned() -> None:
    assert aligned([["A", "LONG"], ["bb", "c"]]) == ["A   LONG", "bb  c"]


def test_a_table_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.table(("T", "N"), [("t", None), ("u", [1, 2]), (TopicPartition("v", 0), [])], title="not shown")
    out.row(OffsetRow("t", 0, 1))
    assert capsys.readouterr().out == "T    N\nt    -\nu    1,2\nv-0  -\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True, console=Console())
    out.line("not shown")
    out.table(("T",), [("t",)])
    out.row(OffsetRow("é", 0, 1))
    assert capsys.readouterr().out == '{"type": "offset", "topic": "é", "partition": 0, "offset": 1}\n'
    assert not out.is_terminal


def test_json_of_a_name_that_is_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    """From a command line or a file: JSON can represent it, UTF-8 cannot."""
    Output(as_json=True).row(OffsetRow("odd\udcff", 0, 1))
    shown = capsys.readouterr().out
    assert "odd\\udcff" in shown
    assert json.loads(shown)["topic"] == "odd\udcff"


def test_a_table_on_a_terminal() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=60, color_system=None, highlight=False)
    out = Output(as_json=False, console=console)
    out.table(("Topic", "N"), [("[red]t", 1)], title="[bold] title")
    shown = screen.getvalue()
    assert "[bold] title" in shown.replace("\x1b[1m", ""), "names are shown as they are, brackets too"
    assert "[red]t" in shown
    assert "─" in shown


def test_failures_are_printed_and_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=False)
    out.failed("gone wrong")
    assert out.has_failed
    assert capsys.readouterr().err == "error: gone wrong\n"
