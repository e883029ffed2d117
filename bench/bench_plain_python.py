"""The broker as plain Python, as on a machine without a C compiler, beside the compiled one and Apache Kafka.

Rates and processor's time are those of some rows of `python -m bench side-by-side`, with a third broker in the turns:
the same source, run by the interpreter. Recovery and compaction are measured as their own benchmarks measure them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from barnabas import interpreted
from bench import bench_compaction, results
from bench.bench_recovery import recovery_of
from bench.brokers import AnyFactory, Factory, barnabas, factories
from bench.logs_on_disk import MIB, LogShape
from bench.section import Section, Table, number
from bench.side_by_side import rounds
from bench.side_by_side.command import QUICK_SCALE, said_of
from bench.side_by_side.contestants import KAFKA, OURS, Contestant, contestants, ours
from bench.side_by_side.figures import Sample, Samples
from bench.side_by_side.rounds import Plan
from bench.side_by_side.workloads import WORKLOADS, Workload
from tests.support.broker_process import BrokerProcess

PLAIN: Final = "Barnabas as plain Python"
FORMS: Final = (OURS, PLAIN, KAFKA)
ROWS: Final = ("produce-1k", "produce-16k", "produce-lz4", "small", "consume-1k", "latency-1000")
RECOVERED: Final = {"16 KiB": 16 * 1024, "1 KiB": 1024}
"""What is recovered: logs of batches of one record, by the size of a batch."""
COMPACTED: Final = tuple(shape for shape in bench_compaction.SHAPES if not shape.codec)

Rates = dict[str, float]
"""By the names of FORMS, as far as they were measured."""


class Line(NamedTuple):
    """A row of the table: the operation, its unit, and figures of which more is better."""

    title: str
    unit: str
    rates: Rates


def plain(factory: AnyFactory, directory: Path) -> BrokerProcess:
    """Makes a factory's broker run as plain Python."""
    broker = factory(directory)
    assert isinstance(broker, BrokerProcess)
    broker.environment = {**broker.environment, **interpreted.PLAIN}
    return broker


def forms(*, with_kafka: bool) -> dict[str, Factory]:
    """A factory for each of FORMS that can be started here."""
    return {PLAIN: partial(plain, barnabas), **factories(with_kafka=with_kafka)}


# -- rates --


@contextmanager
def running(options: argparse.Namespace) -> Iterator[list[Contestant]]:
    """Starts all brokers that take turns."""
    brokers = contestants(with_kafka=not options.no_kafka, launcher=None, root=options.directory)
    brokers.insert(1, Contestant(PLAIN, partial(plain, ours), options.directory))
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.remove()


def measured_rows(options: argparse.Namespace) -> tuple[list[Workload], Samples]:
    """Some rows of the side-by-side benchmark, on all these brokers."""
    rows = [row for row in WORKLOADS if row.name in ROWS]
    plan = Plan(1, 0, QUICK_SCALE, retries=0) if options.quick else Plan(options.rounds)

    def tell(sample: Sample) -> None:
        print(said_of(sample), flush=True)

    with running(options) as brokers:
        return rows, rounds.run(rounds.turns(rows, brokers, plan), plan, tell)


def rates_table(rows: Sequence[Workload], samples: Samples) -> Table:
    """Medians of rates and of the processor's time, the forms beside each other."""
    measured = [who for who in FORMS if any(samples.of(row.name, who) for row in rows)]
    heads = ["", *(f"{what}: {who}" for what in ("a second", "broker CPU us") for who in measured)]
    lines = [
        [
            row.title,
            *(number(samples.median(row.name, who, "rate"), 0) for who in measured),
            *(number(samples.median(row.name, who, "cpu_us")) for who in measured),
        ]
        for row in rows
    ]
    return Table(heads, lines)


def rates_figures(rows: Sequence[Workload], samples: Samples) -> dict[str, float]:
    """`row.figure` of the broker as plain Python, and behind it `.times`: how many times the compiled one's it is."""
    found: dict[str, float] = {}
    for row in rows:
        for figure in ("rate", "cpu_us"):
            value = samples.median(row.name, PLAIN, figure)
            times = samples.ratio(row.name, figure, PLAIN, OURS)
            found |= {f"{row.name}.{figure}": value} if value is not None else {}
            found |= {f"{row.name}.{figure}.times": times} if times is not None else {}
    return found


# -- recovery and compaction --


def recovery_lines(options: argparse.Namespace) -> Iterator[Line]:
    """Recovery of a log in the page cache, in GB a second."""
    for name, batch_bytes in RECOVERED.items():
        rates: Rates = {}
        shape = LogShape(options.size * MIB, batch_bytes)
        for who, factory in forms(with_kafka=not options.no_kafka).items():
            with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-plain-") as place:
                seconds, _ = recovery_of(factory, Path(place), shape, 1 if options.quick else 3)
            rates[who] = options.size * MIB / seconds / 1e9
        yield Line(f"recovery of batches of {name}", "GB/s", rates)


def compaction_lines(options: argparse.Namespace) -> Iterator[Line]:
    """Compaction of logs with 10 % live keys, in MiB a second."""
    beside_kafka = not options.no_kafka and bench_compaction.with_kafka()
    for shape in COMPACTED:
        with tempfile.TemporaryDirectory(dir=options.directory, prefix="bench-plain-") as place:
            directory = Path(place) / "t-0"
            bench_compaction.write_log(directory, shape, options.size * MIB)
            size = sum(segment.size for segment in bench_compaction.plan_for(directory).segments)
            found = {
                OURS: bench_compaction.clean_by_ours(directory),
                PLAIN: bench_compaction.clean_by_ours(directory, is_interpreted=True),
            }
            if beside_kafka:
                found[KAFKA] = bench_compaction.clean_by_kafka(directory)
        rates = {who: size / figures.seconds / MIB for who, figures in found.items()}
        yield Line(f"compaction of records of {shape.value_bytes} B", "MiB/s", rates)


def lines_table(lines: Sequence[Line]) -> Table:
    """The forms beside each other."""
    named = [who for who in FORMS if any(who in line.rates for line in lines)]
    rows = [[f"{line.title}, {line.unit}", *(number(line.rates.get(who)) for who in named)] for line in lines]
    return Table(["", *named], rows)


def lines_figures(lines: Sequence[Line]) -> Mapping[str, float]:
    """The figures of the broker as plain Python."""
    return {f"{line.title}, {line.unit}": line.rates[PLAIN] for line in lines}


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, help="MiB to recover and to compact; 512, or 20 when --quick")
    parser.add_argument(
        "--directory", type=Path, help="where to work, by default the place for temporary files"
    )
    options = parser.parse_args(argv)
    options.size = options.size or (20 if options.quick else 512)
    rows, samples = measured_rows(options)
    lines = [*recovery_lines(options), *compaction_lines(options)]
    section = Section(
        name="plain-python",
        title="Without a C compiler",
        prose=[
            "The same source runs as plain Python where nothing could be compiled; the line at start says which of the "
            "two it is. All brokers run at once and are asked in turns, as in the tables above: medians of "
            f"{options.rounds} rounds. With three of them everything costs more than in those tables, above all the "
            "pages of files, which the system has given away in between: compare within a line. Below them, one at a "
            "time, the recovery of a log and its compaction, which is where loops over batches and records show."
        ],
        tables=[rates_table(rows, samples), lines_table(lines)],
        figures={**rates_figures(rows, samples), **lines_figures(lines)},
        options={"rounds": str(options.rounds), "MiB to recover and to compact": str(options.size)},
    )
    results.publish(section, options)
    if lost := samples.missing(OURS) + samples.missing(PLAIN):
        sys.exit(f"{lost:.0f} acknowledged messages are missing")


if __name__ == "__main__":
    main()
