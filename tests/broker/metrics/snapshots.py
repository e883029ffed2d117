"""Collects all metrics of a broker in one step, for tests."""

from __future__ import annotations

from barnabas.broker.metrics.prometheus import Metrics, Snapshot


def snapshot_at_once(metrics: Metrics) -> Snapshot:
    """Returns the snapshot, without turns of the loop in between."""
    steps = metrics.snapshot()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # typeshed has no type for it
