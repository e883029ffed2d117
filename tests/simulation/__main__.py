"""Runs simulations: one with its last steps shown, or many.

python -m tests.simulation 4711                one seed; --steps for more of its trace
python -m tests.simulation --from 0 --count 1000
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
import traceback
from collections.abc import Sequence

from tests.simulation.cast import THEMES
from tests.simulation.scenario import Scenario
from tests.simulation.trace_text import format_trace
from tests.storage.fault_env import PowerCut

ALL = ",".join(THEMES)
HASH_SEED = "0"
SEEDS_BETWEEN_COLLECTIONS = 10


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument(
        "--steps", type=int, default=60, help="lines of the trace that are shown after a failure"
    )
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no seed after this time")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--themes", default=ALL)
    parser.add_argument("--go-on", action="store_true", help="continue after a failure")
    options = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # it decides the order of sets of strings
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *arguments])
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    else:
        seeds = range(options.first, options.first + options.count * options.stride, options.stride)
    return _run(seeds, options)


def _run(seeds: Sequence[int], options: argparse.Namespace) -> int:
    themes = options.themes.split(",")
    started = time.perf_counter()
    gc.disable()  # collections take a third of the time otherwise
    count = failed = steps = 0
    failures: list[int] = []
    for seed in seeds:
        if time.perf_counter() - started > options.seconds:
            break
        if count % SEEDS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        scenario = Scenario(seed, themes)
        count += 1
        try:
            scenario.run()
        except (Exception, PowerCut):
            failed += 1
            failures.append(seed)
            _show(scenario, options.steps, options.themes)
            if not options.go_on:
                break
        steps += scenario.world.steps
    gc.enable()
    if failed and options.go_on:
        print("failed:", *failures)
    seconds, cpu_s = time.perf_counter() - started, time.process_time()
    print(
        f"{count} seeds from {seeds[0]} on, {failed} failed; {steps} steps in {seconds:.1f} s, "
        f"{cpu_s:.1f} s of them CPU time"
    )
    return 1 if failed else 0


def _show(scenario: Scenario, steps: int, themes: str) -> None:
    print(format_trace(scenario.world.lines, steps))
    traceback.print_exc(limit=-6, file=sys.stdout)
    about = ", ".join(scenario.themes)
    options = "" if themes == ALL else f" --themes '{themes}'"
    again = f".venv/bin/python -m tests.simulation {scenario.seed}{options}"
    print(f"SEED {scenario.seed} FAILED ({about}); again: {again}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
