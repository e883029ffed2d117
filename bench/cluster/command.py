"""A cluster of Barnabas brokers beside one of Apache Kafka: a quarter of an hour, --quick for three minutes.

Both clusters have three brokers and a controller of Apache Kafka, so that Java is needed, and with it Maven the first
time. --no-kafka measures the cluster of Barnabas alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import machine, results
from bench.cluster import rounds
from bench.cluster.clusters import Cluster, clusters, usual_root
from bench.cluster.report import section
from bench.cluster.row import Row
from bench.side_by_side.command import keep
from bench.side_by_side.contestants import OURS
from bench.side_by_side.figures import Samples
from bench.side_by_side.rounds import Plan
from tests.conformance.kafka_jars import KafkaMissingError

ROUNDS: Final = 5
WARM_UPS: Final = 3
QUICK_SCALE: Final = 0.2
SAMPLES: Final = results.ROOT / "build" / "cluster-samples.json"


def options_of(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[Row]]:
    """The options of the command line, and the rows."""
    names = [row.name for row in rounds.ROWS]
    parser = results.arguments(__doc__)
    parser.add_argument("--rounds", type=int, help=f"rounds that count; {ROUNDS}, or 1 when --quick")
    parser.add_argument(
        "--warm-ups", type=int, help=f"rounds before them; {WARM_UPS}, for the JVMs, or 0 when --quick"
    )
    parser.add_argument("--scale", type=float, help="multiplies every count and duration")
    parser.add_argument("--only", default="", metavar="ROW,...", help=f"of {', '.join(names)}")
    parser.add_argument("--directory", type=Path, help="where the brokers' directories are made")
    options = parser.parse_args(argv)
    wanted = [name for name in options.only.split(",") if name]
    if unknown := set(wanted) - set(names):
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    for name, usual, quick in (("rounds", ROUNDS, 1), ("warm_ups", WARM_UPS, 0), ("scale", 1.0, QUICK_SCALE)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
    if (wanted or options.no_kafka) and options.results is None:
        options.results = results.QUICK_STORE  # a part of the tables must not replace all of them
    options.directory = options.directory or usual_root()
    return options, [row for row in rounds.ROWS if not wanted or row.name in wanted]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints, stores; exits with a status where acknowledged records are missing, or a row of ours failed."""
    options, rows = options_of(argv)
    plan = Plan(options.rounds, options.warm_ups, options.scale)
    samples = Samples()
    try:
        with _removed(clusters(options.directory, with_kafka=not options.no_kafka)) as both:
            order = rounds.stages(rows, both, plan)
            rounds.run(order, both, plan, samples, lambda text: print(text, flush=True))
    except KafkaMissingError as error:
        sys.exit(f"a cluster needs a controller of Apache Kafka: {error}")
    finally:
        if samples.all:
            keep(samples, SAMPLES)
    results.publish(section(samples, rows, _stated(options, samples), rounds.MOST_KILLS), options)
    if complaints := complaints_of(samples, rows):
        sys.exit("; ".join(complaints))


@contextmanager
def _removed(both: list[Cluster]) -> Iterator[list[Cluster]]:
    try:
        yield both
    finally:
        for cluster in both:
            cluster.remove()


def _stated(options: argparse.Namespace, samples: Samples) -> dict[str, str]:
    return {
        "rounds": str(options.rounds),
        "rounds to warm up": str(options.warm_ups),
        "scale": f"{options.scale:g}",
        "file system": machine.file_system(options.directory),
        "share of the machine that others used, median": f"{samples.disturbance:.0%}",
    }


def complaints_of(samples: Samples, rows: Sequence[Row]) -> list[str]:
    """The reasons for a status: what failed on ours, or is missing there."""
    failed = [row.name for row in rows if samples.errors(row.name, OURS)]
    found = [f"failed: {', '.join(failed)}"] if failed else []
    if lost := samples.missing(OURS):
        found.append(f"{lost:.0f} acknowledged records are missing")
    return found
