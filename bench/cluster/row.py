"""A row of the benchmark of a cluster, and an attempt to measure it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Protocol

from bench.cluster.clusters import Cluster
from bench.cluster.figures import Group
from bench.side_by_side.figures import Sample


class Row(Protocol):
    """One row: everything in it is measured by `measure`, which leaves the cluster as it was."""

    @property
    def name(self) -> str:
        """The name of its samples."""

    @property
    def title(self) -> str:
        """What the report calls it."""

    @property
    def group(self) -> Group:
        """The table that it is in."""

    def measure(self, cluster: Cluster, scale: float) -> Sequence[dict[str, float]]:
        """The figures of one measurement, or of several brokers; `scale` multiplies what there is to do."""


def attempt(row: Row, cluster: Cluster, number: int, scale: float) -> list[Sample]:
    """The samples of one round, when what it deleted is gone. After a failure the cluster is started again, empty."""
    try:
        found = row.measure(cluster, scale)
        cluster.wait_until_deleted()
    except Exception:
        failed = Sample(row.name, cluster.name, number, error=traceback.format_exc())
        cluster.start()
        return [failed]
    return [Sample(row.name, cluster.name, number + place, figures) for place, figures in enumerate(found)]
