"""With BARNABAS_LISTED_SKIPS=1 a run fails for a skip that tests/skips.toml does not list."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.skips import LACKS, VARIABLE, AllowedSkip, ListedSkips, allowed_here, listed

ROOT = Path(__file__).parents[1]
KCAT = AllowedSkip(("tests/interop/*.py",), "kcat is *", "", lacks="kcat")
LOOPS = AllowedSkip(("tests/a.py", "tests/b.py"), "not compiled", "", interpreted=True)
ALWAYS = AllowedSkip(("tests/a.py",), "never here", "")


def report(nodeid: str, reason: str, outcome: str = "skipped") -> pytest.TestReport:
    longrepr = (nodeid, 1, f"Skipped: {reason}")
    return pytest.TestReport(nodeid, ("", 0, ""), {}, outcome, longrepr, "setup")  # type: ignore[arg-type]


def test_a_skip_is_listed_by_file_and_reason() -> None:
    skips = ListedSkips([KCAT, ALWAYS])
    skips.pytest_runtest_logreport(report("tests/interop/test_x.py::test_y[1]", "kcat is not installed"))
    skips.pytest_runtest_logreport(report("tests/a.py::test_y", "never here"))
    skips.pytest_runtest_logreport(report("tests/a.py::test_z", "this one", "passed"))
    assert skips.unlisted == {}
    for name in ("test_y", "test_z"):
        skips.pytest_runtest_logreport(report(f"tests/a.py::{name}", "kcat is not installed"))
    assert skips.unlisted == {("tests/a.py", "kcat is not installed"): 2}


def test_an_expected_failure_is_no_skip() -> None:
    expected = report("tests/a.py::test_y", "known")
    expected.wasxfail = "known"
    skips = ListedSkips([])
    skips.pytest_runtest_logreport(expected)
    assert skips.unlisted == {}


def test_a_skip_for_what_the_machine_has_is_not_allowed() -> None:
    entries = [KCAT, LOOPS, ALWAYS]
    assert allowed_here(entries, "", interpreted=False) == [ALWAYS]
    assert allowed_here(entries, "go kcat", interpreted=False) == [KCAT, ALWAYS]
    assert allowed_here(entries, "", interpreted=True) == [LOOPS, ALWAYS]


def test_each_entry_gives_its_reason_and_names_files_that_are_there() -> None:
    for entry in listed():
        assert entry.why
        assert all(any(ROOT.glob(tests)) for tests in entry.tests), entry.tests


TESTS = """
import os, pytest
if os.environ.get("WHOLE"):
    pytest.skip("the whole file", allow_module_level=True)
def test_passes(): pass
@pytest.mark.skip(reason="no reason to speak of")
def test_is_skipped(): pass
"""


@pytest.mark.parametrize(
    ("environment", "status", "line"),
    [
        ({}, 0, "1 passed, 1 skipped in *"),
        ({VARIABLE: "1"}, 1, "[[]1] test_it.py: no reason to speak of"),
        ({VARIABLE: "1", "WHOLE": "1"}, 1, "[[]1] test_it.py: the whole file"),
    ],
)
def test_a_run_fails_that_would_pass(
    tmp_path: Path, environment: dict[str, str], status: int, line: str
) -> None:
    """Also with workers, which report a file that they could not collect."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("from tests.support.skips import register as pytest_configure\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "-c", os.devnull]
    clean = {name: value for name, value in os.environ.items() if name not in (VARIABLE, LACKS)}
    ran = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "--basetemp", str(tmp_path / "temporary"), str(tmp_path)],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == status, ran.stdout
    assert fnmatch.filter(ran.stdout.splitlines(), line), ran.stdout


def test_processes_that_tests_start_are_not_judged() -> None:
    """Some run pytest themselves, on what is skipped."""
    assert VARIABLE not in os.environ
