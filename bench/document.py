"""Renders docs/performance.md and docs/performance/targets.md from stored results.

Figures come from runs, the prose from the benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bench.section import Section, Table

TARGETS: Final = "targets"
"""The section that is for makers of Barnabas only: it has a document of its own."""

ORDER: Final = (
    "produce",
    "consume",
    "latency",
    "processes",
    "cluster",
    "soak",
    "startup",
    "recovery",
    "opening",
    "partitions",
    "groups",
    "group-loading",
    "lookup",
    "compaction",
    "moves",
    "metadata",
    "storage",
    "records",
    "codec",
    "micro",
    "plain-python",
)
"""Sections in the order of the document; others come behind, by name."""

_HEAD: Final = """\
# What it costs, beside Apache Kafka

Written by `python -m bench` from the results that the benchmarks left in `docs/performance/`; `make docs` writes it
again from the same, and nothing in it is typed by hand. Client and brokers share one machine. Figures are of one
machine on one day: compare the ratios. Each section states when and on what it was measured, and by which command.
"""

_TARGETS_HEAD: Final = """\
# The targets of the benchmarks

For those who work on Barnabas: which ratios to Apache Kafka a run of `python -m bench` is to reach, and which it has
reached. Targets are declared in `bench/side_by_side/targets.py`. Written by `python -m bench` and `make docs`, like
[performance.md](../performance.md).
"""


def render(sections: Iterable[Section]) -> str:
    """docs/performance.md, of sections in any order; the targets are left out."""
    shown = (section for section in sections if section.name != TARGETS)
    ordered = sorted(shown, key=lambda section: place_of(section.name))
    return "\n".join([_HEAD, *map(render_section, ordered)])


def render_targets(targets: Section) -> str:
    """docs/performance/targets.md."""
    return "\n".join([_TARGETS_HEAD, render_section(targets)])


def place_of(name: str) -> tuple[int, str]:
    """Sorts names of sections."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def render_section(section: Section) -> str:
    """A heading, prose, tables, and the facts of the measurement."""
    blocks = [f"## {section.title}", *section.prose]
    for table in section.tables:
        blocks += [f"**{table.title}**"] if table.title else []
        blocks.append(render_table(table))
    blocks += [*section.remarks, _measured(section)]
    return "\n\n".join(blocks) + "\n"


def render_table(table: Table) -> str:
    """A table in GitHub's Markdown."""
    rule = ["---"] + ["---:"] * (len(table.heads) - 1)
    return "\n".join(
        f"| {' | '.join(cells)} |" for cells in (_escaped(table.heads), rule, *map(_escaped, table.rows))
    )


def _escaped(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


def _measured(section: Section) -> str:
    facts = dict(section.facts)
    words = [f"Measured {facts.pop('date', 'on a day that nobody wrote down')}"]
    words += [_fact(name, value) for name, value in facts.items()]
    words += [f"{name}: {value}" for name, value in section.options.items()]
    return f"*{'; '.join(words)}.*"


def _fact(name: str, value: str) -> str:
    """A fact with its name, unless the value is clear by itself."""
    return {"barnabas": f"Barnabas {value}", "command": f"`{value}`"}.get(name, value)
