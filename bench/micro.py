"""Cost of each step of a request, in microseconds: codec, append, read, lookup, dispatch, fetch, network.

No sockets, no clients. Each step is measured in processes of its own, with the compiled modules and with the same
source as plain Python, in turns. `best` is the cost of a step when no other process has the processor, `median` the
usual one.

    python -m bench micro                   all of it
    python -m bench.micro --only dispatch   a group, and nothing is published
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.protocol.records.record import COMPILED
from bench import results
from bench.micro_timing import Figure
from bench.section import Section, Table, number

GROUPS: Final = {
    "codec": "Codec: a message of one partition, in its newest version",
    "append": "Append: UnifiedLog.append_as_leader, checked, numbered and written to the page cache",
    "read": "Read and lookup: UnifiedLog, 101 segments of 1 MiB",
    "dispatch": "Dispatch: KafkaApis.handle, a whole frame to the chunks of its answer, over a real directory",
    "fetch": "Fetch: KafkaApis.handle, consumers of 200 partitions; no records and one batch of 100 B",
    "network": "Network: framing, order and writing of a request of 100 bytes, without sockets",
}
ROUNDS: Final = 3
SECONDS_PER_FIGURE: Final = 0.2
QUICK_SECONDS_PER_FIGURE: Final = 0.01

Found = Mapping[str, Figure]


class Both(NamedTuple):
    """The figures of one group in either form, each combined from several processes."""

    compiled: Found | None
    plain: Found


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and publishes."""
    parser = results.arguments(__doc__)
    parser.add_argument("--only", choices=GROUPS, help="one group; printed and not published")
    options = parser.parse_args(argv)
    if options.only is not None:
        results.show(section({options.only: measured(options.only, options)}))
        return
    results.publish(section({group: measured(group, options) for group in GROUPS}), options)


def measured(group: str, options: argparse.Namespace) -> Both:
    """Measures a group in processes of either form, in turns."""
    rounds = 1 if options.quick else ROUNDS
    seconds = QUICK_SECONDS_PER_FIGURE if options.quick else SECONDS_PER_FIGURE
    compiled, plain = [], []
    for _ in range(rounds):
        plain.append(in_a_process(group, seconds, plain=True))
        if COMPILED:
            compiled.append(in_a_process(group, seconds, plain=False))
    return Both(taken_together(compiled) if compiled else None, taken_together(plain))


def in_a_process(group: str, seconds: float, *, plain: bool) -> Found:
    """Parses the output of bench/micro_run.py."""
    command = [sys.executable, "-m", "bench.micro_run", group, str(seconds), *(["--plain"] if plain else [])]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {name: Figure(*figure) for name, figure in json.loads(ran.stdout).items()}


def taken_together(found: Sequence[Found]) -> Found:
    """The best of all, and the median of the medians."""
    return {
        name: Figure(
            min(one[name].best_us for one in found), statistics.median(one[name].median_us for one in found)
        )
        for name in found[0]
    }


def section(groups: Mapping[str, Both]) -> Section:
    """A table for each group."""
    return Section(
        name="micro",
        title="Step by step: microseconds of each part of a request",
        prose=[
            "One thread, no sockets and no clients, files in the page cache. `best` is the best of many short rounds"
            f" in {ROUNDS} processes, what a step costs when nothing else has the processor; `median` is that of all."
        ],
        tables=[_table(GROUPS[name], both) for name, both in groups.items()],
        figures={
            f"{group}: {name}: us": round(figure.best_us, 2)
            for group, both in groups.items()
            for name, figure in (both.compiled or both.plain).items()
        },
        remarks=[] if COMPILED else ["No module was compiled here: there was no C compiler."],
    )


def _table(title: str, both: Both) -> Table:
    heads = ["us", "compiled: best", "median", "plain Python: best", "median"]
    return Table(heads, [[name, *_cells(both, name)] for name in both.plain], title)


def _cells(both: Both, name: str) -> Iterator[str]:
    for found in both:
        yield from map(number, (None, None) if found is None else found[name])


if __name__ == "__main__":
    main()
