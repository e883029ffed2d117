"""Runs simulations of a cluster: one with its last steps shown, or many.

python -m tests.simulation.cluster 4711                one seed; --lines for more of its trace
python -m tests.simulation.cluster --from 0 --count 1000
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence

from tests.simulation.cluster.scenario import Scenario

HASH_SEED = "0"
SEEDS_BETWEEN_COLLECTIONS = 10


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument(
        "--lines", type=int, default=60, help="lines of the trace that are shown after a failure"
    )
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no seed after this time")
    parser.add_argument("--go-on", action="store_true", help="continue after a failure")
    options = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # it decides the order of sets of strings
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.cluster", *arguments])
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    else:
        seeds = range(options.first, options.first + options.count * options.stride, options.stride)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the trace says more
    try:
        return _run(seeds, options)
    finally:
        logging.disable(disabled)


def _run(seeds: Sequence[int], options: argparse.Namespace) -> int:
    started = time.perf_counter()
    gc.disable()  # collections take a third of the time otherwise
    failed: list[int] = []
    count = steps = 0
    for seed in seeds:
        if time.perf_counter() - started > options.seconds:
            break
        if count % SEEDS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        scenario = Scenario(seed)
        count += 1
        try:
            scenario.run()
        except Exception:
            failed.append(seed)
            _show(scenario, options.lines)
            if not options.go_on:
                break
        steps += scenario.steps
    gc.enable()
    print(
        f"{count} seeds from {seeds[0]} on, failed: {failed}; {steps} steps, {time.process_time():.1f} s of CPU time"
    )
    return 1 if failed else 0


def _show(scenario: Scenario, lines: int) -> None:
    print("\n".join(scenario.lines[-lines:]))
    traceback.print_exc(limit=-6, file=sys.stdout)
    print(
        f"SEED {scenario.seed} FAILED ({len(scenario.brokers)} brokers, min ISR {scenario.controller.min_isr}, "
        f"ELR {scenario.elr}, unclean {scenario.unclean}); "
        f"again: .venv/bin/python -m tests.simulation.cluster {scenario.seed}"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
