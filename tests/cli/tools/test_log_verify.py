"""`log verify` as a command; its findings are tested in tests/storage/verify/test_verifier.py."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import main
from barnabas.storage.env import RealEnv
from tests.cli.tools.trees import make_read_only, tree
from tests.storage.verify.verified import written


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["log", "verify", *map(str, arguments)])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    written(RealEnv(), str(tmp_path / "data"))
    return tmp_path / "data"


def damage(directory: Path) -> Path:
    path = sorted(directory.glob("orders-0/*.log"))[1]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    return path


def test_a_directory_without_damage(directory: Path) -> None:
    result = verify(directory)
    assert result.exit_code == 0
    rows = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines())
    assert (rows["partitions"], rows["errors"], rows["warnings"], rows["notes"]) == ("2", "0", "0", "0")
    assert int(rows["batches"]) > 40


def test_damage_is_reported(directory: Path) -> None:
    path = damage(directory)
    result = verify(directory)
    assert result.exit_code == 1
    first, second, *others = result.stdout.splitlines()
    assert first == f"error   {path}, position 0, offset {int(path.stem)}"
    assert "claims CRC" in second
    assert others[0] == "        expected: one that is right"
    assert "a start" in others[1]


def test_findings_as_json(directory: Path) -> None:
    path = damage(directory)
    (directory / "orders-0" / "x.tmp").touch()
    result = verify(directory, "--json", "--quiet")
    finding, summary = map(json.loads, result.stdout.splitlines())
    assert (finding["type"], finding["severity"], finding["path"]) == ("finding", "error", str(path))
    assert set(finding) == {
        "type",
        "severity",
        "path",
        "problem",
        "expected",
        "remedy",
        "position",
        "offset",
        "check",
    }
    assert (summary["type"], summary["errors"], summary["notes"]) == ("summary", 1, 1)


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_a_directory_that_is_not_a_log_directory_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    result = verify(tmp_path / name)
    assert result.exit_code == 2
    assert "cannot verify" in result.stderr
    assert verify().exit_code == 2


def test_verify_changes_no_file(directory: Path) -> None:
    damage(directory)
    make_read_only(directory)
    before = tree(directory)
    assert verify(directory).exit_code == 1
    assert verify(directory / "orders-0", "--shallow").exit_code == 1
    assert tree(directory) == before


def test_a_progress_bar_on_a_terminal_only(directory: Path) -> None:
    """On a terminal stderr shows a bar that is removed at the end; in a pipe it stays empty."""
    command = [sys.executable, "-m", "barnabas.cli.main", "log", "verify", str(directory)]
    piped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert piped.stderr == ""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with open(theirs, "wb", closefd=False) as terminal:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=terminal, env=environ, timeout=120, check=True
        )
    os.close(theirs)
    drawn = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "\x1b[" in drawn
    assert done.stdout.decode() == piped.stdout


ODD_NAME = os.fsdecode(b"odd\xff.tmp")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_name_that_is_not_utf8_is_printed(directory: Path, flags: tuple[str, ...]) -> None:
    """Names of files are bytes; most terminals and all JSON are UTF-8."""
    (directory / "orders-0" / ODD_NAME).touch()
    damage(directory)
    result = verify(directory, *flags)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    if not flags:
        assert r"odd\xff.tmp" in result.stdout
    else:
        paths = [json.loads(line).get("path") for line in result.stdout.splitlines()]
        assert str(directory / "orders-0" / r"odd\xff.tmp") in paths


def test_a_directory_whose_name_is_not_utf8_cannot_be_verified(tmp_path: Path) -> None:
    result = verify(tmp_path / ODD_NAME)
    assert result.exit_code == 2
    assert r"odd\xff.tmp is no directory" in result.stderr


def test_a_closed_output_is_not_a_failure_of_verify(directory: Path) -> None:
    """As in `barnabas log verify DIR | head -1`."""
    damage(directory)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "barnabas.cli.main", "log", "verify", str(directory)]
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
