"""The sections of docs/performance.md that a run gives, and that of docs/performance/targets.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bench.section import Section, Table, number
from bench.side_by_side import lifecycle
from bench.side_by_side.contestants import EITHER, KAFKA, OURS
from bench.side_by_side.figures import Samples
from bench.side_by_side.targets import Target, targets_of
from bench.side_by_side.workloads import Part, Workload


class Figure(NamedTuple):
    """One that tables show: its name among the figures, its heads, digits behind the point, with ratio or not."""

    name: str
    head: str
    digits: int | None = None
    ratio: bool = False


FIGURES: Final[Mapping[str, Figure]] = {
    figure.name: figure
    for figure in (
        Figure("rate", "a second", 0, ratio=True),
        Figure("p50_ms", "p50 ms", 2, ratio=True),
        Figure("p99_ms", "p99 ms", 2, ratio=True),
        Figure("p999_ms", "p99.9 ms", 2),
        Figure("cpu_us", "broker CPU us", ratio=True),
        Figure("cpu_s_gb", "CPU s a GB"),
        Figure("peak_mib", "peak MiB", 0),
        Figure("start_s", "start in a new directory, s"),
        Figure("start_cpu_s", "processor's time of that, s"),
        Figure("idle_mib", "memory when idle, MiB", 0),
        Figure("idle_cpu_percent", "processor when idle, %", 2),
        Figure("loaded_mib", "memory after the load, MiB", 0),
        Figure("stop_s", "stop after the load, s"),
        Figure("restart_s", "start after the load, s"),
        Figure("crash_s", "start after kill -9 under load, s"),
    )
}

SHOWN: Final = {
    Part.PRODUCE: ("rate", "cpu_us", "cpu_s_gb", "peak_mib"),
    Part.CONSUME: ("rate", "cpu_us", "cpu_s_gb", "peak_mib"),
    Part.LATENCY: ("rate", "p50_ms", "p99_ms", "p999_ms", "cpu_us", "peak_mib"),
}

TITLES: Final = {
    Part.PRODUCE: "Produce, beside Apache Kafka",
    Part.CONSUME: "Consume and describe, beside Apache Kafka",
    Part.LATENCY: "From producer to consumer at a pace, beside Apache Kafka",
}

_HOW: Final = (
    "Both brokers run at once on the machine that the clients run on, and are asked in turns: in each round every row "
    "on one, then on the other; the next round begins with the other. {rounds} rounds count, after {warm_ups} that "
    "only warm both up. Figures are medians of the rounds, ratios (Barnabas to Apache Kafka) medians of the "
    "rounds' ratios. "
    "Apache Kafka has the heap and the flags of its own start script (1 GiB), Barnabas Apache Kafka's defaults. "
    "Clients are librdkafka's where the row names no other, with acks=all; topics have 4 partitions where it says no "
    "other number."
)
_CPU: Final = (
    "Broker CPU is the processor's time of the broker's whole process tree, in microseconds a message, which is "
    "seconds a million messages; it says more than the rate, which client and broker make together. Peak memory is "
    "the most that was resident during the row. Missing: acknowledged and not there, or there and not read, in any "
    "round."
)
_OF_PART: Final = {
    Part.PRODUCE: "Values look like lines of a log in JSON: lz4 has about half of them left.",
    Part.CONSUME: "What is read lies in the page cache. Several consumers read everything each; 16 and more "
    "have read it once, for nothing, before the first of the two brokers is measured. A request for metadata "
    "counts as a message, and its answer as the bytes.",
    Part.LATENCY: "100 B a message, linger 0. The age of a message when the consumer's application has it. "
    "Beside a consumer that catches up, CPU is for each message that it reads.",
}


def sections(samples: Samples, rows: Sequence[Workload], options: Mapping[str, str]) -> list[Section]:
    """All that a run gives: targets first, then a section for each part, and the processes."""
    found = [_targets(samples, rows, options)] if _has(samples, KAFKA) else []
    for part in Part:
        chosen = [row for row in rows if row.part is part and samples.of(row.name, OURS)]
        found += [_part(samples, part, chosen, options)] if chosen else []
    if samples.of(lifecycle.ROW, OURS):
        found.append(_processes(samples, options))
    return found


def _has(samples: Samples, broker: str) -> bool:
    return any(sample.broker == broker and sample.counts for sample in samples.all)


def _how(options: Mapping[str, str]) -> str:
    return _HOW.format(rounds=options["rounds"], warm_ups=options["rounds to warm up"])


def _part(samples: Samples, part: Part, rows: Sequence[Workload], options: Mapping[str, str]) -> Section:
    shown = [FIGURES[name] for name in SHOWN[part]]
    heads = [
        f"{figure.head}, {who}"
        for figure in shown
        for who in ("Barnabas", "Kafka", *(["ratio"] if figure.ratio else []))
    ]
    lines = [
        [
            row.title,
            *(cell for figure in shown for cell in _cells(samples, row.name, figure)),
            _missing(samples, row.name),
        ]
        for row in rows
    ]
    figures = {
        name: value for row in rows for name, value in numbers_of(samples, row.name, [*SHOWN[part], "mb_s"])
    }
    return Section(
        name=part.value,
        title=TITLES[part],
        prose=[_how(options), f"{_CPU} {_OF_PART[part]}"],
        tables=[Table(["", *heads, "missing, Barnabas and Kafka"], lines)],
        figures=figures,
        options=options,
        remarks=errors_of(samples, [row.name for row in rows]),
    )


def _cells(samples: Samples, row: str, figure: Figure) -> list[str]:
    cells = [number(samples.median(row, who, figure.name), figure.digits) for who in (OURS, KAFKA)]
    if figure.ratio:
        cells.append(number(samples.ratio(row, figure.name, OURS, KAFKA), 2))
    return cells


def _missing(samples: Samples, row: str) -> str:
    return ", ".join(number(samples.worst(row, who, "missing"), 0) for who in (OURS, KAFKA))


def numbers_of(samples: Samples, row: str, names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """`row.figure`, and behind it `.kafka` and `.ratio`."""
    for name in names:
        values = {
            "": samples.median(row, OURS, name),
            ".kafka": samples.median(row, KAFKA, name),
            ".ratio": samples.ratio(row, name, OURS, KAFKA),
        }
        yield from ((f"{row}.{name}{suffix}", value) for suffix, value in values.items() if value is not None)


def errors_of(samples: Samples, rows: Sequence[str]) -> list[str]:
    """A remark for each row that failed."""
    return [
        f"{row} failed on {who}: {', '.join(sorted(set(errors)))}."
        for row in rows
        for who in (OURS, KAFKA, EITHER)
        if (errors := samples.errors(row, who))
    ]


def _processes(samples: Samples, options: Mapping[str, str]) -> Section:
    row = lifecycle.ROW
    names = [name for name in list(FIGURES)[7:] if samples.median(row, OURS, name) is not None]
    lines = [
        [
            FIGURES[name].head,
            *_cells(samples, row, FIGURES[name]),
            number(samples.ratio(row, name, OURS, KAFKA), 2),
        ]
        for name in names
    ]
    lines.append(["messages missing after restarts and kills", *_missing(samples, row).split(", "), "-"])
    return Section(
        name="processes",
        title="Start, memory and restart, beside Apache Kafka",
        prose=[
            "From the spawn of the process to the first answer that names a broker; Apache Kafka's directory is "
            "formatted beforehand, Barnabas formats its own within that time. Memory is what is resident, of all "
            "processes of the broker. The load is all that the other tables show. With kill -9 the process ends while "
            "a producer sends as fast as it can, which goes on when the broker is back."
        ],
        tables=[Table(["", "Barnabas", "Kafka", "ratio"], lines)],
        figures=dict(numbers_of(samples, row, names)),
        options=options,
        remarks=errors_of(samples, [row]),
    )


def judged(samples: Samples, rows: Sequence[Workload]) -> list[tuple[str, Target, float, bool]]:
    """Title, target, the ratio that was measured, whether it is kept: of every row that was measured on both."""
    named = [(row.name, f"{row.part.value}: {row.title}", row.part.value) for row in rows]
    found = []
    for name, title, part in [*named, (lifecycle.ROW, "", lifecycle.ROW)]:
        for target in targets_of(name, part):
            ratio = samples.ratio(name, target.figure, OURS, KAFKA)
            if ratio is not None:
                found.append((title, target, ratio, target.is_kept(ratio)))
    return found


def _targets(samples: Samples, rows: Sequence[Workload], options: Mapping[str, str]) -> Section:
    found = judged(samples, rows)
    kept = sum(is_kept for *_, is_kept in found)
    lost = sum(
        samples.worst(name, OURS, "missing") or 0 for name in [*(row.name for row in rows), lifecycle.ROW]
    )
    lines = [
        [
            f"{title}: {FIGURES[target.figure].head}".removeprefix(": "),
            target.text,
            f"{number(ratio, 2)} x",
            "yes" if is_kept else "**no**",
        ]
        for title, target, ratio, is_kept in found
    ]
    return Section(
        name="targets",
        title="Targets, and whether they are met",
        prose=[
            "Ratios of Barnabas to Apache Kafka. A row without a target of its own has to be ahead: a ratio of 1. "
            f"{kept} of {len(found)} are met. {number(lost, 0)} acknowledged messages were missing at the end of any "
            "row."
        ],
        tables=[Table(["", "target", "measured", "met"], lines)],
        figures={"kept": float(kept), "targets": float(len(found)), "missing": float(lost)},
        options=options,
    )
