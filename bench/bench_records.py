"""How long records take: the loops that check, find, compact, decode and unpack them, compiled and as plain Python.

Both are measured in processes of their own, in turns, by the processor's time they take, and the best counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from barnabas.interpreted import PLAIN
from bench import results
from bench.record_loops import SHAPES
from bench.section import Section, Table, number

if TYPE_CHECKING:
    from collections.abc import Sequence

Figures = dict[str, dict[str, float]]
"""ns a record, by the size of the values and by what is done."""

LOOPS = "bench.record_loops"
ROUNDS = 3
SECONDS_PER_FIGURE = 0.3
LEAST_MB_PER_SECOND = 1000.0
"""What loops that have to read whole logs must do at the least with records of 1 KiB."""
CLAIMED = ("validate", "recover", "find", "compact", "columns", "decode")


def run(*, interpreted: bool, seconds: float) -> tuple[bool, Figures]:
    """Whether the loops were compiled, and their times, in a separate process."""
    command = [sys.executable, "-m", LOOPS, str(seconds)]
    environment = {**os.environ, **PLAIN} if interpreted else None
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)
    return answer["compiled"], answer["figures"]


def best(rounds: list[Figures]) -> Figures:
    """The smallest value of all rounds."""
    return {
        size: {what: min(found[size][what] for found in rounds) for what in figures}
        for size, figures in rounds[0].items()
    }


def megabytes_per_second(nanoseconds: float, size: str) -> float:
    """Megabytes of values a second."""
    return int(size) * 1000 / nanoseconds


def table(size: str, compiled: Figures, plain: Figures) -> Table:
    """One shape, the forms beside each other."""
    rows = [
        [
            what,
            number(took),
            number(megabytes_per_second(took, size)),
            number(plain[size][what]),
            number(megabytes_per_second(plain[size][what], size)),
            number(plain[size][what] / took),
        ]
        for what, took in compiled[size].items()
    ]
    heads = [
        "what is done",
        "compiled: ns a record",
        "MB/s",
        "plain Python: ns a record",
        "MB/s",
        "times as long",
    ]
    return Table(heads, rows, title=f"Values of {size} bytes, batches of a megabyte")


def too_slow(compiled: Figures) -> list[str]:
    """The loops below their targets."""
    size = str(SHAPES[0].value_bytes)
    return [
        what
        for what, took in compiled[size].items()
        if what.startswith(CLAIMED)
        and not what.endswith("gzip")  # the time of its library
        and megabytes_per_second(took, size) < LEAST_MB_PER_SECOND
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints and publishes the figures; exits with status 1 when a loop is below its target."""
    options = results.arguments(__doc__).parse_args(argv)
    seconds, rounds = (0.02, 1) if options.quick else (SECONDS_PER_FIGURE, ROUNDS)
    found: dict[bool, list[Figures]] = {False: [], True: []}
    for _ in range(rounds):
        for interpreted in (False, True):
            is_compiled, figures = run(interpreted=interpreted, seconds=seconds)
            if not is_compiled and not interpreted:
                sys.exit("the loops are not compiled here: there is no C compiler, or make did not install")
            found[interpreted].append(figures)
    compiled, plain = best(found[False]), best(found[True])
    section = Section(
        name="records",
        title="The loops over records, compiled and as plain Python",
        prose=[
            "The same source, compiled by Cython and run by the interpreter, on one core: nanoseconds of the "
            "processor's time for a record, and megabytes of values a second. Batches are checked as a produce "
            "request has them checked; half of what they hold can be packed away."
        ],
        tables=[table(str(shape.value_bytes), compiled, plain) for shape in SHAPES],
        figures={
            f"{what}, {size} B, {form} ns": took
            for form, figures in (("compiled", compiled), ("plain", plain))
            for size, by_what in figures.items()
            for what, took in by_what.items()
        },
        remarks=[
            "Unpacking is the codecs' libraries' in both forms; so is most of the CRC. Compaction without the "
            "compiler hashes its keys with BLAKE2b in place of SipHash."
        ],
    )
    results.publish(section, options)
    if slow := too_slow(compiled):
        sys.exit(f"less than {LEAST_MB_PER_SECOND:.0f} MB/s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
