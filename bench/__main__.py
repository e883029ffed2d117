"""`make bench`, that is `python -m bench [WHAT ...] [OPTIONS]`: Barnabas beside Apache Kafka, or the named benchmarks.

All benchmarks accept --quick, --no-kafka and --results DIR; for the others see, for example, `python -m bench soak -h`.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Benchmark(NamedTuple):
    """A module whose main(argv) measures, prints and publishes; it exits with a status when a claim does not hold."""

    module: str
    text: str


BENCHMARKS: Final[Mapping[str, Benchmark]] = {
    "side-by-side": Benchmark(
        "side_by_side.command", "rates, processor's time, latency, memory, starts, beside Apache Kafka"
    ),
    "cluster": Benchmark("cluster.command", "a replicated cluster, beside one of Apache Kafka"),
    "security": Benchmark("security.command", "TLS, logins, ACLs and quotas, beside Apache Kafka"),
    "soak": Benchmark("side_by_side.soak", "half an hour at half the rate, with retention and compaction"),
    "startup": Benchmark("startup", "start-up time and idle memory, beside Apache Kafka"),
    "recovery": Benchmark(
        "bench_recovery", "recovery of a large log and opening of many, beside Apache Kafka"
    ),
    "partitions": Benchmark(
        "bench_partitions", "ten thousand partitions made, described, started again, beside Apache Kafka"
    ),
    "groups": Benchmark("bench_groups", "groups and transactions, beside Apache Kafka"),
    "group-loading": Benchmark(
        "bench_group_loading", "loading of committed offsets, with the event loop beside it"
    ),
    "lookup": Benchmark("bench_lookup", "lookups by offset and by timestamp, beside Apache Kafka"),
    "compaction": Benchmark("bench_compaction", "compaction of a large log, beside Apache Kafka's cleaner"),
    "moves": Benchmark("bench_moves", "a replica that moves between log directories, beside Apache Kafka"),
    "metadata": Benchmark("bench_metadata_log", "the metadata log: changes, start, snapshots"),
    "ingest": Benchmark("bench_ingest", "ingest through Spark's Kafka connector, beside Apache Kafka"),
    "scan": Benchmark("bench_scan", "Spark in a log directory, beside its connector on Apache Kafka"),
    "storage": Benchmark("bench_storage", "append, read and recover"),
    "records": Benchmark("bench_records", "the loop over records"),
    "micro": Benchmark("micro", "what each step of a request costs, without sockets or clients"),
    "plain-python": Benchmark(
        "bench_plain_python", "the broker where nothing could be compiled, beside both others"
    ),
    "codec": Benchmark("bench_codec", "the compiled message codec beside construct"),
}
USUAL: Final = "side-by-side"
ALL: Final = "all"


def usage() -> str:
    """The list of benchmarks."""
    lines = [f"  {name:<14}{one.text}" for name, one in BENCHMARKS.items()]
    return "\n".join([str(__doc__), *lines, f"  {ALL:<14}all of these, one after the other"])


def chosen(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The named benchmarks, and their arguments."""
    names = [word for word in words if word in BENCHMARKS or word == ALL]
    rest = [word for word in words if word not in names]
    if ALL in names:
        names = list(BENCHMARKS)
    return names or [USUAL], rest


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the named benchmarks; returns 1 when a claim does not hold."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words in (["--help"], ["-h"]):
        print(usage())
        return 0
    for kind in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, _end)  # so that brokers and clients end with it
    names, rest = chosen(words)
    kept = True
    for name in names:
        if len(names) > 1:
            print(f"\n== {name}: {BENCHMARKS[name].text}", flush=True)
        kept = run(name, rest) and kept
    return 0 if kept else 1


def _end(number: int, _: object) -> None:
    sys.exit(f"ended by signal {number}")


def run(name: str, words: Sequence[str]) -> bool:
    """False when it ends with a status."""
    try:
        importlib.import_module(f"bench.{BENCHMARKS[name].module}").main(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return not end.code
    return True


if __name__ == "__main__":
    sys.exit(main())
