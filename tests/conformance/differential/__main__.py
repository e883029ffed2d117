"""Plays random sequences to Apache Kafka and to Barnabas; see the package.

python -m tests.conformance.differential --seed 4711 --minutes 60
python -m tests.conformance.differential --seed 4711 --only 123        one sequence
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.conformance.differential.campaign import SIDE_BY_SIDE, Campaign, summary
from tests.conformance.differential.pair import Pair, transaction_version


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--only", type=int, default=None, help="this sequence of the seed only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="begin with this sequence")
    parser.add_argument("--side-by-side", type=int, default=SIDE_BY_SIDE)
    parser.add_argument(
        "--not-pipelined", action="store_true", help="send nothing on a connection with a waiting request"
    )
    parser.add_argument(
        "--transaction-version", type=int, default=None, choices=(0, 1, 2), help="default: by the seed"
    )
    options = parser.parse_args(arguments)
    seed = random.randrange(10**9) if options.seed is None else options.seed
    version = options.transaction_version
    if version is None:
        version = transaction_version(seed)
    print(f"seed {seed}, transaction version {version}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="differential-") as place,
        Pair(Path(place), transaction_version=version) as pair,
    ):
        return asyncio.run(_run(pair, seed, options))


async def _run(pair: Pair, seed: int, options: argparse.Namespace) -> int:
    versions = await pair.warm_up()
    campaign = Campaign(pair.endpoints(), versions, seed, pipelined=not options.not_pipelined)
    started = time.monotonic()
    numbers = count(options.first) if options.only is None else [options.only]
    tally = await campaign.run(numbers, started + options.minutes * 60, options.side_by_side)
    print(summary(tally, time.monotonic() - started))
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
