"""Barnabas and Apache Kafka side by side: half an hour at its defaults, --quick for two minutes."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bench import results
from bench.section import number
from bench.side_by_side import rounds
from bench.side_by_side.contestants import EITHER, OURS, Contestant, contestants
from bench.side_by_side.figures import Sample, Samples
from bench.side_by_side.lifecycle import ROW, Lifecycle
from bench.side_by_side.report import sections
from bench.side_by_side.rounds import Plan
from bench.side_by_side.workloads import WORKLOADS, Workload

STARTS: Final = 5
RESTARTS: Final = 3
IDLE_S: Final = 5.0
QUICK_SCALE: Final = 0.05
SAMPLES: Final = results.ROOT / "build" / "samples.json"


def options_of(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[Workload]]:
    """The options of the command line, and the rows."""
    parser = results.arguments(__doc__)
    parser.add_argument("--rounds", type=int, help="rounds that count; 5, or 1 when --quick")
    parser.add_argument(
        "--warm-ups", type=int, help="rounds before them; 3, since a JVM needs so many, or 0 when --quick"
    )
    parser.add_argument("--scale", type=float, help="multiplies every count and duration")
    parser.add_argument("--only", default="", metavar="ROW,...", help=f"of {', '.join([*_names(), ROW])}")
    parser.add_argument(
        "--kafka", metavar="COMMAND", help="runs Apache Kafka: '/path/kafka run {dir} {port}'"
    )
    parser.add_argument(
        "--noise", type=float, default=0.2, help="the share of the machine that others may use"
    )
    parser.add_argument("--directory", type=Path, help="where the brokers' directories are made")
    options = parser.parse_args(argv)
    wanted = [name for name in options.only.split(",") if name]
    if unknown := set(wanted) - {*_names(), ROW}:
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    for name, usual, quick in (("rounds", 5, 1), ("warm_ups", 3, 0), ("scale", 1.0, QUICK_SCALE)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
    if (wanted or options.no_kafka) and options.results is None:
        options.results = results.QUICK_STORE  # a part of the tables must not replace all of them
    rows = [row for row in WORKLOADS if not wanted or row.name in wanted]
    options.with_processes = not wanted or ROW in wanted
    return options, [row for row in rows if not row.needs_java or shutil.which("java")]


def _names() -> list[str]:
    return [row.name for row in WORKLOADS]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints, stores."""
    options, rows = options_of(argv)
    plan = Plan(
        options.rounds,
        options.warm_ups,
        options.scale,
        noise=options.noise,
        retries=0 if options.quick else Plan._field_defaults["retries"],
    )
    with _running(options) as brokers, _progress() as progress:
        samples = measure(options, plan, rows, brokers, progress)
    keep(samples)
    said = {"rounds": str(plan.rounds), "rounds to warm up": str(plan.warm_ups), "scale": f"{plan.scale:g}"}
    if options.kafka:
        said["Apache Kafka run by"] = options.kafka
    said["share of the machine that others used, median"] = f"{samples.disturbance:.0%}"
    for section in sections(samples, rows, said):
        results.publish(section, options)
    if lost := samples.missing(OURS):
        sys.exit(f"{lost:.0f} acknowledged messages are missing")


@contextmanager
def _running(options: argparse.Namespace) -> Iterator[list[Contestant]]:
    brokers = contestants(with_kafka=not options.no_kafka, launcher=options.kafka, root=options.directory)
    try:
        yield brokers
    finally:
        for broker in brokers:
            broker.remove()


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, soft_wrap=True),
    )


def measure(
    options: argparse.Namespace,
    plan: Plan,
    rows: Sequence[Workload],
    brokers: Sequence[Contestant],
    progress: Progress,
) -> Samples:
    """Measures from the first start to the last."""
    order = rounds.turns(rows, brokers, plan)
    task = progress.add_task("starts", total=len(order))
    life = Lifecycle(brokers, progress.console.print)
    quick = options.quick or not options.with_processes
    life.starts(1 if quick else STARTS)
    life.idle(1.0 if quick else IDLE_S)

    def tell(sample: Sample) -> None:
        progress.console.print(said_of(sample), markup=False, highlight=False)
        progress.update(task, advance=1, description=f"round {sample.round}")

    samples = rounds.run(order, plan, tell)
    if options.with_processes:
        count = 1 if quick else RESTARTS
        life.loaded()
        try:
            life.restarts(count, [held for broker in brokers for held in broker.held()])
            life.kills(count)
        except Exception:  # earlier samples stay
            samples.all.append(Sample(ROW, EITHER, 0, error=traceback.format_exc()))
        samples.all += life.samples
    return samples


def said_of(sample: Sample) -> str:
    """A line of progress."""
    if sample.error:
        what = sample.error.strip().splitlines()[-1]
    else:
        names = ("rate", "p50_ms", "p99_ms", "cpu_us", "peak_mib", "others", "missing")
        what = ", ".join(f"{name} {number(sample.figures[name])}" for name in names if name in sample.figures)
    return f"round {sample.round} {sample.row} {sample.broker}: {what}"


def keep(samples: Samples, path: Path = SAMPLES) -> None:
    """Stores every sample of the last run, for closer inspection."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(sample) for sample in samples.all], indent=1)
    path.write_text(text + "\n")
