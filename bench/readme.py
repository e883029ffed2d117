"""Writes the figures in README.md, from the stored runs beside Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bench.section import Section

BEGIN: Final = "<!-- generated: figures of `make bench`, written by it and by `make docs` -->\n"
END: Final = "<!-- end of the figures -->\n"


class Quoted(NamedTuple):
    """A line of the table: its title, the key of its figure, and its format."""

    text: str
    section: str
    figure: str
    form: str


QUOTED: Final = (
    Quoted("produce 1 KiB, messages a second", "produce", "produce-1k.rate", "{:,.0f}"),
    Quoted("broker's processor time for each of those", "produce", "produce-1k.cpu_us", "{:.2f} us"),
    Quoted("consume 1 KiB, messages a second", "consume", "consume-1k.rate", "{:,.0f}"),
    Quoted("broker's processor time for each of those", "consume", "consume-1k.cpu_us", "{:.2f} us"),
    Quoted("one message a request, 16 producers, a second", "produce", "small.rate", "{:,.0f}"),
    Quoted("broker's processor time for each of those", "produce", "small.cpu_us", "{:.0f} us"),
    Quoted(
        "from producer to consumer at 1,000 a second, median", "latency", "latency-1000.p50_ms", "{:.2f} ms"
    ),
    Quoted("99th percentile of that", "latency", "latency-1000.p99_ms", "{:.2f} ms"),
    Quoted("start in a new directory", "processes", "processes.start_s", "{:.2f} s"),
    Quoted("memory when idle", "processes", "processes.idle_mib", "{:.0f} MiB"),
    Quoted("memory after the load", "processes", "processes.loaded_mib", "{:.0f} MiB"),
    Quoted("start after the load", "processes", "processes.restart_s", "{:.2f} s"),
)


def part(sections: Iterable[Section]) -> str:
    """The table, with machine and date; only a pointer before the first measurement."""
    by_name = {section.name: section for section in sections}
    rows = [row for one in QUOTED if (row := _row(one, by_name))]
    if not rows:
        return "[docs/performance.md](docs/performance.md) has what was measured, beside Apache Kafka.\n"
    first = next(by_name[one.section] for one in QUOTED if one.section in by_name)
    facts = first.facts
    lines = ["| | Barnabas | Apache Kafka | ratio |", "| --- | ---: | ---: | ---: |", *rows]
    where = "; ".join(facts[name] for name in ("date", "machine", "kafka") if name in facts)
    return (
        "\n".join(lines)
        + f"\n\nMedians, client and brokers on one machine ({where}); all rows, and how they were "
        + ("measured: [docs/performance.md](docs/performance.md).\n")
    )


def _row(one: Quoted, by_name: Mapping[str, Section]) -> str | None:
    section = by_name.get(one.section)
    if section is None or one.figure not in section.figures:
        return None
    theirs, ratio = (section.figures.get(f"{one.figure}.{which}") for which in ("kafka", "ratio"))
    cells = [
        one.text,
        one.form.format(section.figures[one.figure]),
        "-" if theirs is None else one.form.format(theirs),
        "-" if ratio is None else f"{ratio:.2f} x",
    ]
    return f"| {' | '.join(cells)} |"


def rewritten(text: str, sections: Iterable[Section]) -> str:
    """A README with the table in its place."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + part(sections) + END + after
