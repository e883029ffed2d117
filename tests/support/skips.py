"""Fails a run in which a test is skipped for a reason that tests/skips.toml does not list.

Enabled by BARNABAS_LISTED_SKIPS=1, which .ci/run sets for all its steps. BARNABAS_LACKS names the tools that .ci/run
did not find and could not install (`kcat go`): skips with `lacks` are allowed only there.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import pytest

VARIABLE: Final = "BARNABAS_LISTED_SKIPS"
LACKS: Final = "BARNABAS_LACKS"
LIST: Final = Path(__file__).parents[1] / "skips.toml"


class AllowedSkip(NamedTuple):
    """Skips with a reason like `reason`, in files like one of `tests`; both are patterns with * and ?."""

    tests: tuple[str, ...]
    reason: str
    why: str
    lacks: str = ""
    """The tool that the machine has to lack."""
    interpreted: bool = False
    """Only in runs as plain Python."""

    def matches(self, path: str, reason: str) -> bool:
        """Whether it applies to that test file and reason."""
        return fnmatchcase(reason, self.reason) and any(fnmatchcase(path, tests) for tests in self.tests)


class ListedSkips:
    """The plugin: collects skips that are not listed, and fails the run at its end if there are any."""

    def __init__(self, allowed: Iterable[AllowedSkip]) -> None:
        self.allowed = list(allowed)
        self.unlisted: dict[tuple[str, str], int] = {}
        """How many tests were skipped, by test file and reason."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._check(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._check(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unlisted:
            terminalreporter.section(f"skipped, and not in {LIST.parent.name}/{LIST.name}", red=True)
        for (path, reason), count in sorted(self.unlisted.items()):
            terminalreporter.line(f"[{count}] {path}: {reason}")

    def _check(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        path = report.nodeid.partition("::")[0]
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = text.removeprefix("Skipped: ")
        if not any(skip.matches(path, reason) for skip in self.allowed):
            self.unlisted[path, reason] = self.unlisted.get((path, reason), 0) + 1


def listed() -> list[AllowedSkip]:
    """The entries of tests/skips.toml."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["skip"]
    return [AllowedSkip(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def allowed_here(entries: Iterable[AllowedSkip], lacking: str, interpreted: bool) -> list[AllowedSkip]:
    """The entries that apply on a machine that lacks these tools (words), in this form of the code."""
    return [
        entry
        for entry in entries
        if (not entry.lacks or entry.lacks in lacking.split()) and (interpreted or not entry.interpreted)
    ]


def register(config: pytest.Config) -> None:
    """Enables the plugin if the environment says so, in the reporting process, not in processes that tests start."""
    if os.environ.pop(VARIABLE, "") and not hasattr(config, "workerinput"):
        interpreted = bool(os.environ.get("BARNABAS_INTERPRETED"))
        config.pluginmanager.register(
            ListedSkips(allowed_here(listed(), os.environ.get(LACKS, ""), interpreted))
        )
