"""Which of Kafka's own tests run against Barnabas, from suites.toml, and one JVM that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
TABLE: Final = HERE / "suites.toml"
MAIN: Final = HERE / "java" / "barnabas" / "suites" / "RunSuites.java"
SEAMS: Final = (
    HERE / "java" / "kafka" / "server" / "QuorumTestHarness.java",
    HERE
    / "java"
    / "org"
    / "apache"
    / "kafka"
    / "common"
    / "test"
    / "junit"
    / "RaftClusterInvocationContext.java",
)
"""The classes of ours that stand in for Kafka's of the same name."""
JVM: Final = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-OmitStackTraceInFastThrow")
PAGE: Final = "docs/architecture/kafka-tests.md"
TABLE_HEAD: Final = "| class of Kafka | cases that run | what does not, and why |\n"
SAME_PROCESS: Final = "the same process is tested as Combined"
LIMIT_S: Final = 3600
"""For all suites together, on a machine that has much else to do."""


class Suite(NamedTuple):
    """One of Kafka's test classes."""

    name: str
    cases: int
    """How many run; 0: none can."""
    reason: str
    """Why none can."""
    left_out: Mapping[str, str]
    """Methods that cannot run against another broker, or show a difference of docs/differences.md, and why."""

    @property
    def word(self) -> str:
        """The suite as RunSuites takes it."""
        return self.name + ("-" + ",".join(sorted(self.left_out)) if self.left_out else "")


class Case(NamedTuple):
    """The end of one case."""

    name: str
    result: str
    """successful, failed, aborted or skipped."""
    text: str
    """The stack trace of a failure, or why it was skipped."""


def suites(table: Path = TABLE) -> list[Suite]:
    """The table."""
    return [
        Suite(entry["class"], entry.get("cases", 0), entry.get("reason", ""), entry.get("left_out", {}))
        for entry in tomllib.loads(table.read_text())["suite"]
    ]


def running(table: Sequence[Suite]) -> list[Suite]:
    """Those of which cases run."""
    return [suite for suite in table if suite.cases]


def cases_of(report: str, name: str) -> list[Case] | None:
    """The cases of a suite in the report of RunSuites; None while it has not ended."""
    found: list[Case] = []
    for line in report.split("\n")[:-1]:
        suite, case, result, _, text = line.split("\t", 4)
        if suite != name:
            continue
        if result == "ended":
            return [each for each in found if SAME_PROCESS not in each.text]
        found.append(Case(case, result, _unescaped(text)))
    return None


def failures(suite: Suite, cases: Sequence[Case]) -> str:
    """What is not as the table says; empty where all is well."""
    failed = [case for case in cases if case.result != "successful"]
    lines = [f"{case.name} has {case.result}:\n{case.text}" for case in failed]
    if len(cases) != suite.cases:
        names = " ".join(sorted(case.name for case in cases))
        lines.append(f"{len(cases)} cases of {suite.name} ran, and suites.toml says {suite.cases}: {names}")
    return "\n\n".join(lines)


def page_with(table: Sequence[Suite]) -> str:
    """The page with this table."""
    head, _, _ = (ROOT / PAGE).read_text().partition(TABLE_HEAD)
    rows = []
    for suite in table:
        parts = [f"`{method}`: {reason}" for method, reason in sorted(suite.left_out.items())]
        rows.append(f"| `{suite.name}` | {suite.cases or 'none'} | {'; '.join(parts) or suite.reason} |")
    return head + TABLE_HEAD + "| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _unescaped(text: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in text.split("\\\\"))


class Run:
    """The JVM with all suites of a table, one after the other."""

    def __init__(self, directory: Path, classpath: str, table: Sequence[Suite]) -> None:
        self._report = directory / "report.tsv"
        self._output = directory / "output"
        self._deadline = time.monotonic() + LIMIT_S
        logging = directory / "log4j2.properties"
        logging.write_text("rootLogger.level=OFF\n")
        temporary = directory / "tmp"
        temporary.mkdir()
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *("java", *JVM, f"-Dbarnabas.python={sys.executable}", f"-Dbarnabas.root={ROOT}"),
                    *(f"-Djava.io.tmpdir={temporary}", f"-Dlog4j2.configurationFile={logging}"),
                    *("-cp", classpath, "barnabas.suites.RunSuites", str(self._report)),
                    *(suite.word for suite in table),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")},
            )

    def cases(self, suite: Suite) -> list[Case]:
        """Waits for the end of a suite. Raises AssertionError when the JVM ends before or all takes too long."""
        while True:
            has_ended = self._process.poll() is not None
            report = self._report.read_text() if self._report.exists() else ""
            found = cases_of(report, suite.name)
            if found is not None:
                return found
            assert not has_ended, f"the JVM has ended:\n{self._output.read_text(errors='replace')[-5000:]}"
            assert time.monotonic() < self._deadline, f"{suite.name} has not ended within {LIMIT_S} s"
            time.sleep(0.05)

    def close(self) -> None:
        """Ends the JVM, which takes its brokers with it."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
