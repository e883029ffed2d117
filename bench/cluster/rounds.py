"""The order of measurements: every row on both clusters in turns, in rounds.

Rows of clients come first. For the topic with many partitions both clusters are started again in new directories, since
memory is that of brokers which have done nothing else, and since nothing else is to be measured beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bench.cluster.catch_up import CatchUp
from bench.cluster.clusters import Cluster
from bench.cluster.leaders import Leaders
from bench.cluster.loads import LOADS, WARM_UPS
from bench.cluster.many import Memory
from bench.cluster.row import Row, attempt
from bench.side_by_side.figures import Sample, Samples
from bench.side_by_side.rounds import Plan

USUAL: Final[tuple[Row, ...]] = (*LOADS, CatchUp())
MEMORY: Final[Row] = Memory()
LEADERS: Final[Row] = Leaders()
ROWS: Final = (*USUAL, MEMORY, LEADERS)
MOST_KILLS: Final = 3
Turn = tuple[int, Row, Cluster]
"""The number of the round, below 1 to warm up; what is measured, and where."""


def turns(rows: Sequence[Row], clusters: Sequence[Cluster], numbers: Sequence[int]) -> list[Turn]:
    """Rounds that begin with alternating clusters."""
    return [
        (number, row, cluster)
        for number in numbers
        for row in rows
        for cluster in (clusters if number % 2 else clusters[::-1])
    ]


def stages(rows: Sequence[Row], clusters: Sequence[Cluster], plan: Plan) -> list[list[Turn]]:
    """What is measured on clusters that were started together: the usual rows, and those with many partitions."""
    usual = [row for row in rows if row in USUAL]
    kills = range(1 - min(plan.warm_ups, 1), min(plan.rounds, MOST_KILLS) + 1)
    with_many = [
        *turns([row for row in rows if row is MEMORY], clusters, [1]),
        *turns([row for row in rows if row is LEADERS], clusters, kills),
    ]
    with_clients = turns(usual, clusters, plan.numbers)
    if with_clients and plan.warm_ups:
        with_clients = turns(WARM_UPS, clusters, [-plan.warm_ups]) + with_clients
    return [stage for stage in (with_clients, with_many) if stage]


def run(
    order: Sequence[Sequence[Turn]],
    clusters: Sequence[Cluster],
    plan: Plan,
    samples: Samples,
    tell: Callable[[str], None],
) -> None:
    """Runs all stages, and adds to the samples."""
    for stage in order:
        for cluster in clusters:
            tell(f"{cluster.name}: starts")
            cluster.start()
        for number, row, cluster in stage:
            scale = plan.scale * (plan.warm_up_scale if number < 1 and row in LOADS else 1.0)
            for sample in attempt(row, cluster, number, scale):
                samples.all.append(sample)
                tell(said_of(sample))


def said_of(sample: Sample) -> str:
    """A line of progress."""
    if sample.error:
        what = sample.error.strip().splitlines()[-1]
    else:
        what = ", ".join(f"{name} {value:,.4g}" for name, value in sample.figures.items())
    return f"round {sample.round} {sample.row} {sample.broker}: {what}"
