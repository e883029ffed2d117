"""Runs Kafka's command line tools and ours with the same arguments against one broker, and parses their output."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from click.testing import CliRunner

from barnabas.cli.main import main
from tests.conformance.java_admin import JavaAdmin, ToolRun

OUR_NAMES = {"kafka-consumer-groups": "groups"}
"""Commands that are not named like Kafka's script without "kafka-"."""

AGREE_LIMIT_S = 5.0

View = Callable[[str], Any]


class Both(NamedTuple):
    """The results of both tools."""

    kafka: ToolRun
    ours: ToolRun


class Tools:
    """Both sets of tools for one broker."""

    def __init__(self, java: JavaAdmin, bootstrap: str) -> None:
        self.java = java
        self.bootstrap = bootstrap

    def kafka(self, tool: str, *words: str) -> ToolRun:
        """Runs Kafka's tool; kafka-cluster expects the broker's address after the first word, the others before."""
        server = ("--bootstrap-server", self.bootstrap)
        line = (words[0], *server, *words[1:]) if tool == "kafka-cluster" else (*server, *words)
        return self.java.tool(tool, *line)

    def ours(self, tool: str, *words: str) -> ToolRun:
        """Runs our command of the same name with the same arguments."""
        name = OUR_NAMES.get(tool, tool.removeprefix("kafka-"))
        environment = {"BARNABAS_BOOTSTRAP_SERVER": self.bootstrap}
        result = CliRunner().invoke(main, [name, *words], env=environment, catch_exceptions=False)
        return ToolRun(result.exit_code, result.stdout, result.stderr)

    def kafka_succeeds(self, tool: str, line: str) -> None:
        """Runs Kafka's tool, which must succeed."""
        ran = self.kafka(tool, *line.split())
        assert ran.status == 0, (line, ran)

    def ours_succeeds(self, tool: str, line: str) -> None:
        """Runs our command, which must succeed."""
        ran = self.ours(tool, *line.split())
        assert ran.status == 0, (line, ran)

    def both(self, tool: str, *words: str) -> Both:
        return Both(self.kafka(tool, *words), self.ours(tool, *words))

    def assert_same(self, view: View, tool: str, *words: str) -> Any:
        """Both succeed and print the same as parsed by `view`; returns that.

        Repeats both for a while, since a change may take a moment to reach all parts of Apache Kafka.
        """
        deadline = time.monotonic() + AGREE_LIMIT_S
        while True:
            ran = self.both(tool, *words)
            theirs, our = view(ran.kafka.out), view(ran.ours.out)
            is_good = ran.kafka.status == ran.ours.status == 0 and our == theirs
            if is_good or time.monotonic() > deadline:
                break
        assert ran.kafka.status == ran.ours.status == 0, (words, ran)
        assert our == theirs, f"{tool} {' '.join(words)}\nKafka:\n{ran.kafka.out}\nours:\n{ran.ours.out}"
        return our

    def assert_rejected(self, tool: str, *words: str) -> None:
        """Both tools fail, ours with an error message."""
        ran = self.both(tool, *words)
        assert ran.kafka.status == 1, (words, ran.kafka)
        assert ran.ours.status in {1, 2}, (words, ran.ours)
        assert ran.ours.err
        assert "Traceback" not in ran.ours.err


# ---- views


def lines(text: str) -> list[str]:
    """The lines that are not blank, sorted."""
    return sorted(line.rstrip() for line in text.splitlines() if line.strip())


def topics(text: str) -> list[str]:
    """Descriptions of topics with sorted settings; Kafka's tool prints them in the order of a hash table."""

    def in_order(found: re.Match[str]) -> str:
        settings = re.split(r",(?=[a-z.]+=)", found[1])
        return f"Configs: {','.join(sorted(settings))}"

    return lines(re.sub(r"Configs: (.*)", in_order, text))


def sections(text: str) -> dict[str, list[str]]:
    """Indented lines by the line above that is not indented."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            title = line.rstrip()
            found.setdefault(title, [])
        elif line.strip():
            found[title].append(line.strip())
    return {title: sorted(inner) for title, inner in found.items()}


def quotas(text: str) -> dict[str, dict[str, float]]:
    """Lines `Quota configs for X are k=v, k=v`, parsed, and lines about credentials unchanged."""
    found: dict[str, dict[str, float]] = {}
    for line in lines(text):
        whose, _, values = line.partition(" are ")
        if whose.startswith("Quota"):
            pairs = (pair.split("=") for pair in values.split(", "))
            found[whose] = {key: float(value) for key, value in pairs}
        else:
            found[line] = {}
    return found


def table(*without: str) -> View:
    """Rows of tables as dictionaries, `without` columns that change all the time."""

    def read(text: str) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = []
        heads: list[tuple[str, int]] = []
        for line in text.replace("\t", "  ").splitlines():
            if _is_head(line):
                heads = [(found[0], found.start()) for found in re.finditer(r"\S+(?: \(ID\))?", line)]
            elif line.strip() and heads:
                row = _cells(line, heads)
                rows.append({head: cell for head, cell in row.items() if head not in without})
        return sorted(rows, key=lambda row: sorted(row.items()))

    return read


def _cells(line: str, heads: list[tuple[str, int]]) -> dict[str, str]:
    """The cell under each head; one tool prints nothing, or null, where the other prints a dash."""
    ends = [start for _, start in heads[1:]] + [None]
    found = {head: line[start:end].strip() for (head, start), end in zip(heads, ends, strict=True)}
    return {head: "-" if cell in {"", "null"} else cell for head, cell in found.items()}


def _is_head(line: str) -> bool:
    return line.split()[:1] in (["GROUP"], ["TOPIC"], ["ID"], ["NodeId"])


def named(text: str) -> list[dict[str, str]]:
    """Lines of several `Name: value`, as dictionaries."""
    return [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines(text)]


def tabbed(text: str) -> list[list[str]]:
    """Cells of lines with tabs, without padding."""
    return sorted([cell.strip() for cell in line.split("\t")] for line in text.splitlines() if line.strip())


def documents(text: str) -> list[Any]:
    """The lines that are JSON, with sorted lists."""
    return [_ordered(json.loads(line)) for line in text.splitlines() if line.startswith("{")]


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return sorted((_ordered(item) for item in value), key=json.dumps)
    return value
