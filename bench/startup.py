"""From spawn to the first Metadata answer: a new directory, after a stop, after kill -9; and memory when idle.

The first start of ours formats its storage within that time; Apache Kafka's is formatted beforehand and does not count.
Starts after a load are among the rows of `python -m bench`.
"""

from __future__ import annotations

import compileall
import contextlib
import io
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench import results
from bench.brokers import Broker, Factory, factories, fresh, rss_mib
from bench.section import Section, Table, number
from tests.support.apache_kafka import ApacheKafka, answers_metadata

STARTS: Final = 10
QUICK_STARTS: Final = 2
LIMIT_S: Final = 120.0
SETTLE_S: Final = 2.0
CLAIMED_MIB: Final = 60.0
"""What an idle broker takes at most; a test holds it to that."""
PACKAGES: Final = ("barnabas", "broker", "cli", "config", "protocol", "security", "storage")


class Startup(NamedTuple):
    """The figures of some rounds of one broker; seconds, and MiB."""

    new: list[float]
    stopped: list[float]
    killed: list[float]
    idle_mib: list[float]


STATES: Final = {
    "new": "in a new directory",
    "stopped": "after a clean stop",
    "killed": "after kill -9",
}


def one_round(factory: Factory, found: Startup) -> None:
    """Three starts on one directory."""
    with fresh(factory) as broker:
        if isinstance(broker, ApacheKafka):
            broker.prepare()
        found.new.append(start_s(broker))
        time.sleep(SETTLE_S)
        found.idle_mib.append(rss_mib(broker))
        broker.stop()
        found.stopped.append(start_s(broker))
        broker.kill()
        found.killed.append(start_s(broker))


def first_start_s(factory: Factory) -> float:
    """The first start of a broker of its own."""
    with fresh(factory) as broker:
        return start_s(broker)


def start_s(broker: Broker) -> float:
    """Seconds from the spawn to the first answer."""
    started = time.perf_counter()
    broker.spawn()
    wait_for_metadata(broker, started)
    return time.perf_counter() - started


def wait_for_metadata(broker: Broker, started: float) -> None:
    """Requests Metadata repeatedly from the spawn on."""
    while not answers_metadata(broker.bootstrap):
        if time.perf_counter() - started > LIMIT_S:
            raise TimeoutError(f"no Metadata answer within {LIMIT_S:g} s")
        if not broker.pid:
            raise ChildProcessError("it ended")
        time.sleep(0.002)


def compile_ahead() -> None:
    """Compiles bytecode as `make run` does, so that starts do not include it."""
    root = Path(__file__).parents[1]
    with contextlib.redirect_stdout(io.StringIO()):
        for package in PACKAGES:
            compileall.compile_dir(str(root / package), quiet=2)


def measure(brokers: dict[str, Factory], rounds: int) -> dict[str, Startup]:
    """Brokers in turns, after a round that only warms the page cache."""
    compile_ahead()
    found = {name: Startup([], [], [], []) for name in brokers}
    for name, factory in brokers.items():
        one_round(factory, Startup([], [], [], []))
        print(f"{name}: page cache is warm", flush=True)
    for _ in range(rounds):
        for name, factory in brokers.items():
            one_round(factory, found[name])
    return found


def section(found: dict[str, Startup], rounds: int) -> Section:
    """Times and memory of all brokers, and ours as a ratio to the second's."""
    ours, *others = found.values()
    rows, figures = [], {}
    measures = {f"start {text}, s": state for state, text in STATES.items()} | {
        "idle memory, MiB": "idle_mib"
    }
    for title, field in measures.items():
        medians = [statistics.median(getattr(one, field)) for one in found.values()]
        ratio = medians[0] / medians[1] if others else None
        quickest = min(getattr(ours, field))
        rows.append([title, *map(number, medians), number(quickest), number(ratio)])
        figures[title] = round(medians[0], 3)
        if ratio is not None:
            figures[f"{title}: ratio"] = round(ratio, 3)
    name = next(iter(found))
    return Section(
        name="startup",
        title="Starts, and memory when idle",
        prose=[
            "From the spawn of the process to its first Metadata answer, asked for from the first moment on; nothing"
            " was written before. Barnabas formats a new directory within that time, Apache Kafka's is formatted"
            f" beforehand. Brokers in turns, medians of {rounds}; memory is that of all processes {SETTLE_S:g} s after"
            " a start."
        ],
        tables=[Table(["", *found, f"{name}: best", "ratio"], rows)],
        figures=figures,
        options={"starts": str(rounds)},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and publishes."""
    parser = results.arguments(__doc__)
    parser.add_argument("--starts", type=int, help=f"rounds of three starts ({STARTS})")
    options = parser.parse_args(argv)
    rounds = options.starts or (QUICK_STARTS if options.quick else STARTS)
    found = measure(factories(with_kafka=not options.no_kafka), rounds)
    results.publish(section(found, rounds), options)


if __name__ == "__main__":
    main()
