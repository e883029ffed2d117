"""The results of benchmarks, their storage, and the arguments that all benchmarks share.

A benchmark makes a `Section` and publishes it:

    parser = results.arguments(__doc__)                 # --quick, --no-kafka, --results
    options = parser.parse_args(argv)
    section = Section(
        name="lookup",                                  # docs/performance/lookup.json
        title="Lookups in a log of 101 segments",
        prose=["What is measured and how, in whole sentences."],
        tables=[Table(["us", "Barnabas"], [["by timestamp", number(84.2)]])],
        figures={"by timestamp us": 84.2},              # numbers for whoever quotes them: README
        options={"segments": "100"},
    )
    results.publish(section, options)

That prints it, stores it with the facts of the machine and the day, and renders docs/performance.md from all that is
stored. Quick runs keep theirs in build/performance: they are not for quoting.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich import box
from rich import table as rich_table
from rich.console import Console

from bench import document, machine, readme
from bench.section import Section, Table

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
STORE: Final = ROOT / "docs" / "performance"
_WIDTH_OF_A_FILE: Final = 240
QUICK_STORE: Final = ROOT / "build" / "performance"


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the common options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes, and figures that say nothing"
    )
    parser.add_argument(
        "--no-kafka", action="store_true", help="leaves Apache Kafka out even where Java is there"
    )
    parser.add_argument(
        "--results",
        type=Path,
        help="where the results are kept; docs/performance, or build/performance when --quick",
    )
    return parser


def store_of(options: argparse.Namespace) -> Path:
    """The directory for results by the options."""
    if options.results is not None:
        return Path(options.results)
    return QUICK_STORE if options.quick else STORE


def publish(section: Section, options: argparse.Namespace) -> Section:
    """Prints a section, stores it and renders the document that it is a part of; returns it with its facts."""
    said = {**section.options, **({"quick": "yes, so these figures say nothing"} if options.quick else {})}
    section = dataclasses.replace(section, options=said, facts=section.facts or _facts())
    show(section)
    directory = store_of(options)
    store(section, directory)
    write_document(directory)
    return section


def _facts() -> dict[str, str]:
    return {**machine.facts(), "command": f"python {shlex.join(sys.orig_argv[1:])}"}


def show(section: Section) -> None:
    """Prints a section on the terminal."""
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console = Console(soft_wrap=True, width=_WIDTH_OF_A_FILE)
    console.print(f"\n[bold]{section.title}[/bold]")
    for table in section.tables:
        shown = rich_table.Table(title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for position, head in enumerate(table.heads):
            shown.add_column(head, justify="left" if position == 0 else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for remark in section.remarks:
        console.print(remark)


def store(section: Section, directory: Path = STORE) -> None:
    """Stores a section as JSON with readable diffs."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(section), indent=1, ensure_ascii=False)
    (directory / f"{section.name}.json").write_text(text + "\n")


def load(name: str, directory: Path = STORE) -> Section:
    """The stored section. Raises FileNotFoundError without one."""
    return parse(json.loads((directory / f"{name}.json").read_text()))


def load_all(directory: Path = STORE) -> list[Section]:
    """All stored sections."""
    return [load(path.stem, directory) for path in sorted(directory.glob("*.json"))]


def render(directory: Path = STORE) -> str:
    """The document of all stored sections."""
    return document.render(load_all(directory))


def render_targets(directory: Path = STORE) -> str | None:
    """The document of the targets; None where no run beside Apache Kafka is stored."""
    targets = [section for section in load_all(directory) if section.name == document.TARGETS]
    return document.render_targets(*targets) if targets else None


def targets_path(directory: Path = STORE) -> Path:
    """The file that `render_targets` is for."""
    return directory / f"{document.TARGETS}.md"


def write_document(directory: Path = STORE) -> Path:
    """Renders what the directory holds into the file beside it, and the targets into a file in it.

    README.md is rewritten with docs/performance.md.
    """
    path = directory.with_suffix(".md")
    path.write_text(render(directory))
    if targets := render_targets(directory):
        targets_path(directory).write_text(targets)
    if directory == STORE:
        README.write_text(readme.rewritten(README.read_text(), load_all()))
    return path


def parse(stored: Mapping[str, Any]) -> Section:
    """A section from its JSON."""
    return Section(**{**stored, "tables": [Table(**table) for table in stored["tables"]]})
