"""Tests the order of measurements."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cluster import rounds
from bench.cluster.loads import LOADS, WARM_UPS
from bench.cluster.rounds import LEADERS, MEMORY, ROWS, said_of, stages
from bench.side_by_side.figures import Sample, Samples
from bench.side_by_side.rounds import Plan
from tests.bench.cluster.fakes import fake_cluster

BOTH: Any = [fake_cluster("a"), fake_cluster("b")]


def named(stage: Any) -> list[tuple[int, str, str]]:
    return [(number, row.name, cluster.name) for number, row, cluster in stage]


def test_clusters_take_turns_after_both_have_warmed_up() -> None:
    (stage,) = stages(LOADS[:1], BOTH, Plan(rounds=2, warm_ups=1))
    row = LOADS[0].name
    assert named(stage) == [
        *((-1, warm_up.name, cluster) for warm_up in WARM_UPS for cluster in "ab"),
        (0, row, "b"),
        (0, row, "a"),
        (1, row, "a"),
        (1, row, "b"),
        (2, row, "b"),
        (2, row, "a"),
    ]


def test_many_partitions_come_last_with_memory_before_any_kill() -> None:
    with_clients, with_many = stages(ROWS, BOTH, Plan(rounds=5, warm_ups=2))
    assert {row.name for _, row, _ in with_clients} == {row.name for row in (*WARM_UPS, *ROWS[:-2])}
    assert named(with_many)[:2] == [(1, MEMORY.name, "a"), (1, MEMORY.name, "b")]
    assert [number for number, row, _ in with_many if row is LEADERS] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_stage_without_rows_is_left_out() -> None:
    (stage,) = stages([MEMORY], BOTH, Plan(rounds=1, warm_ups=0))
    assert named(stage) == [(1, "memory", "a"), (1, "memory", "b")]


def test_both_clusters_start_with_each_stage_and_rounds_to_warm_up_are_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, float]] = []

    def attempt(row: Any, cluster: Any, number: int, scale: float) -> list[Sample]:
        done.append((row.name, scale))
        return [Sample(row.name, cluster.name, number, {"x": 1.0})]

    monkeypatch.setattr(rounds, "attempt", attempt)
    both: Any = [fake_cluster("a"), fake_cluster("b")]
    plan = Plan(rounds=1, warm_ups=1, scale=0.5)
    samples, said = Samples(), list[str]()
    rounds.run(stages([LOADS[0], MEMORY], both, plan), both, plan, samples, said.append)
    assert [cluster.starts for cluster in both] == [2, 2]
    load = LOADS[0].name
    assert done[::2] == [
        *((row.name, 0.5) for row in WARM_UPS),
        (load, 0.25),
        (load, 0.5),
        (MEMORY.name, 0.5),
    ]
    assert len(samples.all) == len(done) == len(said) - 4


def test_lines_of_progress() -> None:
    assert said_of(Sample("memory", "a", 2, {"rss_mib": 41.234})) == "round 2 memory a: rss_mib 41.23"
    assert said_of(Sample("memory", "a", 2, error="x\nOSError: no")) == "round 2 memory a: OSError: no"
