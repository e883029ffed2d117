"""`make bench`, that is `python -m bench [WHAT ...]`: all benchmarks, or those that are named."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable

from bench import side_by_side, startup
from bench.brokers import factories


def _module(name: str) -> Callable[[argparse.Namespace], bool]:
    """A benchmark with a main() of its own, which ends with a status where it does not keep what it claims."""

    def run(_: argparse.Namespace) -> bool:
        try:
            importlib.import_module(f"bench.{name}").main([])
        except SystemExit as end:
            if end.code:
                print(end.code)
            return not end.code
        return True

    return run


def _startup(options: argparse.Namespace) -> bool:
    return startup.report(factories(with_kafka=not options.no_kafka), options.starts)


def _throughput(options: argparse.Namespace) -> bool:
    side_by_side.report(factories(with_kafka=not options.no_kafka), options.rounds)
    return True


BENCHMARKS: dict[str, tuple[str, Callable[[argparse.Namespace], bool]]] = {
    "startup": ("start-up time and idle memory, beside Apache Kafka", _startup),
    "throughput": ("produce and consume, beside Apache Kafka", _throughput),
    "codec": ("the compiled message codec beside construct", _module("bench_codec")),
    "compaction": (
        "compaction of a large log, beside Apache Kafka's cleaner on the same files",
        _module("bench_compaction"),
    ),
    "group-loading": (
        "loading of committed offsets, with the event loop beside it",
        _module("bench_group_loading"),
    ),
    "groups": (
        "groups and transactions: first records, commits, memory with a thousand groups, beside Apache Kafka",
        _module("bench_groups"),
    ),
    "records": ("the loop over records", _module("bench_records")),
    "recovery": (
        "recovery of a large log and opening of many, beside Apache Kafka",
        _module("bench_recovery"),
    ),
    "metadata": ("the metadata log: changes, start, snapshots", _module("bench_metadata_log")),
    "lookup": ("lookups by offset and by timestamp, beside Apache Kafka", _module("bench_lookup")),
    "moves": ("a replica that moves between log directories, beside Apache Kafka", _module("bench_moves")),
    "partitions": (
        "ten thousand partitions made, described, started again, beside Apache Kafka",
        _module("bench_partitions"),
    ),
    "storage": ("append, read and recover", _module("bench_storage")),
}


def main(argv: list[str] | None = None) -> int:
    """Runs what is asked for; 1 when one of them does not keep what it claims."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Barnabas.")
    described = "; ".join(f"{name}: {text}" for name, (text, _) in BENCHMARKS.items())
    parser.add_argument("what", nargs="*", help=f"all when none is named. {described}")
    parser.add_argument(
        "--no-kafka", action="store_true", help="leaves Apache Kafka out even where Java is there"
    )
    parser.add_argument("--starts", type=int, default=startup.STARTS, help="how often each broker is started")
    parser.add_argument(
        "--rounds", type=int, default=side_by_side.ROUNDS, help="rounds of the throughput workloads"
    )
    options = parser.parse_args(argv)
    if unknown := set(options.what) - set(BENCHMARKS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    kept = True
    for name in options.what or BENCHMARKS:
        text, run = BENCHMARKS[name]
        print(f"\n== {name}: {text}", flush=True)
        kept = run(options) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
