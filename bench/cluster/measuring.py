"""The clients of one measurement in a cluster, and the processor time of each of its nodes meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench import accounting, machine
from bench.cluster.clusters import BROKERS, Cluster
from bench.side_by_side.crew import Crew, Measured
from bench.side_by_side.job import Job

PATIENCE_S: Final = 120.0
TOUCHED_BYTES: Final = 1 << 30
"""More than a row writes. Both kinds of cluster begin each row with so much memory that the machine has at hand."""
_SETTLE_S: Final = 0.3


@dataclass(frozen=True)
class Used:
    """Processor time between two moments, in seconds; `others` is the share of the machine that none of these used."""

    nodes: Mapping[int, float]
    """By the id of the node, the controller's included."""
    clients: float
    others: float

    def of(self, brokers: Sequence[int] = BROKERS) -> float:
        """The sum over some brokers."""
        return sum(self.nodes[node] for node in brokers)


class Meter:
    """Measures from its construction on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes = cluster.cpu_s()
        self._busy_s, self._began = accounting.machine_busy_s(), time.monotonic()

    def used(self, clients_s: float = 0.0) -> Used:
        """The processor time since then."""
        busy_s = accounting.machine_busy_s() - self._busy_s
        elapsed_s = time.monotonic() - self._began
        nodes = {node: now - self._nodes[node] for node, now in self._cluster.cpu_s().items()}
        others_s = max(busy_s - sum(nodes.values()) - clients_s, 0.0)
        return Used(nodes, clients_s, others_s / (elapsed_s * machine.cores()))


def measure(jobs: Sequence[Job], cluster: Cluster) -> tuple[Measured, Used]:
    """Runs the workers; their outcomes with the processor time of all brokers, and the time of each node."""
    with Crew(jobs, PATIENCE_S) as crew:
        meter = Meter(cluster)
        crew.go()
        outcomes = crew.outcomes()
        time.sleep(_SETTLE_S)  # what followers fetch after the last acknowledgement counts
        used = meter.used(sum(outcome.cpu_s for outcome in outcomes))
    return Measured(outcomes, used.of(), used.others, peak_mib=0.0), used
