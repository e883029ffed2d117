"""Tests the order of measurements."""

from __future__ import annotations

from typing import Any

import pytest

from bench.side_by_side import rounds
from bench.side_by_side.rounds import Plan
from bench.side_by_side.workloads import WORKLOADS


class Named:
    """The part of a broker that the order needs."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_large_consumers_run_once_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first of each pair; those results are not kept."""
    ran: list[tuple[str, str]] = []

    def one(row: Any, broker: Any) -> dict[str, float]:
        ran.append((row.name, broker.name))
        return {"others": 0.0, "rate": float(len(ran))}

    monkeypatch.setattr(rounds, "one", one)
    rows = [row for row in WORKLOADS if row.name in ("consume-by-4", "consume-by-16")]
    brokers: Any = [Named("a"), Named("b")]
    plan = Plan(rounds=2, warm_ups=0)
    found = rounds.run(rounds.turns(rows, brokers, plan), plan, lambda _: None)
    small, large = "consume-by-4", "consume-by-16"
    first = [(small, "a"), (small, "b"), (large, "a"), (large, "a"), (large, "b")]
    second = [(small, "b"), (small, "a"), (large, "b"), (large, "b"), (large, "a")]
    assert ran == first + second
    assert [sample.figures["rate"] for sample in found.all] == [1, 2, 4, 5, 6, 7, 9, 10]
