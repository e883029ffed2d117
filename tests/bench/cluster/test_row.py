"""Tests attempts to measure a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.cluster.figures import Group
from bench.cluster.row import attempt
from tests.bench.cluster.fakes import fake_cluster


class FakeRow:
    name, title, group = "fake", "A fake row", Group.MEMORY

    def __init__(self, found: Sequence[dict[str, float]] | Exception) -> None:
        self.found = found

    def measure(self, cluster: Any, scale: float) -> Sequence[dict[str, float]]:
        if isinstance(self.found, Exception):
            raise self.found
        return [{name: value * scale for name, value in figures.items()} for figures in self.found]


def test_several_brokers_are_as_many_samples() -> None:
    cluster = fake_cluster("a")
    found = attempt(FakeRow([{"x": 1.0}, {"x": 2.0}]), cluster, 1, 10.0)
    assert [(sample.row, sample.broker, sample.round, sample.figures) for sample in found] == [
        ("fake", "a", 1, {"x": 10.0}),
        ("fake", "a", 2, {"x": 20.0}),
    ]
    assert cluster.waits == 1, "the next measurement may begin"


def test_after_a_failure_the_cluster_is_started_again() -> None:
    cluster = fake_cluster("a")
    (sample,) = attempt(FakeRow(TimeoutError("late")), cluster, 3, 1.0)
    assert not sample.counts
    assert sample.error.strip().endswith("TimeoutError: late")
    assert cluster.starts == 1
