"""Security beside Apache Kafka: eleven minutes, --quick for one."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench import results
from bench.cluster.report import HEADS, judged
from bench.section import Section, Table
from bench.security import administration
from bench.security.contestants import PASSWORD, ROOT, USER, Secured, contestants
from bench.security.rows import ROWS, SHOWN, Group, Row
from bench.side_by_side.command import keep
from bench.side_by_side.contestants import OURS
from bench.side_by_side.figures import Sample, Samples
from bench.side_by_side.report import errors_of, numbers_of

ROUNDS: Final = 3
WARM_UPS: Final = 2
QUICK_SCALE: Final = 0.1
ACLS_OF_OTHERS: Final = 10_000
NAME: Final = "security"
SAMPLES: Final = results.ROOT / "build" / "security-samples.json"
_HOW: Final = (
    "Both brokers run at once on the machine that the clients run on, each with listeners for plain connections, TLS "
    "(AES-256-GCM), logins, and both, an authorizer, and {acls:,} ACLs of other users; they are measured in turns, "
    "and the next round begins with the other. {rounds} rounds count, after {warm_ups} that only warm up. Figures are"
    " medians of the rounds, with the smallest and the largest beside them; ratios (Barnabas to Apache Kafka) are "
    "medians of the rounds' ratios. Records are sent and read by librdkafka. Handshakes and logins are those of eight"
    " clients in two processes, each of which connects, shakes hands, asks for ApiVersions, logs in and leaves, one "
    "connection after the other: what they take of the machine is a part of the rates, but not of the processor time."
    " Latency is the age of a record when the consumer's application has it, of clients without TLS or logins, while "
    "others connect to another listener."
)


def options_of(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[Row]]:
    """The options of the command line, and the rows."""
    names = [row.name for row in ROWS]
    parser = results.arguments(__doc__)
    parser.add_argument("--rounds", type=int, help=f"rounds that count; {ROUNDS}, or 1 when --quick")
    parser.add_argument(
        "--warm-ups", type=int, help=f"rounds before them; {WARM_UPS}, for the JVM, or 0 when --quick"
    )
    parser.add_argument("--only", default="", metavar="ROW,...", help=f"of {', '.join(names)}")
    options = parser.parse_args(argv)
    wanted = [name for name in options.only.split(",") if name]
    if unknown := set(wanted) - set(names):
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    for name, usual, quick in (("rounds", ROUNDS, 1), ("warm_ups", WARM_UPS, 0)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else usual)
    if (wanted or options.no_kafka) and options.results is None:
        options.results = results.QUICK_STORE  # a part of the tables must not replace all of them
    return options, [row for row in ROWS if not wanted or row.name in wanted]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures, prints, stores; exits with a status where records are missing, or a row of ours failed."""
    options, rows = options_of(argv)
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        brokers = contestants(Path(folder), with_kafka=not options.no_kafka)
        try:
            for broker in brokers:
                start(broker)
            measure(rows, brokers, options, samples)
        finally:
            for broker in brokers:
                broker.remove()
            if samples.all:
                keep(samples, SAMPLES)
    said = {"rounds": str(options.rounds), "rounds to warm up": str(options.warm_ups)}
    said["share of the machine that others used, median"] = f"{samples.disturbance:.0%}"
    results.publish(section(samples, rows, said), options)
    if failed := [row.name for row in rows if samples.errors(row.name, OURS)]:
        sys.exit(f"failed: {', '.join(failed)}")
    if lost := samples.missing(OURS):
        sys.exit(f"{lost:.0f} acknowledged records are missing")


def start(broker: Secured) -> None:
    """Starts a broker, and gives it users and ACLs."""
    broker.start()
    with administration.connection(broker.broker.bootstrap) as connection:
        administration.add_users(connection, [USER, ROOT], PASSWORD)
        administration.add_acls(connection, USER, ACLS_OF_OTHERS)


def measure(
    rows: Sequence[Row], brokers: Sequence[Secured], options: argparse.Namespace, samples: Samples
) -> None:
    """All rounds, into `samples`."""
    scale = QUICK_SCALE if options.quick else 1.0
    for number in range(1 - options.warm_ups, options.rounds + 1):
        turn = list(brokers) if number % 2 else list(reversed(brokers))
        for row in rows:
            for broker in turn:
                sample = attempt(row, broker, number, scale)
                samples.all.append(sample)
                print(said_of(sample), flush=True)


def attempt(row: Row, broker: Secured, number: int, scale: float) -> Sample:
    """One measurement; a failure is a sample, too."""
    try:
        return Sample(row.name, broker.name, number, row.measure(broker, scale))
    except Exception:
        return Sample(row.name, broker.name, number, error=traceback.format_exc())


def said_of(sample: Sample) -> str:
    """A line of progress."""
    if sample.error:
        return f"{sample.round:3} {sample.row:18} {sample.broker:20} {sample.error.strip().splitlines()[-1]}"
    shown = {figure.name for figures in SHOWN.values() for figure in figures} | {"others"}
    said = ", ".join(f"{name} {value:.4g}" for name, value in sample.figures.items() if name in shown)
    return f"{sample.round:3} {sample.row:18} {sample.broker:20} {said}"


def section(samples: Samples, rows: Sequence[Row], options: Mapping[str, str]) -> Section:
    """The tables of all rows that were measured on ours."""
    lines = {
        group: [
            judged(samples, row, figure)  # type: ignore[arg-type]  # it has the name and the title
            for row in rows
            if row.group is group
            for figure in SHOWN[group]
            if samples.median(row.name, OURS, figure.name) is not None
        ]
        for group in Group
    }
    verdicts = [line.is_met for group in lines.values() for line in group if line.is_met is not None]
    figures = {
        name: value
        for row in rows
        for name, value in numbers_of(samples, row.name, [figure.name for figure in SHOWN[row.group]])
    }
    how = _HOW.format(acls=ACLS_OF_OTHERS, rounds=options["rounds"], warm_ups=options["rounds to warm up"])
    return Section(
        name=NAME,
        title="Security, beside Apache Kafka",
        prose=[how, f"{sum(verdicts)} of {len(verdicts)} figures are at least those of Apache Kafka."],
        tables=[
            Table(HEADS, [line.cells for line in group], name.value) for name, group in lines.items() if group
        ],
        figures=figures | {"aims met": float(sum(verdicts)), "aims": float(len(verdicts))},
        options=options,
        remarks=errors_of(samples, [row.name for row in rows]),
    )
