"""Tests that `barnabas pipeline scan` reports an invalid command line before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.pipeline.commands.scan import existing, scan


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--limit", "3", "--table", "t"], "--limit shows records and --table writes them"),
        (
            ["--since", "2026-01-31", "--starting-offsets", "earliest"],
            "--since and --starting-offsets exclude",
        ),
        (["--until", "2026-01-31", "--ending-offsets", "latest"], "--until and --ending-offsets exclude"),
    ],
)
def test_limit_and_table_exclude_each_other(line: list[str], said: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(scan, [str(tmp_path), *line])
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())


def test_directories_are_named_by_absolute_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each once: the tasks that read them have other working directories."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert existing(["a", "./a", f"file:{tmp_path}/a", "."]) == [f"{tmp_path}/a", str(tmp_path)]
