"""Profiles the broker under one workload: a flame graph, and its top functions. `make profile WORKLOAD=small`.

py-spy samples the broker from outside, 500 times a second, at little cost; `--native` (NATIVE=1) shows C frames,
too, those of the compiled modules and of the libraries, and costs more. Waiting threads are not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.brokers import barnabas
from bench.side_by_side import rounds
from bench.side_by_side.contestants import OURS, Contestant
from bench.side_by_side.workloads import WORKLOADS, Workload

DIRECTORY: Final = Path(__file__).parents[1] / "build" / "profile"
DEFAULT: Final = "small"
SAMPLES_A_SECOND: Final = 500
SHOWN: Final = 25
_BROKER: Final = re.compile(r"^(process \d+:|thread |_run_module_as_main|<module>|_run_code)")
_LINE: Final = re.compile(r":\d+\)$")
_WAITING: Final = "_worker (concurrent/futures/thread.py)"
"""A thread that waits for work, which py-spy takes for one at work now and then."""


class Shares(NamedTuple):
    """Samples of each function."""

    total: int
    inside: Counter[str]
    """Of it and of all that it calls."""
    itself: Counter[str]


def shares(stacks: Iterable[str]) -> Shares:
    """From `outermost;...;innermost count` lines; a function that calls itself counts once."""
    total, inside, itself = 0, Counter[str](), Counter[str]()
    for line in stacks:
        stack, _, samples = line.rpartition(" ")
        frames = [_LINE.sub(")", frame) for frame in stack.split(";")]
        if frames[-1] == _WAITING:
            continue
        total += int(samples)
        itself[frames[-1]] += int(samples)
        inside.update(dict.fromkeys((frame for frame in frames if not _BROKER.match(frame)), int(samples)))
    return Shares(total, inside, itself)


def top(found: Shares, count: int = SHOWN) -> Iterator[str]:
    """The printed lines."""
    for title, counter in (("itself", found.itself), ("with what it calls", found.inside)):
        yield f"\n{'%':>6}  {title}"
        for name, samples in counter.most_common(count):
            yield f"{100 * samples / max(found.total, 1):6.1f}  {name}"


def record(pid: int, form: str, path: Path, seconds: float, *, native: bool) -> None:
    """Samples a process for so long."""
    command = [py_spy(), "record", "--pid", str(pid), "--format", form, "--output", str(path)]
    command += ["--duration", f"{max(1, round(seconds))}", "--rate", str(SAMPLES_A_SECOND)]
    ran = subprocess.run(
        [*command, *(["--native"] if native else [])], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        sys.exit(f"py-spy failed, with status {ran.returncode}:\n{ran.stderr or ran.stdout}")


def py_spy() -> str:
    """The path of py-spy."""
    beside_python = os.path.dirname(sys.executable)
    found = shutil.which("py-spy", path=os.pathsep.join([beside_python, os.environ.get("PATH", "")]))
    if found is None:
        sys.exit("there is no py-spy: `make profile` installs it, or pip install '.[bench]'")
    return found


@contextmanager
def under_load(row: Workload, broker: Contestant) -> Iterator[None]:
    """Runs the workload repeatedly during the block."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            rounds.one(row, broker)

    rounds.one(row.scaled(0.3), broker)  # which also fills the topics, and warms up
    worker = threading.Thread(target=work, name="load")
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()


def profile(row: Workload, seconds: float, *, native: bool) -> None:
    """Profiles one broker under one load twice: for the picture, and for the list."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    picture, stacks = (DIRECTORY / f"{row.name}.{suffix}" for suffix in ("svg", "txt"))
    broker = Contestant(OURS, barnabas)
    try:
        broker.start()
        with under_load(row, broker):
            record(broker.pid, "flamegraph", picture, seconds / 2, native=native)
            record(broker.pid, "raw", stacks, seconds / 2, native=native)
    finally:
        broker.remove()
    print(f"{row.name}: {row.title}")
    print("\n".join(top(shares(stacks.read_text().splitlines()))))
    print(f"\nflame graph: {picture}\nstacks: {stacks}")


def main(argv: Sequence[str] | None = None) -> None:
    """Profiles and prints."""
    rows = {row.name: row for row in WORKLOADS}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workload", nargs="?", default=DEFAULT, choices=rows, metavar="WORKLOAD", help=", ".join(rows)
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the broker is looked at")
    parser.add_argument("--native", action="store_true", help="C frames, too")
    options = parser.parse_args(argv)
    profile(rows[options.workload], options.seconds, native=options.native)


if __name__ == "__main__":
    main()
